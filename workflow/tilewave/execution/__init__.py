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

__all__ = ["PARTS", "VERSION", "compile_part", "engine", "version", "warm_up"]

VERSION = 1
"""Raised when this room makes other figures of the same execution."""

PARTS: tuple[tuple[str, ...], ...] = (
    ("", "INTEGER", "F32", "F64", "F16", "LOGIC"),
    ("LOAD", "STORE", "COPY", "MATRIX", "HMMA", "CONVERT", "MUFU", "LANES", "SPECIAL"),
)
"""The interpreter in two parts that take equally long to compile, so that two cores do it in half the
time: its loop ("") and the families of instructions (`machine.codes`) that products are made of. The
others are compiled when a kernel has them."""
LOCK = "interpreter-{}.lock"
"""Held by the process that compiles something of this part."""


def version() -> list[int]:
    """Versions of this room and of the machine: part of the key of every executed figure."""
    from tilewave import machine

    return [VERSION, machine.VERSION]


def engine(locks: Path | None = None, waiting: Callable[[], object] | None = None) -> Any:
    """The machine's interface: `load`, `execute`, `Buffer`, `TensorMap`, `Limits`, `Unsupported`,
    `BadLaunch`.

    With a folder for locks, loading a program has the families of its instructions compiled, by one
    process at a time; ``waiting`` is called before another one has to be waited for. Tests hand a
    fake to the functions that take an engine. Imported late: the first import may compile.
    """
    from tilewave.machine import codes, errors, executor, maps, program

    def load(*given: Any) -> Any:
        loaded = program.load(*given)
        _compile(set(loaded.rows[:, codes.FAMILY].tolist()), locks, waiting)
        return loaded

    return SimpleNamespace(
        load=program.load if locks is None else load,
        execute=executor.execute,
        Buffer=executor.Buffer,
        TensorMap=maps.TensorMap,
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


def warm_up(locks: Path | None = None, waiting: Callable[[], object] | None = None) -> None:
    """Have the interpreter's loop compiled, or loaded from where an earlier process left it.

    So that it happens on no case's time, and by one process at a time.
    """
    with _alone(locks / LOCK.format(0) if locks else None, waiting):
        _run_nothing()


def compile_part(part: int, locks: Path) -> None:
    """Have a part of the interpreter compiled (see `PARTS`)."""
    from tilewave.machine import codes

    if "" in PARTS[part]:
        warm_up(locks)
    _compile({getattr(codes, name) for name in PARTS[part] if name}, locks, None)


def _run_nothing() -> None:
    """Execute an EXIT: compiles the loop."""
    from tilewave.machine import cubin, decode, executor, program

    image = cubin.Image(
        entry="nothing", arch=90, registers=8, parameters=(), parameter_base=0x210,
        shared_base=0x400, shared_size=0x400, stack_size=0, constants={0: bytes(0x300)}, symbols={},
    )  # fmt: skip
    ending = program.Instruction(0, "EXIT", "EXIT")
    rows = decode.decode(decode.Raw(0, "EXIT", "", "")).reshape(1, -1)
    executor.execute(program.Program(image, (ending,), rows, {}), (1, 1, 1), (32, 1, 1), [])


_ready: set[int] = set()


def _compile(families: set[int], locks: Path | None, waiting: Callable[[], object] | None) -> None:
    """Have families' handlers compiled or loaded; a part's lock is held for those of that part."""
    from tilewave.machine import codes, handlers

    part_of = {getattr(codes, name): n for n, part in enumerate(PARTS) for name in part if name}
    for part in range(len(PARTS)):
        missing = {family for family in families - _ready if part_of.get(family, 1) == part}
        if missing:
            with _alone(locks / LOCK.format(part) if locks else None, waiting):
                handlers.addresses(sorted(missing))
            _ready.update(missing)
