"""Executing a job's machine code on the CPU: what jobs and the machine room have in common.

The machine (`tilewave.execution.machine`) executes a cubin for a grid, a block and arguments, and counts by
instruction; it knows nothing of products, cases and files. Here a job becomes such a launch, with
the inputs, the judge and the tolerances of the GPU's check; what was counted gets the names that
Nsight Compute has for it; and what the machine found wrong gets a place in the kernel file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

__all__ = ["VERSION", "engine", "prepare", "version", "warm_up"]

VERSION = 1
"""Raised when this room makes other figures of the same execution."""

LOOP = "loop"
COMMON = (
    LOOP, "load", "store", "copy", "matrix",
    "integer", "logic", "lanes", "special", "f32", "f64", "f16", "convert", "mufu", "hmma",
)  # fmt: skip
"""Units of the interpreter that most kernels need; the others are compiled when a kernel has them."""


def version() -> list[int]:
    """Versions of this room and of the machine: part of the key of every executed figure."""
    from tilewave.execution import machine

    return [VERSION, machine.VERSION]


def engine(
    waiting: Callable[[], object] | None = None,
    saying: Callable[[str], object] | None = None,
    processes: int = 1,
) -> Any:
    """The machine's interface: `load`, `execute`, `Buffer`, `TensorMap`, `Struct`, `Limits`, `Unsupported`,
    `BadLaunch`.

    Loading a program has what it needs of the interpreter compiled, once on a machine:
    ``waiting`` is called before another process that does so has to be waited for, ``saying`` gets
    lines about a compilation, which takes so many ``processes``; a launch uses as many cores. Tests hand a fake to the functions
    that take an engine. Imported late: numba is large.
    """
    from tilewave.basics import errors
    from tilewave.execution.machine import (
        arguments,
        codes,
        compiling,
        handlers,
        launch,
        maps,
        marking,
        program,
    )

    def load(*given: Any) -> Any:
        loaded = program.load(*given)
        families = set(loaded.rows[:, codes.FAMILY].tolist())
        units = [LOOP, *handlers.units(families)]
        if processes > 1:
            units.append(marking.MARKED.unit)
        compiling.compile_units(units, waiting, saying, processes)
        return loaded

    return SimpleNamespace(
        load=load,
        execute=launch.execute,
        Buffer=arguments.Buffer,
        TensorMap=maps.TensorMap,
        Struct=arguments.Struct,
        Limits=functools.partial(launch.Limits, cores=processes),
        Unsupported=errors.Unsupported,
        BadLaunch=errors.BadLaunch,
    )


def warm_up(waiting: Callable[[], object] | None = None) -> None:
    """Have the interpreter's loop compiled, or loaded from where an earlier process left it.

    So that it happens on no case's time, and by one process at a time.
    """
    from tilewave.execution.machine import compiling

    compiling.compile_units([LOOP], waiting)
    _run_nothing()


def prepare(saying: Callable[[str], object], processes: int) -> None:
    """Have what most kernels need of the interpreter compiled, by so many processes, if it is not yet."""
    from tilewave.execution.machine import compiling

    compiling.compile_units(COMMON, saying=saying, processes=processes)


def _run_nothing() -> None:
    """Execute an EXIT: compiles the loop."""
    from tilewave.basics import elf
    from tilewave.execution.machine import decode, launch, program

    image = elf.Image(
        entry="nothing", arch=90, registers=8, parameters=(), parameter_base=0x210,
        shared_size=0, stack_size=0, constants={0: bytes(0x300)},
    )  # fmt: skip
    ending = program.Instruction(0, "EXIT", "EXIT")
    rows = decode.decode(decode.Raw(0, "EXIT", "", "")).reshape(1, -1)
    launch.execute(program.Program(image, (ending,), rows, {}), (1, 1, 1), (32, 1, 1), [])
