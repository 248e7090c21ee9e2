"""Executing a job's machine code on the CPU: what jobs and the machine room have in common.

The machine (`tilewave.machine`) executes a cubin for a grid, a block and arguments, and counts by
instruction; it knows nothing of products, cases and files. Here a job becomes such a launch, with
the inputs, the judge and the tolerances of the GPU's check; what was counted gets the names that
Nsight Compute has for it; and what the machine found wrong gets a place in the kernel file.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

__all__ = ["LOCK", "VERSION", "engine", "version", "warm_up"]

VERSION = 1
"""Raised when this room makes other figures of the same execution."""

LOCK = "interpreter.lock"
"""Held by the process that compiles the interpreter."""


def version() -> list[int]:
    """Versions of this room and of the machine: part of the key of every executed figure."""
    from tilewave import machine

    return [VERSION, machine.VERSION]


def engine() -> Any:
    """The machine's interface: `load`, `execute`, `Buffer`, `Limits`, `Unsupported`, `BadLaunch`.

    Tests hand a fake to the functions that take one. Imported late: the first import of the
    interpreter may compile it.
    """
    from tilewave.machine import errors, executor, program

    return SimpleNamespace(
        load=program.load,
        execute=executor.execute,
        Buffer=executor.Buffer,
        Limits=executor.Limits,
        Unsupported=errors.Unsupported,
        BadLaunch=errors.BadLaunch,
    )


@contextlib.contextmanager
def _alone(path: Path | None, waiting: Callable[[], object] | None) -> Iterator[None]:
    """Hold a lock file, where one is given; ``waiting`` is called before it has to be waited for."""
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if waiting is not None:
                waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def warm_up(lock: Path | None = None, waiting: Callable[[], object] | None = None) -> None:
    """Have the interpreter compiled, or loaded from where an earlier process left it.

    So that it happens on no case's time, and by one process at a time.
    """
    from tilewave.machine import cubin, decode, executor, program

    image = cubin.Image(
        entry="nothing", arch=90, registers=8, parameters=(), parameter_base=0x210,
        shared_base=0x400, shared_size=0x400, stack_size=0, constants={0: bytes(0x300)}, symbols={},
    )  # fmt: skip
    ending = program.Instruction(0, "EXIT", "EXIT")
    rows = decode.decode(decode.Raw(0, "EXIT", "", "")).reshape(1, -1)
    with _alone(lock, waiting):
        executor.execute(program.Program(image, (ending,), rows, {}), (1, 1, 1), (32, 1, 1), [])
