"""Nsight Compute: run a batch of cases under ncu and read its report.

ncu starts ``python -m tilewave.gpu.worker counters``, which launches every case once inside the
NVTX range ``measure`` of the domain ``tilewave``, in a range of the domain ``tilewave-job`` that is
named after the case's place in the batch. ncu profiles what runs inside ``measure``; the other
range tells which case a kernel belongs to, also where one case is several kernels (a library's
split-k reduction). Nothing that goes wrong here raises: every case gets a result, and what a report
holds is kept.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewave.gpu import metrics as catalogue
from tilewave.gpu.environment import DRIVER_VERSION, NO_NCU, find_ncu
from tilewave.records.model import NOT_MEASURED, OK, STATUSES, result

Job = Mapping[str, Any]
Result = dict[str, Any]

DOMAIN = "tilewave"
RANGE = "measure"
CASE_DOMAIN = "tilewave-job"
QUERY_LIMIT_S = 120.0
# What ncu may still take to write its report after the profiled process was told to end.
GRACE_S = 30.0
ATTEMPTS = 3
PR_SET_PDEATHSIG = 1

NO_PERMISSION = (
    "this user may not read the GPU's performance counters (ERR_NVGPUCTRPERM): run as root, or "
    "have the administrator load the driver with NVreg_RestrictProfilingToAdminUsers=0 (options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, then reboot); in a container add "
    "--cap-add SYS_ADMIN; a rented machine needs a provider that allows profiling"
)
# What ncu writes, and what it means for the user.
REASONS = (
    ("ERR_NVGPUCTRPERM", NO_PERMISSION),
    (
        "driver resource was unavailable",
        "another tool holds the GPU's counters: stop DCGM, another profiler or a monitoring agent "
        "and run again",
    ),
    (
        "nsight-compute-lock",
        "ncu could not take its lock file: remove the nsight-compute-lock of another user in /tmp "
        "or set TMPDIR",
    ),
    (
        "Profiling is not supported",
        "this GPU, or the virtual slice of it that this machine sees, does not support profiling",
    ),
    ("No kernels were profiled", "no kernel was launched inside the range that ncu watches"),
)
UNKNOWN_METRIC = re.compile(r"Failed to find metric\s+(?:regex:\^)?([A-Za-z0-9_.\\]+)")
# Instructions worth a row: memory, barriers and tensor cores.
KEPT = re.compile(r"^(LD|ST|ATOM|RED|UTMA|UBLK|BAR|[A-Z]{1,2}MMA)")


@dataclass
class Outcome:
    """How a run of ncu ended. ``unknown`` are metrics that this ncu does not have for the chip."""

    log: str = ""
    code: int | None = None
    timed_out: bool = False
    unknown: list[str] = field(default_factory=list)


# ------------------------------------------------------------------------------------ which metrics


def checkable(name: str) -> bool:
    """Whether `ncu --query-metrics` would list a metric.

    It lists hardware counters by the name before the roll-up (``.sum``); launch, occupancy and
    source metrics, which have none, are in other collections and always exist.
    """
    return "." in name and "__" in name


def _family(base: str) -> str:
    unit = base.partition("__")[0]
    return f"{unit}__sass" if base.startswith(f"{unit}__sass_") else unit


def split_known(wanted: Iterable[str], listed: set[str]) -> tuple[list[str], list[str]]:
    """Metrics to ask for, and those that ncu does not know.

    ``listed`` are base names. A name is only unknown where the list covers its family (the unit
    before ``__``), so an incomplete list drops nothing.
    """
    families = {_family(base) for base in listed}
    known: list[str] = []
    unknown: list[str] = []
    for name in wanted:
        base = name.partition(".")[0]
        missing = checkable(name) and base not in listed and _family(base) in families
        (unknown if missing else known).append(name)
    return known, unknown


def parse_query(text: str) -> set[str]:
    """Base names of the metrics that `ncu --query-metrics` printed."""
    return set(re.findall(r"^\s*\"?([a-z0-9]+__[a-z0-9_]+)", text, re.MULTILINE))


def query_metrics(ncu: str, cache: Path, chip: str | None = None) -> set[str]:
    """Base names of the metrics that ncu has for the chip (default: the live GPU); asked once.

    The answer is kept in ``cache`` by ncu, driver, GPU and chip. Empty where ncu does not answer.
    """
    models = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    seen: list[Any] = [os.path.realpath(ncu), chip, os.environ.get("CUDA_VISIBLE_DEVICES")]
    for path in (Path(os.path.realpath(ncu)), DRIVER_VERSION, *models):
        try:
            seen.append(path.stat().st_mtime_ns if path.name == "ncu" else path.read_text())
        except OSError:
            seen.append(None)
    mark = hashlib.sha256(json.dumps(seen).encode()).hexdigest()[:16]
    kept = cache / f"ncu-metrics-{mark}.json"
    try:
        return set(json.loads(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        pass
    command = [ncu, "--query-metrics", *(["--chip", chip] if chip else [])]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=QUERY_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return set()
    listed = parse_query(done.stdout)
    if listed:
        cache.mkdir(parents=True, exist_ok=True)
        aside = kept.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(sorted(listed)), encoding="utf-8")
        aside.replace(kept)
    return listed


# -------------------------------------------------------------------------------------- running ncu


def build_command(
    ncu: str,
    *,
    jobs_path: Path,
    events_path: Path,
    report_path: Path,
    cache: Path,
    metrics: Sequence[str],
    sections: Sequence[str] = (),
    clock_control: str = "none",
    cache_control: str = "all",
    python: str = sys.executable,
) -> list[str]:
    """The command line that profiles a batch.

    report_path ends in .ncu-rep (ncu adds that itself, and expands ``%`` in the name).
    """
    report = str(report_path).removesuffix(".ncu-rep").replace("%", "%%")
    command = [ncu, "--nvtx", "--nvtx-include", f"{DOMAIN}@{RANGE}/"]
    command += ["--clock-control", clock_control, "--cache-control", cache_control]
    command += ["--metrics", ",".join(metrics)]
    for section in sections:
        command += ["--section", section]
    # The rules (advice) cost time for every kernel and can be run later in Nsight Compute.
    command += ["--apply-rules", "no", "--import-source", "yes"]
    command += ["--force-overwrite", "-o", report]
    command += [python, "-m", "tilewave.gpu.worker", "counters", str(jobs_path)]
    return [*command, "--events", str(events_path), "--cache", str(cache)]


def _die_with_parent() -> None:
    """In the child, before ncu starts: end when the parent does, however that ends (Linux)."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _group_members(group: int) -> list[tuple[int, str]]:
    """Processes of a process group: their ids and command lines."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (OSError, ValueError):
            continue
        if len(state) > 2 and int(state[2]) == group and state[0] != "Z":
            members.append((int(entry.name), line.strip()))
    return members


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _end_worker(process: subprocess.Popen[bytes]) -> None:
    """End what ncu profiles, so that ncu writes what it has; end ncu where it does not."""
    for identity, line in _group_members(process.pid):
        # ncu's own command line has the worker's at its end.
        if "tilewave.gpu.worker" in line and "--nvtx-include" not in line:
            try:
                os.kill(identity, signal.SIGKILL)
            except ProcessLookupError:
                continue
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        _kill_group(process)


def run_ncu(
    command: Sequence[str],
    log_path: Path,
    limit_s: float,
    on_progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Run ncu in a process group of its own, its output in ``log_path`` (appended).

    The group ends with this process, and at ``limit_s`` seconds. ``on_progress`` gets the number of
    kernels profiled so far.
    """
    library = str(Path(__file__).resolve().parents[2])
    before = os.environ.get("PYTHONPATH")
    environ = {**os.environ, "PYTHONPATH": f"{library}:{before}" if before else library}
    log_path.parent.mkdir(parents=True, exist_ok=True)
    outcome = Outcome()
    with open(log_path, "ab") as log:
        begin = log.tell()
        log.write((" ".join(command) + "\n").encode())
        log.flush()
        try:
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environ,
                process_group=0,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
            )
        except OSError as error:
            return Outcome(log=f"==ERROR== {error}", code=127)
        end = time.monotonic() + limit_s
        try:
            while True:
                try:
                    outcome.code = process.wait(0.5)
                    break
                except subprocess.TimeoutExpired:
                    pass
                if on_progress is not None:
                    on_progress(_log(log_path, begin).count("==PROF== Profiling"))
                if time.monotonic() > end:
                    outcome.timed_out = True
                    _end_worker(process)
                    outcome.code = process.returncode
                    break
        finally:
            # An interrupt must not leave a profiler behind; a worker that outlived ncu goes too.
            if process.poll() is None or _group_members(process.pid):
                _kill_group(process)
    outcome.log = _log(log_path, begin)
    outcome.unknown = unknown_metrics(outcome.log)
    return outcome


