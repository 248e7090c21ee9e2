"""Execution of a job's machine code on the CPU: the link between jobs and the machine.

The machine (`tilewave.execution.machine`) executes a cubin for a grid, a block and arguments. It counts by instruction
and knows no operations, cases or files. This room turns a job into such a launch, with the inputs, judge and tolerances
of the GPU's check. Counts get Nsight Compute's names, and faults get their line in the kernel file.
"""

import functools
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

__all__ = ["VERSION", "engine", "prepare", "version", "warm_up"]

VERSION = 1
"""To be raised when this room derives other figures from the same execution."""

LOOP = "loop"
COMMON = (
    LOOP, "marks", "load", "store", "copy", "matrix",
    "integer", "logic", "lanes", "special", "f32", "f64", "f16", "convert", "mufu", "hmma",
)  # fmt: skip
"""Units of the interpreter that most kernels need. Others are compiled with the first kernel that needs them."""
MANY = 30
"""More cases than this need all units, which several processes compile faster than the first case of each."""


def version() -> list[int]:
    """Return the versions of this room and of the machine, a part of every executed value's key."""
    from tilewave.execution import machine

    return [VERSION, machine.VERSION]


def engine(
    waiting: Callable[[], object] | None = None,
    saying: Callable[[str], object] | None = None,
    processes: int = 1,
) -> Any:
    """Return the machine's interface, whose `load` compiles the units of the interpreter that a program needs.
    waiting: called before a wait for another process that compiles them. saying: gets progress lines. processes: of a
    compilation; also the cores of a launch. Tests pass a fake engine. numba is large, so the machine is imported late."""
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
        timing,
    )

    def load(*arguments_: Any) -> Any:
        loaded = program.load(*arguments_)
        units = [LOOP, *handlers.units(set(loaded.rows[:, codes.FAMILY].tolist()))]
        if processes > 1:
            units.append(marking.MARKED.unit)
        compiling.compile_units(units, waiting, saying, processes)
        return loaded

    return SimpleNamespace(
        load=load,
        execute=launch.execute,
        predicted=timing.predicted,
        first_address=launch.ORIGIN + launch.ALIGNMENT,
        gap=launch.GAP,
        Buffer=arguments.Buffer,
        TensorMap=maps.TensorMap,
        Struct=arguments.Struct,
        Limits=functools.partial(launch.Limits, cores=processes),
        Unsupported=errors.Unsupported,
        BadLaunch=errors.BadLaunch,
    )


def warm_up(waiting: Callable[[], object] | None = None) -> None:
    """Compile the interpreter's loop, or load it from the cache, before any case's time begins: execute an EXIT."""
    from tilewave.basics import elf
    from tilewave.execution.machine import compiling, decode, launch, program

    compiling.compile_units([LOOP], waiting)
    image = elf.Image(
        entry="nothing", arch=90, registers=8, parameters=(), parameter_base=0x210,
        shared_size=0, stack_size=0, constants={0: bytes(0x300)},
    )  # fmt: skip
    ending = program.Instruction(0, "EXIT", "EXIT")
    rows = decode.decode(decode.Raw(0, "EXIT", "", "")).reshape(1, -1)
    launch.execute(program.Program(image, (ending,), rows, {}), (1, 1, 1), (32, 1, 1), [])


def prepare(saying: Callable[[str], object], processes: int, cases: int) -> None:
    """Compile the units that most kernels need, for many cases all of them, unless they are in the cache."""
    from tilewave.execution.machine import compiling

    units = itertools.chain.from_iterable(compiling.TOGETHER) if cases > MANY else COMMON
    compiling.compile_units(units, saying=saying, processes=processes)
