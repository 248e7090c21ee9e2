"""Nsight Compute: run a batch of cases under ncu and read its report.

ncu starts ``python -m tilewave.gpu.worker counters``, which launches every case once inside the
NVTX range ``measure`` of the domain ``tilewave``, in a range of the domain ``tilewave-job`` that is
named after the case's place in the batch. ncu profiles what runs inside ``measure``; the other
range tells which case a kernel belongs to, also where one case is several kernels (a library's
split-k reduction). Nothing that goes wrong here raises: every case gets a result, and what a report
holds is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilewave.counters import catalogue
from tilewave.environment import NO_NCU, find_ncu
from tilewave.gpu.profile_report import load_report, parse_report
from tilewave.gpu.profile_run import (
    ATTEMPTS,
    NO_PERMISSION,
    Outcome,
    build_command,
    explain,
    query_metrics,
    run_ncu,
    split_known,
)
from tilewave.jobs import Job, write_jobs
from tilewave.processes import Result
from tilewave.records.model import NOT_MEASURED, OK, STATUSES, result


@dataclass
class Events:
    """What the worker told. Cases go by their place in its batch.

    started: in order. failures: status and reason of those that ended badly. finished: all that
    ended. general: why no case could run.
    """

    started: list[int] = field(default_factory=list)
    finished: set[int] = field(default_factory=set)
    failures: dict[int, tuple[str, str]] = field(default_factory=dict)
    general: str = ""


def read_events(path: Path) -> Events:
    """The worker's event file (one JSON object a line); a last line that a crash cut is ignored."""
    told = Events()
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return told
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        kind, index = event.get("event"), event.get("index")
        if kind == "failed":
            told.general = str(event.get("reason") or "")
        elif kind == "started" and isinstance(index, int):
            told.started.append(index)
        elif kind == "finished" and isinstance(index, int):
            told.finished.add(index)
            made = event.get("result") or {}
            if made.get("status") in STATUSES and made["status"] != OK:
                told.failures[index] = (str(made["status"]), str(made.get("reason") or ""))
    return told


# -------------------------------------------------------------------------------------------- whole


@dataclass(frozen=True)
class Settings:
    """What one ncu session collects, and how."""

    metrics: tuple[str, ...]
    sections: tuple[str, ...]
    clock_control: str
    cache_control: str


@dataclass
class Session:
    """What one ncu session brought. Cases go by their place in its batch."""

    results: dict[int, Result]
    events: Events
    why: str


def settings_of(job: Job) -> Settings:
    """A job's settings."""
    return Settings(
        tuple(dict.fromkeys(job.metrics)),
        tuple(dict.fromkeys(job.sections)),
        job.clock_control,
        job.cache_control,
    )


def _run_session(
    jobs: Sequence[Job],
    settings: Settings,
    program: str,
    *,
    cache: Path,
    report_path: Path,
    log_path: Path,
    limit_s: float,
) -> Session:
    """One session of ncu, repeated without the metrics that ncu refuses."""
    stem = str(report_path).removesuffix(".ncu-rep")
    jobs_path, events_path = Path(f"{stem}.jobs.json"), Path(f"{stem}.events.jsonl")
    write_jobs(jobs_path, jobs)
    known, unknown = split_known(settings.metrics, query_metrics(program, cache))
    outcome = Outcome()
    for _ in range(ATTEMPTS):
        for path in (report_path, events_path):
            path.unlink(missing_ok=True)
        events_path.touch()
        command = build_command(
            program,
            jobs_path=jobs_path,
            events_path=events_path,
            report_path=report_path,
            cache=cache,
            metrics=known,
            sections=settings.sections,
            clock_control=settings.clock_control,
            cache_control=settings.cache_control,
        )
        outcome = run_ncu(command, log_path, limit_s)
        refused = [name for name in known if name in outcome.unknown]
        if not refused or len(refused) == len(known):
            break
        # A name that the query could not tell: leave it out and run again.
        known = [name for name in known if name not in refused]
        unknown += refused
    events = read_events(events_path)
    why = explain(outcome, limit_s)
    if events.general and NO_PERMISSION not in why:
        why = events.general
    found: dict[int, Result] = {}
    if report_path.exists():
        try:
            found = parse_report(load_report(report_path), jobs, known)
        except Exception as error:  # a report cut off in the middle, or of an unknown version
            why = f"{report_path.name} could not be read: {error}"
    optional = {name for name, metric in catalogue.METRICS.items() if metric.optional}
    told = [name for name in unknown if name not in optional]
    for made in found.values():
        if made["status"] == OK:
            made["notes"]["report"] = report_path.name
            if told:
                made["notes"]["unknown_metrics"] = told
    return Session(found, events, why)