def _log(path: Path, begin: int) -> str:
    with open(path, "rb") as log:
        log.seek(begin)
        return log.read().decode(errors="replace")


def unknown_metrics(log: str) -> list[str]:
    """Metrics that ncu says it cannot find."""
    names = [name.replace("\\", "").rstrip(".") for name in UNKNOWN_METRIC.findall(log)]
    return list(dict.fromkeys(names))


def explain(outcome: Outcome, limit_s: float) -> str:
    """Why a case is missing from ncu's report, and what the user can do about it."""
    for sign, reason in REASONS[:-1]:
        if sign in outcome.log:
            return reason
    if outcome.timed_out:
        return f"profiling was ended at its limit of {limit_s:g} s before it reached this case"
    if outcome.unknown:
        return f"ncu has no metric {', '.join(outcome.unknown)} for this GPU"
    errors = re.findall(r"^==ERROR== (.+?)\s*$", outcome.log, re.MULTILINE)
    if errors:
        return f"ncu: {errors[-1]}"
    if outcome.code not in (0, None):
        return f"the profiled process ended early (exit code {outcome.code})"
    sign, reason = REASONS[-1]
    return reason if sign in outcome.log else "ncu's report does not hold this case"


# --------------------------------------------------------------------------------- reading a report


def actions_of(report: Any) -> list[Any]:
    """All profiled kernels of an ncu_report context, in the order of their launch."""
    return [report[i][j] for i in range(len(report)) for j in range(report[i].num_actions())]


