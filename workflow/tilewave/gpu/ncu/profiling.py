"""A session of Nsight Compute: its cases, settings and events."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tilewave.gpu.ncu import run
from tilewave.gpu.ncu.idle import idle
from tilewave.gpu.ncu.run import NO_PERMISSION, Settings
from tilewave.kernel.job import Job, write_jobs
from tilewave.kernel.result import OK, STATUSES


@dataclass
class SessionEvents:
    """The worker's events, by the index of a case in its batch. general: the reason why no case could run."""

    started: list[int] = field(default_factory=list)
    failures: dict[int, tuple[str, str]] = field(default_factory=dict)
    general: str = ""


def read_events(path: Path) -> SessionEvents:
    """Read the worker's event file (one JSON object a line); ignore a line that a crash truncated."""
    events = SessionEvents()
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return events
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        kind, index = event.get("event"), event.get("index")
        if kind == "failed":
            events.general = str(event.get("reason") or "")
        elif kind == "started" and isinstance(index, int):
            events.started.append(index)
        elif kind == "finished" and isinstance(index, int):
            result = event.get("result") or {}
            if result.get("status") in STATUSES and result["status"] != OK:
                events.failures[index] = (str(result["status"]), str(result.get("reason") or ""))
    return events


@dataclass
class NcuSession:
    """A session of ncu: its cases and their indices among all jobs, its events and its report. names: the
    collected metrics of each case. unknown: those that ncu lacks. interrupted: the signal from outside."""

    number: int
    places: list[int]
    batch: list[Job]
    settings: Settings
    report_path: Path
    names: list[list[str]] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    events: SessionEvents = field(default_factory=SessionEvents)
    why: str = ""
    interrupted: str = ""
    seconds: float = 0.0


def metrics_of(job: Job) -> list[str]:
    """Return the metrics that ncu collects for a job, each once, without the `idle` ones."""
    without = idle(job)
    return [name for name in dict.fromkeys(job.metrics) if name not in without]


def settings_of(job: Job) -> Settings:
    """Return a job's settings; the order of its metrics does not matter."""
    metrics, sections = tuple(sorted(metrics_of(job))), tuple(dict.fromkeys(job.sections))
    return Settings(metrics, sections, job.clock_control, job.cache_control)


def run_session(
    session: NcuSession,
    program: str,
    *,
    cache: Path,
    log_path: Path,
    limit_s: float,
    refused: set[str],
    meanwhile: Callable[[], object],
) -> None:
    """Run ncu, and repeat it without the metrics that it refuses; ``refused`` collects them."""
    began = time.monotonic()
    settings, report_path = session.settings, session.report_path
    stem = str(report_path).removesuffix(".ncu-rep")
    jobs_path, events_path = Path(f"{stem}.jobs.json"), Path(f"{stem}.events.jsonl")
    write_jobs(jobs_path, session.batch)
    metrics = [name for name in settings.metrics if name not in refused]
    while True:
        for path in (report_path, events_path):
            path.unlink(missing_ok=True)
        events_path.touch()
        command = run.build_command(
            program, settings, metrics, jobs_path, events_path, report_path, cache
        )
        outcome = run.run_ncu(command, log_path, limit_s, meanwhile)
        unknown = [name for name in metrics if name in outcome.unknown]
        if not unknown or len(unknown) == len(metrics):
            break
        metrics = [name for name in metrics if name not in unknown]
        refused |= set(unknown)
    session.names = [[name for name in metrics_of(job) if name in metrics] for job in session.batch]
    session.unknown = set(settings.metrics) - set(metrics)
    session.events = read_events(events_path)
    session.why = run.explain(outcome, limit_s)
    session.interrupted = run.interrupted(outcome)
    if session.events.general and NO_PERMISSION not in session.why:
        session.why = session.events.general
    session.seconds = time.monotonic() - began
