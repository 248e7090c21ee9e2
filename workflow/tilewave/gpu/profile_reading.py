"""A report of Nsight Compute read by several processes, while something else goes on here.

Reading is Python and ncu_report's disassembler, one core each; a report may be opened as often as one
likes. So every process opens it and makes the results of its share of the cases.
"""

from __future__ import annotations

import itertools
import math
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tilewave.gpu.profile_report import load_report, parse_report
from tilewave.jobs import Job
from tilewave.processes import Result
from tilewave.processes.lifetime import die_with_parent

LEAST_CASES = 16
"""Of a process: to open a report of 64 cases takes it a second, in which it would read a dozen."""
STUCK_S = 120.0
"""A process is given up that takes longer for one case (half a second is usual)."""


def _shares(count: int, workers: int) -> list[range]:
    """Places 0 to count in parts of about equal length. Neighbours stay together: they may be
    launches of one cubin, whose instructions are then disassembled once."""
    parts = max(1, min(workers, math.ceil(count / LEAST_CASES)))
    bounds = [count * part // parts for part in range(parts + 1)]
    return [range(low, high) for low, high in itertools.pairwise(bounds)]


def _read(
    path: Path,
    jobs: Sequence[Job],
    names: Sequence[Sequence[str]],
    places: Sequence[int],
    told: Connection,
) -> None:
    """One process: send every result with its place as soon as it is made, or why it cannot be."""
    die_with_parent()
    try:
        for made in parse_report(load_report(path), jobs, names, places):
            told.send(made)
    except Exception as error:  # a report cut off in the middle, or of an unknown version
        told.send(str(error))


class Reading:
    """The results of a batch of jobs, on their way from a report.

    names: metrics of each job. A report that is not there holds nothing. `failure` says what could
    not be read, and why. Not for a process that has initialised CUDA or read a report itself: the
    others are forked from it, and find what a thread of its libraries holds locked for good.
    """

    def __init__(
        self, path: Path, jobs: Sequence[Job], names: Sequence[Sequence[str]], workers: int
    ) -> None:
        self._path, self._began = path, time.monotonic()
        self._open: dict[Connection, BaseProcess] = {}
        self.failure = ""
        self.seconds = 0.0
        forking = multiprocessing.get_context("fork")
        for places in _shares(len(jobs), workers) if path.exists() else []:
            ours, theirs = forking.Pipe(duplex=False)
            arguments = (path, jobs, names, places, theirs)
            process = forking.Process(target=_read, args=arguments, daemon=True)
            process.start()
            theirs.close()  # or the end of that process would not be seen
            self._open[ours] = process
        self.processes = len(self._open)

    @property
    def ended(self) -> bool:
        return not self._open

    def take(self, limit_s: float | None = 0.0) -> Iterator[tuple[int, Result]]:
        """What has been made meanwhile, with the places of its jobs; with None all that will be."""
        while self._open:
            ready = wait(list(self._open), STUCK_S if limit_s is None else limit_s)
            if not ready and limit_s is None:
                self._fail(f"no process that reads it said anything for {STUCK_S:g} s")
                self.stop()
            if not ready:
                return
            for pipe in ready:
                assert isinstance(pipe, Connection)
                try:
                    told = pipe.recv()
                except (EOFError, OSError):
                    self._end(pipe)
                    continue
                if isinstance(told, str):
                    self._fail(told)
                else:
                    yield told

    def stop(self) -> None:
        """End what is still being read."""
        for pipe, process in self._open.items():
            process.kill()
            process.join()
            pipe.close()
        self._open.clear()

    def _end(self, pipe: Connection) -> None:
        process = self._open.pop(pipe)
        pipe.close()
        process.join()
        if process.exitcode:
            self._fail(f"the process that read it ended with exit code {process.exitcode}")
        self.seconds = time.monotonic() - self._began

    def _fail(self, why: str) -> None:
        self.failure = f"{self._path.name} could not be read: {why}"