def case_index(action: Any) -> int | None:
    """Place in the batch of the case that a kernel belongs to, from its NVTX ranges."""
    state = action.nvtx_state()
    if state is None:
        return None
    for identity in state.domains():
        domain = state.domain_by_id(identity)
        if domain is None or domain.name() != CASE_DOMAIN:
            continue
        for name in domain.push_pop_ranges():
            if name.isdigit():
                return int(name)
    return None


def _value(action: Any, name: str) -> Any:
    metric = action.metric_by_name(name)
    if metric is None:
        return None
    try:
        return metric.value()
    except (KeyError, TypeError, RuntimeError):  # a kind that this ncu_report cannot convert
        return None


def grid_of(action: Any) -> tuple[int, int, int] | None:
    """Grid of a profiled launch, None where the report does not tell."""
    sizes = [_value(action, f"launch__grid_dim_{axis}") for axis in "xyz"]
    if not all(catalogue.usable(size) for size in sizes):
        return None
    x, y, z = (int(size) for size in sizes)
    return x, y, z


def mismatch(action: Any, job: Job) -> str:
    """Empty where a profiled kernel is the job's, else what is different."""
    if job["provider"] != "nvrtc":
        return ""
    name = str(action.name())
    if name != job["entry"]:
        return f"the report has the kernel {name} where {job['entry']} was launched"
    grid = grid_of(action)
    if grid is not None and list(grid) != [int(size) for size in job["grid"]]:
        return f"the report has a grid of {list(grid)} where {list(job['grid'])} was launched"
    return ""


