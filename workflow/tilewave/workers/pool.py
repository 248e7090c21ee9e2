"""Forked worker processes that inherit what is loaded and take one item after another. An item that crashes
its process, or exceeds its limits, harms no other item: the next one gets a new process."""

import contextlib
import gc
import inspect
import math
import multiprocessing
import os
import pickle
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any, TypeVar

from tilewave.basics.errors import UserError
from tilewave.basics.lifetime import FROM_OUTSIDE, die_with_parent, ended_by
from tilewave.basics.memory import RESIDENT, Usage
from tilewave.workers.confined import confine

Item = TypeVar("Item")
Value = TypeVar("Value")

WALL = 4
"""Elapsed time that an item may take, in units of its processor time: it may wait for other processes."""
RETIRED = 4
"""A process that retains more than 1/RETIRED of an item's memory is replaced."""
MANY = 300_000
"""Objects that items may leave before the garbage collector runs: five figures, 100 MB."""


@dataclass(frozen=True)
class ProcessLimits:
    """Limits of an item, and `cpu_s` also of each program that it starts. `memory`: bytes besides those of the
    process at its start. `read`, `write`: files and folders, all if empty. `silent_s`: between two values."""

    cpu_s: int = 0
    memory: int = 0
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    silent_s: float = 0.0

    @property
    def by_clock_s(self) -> float:
        return self.silent_s or WALL * self.cpu_s or math.inf

    def __str__(self) -> str:
        return f"{self.cpu_s} s of processor time and {self.memory / 2**30:g} GiB of memory"


@dataclass(frozen=True)
class Ended:
    """The reason why an item has no value. lasting: the item itself causes it, so it would fail again."""

    reason: str
    lasting: bool
    error: BaseException


def each(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int, limits: ProcessLimits
) -> Iterator[tuple[Item, Value | Ended]]:
    """Return an iterator over each item with the function's value, in the order of completion.
    The processes are forked before this returns, so call it before CUDA is initialised and before threads start. Where
    it is not Linux, everything runs in this process, without limits. An error of the function becomes an `Ended`."""
    if sys.platform != "linux":
        return ((item, value) for item in items for value in _results_of(function, item))
    return Pool(function, items, workers, limits).take()


def shared(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int
) -> Iterator[tuple[Item, Value]]:
    """Return an iterator over each item with its value, without limits; it raises what the function raises,
    UserError if a process is killed. Processes begin now; a single item or worker is computed here, later."""
    if min(workers, len(items)) < 2 or sys.platform != "linux":
        return ((item, function(item)) for item in items)
    return _values(Pool(function, items, workers).take())


def _values(results: Generator[tuple[Item, Any], None, None]) -> Iterator[tuple[Item, Any]]:
    with contextlib.closing(results):
        for item, value in results:
            if isinstance(value, Ended):
                raise value.error
            yield item, value


def _results_of(function: Callable[[Any], Any], item: Any) -> Iterator[Any]:
    """Yield what the function returns or yields, then an `Ended` if it raises."""
    try:
        value = function(item)
        if inspect.isgenerator(value):
            yield from value
        else:
            yield value
    except MemoryError as error:
        yield Ended("it exceeds its memory limit", True, error)
    except RecursionError as error:
        yield Ended("it is nested too deeply", True, error)
    except Exception as error:
        # The item does not cause a full disk or an unreadable file.
        lasting = not isinstance(error.__cause__ or error, OSError)
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        error.add_note(traceback.format_exc())  # of this process
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:
            error = RuntimeError("".join(traceback.format_exception(error)))
        yield Ended(reason, lasting, error)


