"""The supervisor: it runs a worker process, restarts it after a crash and kills it at a case's limit.
Whatever the worker does, every job gets one result, and `on_result` receives it at once."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewave.basics.deadline import Deadline
from tilewave.basics.lifetime import FROM_OUTSIDE, ended_by, ends_with_parent, kill_group
from tilewave.basics.paths import child_environment
from tilewave.basics.progress import say
from tilewave.kernel.job import Job, write_jobs
from tilewave.kernel.result import Result
from tilewave.workers.events import UNREPORTED

GRACE_S = 60.0
"""Seconds for all but cases: starting Python and CUDA, and loading the helper kernels."""
SETUP_S = 3.0
"""Seconds added to the limit of a timing, for buffers, inputs and the choice of cuBLASLt's algorithm.
A timing that would take too long reports *not measured* itself."""
POLL_S = 0.02
WORKER = "tilewave.gpu.worker"
_FROM_OUTSIDE = {signal.name for signal in FROM_OUTSIDE}
_MEMORY_SIGNALS = {"SIGSEGV", "SIGBUS", "SIGILL"}


class Stopped(Exception):
    """Another thread stopped this one."""


def run_jobs(
    stage: str,
    jobs: Sequence[Job],
    *,
    python: str = sys.executable,
    wrapper: Sequence[str] = (),
    cache: Path | str | None = None,
    limit_s: float | None = None,
    on_result: Callable[[Result], object] | None = None,
    log_path: Path | str | None = None,
    module: str = WORKER,
    grace_s: float = GRACE_S,
    stop: threading.Event | None = None,
) -> list[Result]:
    """Run jobs of a stage (check, time, tune, counters). Return their results in the order of the jobs.

    limit_s: seconds from a case's start to its result; by default the job's own `limit_s`. A timing gets
    SETUP_S more. wrapper: arguments before the worker's command (a profiler). log_path: the file to which
    the worker's output is appended. stop: an event of another thread that ends the worker; raises Stopped.

    A case without a result in time is *timed out*. If its process crashes, it is *invalid access* after SIGSEGV, SIGBUS
    or SIGILL, else *failed to launch*; the remaining jobs run in a new process. If its process is killed from outside,
    the case is retried once, then *not measured* with the note ``interrupted``. If no process reaches a case (no GPU,
    no CUDA), the remaining cases are *not measured*, with the worker's message.
    """
    results: dict[int, Result] = {}
    spared: set[int] = set()  # cases that were interrupted once

    def finish(index: int, outcome: Result) -> None:
        if index not in results:
            results[index] = outcome
            if on_result is not None:
                on_result(outcome)

    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        jobs_path = Path(folder) / "jobs.json"
        write_jobs(jobs_path, jobs)
        log = Path(log_path) if log_path else Path(folder) / "worker.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        attempt = 0
        while (start := _next(len(jobs), results)) is not None:
            finished = len(results)
            events = Path(folder) / f"events-{attempt}.jsonl"
            events.touch()
            command = [*wrapper, python, "-m", module, stage, str(jobs_path)]
            command += ["--events", str(events), "--start", str(start)]
            command += ["--cache", str(cache)] if cache else []
            behind = sorted(index for index in results if index > start)
            command += ["--done", ",".join(map(str, behind))] if behind else []
            watch = _Watch(stage, jobs, start, limit_s, grace_s, finish, results, spared)
            with _child(command, log) as child:
                watch.follow(child, events, stop)
            attempt += 1
            at = start if watch.current is None else watch.current
            if watch.interrupted and at not in results and at not in spared:
                spared.add(at)
                say(f"  {stage}: the worker {watch.ending}; {jobs[at].case} is retried")
            elif len(results) == finished:  # no progress: a new process would do no better
                reason = watch.failure or f"the worker {watch.ending}{_last_line(log)}"
                for index in range(start, len(jobs)):
                    if index not in results:
                        finish(index, watch.unmeasured(index, reason))
    return [results[index] for index in range(len(jobs))]


def share_jobs(
    stage: str,
    jobs: Sequence[Job],
    workers: int,
    *,
    log_path: Path | str,
    on_result: Callable[[Result], object],
    weight: Callable[[Job], float] = lambda job: 1.0,
    alike: Callable[[Job], str] = lambda job: job.variant,
    **how: Any,
) -> list[Result]:
    """Run jobs with several workers at a time, for stages in which nothing is measured.
    Jobs that are ``alike`` stay together, because loading what they share (a variant's code) often costs
    more than a launch; a group larger than a worker's part is split. Workers get about equal ``weight``."""
    shares: list[list[Job]] = [[] for _ in range(max(1, min(workers, len(jobs))))]
    together: dict[str, list[Job]] = {}
    for job in jobs:
        together.setdefault(alike(job), []).append(job)
    weights = {job.case: weight(job) for job in jobs}

    def heavy(bundle: Sequence[Job]) -> float:
        return sum(weights[job.case] for job in bundle)

    part = heavy(jobs) / len(shares)
    bundles: list[list[Job]] = []
    for bundle in together.values():
        bundles += [bundle] if heavy(bundle) <= part else [[job] for job in bundle]
    for bundle in sorted(bundles, key=heavy, reverse=True):
        min(shares, key=heavy).extend(bundle)
    order = {case: index for index, case in enumerate(weights)}
    for share in shares:
        share.sort(key=lambda job: order[job.case])
    lock, stop = threading.Lock(), threading.Event()

    def keep(result: Result) -> None:
        with lock:
            on_result(result)

    def run(number: int) -> list[Result]:
        log = f"{log_path}.{number}" if len(shares) > 1 else log_path
        try:
            return run_jobs(stage, shares[number], log_path=log, on_result=keep, stop=stop, **how)
        except BaseException:  # an interrupt, or a result that could not be stored
            stop.set()
            raise

    with ThreadPoolExecutor(len(shares)) as pool:
        parts = [pool.submit(run, number) for number in range(len(shares))]
        try:
            wait(parts)
        except BaseException:
            stop.set()
            raise
    errors = [error for part in parts if (error := part.exception()) is not None]
    for error in sorted(errors, key=lambda raised: isinstance(raised, Stopped)):
        raise error
    by_case = {result.case: result for part in parts for result in part.result()}
    return [by_case[job.case] for job in jobs]


def _next(count: int, results: dict[int, Result]) -> int | None:
    """Return the index of the first job without a result."""
    return next((index for index in range(count) if index not in results), None)


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 4096))
        lines = file.read().decode(errors="replace").strip().splitlines()
        if lines:
            return f": {lines[-1].strip()[:200]}"
    return ""


