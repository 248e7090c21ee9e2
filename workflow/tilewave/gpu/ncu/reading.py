"""A report of Nsight Compute read by several processes, while something else goes on here.

Reading is Python and ncu_report's disassembler, one core each; a report may be opened as often as one
likes. So every process opens it and makes the results of its share of the cases.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewave.gpu.ncu.report import load_report, parse_report
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.workers.pool import Ended, Pool, ProcessLimits

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


class Reading:
    """The results of a batch of jobs, on their way from a report.

    names: metrics of each job. A report that is not there holds nothing. `failure` says what could
    not be read, and why. Not for a process that has initialised CUDA or read a report itself: the
    others are forked from it, and find what a thread of its libraries holds locked for good.
    """

    def __init__(
        self, path: Path, jobs: Sequence[Job], names: Sequence[Sequence[str]], workers: int
    ) -> None:
        def read(places: range) -> Iterator[tuple[int, Result]]:
            return parse_report(load_report(path), jobs, names, places)

        self._path, self._began = path, time.monotonic()
        shares = _shares(len(jobs), workers) if path.exists() else []
        self._pool = Pool(read, shares, len(shares), ProcessLimits(silent_s=STUCK_S))
        self.failure, self.seconds, self.processes = "", 0.0, self._pool.processes

    @property
    def ended(self) -> bool:
        return not self._pool.processes

    def take(self, limit_s: float | None = 0.0) -> Iterator[tuple[int, Result]]:
        """What has been made meanwhile, with the places of its jobs; with None all that will be."""
        for _, result in self._pool.take(limit_s):
            if isinstance(result, Ended):
                # A report cut off in the middle, or of an unknown version.
                self.failure = f"{self._path.name} could not be read: {result.reason}"
            else:
                yield result
        if self.ended and not self.seconds:
            self.seconds = time.monotonic() - self._began

    def stop(self) -> None:
        """End what is still being read."""
        self._pool.stop()