def assign(actions: Sequence[Any], jobs: Sequence[Job]) -> dict[int, list[Any]]:
    """Profiled kernels of each job, by the job's place in the batch.

    By the NVTX range of the case. Where a report has no such ranges: in order, one kernel a job,
    and for a library's job all kernels up to the next job's own.
    """
    found: dict[int, list[Any]] = {index: [] for index in range(len(jobs))}
    indices = [case_index(action) for action in actions]
    if any(index is not None for index in indices):
        for action, index in zip(actions, indices, strict=True):
            if index is not None and index in found:
                found[index].append(action)
        return found
    rest = list(actions)
    for index, job in enumerate(jobs):
        if job["provider"] == "nvrtc":
            if rest and not mismatch(rest[0], job):
                found[index].append(rest.pop(0))
            continue
        following = jobs[index + 1] if index + 1 < len(jobs) else None
        while rest:
            ours = following is not None and following["provider"] == "nvrtc"
            if (
                found[index]
                and following is not None
                and (not ours or not mismatch(rest[0], following))
            ):
                break
            found[index].append(rest.pop(0))
    return found


def opcode_of(sass: str) -> str:
    """Opcode with its modifiers out of a line of SASS: ``@!P0 LDS.64 R2, [R4] ;`` -> ``LDS.64``."""
    words = [word for word in sass.replace(";", " ").split() if not word.startswith("@")]
    return words[0].rstrip(",") if words else ""


def _source_texts(action: Any, source: str) -> Callable[[str, int], str]:
    """A function from file and line to the source's text: from the report, else from the disk."""
    lines: dict[str, list[str]] = {}
    try:
        imported = dict(action.source_files())
    except (AttributeError, TypeError, RuntimeError):
        imported = {}

    def text(name: str, line: int) -> str:
        if name not in lines:
            content = imported.get(name) or ""
            if not content and source and Path(name).name == Path(source).name:
                try:
                    content = Path(source).read_text(encoding="utf-8")
                except OSError:
                    content = ""
            lines[name] = content.splitlines()
        return lines[name][line - 1].strip() if 0 < line <= len(lines[name]) else ""

    return text


def instructions_of(action: Any, source: str = "") -> list[dict[str, Any]]:
    """Per-instruction counters of a kernel, by address.

    Rows: address (bytes from the function's first instruction), opcode, sass, line, text, file
    and the columns of `metrics.INSTRUCTION_METRICS`, with ``wavefronts_shared_excess``. Only
    memory, barrier and tensor instructions are kept. Counters that ncu gives no value are left out.
    The ids of the values are absolute addresses; the function starts at the lowest one, because
    every launch executes its first instruction.
    """
    counts: dict[int, dict[str, Any]] = {}
    for name, column in catalogue.INSTRUCTION_METRICS.items():
        metric = action.metric_by_name(name)
        if metric is None or not metric.num_instances():
            continue
        ids = metric.correlation_ids()
        if ids is None:
            continue
        for i in range(metric.num_instances()):
            value = metric.value(i)
            if catalogue.usable(value):
                counts.setdefault(int(ids.as_uint64(i)), {})[column] = int(value)
    if not counts:
        return []
    start = min(counts)
    text = _source_texts(action, source)
    rows = []
    for address in sorted(counts):
        sass = " ".join(str(action.sass_by_pc(address) or "").split()).rstrip(" ;")
        opcode = opcode_of(sass)
        if not KEPT.match(opcode):
            continue
        row: dict[str, Any] = {"address": address - start, "opcode": opcode, "sass": sass}
        place = action.source_info(address)
        if place is not None:
            name, line = str(place.file_name()), int(place.line())
            row |= {"line": line, "text": text(name, line), "file": Path(name).name}
        row |= counts[address]
        if "wavefronts_shared" in row and "wavefronts_shared_ideal" in row:
            excess = row["wavefronts_shared"] - row["wavefronts_shared_ideal"]
            row["wavefronts_shared_excess"] = excess
        rows.append(row)
    return rows


