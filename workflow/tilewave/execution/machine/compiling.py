"""Where compiled code is kept, and how it gets there: an object file for each unit.

A unit is the interpreter's loop or a family of instructions, with all that it calls. Its entries are
called by their addresses, from Python and from other units. A unit that is missing is compiled by a
process of its own (`tilewave.execution.machine.building`); this one only loads what came out. The folder's name
says all that the code depends on, so every checkout with the same sources uses the same files.
"""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba.core.registry import cpu_target
from numba.core.runtime.nrt import rtsys

from tilewave.basics import bits, cache, jit, paths
from tilewave.execution.machine import families
from tilewave.theory import tensor_map_limits

HERE = Path(__file__).parent
NOT_COMPILED = (
    "arguments", "decode", "findings", "form", "launch", "liveness", "operands", "printing", "program", "registry",
    "spreading",
)  # fmt: skip
"""Modules of this folder that nothing compiled depends on: `building` does not import them."""
SECONDS = {
    "loop": 4.2, "integer": 2.6, "logic": 1.1, "f32": 1.2, "f64": 1.5, "f16": 1.4, "convert": 1.7,
    "load": 3.6, "store": 1.4, "copy": 1.6, "atomic": 2.8, "hgmma": 3.2, "bulk": 2.6,
}  # fmt: skip
"""What some units take to compile; the others about one."""
TOGETHER = (
    ("load", "store", "copy", "matrix", "atomic"),
    ("integer", "logic", "lanes", "special"),
    ("f32", "f64"),
    ("f16", "convert", "mufu"),
    ("hmma", "imma", "dmma"),
    ("hgmma", "mbarrier", "bulk", "cluster"),
    ("loop", "trace", "capture", "marks"),
)
"""Units with much in common, which one process translates once."""


def sources() -> list[Path]:
    """The files that compiled code depends on. Of the families it is their numbers only."""
    own = [path for path in sorted(HERE.glob("*.py")) if path.stem not in NOT_COMPILED]
    # That of the wavefronts is not imported here: `building` compiles it in another way.
    rule = paths.LIBRARY / "theory" / "wavefronts.py"
    shared = [Path(str(one.__file__)) for one in (bits, jit, tensor_map_limits)]
    return [*own, HERE / "coefficients.csv", *shared, rule]


def _numbers() -> list[tuple[str, str, object]]:
    """The numbers of the families by their names."""
    return [
        (module.__name__, name, value)
        for module in families.ALL
        for name, value in sorted(vars(module).items())
        if isinstance(value, int)
    ]


@functools.cache
def folder() -> Path:
    """Where the units for these sources, this compiler and this CPU are. Raises UserError where
    somebody else could have put them there: they are loaded and executed."""
    features = binding.get_host_cpu_features().flatten()
    versions = sys.version, numba.__version__, llvmlite.__version__, np.__version__
    digest = hashlib.sha256(repr((versions, binding.get_host_cpu_name(), features)).encode())
    for path in sources():
        digest.update(path.read_bytes())
    digest.update(repr(_numbers()).encode())
    return cache.folder("machine", digest.hexdigest()[:16])


class Entry:
    """A function of a unit that is called by its address.

    arguments, result: ctypes' types; an array is given as its address.
    """

    def __init__(
        self,
        unit: str,
        function: Callable[..., Any],
        arguments: Sequence[Any] | None = None,
        result: Any = ctypes.c_int64,
    ) -> None:
        self.unit, self.function, self.result = unit, function, result
        if arguments is None:
            arguments = [ctypes.c_int64] * function.__code__.co_argcount
        self.arguments = tuple(arguments)
        self.symbol = f"tilewave_{unit}_{function.__name__.strip('_')}"
        ENTRIES.setdefault(unit, []).append(self)

    @functools.cached_property
    def address(self) -> int:
        return int(_loaded(self.unit).get_function_address(self.symbol))

    @functools.cached_property
    def ctypes(self) -> Any:
        return ctypes.CFUNCTYPE(self.result, *self.arguments)(self.address)

    def __call__(self, *given: Any) -> Any:
        return self.ctypes(
            *(one.ctypes.data if isinstance(one, np.ndarray) else int(one) for one in given)
        )


