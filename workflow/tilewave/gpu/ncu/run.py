"""A run of Nsight Compute: its command line, its end and its log.
Its report omits a counter that the chip lacks; for an unknown name without a roll-up ncu profiles nothing."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGKILL, SIGTERM

import psutil

from tilewave.basics.columns import filled
from tilewave.basics.deadline import Deadline
from tilewave.basics.lifetime import FROM_OUTSIDE, ended_by, ends_with_parent, kill_group
from tilewave.basics.paths import child_environment
from tilewave.basics.tables import table_beside
from tilewave.records.counters import catalogue

DOMAIN = "tilewave"
RANGE = "measure"
# Time for ncu to write its report after the profiled process was killed.
GRACE_S = 30.0
POLL_S = 0.1

REASONS: dict[str, str] = table_beside(__file__)
"""Text in ncu's log, and the reason for the user."""
NO_PERMISSION = REASONS["ERR_NVGPUCTRPERM"]
NONE_PROFILED = "No kernels were profiled"
UNKNOWN_METRIC = re.compile(r"Failed to find metric\s+(?:regex:\^)?([A-Za-z0-9_.:\\]+)")


@dataclass
class NcuOutcome:
    """The end of a run of ncu; ``unknown``: metrics that this ncu lacks for the chip."""

    log: str = ""
    code: int | None = None
    timed_out: bool = False
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Settings:
    """The collection settings of a session."""

    metrics: tuple[str, ...]
    sections: tuple[str, ...]
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


def build_command(
    program: str,
    how: Settings,
    metrics: Iterable[str],
    jobs: Path,
    events: Path,
    report: Path,
    cache: Path,
) -> list[str]:
    """Return the command line that profiles these jobs. metrics: those that ncu has."""
    stem = str(report).removesuffix(".ncu-rep").replace("%", "%%")
    command = [program, "--nvtx", "--nvtx-include", f"{DOMAIN}@{RANGE}/"]
    command += ["--clock-control", how.clock_control]
    command += ["--cache-control", how.cache_control, "--metrics", ",".join(metrics)]
    for section in how.sections:
        command += ["--section", section]
    # Rules cost time for every kernel, and Nsight Compute can apply them later.
    command += ["--apply-rules", "no", "--import-source", "yes"]
    command += ["--force-overwrite", "-o", stem]
    command += [sys.executable, "-m", "tilewave.gpu.worker", "counters", str(jobs)]
    return [*command, "--events", str(events), "--cache", str(cache)]


def _group_members(group: int) -> list[psutil.Process]:
    members = []
    for process in psutil.process_iter(["cmdline", "status"]):
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(process.pid) == group and process.info["status"] != psutil.STATUS_ZOMBIE:
                members.append(process)
    return members


def _end_worker(process: subprocess.Popen[bytes]) -> None:
    """Kill the profiled process, so that ncu writes its report; kill ncu if it does not end."""
    for member in _group_members(process.pid):
        # The command line of ncu ends with the worker's.
        command = member.info["cmdline"] or []
        if "tilewave.gpu.worker" in command and "--nvtx-include" not in command:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        kill_group(process)


@contextlib.contextmanager
def _environment(gpus: Path = Path("/proc/driver/nvidia/gpus")) -> Iterator[dict[str, str]]:
    """Yield the environment of ncu, with a TMPDIR of its own on a machine with several GPUs.
    A lock in TMPDIR would serialise kernels on different GPUs. The worker holds the lock of its GPU."""
    environment = child_environment()
    if len(list(gpus.glob("*"))) < 2:
        yield environment
        return
    with tempfile.TemporaryDirectory(prefix="tilewave-ncu-") as folder:
        yield environment | {"TMPDIR": folder}


def run_ncu(
    command: Sequence[str],
    log_path: Path,
    limit_s: float,
    meanwhile: Callable[[], object] = lambda: None,
) -> NcuOutcome:
    """Run ncu in its own process group, and append its output to ``log_path``. ``meanwhile`` is called every POLL_S."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    outcome = NcuOutcome()
    with open(log_path, "ab") as log, _environment() as environment:
        begin = log.tell()
        log.write((" ".join(command) + "\n").encode())
        log.flush()
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,
                preexec_fn=ends_with_parent(os.getpid()),
            )
        except OSError as error:
            return NcuOutcome(log=f"==ERROR== {error}", code=127)
        end = Deadline.after(limit_s)
        try:
            while True:
                try:
                    outcome.code = process.wait(POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    meanwhile()
                if end.passed():
                    outcome.timed_out = True
                    _end_worker(process)
                    outcome.code = process.returncode
                    break
        finally:
            # An interrupt must leave neither a profiler nor a worker that outlived ncu.
            if process.poll() is None or _group_members(process.pid):
                kill_group(process)
    outcome.log = log_path.read_bytes()[begin:].decode(errors="replace")
    outcome.unknown = unknown_metrics(outcome.log)
    return outcome


def unknown_metrics(log: str) -> list[str]:
    names = [name.replace("\\", "").rstrip(".") for name in UNKNOWN_METRIC.findall(log)]
    return list(dict.fromkeys(names))


def interrupted(outcome: NcuOutcome) -> str:
    """Return the signal from outside that ended ncu or the profiled process; empty if there was none."""
    reported = list(map(int, re.findall(r"returned an error code \((\d+)\)", outcome.log)))
    # ncu reports a signal's number or an exit code of the profiled process.
    codes = [
        outcome.code or 0,
        *(-number if number in (SIGKILL, SIGTERM) else number for number in reported),
    ]
    outside = {signal.name for signal in FROM_OUTSIDE} & {ended_by(code) for code in codes}
    return "" if outcome.timed_out else next(iter(outside), "")


def explain(outcome: NcuOutcome, limit_s: float) -> str:
    """Return the reason why a case is missing in ncu's report, and the remedy."""
    for sign, reason in REASONS.items():
        if sign in outcome.log:
            return reason
    errors = re.findall(r"^==ERROR== (.+?)\s*$", outcome.log, re.MULTILINE)
    facts = {"ended": interrupted(outcome), "unprofiled": NONE_PROFILED in outcome.log}
    return filled(__file__, "run", outcome=outcome, limit_s=limit_s, errors=errors, **facts)