def counters_of(
    actions: Sequence[Any], names: Iterable[str]
) -> tuple[dict[str, float], dict[str, str], list[str]]:
    """Counters of a case: values over its kernels, ncu's units, and the names without a value."""
    values: dict[str, float] = {}
    units: dict[str, str] = {}
    absent = []
    for name in names:
        read = [_value(action, name) for action in actions]
        if not read or not all(catalogue.usable(value) for value in read):
            absent.append(name)
            continue
        values[name] = catalogue.combined(name, [float(value) for value in read])
        known = catalogue.METRICS.get(name)
        units[name] = known.unit if known else str(actions[0].metric_by_name(name).unit() or "")
    return values, units, absent


def _scaled(name: str, value: float, action: Any) -> float:
    """A duration in ns, whatever unit of time the report has it in."""
    if name != "gpu__time_duration.sum":
        return value
    unit = str(action.metric_by_name(name).unit() or "").lower()
    factors = {"usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9}
    return value * factors.get(unit, 1.0)


def result_of(
    job: Job, actions: Sequence[Any], names: Sequence[str], *, environment: str = ""
) -> Result:
    """The result document of a case from its profiled kernels (at least one)."""
    base: dict[str, Any] = {"key": job.get("key", ""), "environment": environment}
    wrong = next((text for text in (mismatch(action, job) for action in actions) if text), "")
    if not wrong and job["provider"] == "nvrtc" and len(actions) > 1:
        wrong = f"the report has {len(actions)} launches where one was made"
    if wrong:
        return result("counters", job["case"], NOT_MEASURED, wrong, **base)
    values, units, absent = counters_of(actions, names)
    if not values:
        reason = "ncu's report has the kernel but a value for none of the metrics"
        return result("counters", job["case"], NOT_MEASURED, reason, **base)
    for name in values:
        values[name] = _scaled(name, values[name], actions[0])
    figures = [catalogue.figure(name, value, units[name]) for name, value in values.items()]
    figures += catalogue.derived(values, str((job.get("dtypes") or {}).get("a", "")))
    rows = [instructions_of(action, str(job.get("source") or "")) for action in actions]
    figures += catalogue.instruction_totals([row for kernel in rows for row in kernel])
    notes: dict[str, Any] = {"kernels": [str(action.name()) for action in actions]}
    optional = {name for name, metric in catalogue.METRICS.items() if metric.optional}
    missing = [name for name in absent if name not in optional]
    if missing:
        notes["absent_metrics"] = missing
    passes = [_value(action, "profiler__replayer_passes") for action in actions]
    if all(catalogue.usable(count) for count in passes):
        notes["passes"] = int(sum(passes))
    ours = job["provider"] == "nvrtc"
    instruction = job.get("instruction")
    if instruction and ours:
        if rows[0]:
            found, note = catalogue.probe_figures(str(instruction), rows[0], values)
            figures += found
            if note:
                notes["probe_instruction"] = note
        else:
            notes["probe_instruction"] = "the report has no per-instruction counters"
    return result(
        "counters",
        job["case"],
        OK,
        source="counters",
        figures=figures,
        instructions=rows[0] if ours else [],
        notes=notes,
        **base,
    )


def parse_report(
    report: Any, jobs: Sequence[Job], names: Sequence[str], *, environment: str = ""
) -> dict[int, Result]:
    """Results of the jobs that an ncu_report context holds, by the job's place in the batch."""
    assigned = assign(actions_of(report), jobs)
    return {
        index: result_of(jobs[index], actions, names, environment=environment)
        for index, actions in assigned.items()
        if actions
    }


def load_report(path: Path) -> Any:
    """Open a .ncu-rep file; needs neither a GPU nor Nsight Compute.

    Raises what ncu_report raises for a file that it cannot read.
    """
    import ncu_report  # type: ignore[import-untyped, unused-ignore]

    return ncu_report.load_report(str(path))


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


def settings_of(
    job: Job, metric_set: str | None, clock_control: str | None, cache_control: str | None
) -> Settings:
    """A job's settings; the arguments stand in for what it does not say itself."""
    names = catalogue.names(metric_set) if metric_set else []
    sections = catalogue.sections(metric_set) if metric_set else []
    return Settings(
        tuple(dict.fromkeys([*names, *(job.get("metrics") or [])])),
        tuple(dict.fromkeys([*sections, *(job.get("sections") or [])])),
        str(clock_control or job.get("clock_control") or "none"),
        str(cache_control or job.get("cache_control") or "all"),
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
    environment: str,
    on_progress: Callable[[int], None] | None,
) -> Session:
    """One session of ncu, repeated without the metrics that ncu refuses."""
    stem = str(report_path).removesuffix(".ncu-rep")
    jobs_path, events_path = Path(f"{stem}.jobs.json"), Path(f"{stem}.events.jsonl")
    jobs_path.write_text(json.dumps([dict(job) for job in jobs]), encoding="utf-8")
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
        outcome = run_ncu(command, log_path, limit_s, on_progress)
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
            found = parse_report(load_report(report_path), jobs, known, environment=environment)
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


def _missing(job: Job, status: str, reason: str, environment: str) -> Result:
    key = str(job.get("key", ""))
    return result("counters", job["case"], status, reason, key=key, environment=environment)


def profile(
    jobs: Sequence[Job],
    *,
    cache: Path,
    report_path: Path,
    log_path: Path,
    clock_control: str | None = None,
    cache_control: str | None = None,
    metric_set: str | None = None,
    ncu: str | None = None,
    limit_s: float | None = None,
    environment: str = "",
    on_result: Callable[[Result], object] | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> list[Result]:
    """Counters of a batch of cases: a result for each job, in the order of the jobs.

    jobs: see `tilewave.gpu.worker`. Jobs with the same metrics, sections, clock and cache control
    (their own, or the arguments') share a session of ncu; a session that a case ended is followed
    by one for the cases behind it. The first writes ``report_path`` (.ncu-rep), the others the same
    name with -part2, -part3, ...; a result's note ``report`` names its file. metric_set: a name in
    `metrics.SETS`, added to the jobs' own metrics. cache: where the list of ncu's metrics is kept,
    handed to the worker as well. ncu: its path (default: found). limit_s: seconds for a session
    (default: the jobs' own limits, and a minute). environment: id for the results. on_result gets
    each result as soon as its session has ended, on_progress the number of kernels profiled.
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
            finish(index, _missing(job, NOT_MEASURED, why, environment))
        return [results[index] for index in range(len(jobs))]
    stem = str(report_path.resolve()).removesuffix(".ncu-rep")
    for path in (Path(stem), log_path.resolve(), cache / "x"):
        path.parent.mkdir(parents=True, exist_ok=True)
    log_path.write_bytes(b"")
    groups: dict[Settings, list[int]] = {}
    for index, job in enumerate(jobs):
        settings = settings_of(job, metric_set, clock_control, cache_control)
        groups.setdefault(settings, []).append(index)
    sessions = 0
    for settings, pending in groups.items():
        while pending:
            sessions += 1
            suffix = "" if sessions == 1 else f"-part{sessions}"
            batch = [jobs[index] for index in pending]
            given = 60 + sum(float(job.get("limit_s") or 20) for job in batch)
            session = _run_session(
                batch,
                settings,
                program,
                cache=cache.resolve(),
                report_path=Path(f"{stem}{suffix}.ncu-rep"),
                log_path=log_path,
                limit_s=given if limit_s is None else limit_s,
                environment=environment,
                on_progress=on_progress,
            )
            events = session.events
            for place, made in session.results.items():
                finish(pending[place], made)
            for place, (status, reason) in events.failures.items():
                if place < len(batch) and pending[place] not in results:
                    failed = _missing(batch[place], status, reason or session.why, environment)
                    finish(pending[place], failed)
            # A case under which the worker ended is not tried again, nor those that ran and left
            # nothing in the report; the ones behind it are, unless none was reached at all.
            reached = set(events.started)
            for place, index in enumerate(pending):
                if index not in results and (place in reached or not reached):
                    finish(index, _missing(jobs[index], NOT_MEASURED, session.why, environment))
            pending = [index for index in pending if index not in results]
            if pending and NO_PERMISSION in session.why:
                for index in pending:
                    finish(index, _missing(jobs[index], NOT_MEASURED, session.why, environment))
                pending = []
    return [results[index] for index in range(len(jobs))]