def _missing(job: Job, status: str, reason: str) -> Result:
    return result("counters", job.case, status, reason, key=job.key)


def profile(
    jobs: Sequence[Job],
    *,
    cache: Path,
    report_path: Path,
    log_path: Path,
    ncu: str | None = None,
    limit_s: float | None = None,
    on_result: Callable[[Result], object] | None = None,
) -> list[Result]:
    """Counters of a batch of cases: a result for each job, in the order of the jobs.

    jobs: see `tilewave.gpu.worker`. Jobs with the same metrics, sections, clock and cache control
    share a session of ncu; a session that a case ended is followed by one for the cases behind it.
    The first writes ``report_path`` (.ncu-rep), the others the same name with -part2, -part3, ...; a
    result's note ``report`` names its file. cache: where the list of ncu's metrics is kept, handed to
    the worker as well. ncu: its path (default: found). limit_s: seconds for a session (default: the
    jobs' own limits, and a minute). on_result gets each result as soon as its session has ended.
    """
    results: dict[int, Result] = {}

    def finish(index: int, made: Result) -> None:
        results[index] = made
        if on_result is not None:
            on_result(made)

    program = find_ncu(ncu)
    if program is None:
        why = f"the configured ncu {ncu!r} is no program that can be run" if ncu else NO_NCU
        for index, job in enumerate(jobs):
            finish(index, _missing(job, NOT_MEASURED, why))
        return [results[index] for index in range(len(jobs))]
    stem = str(report_path.resolve()).removesuffix(".ncu-rep")
    for path in (Path(stem), log_path.resolve(), cache / "x"):
        path.parent.mkdir(parents=True, exist_ok=True)
    log_path.write_bytes(b"")
    groups: dict[Settings, list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault(settings_of(job), []).append(index)
    sessions = 0
    for settings, pending in groups.items():
        while pending:
            sessions += 1
            suffix = "" if sessions == 1 else f"-part{sessions}"
            batch = [jobs[index] for index in pending]
            given = 60 + sum(job.limit_s for job in batch)
            session = _run_session(
                batch,
                settings,
                program,
                cache=cache.resolve(),
                report_path=Path(f"{stem}{suffix}.ncu-rep"),
                log_path=log_path,
                limit_s=given if limit_s is None else limit_s,
            )
            events = session.events
            for place, made in session.results.items():
                finish(pending[place], made)
            for place, (status, reason) in events.failures.items():
                if place < len(batch) and pending[place] not in results:
                    failed = _missing(batch[place], status, reason or session.why)
                    finish(pending[place], failed)
            # A case under which the worker ended is not tried again, nor those that ran and left
            # nothing in the report; the ones behind it are, unless none was reached at all.
            reached = set(events.started)
            for place, index in enumerate(pending):
                if index not in results and (place in reached or not reached):
                    finish(index, _missing(jobs[index], NOT_MEASURED, session.why))
            pending = [index for index in pending if index not in results]
            if pending and NO_PERMISSION in session.why:
                for index in pending:
                    finish(index, _missing(jobs[index], NOT_MEASURED, session.why))
                pending = []
    return [results[index] for index in range(len(jobs))]
