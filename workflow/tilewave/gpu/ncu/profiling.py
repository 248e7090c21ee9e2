"""A session of Nsight Compute: its cases, settings and events."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewave.gpu.ncu.idle import idle
from tilewave.gpu.ncu.run import DOMAIN, NO_PERMISSION, RANGE, explain, interrupted, run_ncu
from tilewave.kernel.job import Job, write_jobs
from tilewave.kernel.result import OK, SAMPLE, STATUSES
from tilewave.records.counters import catalogue


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


@dataclass(frozen=True)
class Settings:
    """The collection settings of a session; ``rules``: True to apply ncu's rules."""

    metrics: tuple[str, ...]
    sections: tuple[str, ...]
    rules: bool
    clock_control: str
    cache_control: str

    @property
    def slow(self) -> bool:
        """True if ncu patches or samples the kernel for counters of instructions."""
        return bool(self.sections) or catalogue.of_instructions(self.metrics)

    def alike(self, other: Settings) -> bool:
        """Return whether both collect in the same way and as fast, apart from the metrics."""
        return replace(other, metrics=self.metrics) == self and self.slow == other.slow

    def includes(self, other: Settings) -> bool:
        return self.alike(other) and set(other.metrics) <= set(self.metrics)

    def united(self, other: Settings) -> Settings:
        return replace(self, metrics=tuple(sorted({*self.metrics, *other.metrics})))


@dataclass
class NcuSession:
    """A session of ncu: its cases and their indices among all jobs, its events and its report.

    names: the collected metrics of each case. unknown: those that ncu lacks. interrupted: the signal from outside.
    """

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
    return Settings(
        tuple(sorted(metrics_of(job))),
        tuple(dict.fromkeys(job.sections)),
        job.stage == SAMPLE,
        job.clock_control,
        job.cache_control,
    )


def build_command(
    program: str, session: NcuSession, metrics: Iterable[str], jobs: Path, events: Path, cache: Path
) -> list[str]:
    """Return the command line that profiles a session's cases. metrics: those that ncu has."""
    settings = session.settings
    report = str(session.report_path).removesuffix(".ncu-rep").replace("%", "%%")
    command = [program, "--nvtx", "--nvtx-include", f"{DOMAIN}@{RANGE}/"]
    command += ["--clock-control", settings.clock_control]
    command += ["--cache-control", settings.cache_control, "--metrics", ",".join(metrics)]
    for section in settings.sections:
        command += ["--section", section]
    # Rules cost time for every kernel, and Nsight Compute can apply them later.
    command += ["--apply-rules", "yes" if settings.rules else "no", "--import-source", "yes"]
    command += ["--force-overwrite", "-o", report]
    command += [sys.executable, "-m", "tilewave.gpu.worker", "counters", str(jobs)]
    return [*command, "--events", str(events), "--cache", str(cache)]


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
        command = build_command(program, session, metrics, jobs_path, events_path, cache)
        outcome = run_ncu(command, log_path, limit_s, meanwhile)
        unknown = [name for name in metrics if name in outcome.unknown]
        if not unknown or len(unknown) == len(metrics):
            break
        metrics = [name for name in metrics if name not in unknown]
        refused |= set(unknown)
    session.names = [[name for name in metrics_of(job) if name in metrics] for job in session.batch]
    session.unknown = set(settings.metrics) - set(metrics)
    session.events = read_events(events_path)
    session.why = explain(outcome, limit_s)
    session.interrupted = interrupted(outcome)
    if session.events.general and NO_PERMISSION not in session.why:
        session.why = session.events.general
    session.seconds = time.monotonic() - began
