"""The cache of compiled code: an object file for each unit.

A unit is the interpreter's loop or a family of instructions, with all that it calls. Python and other units call its
entries by address. A missing unit is compiled by another process (`building`); this module only loads the result. The
folder's name hashes all that the code depends on, so checkouts with equal sources share files.
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
from tilewave.basics.tables import table_beside
from tilewave.execution.machine import families
from tilewave.theory import tensor_map_limits

HERE = Path(__file__).parent
TABLES = table_beside(__file__)
NOT_COMPILED: list[str] = TABLES["not_compiled"]
SECONDS: dict[str, float] = TABLES["seconds"]
TOGETHER: list[list[str]] = TABLES["together"]


def sources() -> list[Path]:
    """Return the files that compiled code depends on; of the families only their numbers count."""
    modules = [path for path in sorted(HERE.glob("*.py")) if path.stem not in NOT_COMPILED]
    # The wavefront rule is not imported here: `building` compiles it with other options.
    rule = paths.LIBRARY / "theory" / "wavefronts.py"
    shared = [Path(str(module.__file__)) for module in (bits, jit, tensor_map_limits)]
    return [*modules, HERE / "codes.yaml", HERE / "coefficients.csv", *shared, rule]


def _numbers() -> list[tuple[str, str, object]]:
    """Return the numbers of the families by their names."""
    return [
        (module.__name__, name, value)
        for module in families.ALL
        for name, value in sorted(vars(module).items())
        if isinstance(value, int)
    ]


@functools.cache
def folder() -> Path:
    """Return the folder of the units for these sources, this compiler and this CPU.
    Raises UserError if another user could write to it: its files are loaded and executed."""
    features = binding.get_host_cpu_features().flatten()
    versions = sys.version, numba.__version__, llvmlite.__version__, np.__version__
    digest = hashlib.sha256(repr((versions, binding.get_host_cpu_name(), features)).encode())
    for path in sources():
        digest.update(path.read_bytes())
    digest.update(repr(_numbers()).encode())
    return cache.folder("machine", digest.hexdigest()[:16])


class Entry:
    """A function of a unit, called by its address.
    arguments, result: types of ctypes; an array is passed as its address."""

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

    def __call__(self, *arguments: Any) -> Any:
        return self.ctypes(
            *(a.ctypes.data if isinstance(a, np.ndarray) else int(a) for a in arguments)
        )


ENTRIES: dict[str, list[Entry]] = {}
"""Entries by unit, of the modules imported so far."""


def entry(unit: str) -> Callable[[Callable[..., Any]], Entry]:
    """Decorate a function of int64 arguments that Python calls; arrays are passed as addresses."""
    return lambda function: Entry(unit, function)


def _file(unit: str) -> Path:
    return folder() / f"{unit}.o"


def keep(unit: str, code: bytes) -> None:
    """Store a unit's object file atomically where every process finds it."""
    with tempfile.NamedTemporaryFile(dir=folder(), delete=False) as file:
        file.write(code)
    os.replace(file.name, _file(unit))


@contextlib.contextmanager
def _alone(units: Iterable[str], waiting: Callable[[], object] | None) -> Iterator[None]:
    """Hold the locks of some units; call ``waiting`` before blocking on one."""
    with contextlib.ExitStack() as held:
        for unit in sorted(units):  # always in this order, to avoid a deadlock of two processes
            file = held.enter_context((folder() / f"{unit}.lock").open("w"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if waiting is not None:
                    waiting()
                # A file system without locks: two processes compile the same code.
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_EX)
        yield


def missing(units: Iterable[str]) -> list[str]:
    """Return the units that are not compiled yet."""
    return sorted(unit for unit in set(units) if not _file(unit).exists())


def compile_units(
    units: Iterable[str],
    waiting: Callable[[], object] | None = None,
    saying: Callable[[str], object] | None = None,
    processes: int = 1,
) -> None:
    """Compile the missing ones of some units, in at most ``processes`` processes.
    ``waiting`` is called before waiting for another process that compiles one of them. ``saying`` gets a
    message for the user before and after a compilation."""
    wanted = missing(units)
    if not wanted:
        return
    with _alone(wanted, waiting):
        wanted = missing(wanted)
        if not wanted:
            return
        begun = time.monotonic()
        if saying is not None:
            saying(f"compiling the interpreter (once on this machine): {', '.join(wanted)}")
        _build(shares(wanted, processes))
        if saying is not None:
            saying(
                f"compiling the interpreter (once on this machine) took {time.monotonic() - begun:.0f} s"
            )


def shares(units: Iterable[str], count: int) -> list[list[str]]:
    """Split units into at most ``count`` lists of similar cost; related units stay together."""
    groups: dict[int, list[str]] = {}
    for unit in sorted(units):
        group = next((n for n, names in enumerate(TOGETHER) if unit in names), len(TOGETHER))
        groups.setdefault(group, []).append(unit)

    def cost(names: Iterable[str]) -> float:
        return sum(SECONDS.get(name, 1.0) for name in names)

    lists: list[list[str]] = [[] for _ in range(count)]
    for names in sorted(groups.values(), key=cost, reverse=True):
        min(lists, key=cost).extend(names)
    return [names for names in lists if names]


def _build(lists: Sequence[Sequence[str]]) -> None:
    """Compile units, each list in its own process."""
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
    errors = [process.communicate()[1] for process in running]
    for process, error in zip(running, errors):
        if process.returncode < 0:  # killed by a signal: this process exits the same way
            print(
                f"signal {-process.returncode} stopped the compilation of the interpreter",
                file=sys.stderr,
            )
            raise SystemExit(128 - process.returncode)
        if process.returncode:
            raise RuntimeError(f"the interpreter was not compiled: {error.strip()[-2000:]}")
    if missing(name for names in lists for name in names):
        raise RuntimeError("the interpreter's sources changed after this process began")


@functools.cache
def _engine() -> Any:
    """Return LLVM's linker with the symbols that numba's code needs."""
    context = cpu_target.target_context
    rtsys.initialize(context)
    return context.codegen()._engine._ee


@functools.cache
def _loaded(unit: str) -> Any:
    """Load a unit, and return the linker that holds it."""
    compile_units([unit])
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(_file(unit).read_bytes()))
    engine.finalize_object()
    return engine