@contextlib.contextmanager
def _child(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the worker in its own process group, and kill the group at the end."""
    with log.open("ab") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=child_environment(),
            start_new_session=True,
            preexec_fn=ends_with_parent(os.getpid()),
        )
    try:
        yield child
    finally:
        kill_group(child)


@dataclass
class _Watch:
    """The observer of one worker process, from its start to its end."""

    stage: str
    jobs: Sequence[Job]
    start: int
    limit_s: float | None
    grace_s: float
    finish: Callable[[int, Result], None]
    results: dict[int, Result]
    spared: set[int]
    current: int | None = None
    failure: str = ""
    ending: str = "ended"
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._deadline = Deadline.after(self.grace_s)

    def follow(
        self, child: subprocess.Popen[bytes], events: Path, stop: threading.Event | None = None
    ) -> None:
        """Read events until the process ends or exceeds a limit. Raises Stopped."""
        with events.open("rb") as file:
            rest = b""
            while True:
                if stop is not None and stop.is_set():
                    raise Stopped
                code = child.poll()
                rest += file.read()  # after poll(), so that no event before the end is missed
                *lines, rest = rest.split(b"\n")
                for line in lines:
                    self._handle(line)
                if code is not None:
                    self._ended(code)
                    return
                if _next(len(self.jobs), self.results) is None:
                    # All results are there: wait until it releases the GPU, at most `grace_s`.
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        child.wait(self.grace_s)
                    return
                if self._deadline.passed():
                    self._expire()
                    return
                if not lines:
                    time.sleep(POLL_S)

    def _limit(self, index: int) -> float:
        return self.jobs[index].limit_s if self.limit_s is None else self.limit_s

    def _handle(self, line: bytes) -> None:
        """Apply one line of the event file; ignore a malformed one."""
        event = None
        with contextlib.suppress(ValueError):
            event = json.loads(line)
        if not isinstance(event, dict):
            return
        kind, index = event.get("event"), event.get("index")
        if kind == "waiting":
            self._deadline = Deadline()  # no limit: another run may hold the GPU for long
        elif kind == "ready":
            self._deadline = Deadline.after(self.grace_s)
        elif kind == "failed":
            self.failure = str(event.get("reason") or "")
        elif not isinstance(index, int) or not self.start <= index < len(self.jobs):
            return
        elif kind == "started":
            self.current = index
            setup = SETUP_S if self.stage in ("time", "tune") else 0.0
            self._deadline = Deadline.after(self._limit(index) + setup)
        elif kind == "finished":
            self.finish(index, self._understood(index, event.get("result")))
            self.current = None
            self._deadline = Deadline.after(self.grace_s)

    def _understood(self, index: int, document: Any) -> Result:
        job = self.jobs[index]
        try:
            # The case and key are the job's: a worker cannot store a result under another key.
            return replace(Result.of_document(document), case=job.case, key=job.key)
        except ValueError:
            reason = "the worker sent a result that cannot be read"
            return Result.of_job(job, "failed to launch", reason)

    def _expire(self) -> None:
        if (index := self.current) is None:
            self.ending = f"did nothing for {self.grace_s:g} s"
            return
        reason = f"no result within {self._limit(index):g} s (case_limit_s)"
        self.finish(index, Result.of_job(self.jobs[index], "timed out", reason))

    def unmeasured(self, index: int, reason: str) -> Result:
        """Return the result of a case that the worker's end left without one."""
        cause = self.failure or (self.ending if self.interrupted else "")
        return Result.of_job(self.jobs[index], "not measured", reason, cause)

    def _ended(self, code: int) -> None:
        name = ended_by(code)
        self.ending = f"was ended by {name}" if name else f"ended with exit code {code}"
        if code == UNREPORTED:
            self.ending = "could not write its results: is the disk of the temporary folder full?"
        self.interrupted = name in _FROM_OUTSIDE or code == UNREPORTED
        index, reason = self.current, f"the worker {self.ending}"
        if index is None:
            return
        if not self.interrupted:
            status = "invalid access" if name in _MEMORY_SIGNALS else "failed to launch"
            self.finish(index, Result.of_job(self.jobs[index], status, reason))
        elif index in self.spared:
            self.finish(index, self.unmeasured(index, f"{reason}, twice"))
