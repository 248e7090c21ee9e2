"""The profiler: it runs cases under Nsight Compute, session after session, and reads the reports.

ncu starts ``python -m tilewave.gpu.worker counters``, which launches every case once. Each launch is inside the
NVTX range ``measure`` of the domain ``tilewave``, and ncu profiles the kernels inside it. Around it is a range of
the domain ``tilewave-job`` with the case's name. It identifies the case of a kernel, also
if a case has several kernels (a library's split-k reduction). Other processes read a session's report while the
next session runs. No failure raises: every case gets a result, and all results of a report are kept.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tilewave.basics.columns import filled
from tilewave.gpu.ncu.profiling import NcuSession, metrics_of, run_session, settings_of
from tilewave.gpu.ncu.reading import Reading
from tilewave.gpu.ncu.run import NO_PERMISSION, Settings
from tilewave.kernel.job import Job
from tilewave.kernel.result import NOT_MEASURED, OK, Result
from tilewave.records.counters import catalogue
from tilewave.records.environment import NO_NCU, find_ncu

MOST_PATCHED, MOST_PLAIN = 200, 1000
"""Most cases of a session with counters of instructions or sections of ncu, and of one without.

Either takes at most two minutes, besides 5 s to start ncu, Python and CUDA. A lost machine costs one session.
"""
FEW = 10
"""Up to this many cases cost less time with all metrics of another session than the start of a new one."""
START_S, PASS_S = 4.0, 0.02
"""Seconds of a session before its first case, and of one pass of a case, which one metric may need."""
SESSION_S = 60.0
"""Seconds that a session may take besides the limits of its cases."""


def sessions_of(jobs: Sequence[Job]) -> list[tuple[Settings, list[int]]]:
    """Return the settings of the sessions with the indices of their jobs, in the order of the sessions.
    A few jobs join others with more metrics, and jobs whose metrics differ little share a session if that is faster
    than starting another. What takes long to read comes first, because no session runs while the last report is read."""
    groups: dict[Settings, list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault(settings_of(job), []).append(index)
    for settings in sorted(groups, key=lambda group: len(group.metrics)):
        wider = [group for group in groups if group != settings and group.includes(settings)]
        if wider and len(groups[settings]) <= FEW:
            host = min(wider, key=lambda group: len(group.metrics))
            groups[host] = sorted(groups[host] + groups.pop(settings))
    while pair := _cheapest(groups):
        both = pair[0].united(pair[1])
        groups[both] = sorted(index for group in pair for index in groups.pop(group))
    return sorted(groups.items(), key=lambda group: (not group[0].slow, -len(group[1])))


def _cheapest(groups: Mapping[Settings, Sequence[int]]) -> tuple[Settings, Settings] | None:
    """Return the two groups that cost the least time to unite; None if another session costs less."""

    def seconds(pair: tuple[Settings, Settings]) -> float:
        both = len(pair[0].united(pair[1]).metrics)
        return sum((both - len(group.metrics)) * len(groups[group]) * PASS_S for group in pair)

    pairs = (pair for pair in itertools.combinations(groups, 2) if pair[0].alike(pair[1]))
    best = min(pairs, key=seconds, default=None)
    return best if best is not None and seconds(best) < START_S else None


class _Results:
    """The results of all jobs, from the reports that are read while sessions run, or with a reason."""

    def __init__(
        self,
        jobs: Sequence[Job],
        workers: int,
        on_result: Callable[[Result], object] | None,
        note: Callable[[str], object] | None,
    ) -> None:
        self._jobs, self._workers = jobs, workers
        self._on_result, self._note = on_result, note
        self._results: dict[int, Result] = {}
        self._open: list[tuple[NcuSession, Reading]] = []

    def in_order(self) -> list[Result]:
        return [self._results[index] for index in range(len(self._jobs))]

    def give_up(self, indices: Iterable[int], reason: str, interrupted: str = "") -> None:
        """Finish these cases as *not measured*; interrupted: the signal from outside, if any."""
        for index in indices:
            self._finish(index, Result.of_job(self._jobs[index], NOT_MEASURED, reason, interrupted))

    def read(self, session: NcuSession) -> None:
        """Start to read a session's report."""
        reading = Reading(session.report_path, session.batch, session.names, self._workers)
        self._open.append((session, reading))

    def take(self, limit_s: float | None = 0.0) -> None:
        """Pass on the results read since the last call; with None wait for all."""
        for session, reading in list(self._open):
            for position, result in reading.take(limit_s):
                self._finish(session.places[position], self._noted(session, position, result))
            if reading.ended:
                self._open.remove((session, reading))
                self._close(session, reading)

    def stop(self) -> None:
        for _, reading in self._open:
            reading.stop()

    def _finish(self, index: int, result: Result) -> None:
        if index not in self._results:
            self._results[index] = result
            if self._on_result is not None:
                self._on_result(result)

    @staticmethod
    def _noted(session: NcuSession, position: int, result: Result) -> Result:
        if result.status != OK:
            return result
        notes = {**result.notes, "report": session.report_path.name}
        unknown = session.unknown - catalogue.OPTIONAL
        missing = [name for name in metrics_of(session.batch[position]) if name in unknown]
        if missing:
            notes["unknown_metrics"] = missing
        return replace(result, notes=notes)

    def _close(self, session: NcuSession, reading: Reading) -> None:
        """Finish the cases of a session that its report lacks, and write its line in the log."""
        events, why = session.events, reading.failure or session.why
        for position, (status, reason) in events.failures.items():
            if position < len(session.batch):
                result = Result.of_job(session.batch[position], status, reason or why)
                self._finish(session.places[position], result)
        # Cases that started and are not in the report are not retried, so also not one that ended the worker.
        # The later cases are retried, unless no case was reached.
        reached = set(events.started) or set(range(len(session.places)))
        indices = [session.places[position] for position in sorted(reached)]
        self.give_up(indices, why, session.interrupted)
        if self._note is not None:
            note = filled(__file__, "profiler", session=session, reading=reading)
            self._note(f"{note}\n")


