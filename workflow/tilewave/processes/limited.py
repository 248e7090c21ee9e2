"""Work in forked processes that may take only so much time and memory, each for one item after the other.

What an item costs its process costs no other item: the next one gets a new process.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any, TypeVar

from tilewave.processes.confined import confine
from tilewave.processes.lifetime import FROM_OUTSIDE, die_with_parent

Item = TypeVar("Item")
Made = TypeVar("Made")

WALL = 4
"""So many times its processor time an item may take by the clock: it may wait for other processes."""
TIRED = 4
"""A process that keeps more than this part of an item's memory is followed by a new one."""
RESERVED, RESIDENT = 0, 1
"""Numbers of /proc/PID/statm."""


@dataclass(frozen=True)
class Limits:
    """Seconds of processor time of an item and, separately, of each program that it starts; bytes beside what
    its process has when it starts; and the files and folders that it may open."""

    cpu_s: int
    memory: int
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return f"{self.cpu_s} s of processor time and {self.memory / 2**30:g} GiB of memory"


@dataclass(frozen=True)
class Ended:
    """Why there is nothing made of an item; lasting: because of the item, so that it would end so again."""

    reason: str
    lasting: bool = True


def each(
    function: Callable[[Item], Made], items: Sequence[Item], workers: int, limits: Limits
) -> Iterator[tuple[Item, Made | Ended]]:
    """Each item with what the function makes of it, in the order in which they are done.

    The processes are forked before this returns: not in one that has initialised CUDA, and before there are
    threads. Where the system does not fork (elsewhere than on Linux) all is done here, without limits.
    What the function raises is an `Ended`.
    """
    if sys.platform != "linux":
        return ((item, _tried(function, item)) for item in items)
    crew = _Crew(function, items, limits)
    crew.fill(max(1, workers))
    return crew.results()


def _tried(function: Callable[[Item], Made], item: Item) -> Made | Ended:
    try:
        return function(item)
    except MemoryError:
        return Ended("it takes more memory than it may")
    except RecursionError:
        return Ended("it is nested too deep")
    except Exception as error:
        # A disk that is full, or a file that cannot be read, is no fault of the item.
        lasting = not isinstance(error.__cause__ or error, OSError)
        return Ended(f"{type(error).__name__}: {error}".partition("\n")[0], lasting)


def _serve(
    pipe: connection.Connection,
    function: Callable[[Any], Any],
    items: Sequence[Any],
    limits: Limits,
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
    while (number := pipe.recv()) is not None:
        _lower(resource.RLIMIT_AS, _memory(RESERVED) + limits.memory)
        _lower(resource.RLIMIT_CPU, int(time.process_time()) + 1 + limits.cpu_s)
        made = _tried(function, items[number])
        # What an item left behind is not the next one's: a compiler that ran out of memory frees nothing. Addresses
        # that are only reserved, as Arrow's allocator does it, cost nobody anything.
        pipe.send((made, _memory(RESIDENT) - begun > limits.memory // TIRED))


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
        self, function: Callable[[Any], Any], items: Sequence[Any], limits: Limits
    ) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, function, items, limits), daemon=True
        )
        self._process.start()
        theirs.close()  # the end of the process is the end of the pipe
        self.number: int | None = None
        self.deadline = 0.0

    def give(self, number: int, wall_s: float) -> None:
        self.number, self.deadline = number, time.monotonic() + wall_s
        self.pipe.send(number)

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


class _Crew:
    """The processes, and the items that wait for one."""

    def __init__(
        self, function: Callable[[Any], Any], items: Sequence[Any], limits: Limits
    ) -> None:
        self._items, self._limits = items, limits
        self._function = function
        self._waiting = deque(range(len(items)))
        self._busy: list[_Worker] = []

    def fill(self, workers: int) -> None:
        """As many processes as there is work for, each with an item."""
        while self._waiting and len(self._busy) < workers:
            self._busy.append(_Worker(self._function, self._items, self._limits))
            self._next(self._busy[-1])

    def _next(self, worker: _Worker) -> None:
        worker.give(self._waiting.popleft(), WALL * self._limits.cpu_s)

    def results(self) -> Iterator[tuple[Any, Any]]:
        try:
            while self._busy:
                left = min(one.deadline for one in self._busy) - time.monotonic()
                ready = connection.wait([one.pipe for one in self._busy], max(0.0, left))
                for worker in [one for one in self._busy if one.pipe in ready]:
                    yield self._done(worker)
                for worker in [one for one in self._busy if one.deadline < time.monotonic()]:
                    yield self._expired(worker)
        finally:
            for worker in self._busy:
                worker.kill()

    def _done(self, worker: _Worker) -> tuple[Any, Any]:
        assert worker.number is not None
        item = self._items[worker.number]
        try:
            made, tired = worker.pipe.recv()
        except (EOFError, OSError):
            return item, self._ended(worker)
        if tired:
            self._replace(worker)
        elif self._waiting:
            self._next(worker)
        else:
            self._busy.remove(worker)
            worker.pipe.send(None)
            worker.kill()
        return item, made

    def _ended(self, worker: _Worker) -> Ended:
        code = self._replace(worker)
        if code == -signal.SIGXCPU:
            return Ended(f"it takes more than {self._limits.cpu_s} s of processor time")
        if code < 0:
            name = signal.Signals(-code).name
            return Ended(
                f"it was ended by {name} (it may take {self._limits})", -code not in FROM_OUTSIDE
            )
        return Ended(f"its process ended with exit code {code}")

    def _expired(self, worker: _Worker) -> tuple[Any, Any]:
        assert worker.number is not None
        item = self._items[worker.number]
        self._replace(worker)
        why = f"it takes more than {WALL * self._limits.cpu_s} s by the clock"
        return item, Ended(why, lasting=False)  # the machine may have been busy with something else

    def _replace(self, worker: _Worker) -> int:
        self._busy.remove(worker)
        code = worker.kill()
        if self._waiting:
            self.fill(len(self._busy) + 1)
        return code