ENTRIES: dict[str, list[Entry]] = {}
"""Entries by unit, of the modules imported so far."""


def entry(unit: str) -> Callable[[Callable[..., Any]], Entry]:
    """Decorator: a function of int64 arguments, arrays among them as addresses, that Python calls."""
    return lambda function: Entry(unit, function)


def _file(unit: str) -> Path:
    return folder() / f"{unit}.o"


def keep(unit: str, code: bytes) -> None:
    """Put a unit's object file where every process finds it, whole or not at all."""
    with tempfile.NamedTemporaryFile(dir=folder(), delete=False) as file:
        file.write(code)
    os.replace(file.name, _file(unit))


@contextlib.contextmanager
def _alone(units: Iterable[str], waiting: Callable[[], object] | None) -> Iterator[None]:
    """Hold the locks of some units; ``waiting`` is called before one has to be waited for."""
    with contextlib.ExitStack() as held:
        for unit in sorted(units):  # always in this order, or two processes wait for each other
            file = held.enter_context((folder() / f"{unit}.lock").open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if waiting is not None:
                    waiting()
                # A file system without locks: what two processes compile is the same.
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX)
        yield


def missing(units: Iterable[str]) -> list[str]:
    """Those that are not compiled yet."""
    return sorted(unit for unit in set(units) if not _file(unit).exists())


def compile_units(
    units: Iterable[str],
    waiting: Callable[[], object] | None = None,
    saying: Callable[[str], object] | None = None,
    processes: int = 1,
) -> None:
    """Compile what is missing of some units, by so many processes.

    ``waiting`` is called before another process that compiles one of them is waited for; ``saying``
    gets what a person may want to know before and after a compilation.
    """
    wanted = missing(units)
    if not wanted:
        return
    with _alone(wanted, waiting):
        wanted = missing(wanted)
        if not wanted:
            return
        begun = time.monotonic()
        if saying is not None:
            saying(f"compiling the interpreter: once on this machine, {', '.join(wanted)}")
        _build(shares(wanted, processes))
        if saying is not None:
            saying(
                f"compiling the interpreter: once on this machine, {time.monotonic() - begun:.0f} s"
            )


def shares(units: Iterable[str], count: int) -> list[list[str]]:
    """Units in at most so many lists that take equally long, those that share code together."""
    groups: dict[int, list[str]] = {}
    for unit in sorted(units):
        group = next((n for n, names in enumerate(TOGETHER) if unit in names), len(TOGETHER))
        groups.setdefault(group, []).append(unit)

    def cost(names: Iterable[str]) -> float:
        return sum(SECONDS.get(name, 1.0) for name in names)

    made: list[list[str]] = [[] for _ in range(count)]
    for names in sorted(groups.values(), key=cost, reverse=True):
        min(made, key=cost).extend(names)
    return [names for names in made if names]


def _build(lists: Sequence[Sequence[str]]) -> None:
    """Compile units, those of each list in a process of its own."""
    command = [sys.executable, "-m", "tilewave.execution.machine.building"]
    running = [
        subprocess.Popen(
            [*command, *units],
            env=paths.child_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for units in lists
    ]
    said = [one.communicate()[1] for one in running]
    for one, error in zip(running, said):
        if one.returncode < 0:  # somebody ended it: whoever started this process is told the same
            print(
                f"compiling the interpreter was ended by signal {-one.returncode}", file=sys.stderr
            )
            raise SystemExit(128 - one.returncode)
        if one.returncode:
            raise RuntimeError(f"the interpreter was not compiled: {error.strip()[-2000:]}")
    if missing(name for names in lists for name in names):
        raise RuntimeError("the interpreter's sources changed after this process began")


@functools.cache
def _engine() -> Any:
    """LLVM's linker with the symbols that numba's code needs."""
    context = cpu_target.target_context
    rtsys.initialize(context)
    return context.codegen()._engine._ee


@functools.cache
def _loaded(unit: str) -> Any:
    """The linker, once it has this unit."""
    compile_units([unit])
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(_file(unit).read_bytes()))
    engine.finalize_object()
    return engine