def profile(
    jobs: Sequence[Job],
    *,
    cache: Path,
    report_path: Path,
    log_path: Path,
    cores: int = 1,
    on_result: Callable[[Result], object] | None = None,
    note: Callable[[str], object] | None = None,
) -> list[Result]:
    """Collect counters or samples of a batch of cases. Return a result for each job, in their order.

    If a case ends a session, the next one continues after it. The first session writes ``report_path`` (.ncu-rep), the
    others the same name with -part2, -part3, ...; a result's note ``report`` names its file. cores: of this
    machine, for reading reports. on_result gets each result at once; note gets a line for each session.
    """
    # ncu and the profiled process need a core each.
    results = _Results(jobs, max(1, cores - 2), on_result, note)
    program = find_ncu()
    if program is None:
        results.give_up(range(len(jobs)), NO_NCU)
        return results.in_order()
    stem = str(report_path.resolve()).removesuffix(".ncu-rep")
    for path in (Path(stem), log_path.resolve(), cache / "x"):
        path.parent.mkdir(parents=True, exist_ok=True)
    log_path.write_bytes(b"")
    number, refused, counted = 0, set[str](), False
    try:
        for settings, pending in sessions_of(jobs):
            most = MOST_PATCHED if settings.slow else MOST_PLAIN
            size = math.ceil(len(pending) / math.ceil(len(pending) / most))
            while pending:
                number += 1
                suffix = "" if number == 1 else f"-part{number}"
                indices, behind = pending[:size], pending[size:]
                batch = [jobs[index] for index in indices]
                path = Path(f"{stem}{suffix}.ncu-rep")
                session = NcuSession(number, indices, batch, settings, path)
                run_session(
                    session,
                    program,
                    cache=cache.resolve(),
                    log_path=log_path,
                    limit_s=SESSION_S + sum(job.limit_s for job in batch),
                    refused=refused,
                    meanwhile=results.take,
                )
                if NO_PERMISSION in session.why and counted:
                    session.interrupted = "the permission to read counters was withdrawn"
                counted = counted or NO_PERMISSION not in session.why
                results.read(session)
                reached = set(session.events.started)
                cut = [index for position, index in enumerate(indices) if position not in reached]
                pending = [*cut, *behind] if reached else behind
                if not reached or NO_PERMISSION in session.why:
                    results.give_up(pending, session.why, session.interrupted)
                    pending = []
        results.take(None)
    finally:
        results.stop()
    return results.in_order()
