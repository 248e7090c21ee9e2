"""Work in forked processes, each for one item after the other: what was loaded before need not be loaded again.

What an item costs its process, also by going over its limits, costs no other item: the next one gets a new process.
"""

from __future__ import annotations

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
from tilewave.workers.confined import confine

Item = TypeVar("Item")
Value = TypeVar("Value")

WALL = 4
"""So many times its processor time an item may take by the clock: it may wait for other processes."""
TIRED = 4
"""A process that keeps more than this part of an item's memory is followed by a new one."""
MANY = 300_000
"""Objects that items may leave before somebody looks for cycles among them: five figures, 100 MB."""
RESERVED, RESIDENT = 0, 1
"""Numbers of /proc/PID/statm."""


@dataclass(frozen=True)
class ProcessLimits:
    """Seconds of processor time of an item and, separately, of each program that it starts; bytes beside what
    its process has when it starts; the files and folders that it may open, all where none is named; and seconds
    in which it may say nothing."""

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
    """Why there is nothing made of an item; lasting: because of the item, so that it would end so again."""

    reason: str
    lasting: bool
    error: BaseException


def each(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int, limits: ProcessLimits
) -> Iterator[tuple[Item, Value | Ended]]:
    """Each item with what the function makes of it, in the order in which they are done.

    The processes are forked before this returns: not in one that has initialised CUDA, and before there are
    threads. Where the system does not fork (elsewhere than on Linux) all is done here, without limits.
    What the function raises is an `Ended`.
    """
    if sys.platform != "linux":
        return ((item, value) for item in items for value in _results_of(function, item))
    return Pool(function, items, workers, limits).take()


def shared(
    function: Callable[[Item], Value], items: Sequence[Item], workers: int
) -> Iterator[tuple[Item, Value]]:
    """The same without limits, and in this process where there is one item or one worker. Raises what the
    function raises, and UserError where a process is ended."""
    if min(workers, len(items)) < 2 or sys.platform != "linux":
        yield from ((item, function(item)) for item in items)
        return
    with contextlib.closing(Pool(function, items, workers).take()) as results:
        for item, value in results:
            if isinstance(value, Ended):
                raise value.error
            yield item, value


def _results_of(function: Callable[[Any], Any], item: Any) -> Iterator[Any]:
    """What the function returns, or yields; last an `Ended` where it raises."""
    try:
        value = function(item)
        if inspect.isgenerator(value):
            yield from value
        else:
            yield value
    except MemoryError as error:
        yield Ended("it takes more memory than it may", True, error)
    except RecursionError as error:
        yield Ended("it is nested too deep", True, error)
    except Exception as error:
        # A disk that is full, or a file that cannot be read, is no fault of the item.
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
    os.setpgid(0, 0)  # what it starts ends with it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    begun = _memory(RESIDENT)
    if limits.read:
        confine(limits.read, limits.write)
    gc.freeze()  # what is there before the fork is there to stay
    gc.disable()  # a sixth of a figure's time otherwise
    while (number := pipe.recv()) is not None:
        if limits.memory:
            _lower(resource.RLIMIT_AS, _memory(RESERVED) + limits.memory)
        if limits.cpu_s:
            _lower(resource.RLIMIT_CPU, int(time.process_time()) + 1 + limits.cpu_s)
        for value in _results_of(function, items[number]):
            pipe.send((value,))
        if gc.get_count()[0] > MANY:
            gc.collect()
        # What an item left behind is not the next one's: a compiler that ran out of memory frees nothing. Addresses
        # that are only reserved, as Arrow's allocator does it, cost nobody anything.
        pipe.send(bool(limits.memory and _memory(RESIDENT) - begun > limits.memory // TIRED))


def _memory(which: int) -> int:
    """Bytes that this process has reserved, or that are resident."""
    return int(Path("/proc/self/statm").read_text().split()[which]) * os.sysconf("SC_PAGESIZE")


def _lower(which: int, value: int) -> None:
    """Set a soft limit, within the hard one."""
    import resource

    _, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value if hard < 0 else min(value, hard), hard))


class _Worker:
    """A process and the item that it has."""

    def __init__(
        self, function: Callable[[Any], Any], items: Sequence[Any], limits: ProcessLimits
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, worker_pipe = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(worker_pipe, function, items, limits), daemon=True
        )
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
        """End it and all that it started; what it ended with, if it had ended already."""
        self._process.join(0.2)
        code = self._process.exitcode
        for end in (os.killpg, os.kill):
            try:
                end(self._process.pid or 0, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        self._process.join()
        with contextlib.suppress(
            OSError
        ):  # an iterator that nobody finished is collected with its pipes
            self.pipe.close()
        return code if code is not None else -signal.SIGKILL


class Pool:
    """Processes and the items that wait for one; of each item comes what the function returns, or all that it
    yields. A value that is an `Ended` is the last of its item."""

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
        """How many there are."""
        return len(self._busy)

    def _start(self) -> None:
        """One process more, where there is work for it."""
        if self._waiting:
            self._busy.append(_Worker(self._function, self._items, self._limits))
            self._busy[-1].give(self._waiting.popleft())

    def take(self, limit_s: float | None = None) -> Generator[tuple[Any, Any], None, None]:
        """What is made in so many seconds, each with its item; by default all, and who does not want the rest closes
        the iterator."""
        try:
            while self._busy:
                left = min(worker.deadline for worker in self._busy) - time.monotonic()
                wait_s = max(0.0, left) if limit_s is None else min(limit_s, max(0.0, left))
                pipes = [worker.pipe for worker in self._busy]
                ready = connection.wait(pipes, None if wait_s == math.inf else wait_s)
                for worker in [worker for worker in self._busy if worker.pipe in ready]:
                    yield from self._receive(worker)
                late = [worker for worker in self._busy if worker.deadline < time.monotonic()]
                for worker in late:
                    yield self._expired(worker)
                if limit_s is not None and not ready and not late:
                    return
        finally:
            if limit_s is None:
                self.stop()

    def stop(self) -> None:
        """End what is still being made."""
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
        elif message:  # tired
            self._replace(worker)
        elif self._waiting:
            worker.give(self._waiting.popleft())
        else:
            self._busy.remove(worker)
            worker.pipe.send(None)
            worker.kill()

    def _ended(self, worker: _Worker) -> Ended:
        code = self._replace(worker)
        allowed = "an end by itself, not by somebody or because memory ran out; run again: what was done is kept"
        name = ended_by(code) or f"exit code {code}"
        error = UserError("a process of this job", "ended by", name, allowed)
        if code == -signal.SIGXCPU:
            reason = f"it takes more than {self._limits.cpu_s} s of processor time"
        elif code < 0:
            may = f" (it may take {self._limits})" if self._limits.memory else ""
            reason = f"it was ended by {name}{may}"
        else:
            reason = f"its process ended with exit code {code}"
        return Ended(reason, -code not in FROM_OUTSIDE, error)

    def _expired(self, worker: _Worker) -> tuple[Any, Any]:
        item = self._items[worker.number]
        self._replace(worker)
        why = f"it takes more than {self._limits.by_clock_s:g} s by the clock"
        # Not lasting: the machine may have been busy with something else.
        return item, Ended(why, False, TimeoutError(why))

    def _replace(self, worker: _Worker) -> int:
        self._busy.remove(worker)
        code = worker.kill()
        self._start()
        return code