def _serve(
    pipe: connection.Connection,
    function: Callable[[Any], Any],
    items: Sequence[Any],
    limits: ProcessLimits,
) -> None:
    import resource

    die_with_parent()
    os.setpgid(0, 0)  # its children end with it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    usage = Usage()  # before no further file can be opened
    begun = usage.nbytes(RESIDENT)
    if limits.read:
        confine(limits.read, limits.write)
    gc.freeze()  # objects from before the fork stay
    gc.disable()  # a sixth of a figure's time otherwise
    while (number := pipe.recv()) is not None:
        if limits.memory:
            usage.limit(limits.memory)
        if limits.cpu_s:
            _, hard = resource.getrlimit(resource.RLIMIT_CPU)
            value = int(time.process_time()) + 1 + limits.cpu_s
            resource.setrlimit(resource.RLIMIT_CPU, (value if hard < 0 else min(value, hard), hard))
        for value in _results_of(function, items[number]):
            pipe.send((value,))
        if gc.get_count()[0] > MANY:
            gc.collect()
        # A compiler that ran out of memory frees nothing, and the next item should not pay for it.
        # Only resident memory counts: Arrow's allocator reserves addresses, which cost nothing.
        used = usage.nbytes(RESIDENT) - begun
        pipe.send(bool(limits.memory and used > limits.memory // RETIRED))


class _Worker:
    """A process and its current item."""

    def __init__(
        self, function: Callable[[Any], Any], items: Sequence[Any], limits: ProcessLimits
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, worker_pipe = context.Pipe()
        work = (worker_pipe, function, items, limits)
        self._process = context.Process(target=_serve, args=work, daemon=True)
        self._process.start()
        worker_pipe.close()  # the end of the process is the end of the pipe
        self._wait_s = limits.by_clock_s
        self.number = 0
        self.deadline = 0.0

    def give(self, number: int) -> None:
        self.number = number
        self.pipe.send(number)
        self.heard()

    def heard(self) -> None:
        self.deadline = time.monotonic() + self._wait_s

    def kill(self) -> int:
        """Kill the process and its children. Return its exit code if it had ended already."""
        self._process.join(0.2)
        code = self._process.exitcode
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self._process.pid or 0, signal.SIGKILL)
        self._process.join()
        # An abandoned iterator is collected together with its pipes.
        with contextlib.suppress(OSError):
            self.pipe.close()
        return code if code is not None else -signal.SIGKILL


class Pool:
    """Processes and waiting items; an item gives the returned value or all yielded ones, an `Ended` last."""

    def __init__(
        self,
        function: Callable[[Any], Any],
        items: Sequence[Any],
        workers: int,
        limits: ProcessLimits = ProcessLimits(),
    ) -> None:
        self._function, self._items, self._limits = function, items, limits
        self._waiting = deque(range(len(items)))
        self._busy: list[_Worker] = []
        for _ in range(max(1, workers)):
            self._start()

    @property
    def processes(self) -> int:
        return len(self._busy)

    def _start(self) -> None:
        if self._waiting:
            self._busy.append(_Worker(self._function, self._items, self._limits))
            self._busy[-1].give(self._waiting.popleft())

    def take(self, limit_s: float | None = None) -> Generator[tuple[Any, Any], None, None]:
        """Yield each item with a value, until `limit_s` seconds pass without one; by default until all are done."""
        try:
            while self._busy:
                deadline = min(worker.deadline for worker in self._busy)
                wait_s = max(0.0, deadline - time.monotonic())
                wait_s = wait_s if limit_s is None else min(limit_s, wait_s)
                pipes = [worker.pipe for worker in self._busy]
                ready = connection.wait(pipes, None if wait_s == math.inf else wait_s)
                for worker in [worker for worker in self._busy if worker.pipe in ready]:
                    yield from self._receive(worker)
                late = [worker for worker in self._busy if worker.deadline < time.monotonic()]
                for worker in late:
                    item = self._items[worker.number]
                    self._replace(worker)
                    why = f"it takes more than {self._limits.by_clock_s:g} s of elapsed time"
                    # Not lasting: the machine may have been busy with other work.
                    yield item, Ended(why, False, TimeoutError(why))
                if limit_s is not None and not ready and not late:
                    return
        finally:
            if limit_s is None:
                self.stop()

    def stop(self) -> None:
        for worker in self._busy:
            worker.kill()
        self._busy.clear()

    def _receive(self, worker: _Worker) -> Iterator[tuple[Any, Any]]:
        item = self._items[worker.number]
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            yield item, self._ended(worker)
            return
        worker.heard()
        if isinstance(message, tuple):
            yield item, message[0]
        elif message:  # retired
            self._replace(worker)
        elif self._waiting:
            worker.give(self._waiting.popleft())
        else:
            self._busy.remove(worker)
            worker.pipe.send(None)
            worker.kill()

    def _ended(self, worker: _Worker) -> Ended:
        code = self._replace(worker)
        name = ended_by(code) or f"exit code {code}"
        problem = f"it was ended by {name}, by another program or because memory ran out"
        remedy = "Run again: finished work is kept"
        error = UserError.because("a process of this job", problem, remedy)
        if code == -signal.SIGXCPU:
            reason = f"it takes more than {self._limits.cpu_s} s of processor time"
        elif code < 0:
            limit = f" (its limit is {self._limits})" if self._limits.memory else ""
            reason = f"it was ended by {name}{limit}"
        else:
            reason = f"its process ended with exit code {code}"
        return Ended(reason, -code not in FROM_OUTSIDE, error)

    def _replace(self, worker: _Worker) -> int:
        self._busy.remove(worker)
        code = worker.kill()
        self._start()
        return code
