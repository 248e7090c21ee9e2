"""Reading of a report of Nsight Compute by several processes, in parallel to the next session.
Python and ncu_report's disassembler take one core each, so each process reads its share of the cases."""

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
"""Fewest cases of a process: opening a report of 64 cases takes a second, as long as reading a dozen."""
STUCK_S = 120.0
"""Seconds for one case after which a process is killed (half a second is usual)."""


class Reading:
    """The results of a batch of jobs, while processes read them from a report; a missing report has none.
    names: metrics of each job. `failure`: the reason why a report could not be read. The process must not have
    initialised CUDA or read a report: forked processes would inherit locks that a thread of these libraries holds."""

    def __init__(
        self, path: Path, jobs: Sequence[Job], names: Sequence[Sequence[str]], workers: int
    ) -> None:
        def read(places: range) -> Iterator[tuple[int, Result]]:
            return parse_report(load_report(path), jobs, names, places)

        self._path, self._began = path, time.monotonic()
        count = len(jobs) if path.exists() else 0
        parts = min(workers, math.ceil(count / LEAST_CASES))
        # Neighbours share a cubin, whose instructions are then disassembled once.
        bounds = [count * part // max(1, parts) for part in range(parts + 1)]
        shares = [range(low, high) for low, high in itertools.pairwise(bounds)]
        self._pool = Pool(read, shares, len(shares), ProcessLimits(silent_s=STUCK_S))
        self.failure, self.seconds, self.processes = "", 0.0, self._pool.processes

    @property
    def ended(self) -> bool:
        return not self._pool.processes

    def take(self, limit_s: float | None = 0.0) -> Iterator[tuple[int, Result]]:
        """Yield the results since the last call with the indices of their jobs; with None all that follow."""
        for _, result in self._pool.take(limit_s):
            if isinstance(result, Ended):
                # A truncated report, or one of an unknown version.
                self.failure = f"{self._path.name} could not be read: {result.reason}"
            else:
                yield result
        if self.ended and not self.seconds:
            self.seconds = time.monotonic() - self._began

    def stop(self) -> None:
        self._pool.stop()
