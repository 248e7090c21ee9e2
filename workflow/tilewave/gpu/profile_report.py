"""What a report of Nsight Compute holds: its kernels, their counters and their instructions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewave.counters import catalogue
from tilewave.counters.figures import derived, figure
from tilewave.counters.instructions import (
    INSTRUCTION_METRICS,
    KEPT,
    instruction_totals,
    probe_figures,
)
from tilewave.processes import Job, Result
from tilewave.records.model import NOT_MEASURED, OK, result

CASE_DOMAIN = "tilewave-job"
LONGEST_NAME = 400  # of a library's kernel: some have pages of template arguments


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

    @functools.cache
    def imported() -> dict[str, str]:
        try:
            return dict(action.source_files())
        except (AttributeError, TypeError, RuntimeError):
            return {}

    def text(name: str, line: int) -> str:
        if name not in lines:
            content = imported().get(name) or ""
            if not content and source and Path(name).name == Path(source).name:
                try:
                    content = Path(source).read_text(encoding="utf-8")
                except OSError:
                    content = ""
            lines[name] = content.splitlines()
        return lines[name][line - 1].strip() if 0 < line <= len(lines[name]) else ""

    return text


Code = dict[int, dict[str, Any] | None]
"""Of the instructions of one cubin, by their distance from the function's first: opcode, sass and
place in the source; None of an instruction that gets no row."""


def _instruction(
    action: Any, address: int, text: Callable[[str, int], str]
) -> dict[str, Any] | None:
    """What a report tells of an instruction besides its counters; None where it gets no row."""
    sass = " ".join(str(action.sass_by_pc(address) or "").split()).rstrip(" ;")
    opcode = opcode_of(sass)
    if not KEPT.match(opcode):
        return None
    told: dict[str, Any] = {"opcode": opcode, "sass": sass}
    place = action.source_info(address)
    if place is not None:
        name, line = str(place.file_name()), int(place.line())
        told |= {"line": line, "text": text(name, line), "file": Path(name).name}
    return told


def _values_by_address(action: Any) -> dict[str, tuple[Any, dict[int, int]]]:
    """By column of `INSTRUCTION_METRICS`: the metric, and which of its values each address has."""
    found = {}
    for name, column in INSTRUCTION_METRICS.items():
        metric = action.metric_by_name(name)
        if metric is None or not metric.num_instances():
            continue
        ids = metric.correlation_ids()
        if ids is not None:
            places = {int(ids.as_uint64(i)): i for i in range(metric.num_instances())}
            found[column] = (metric, places)
    return found


def instructions_of(
    action: Any, source: str = "", code: Code | None = None
) -> list[dict[str, Any]]:
    """Per-instruction counters of a kernel, by address.

    Rows: address (bytes from the function's first instruction), opcode, sass, line, text, file
    and the columns of `INSTRUCTION_METRICS`, with ``wavefronts_shared_excess``. Only
    memory, barrier and tensor instructions are kept. Counters that ncu gives no value are left out.
    The ids of the values are absolute addresses; the function starts at the lowest one, because
    every launch executes its first instruction.

    code: what earlier launches of the same cubin told of its instructions; what this one tells is
    added. ncu_report disassembles for every question (0.12 ms an instruction, nine tenths of the
    whole), so each is asked once, and values are read of the kept ones alone.
    """
    metrics = _values_by_address(action)

    def counters(address: int) -> dict[str, int]:
        row = {}
        for column, (metric, places) in metrics.items():
            if address in places and catalogue.usable(value := metric.value(places[address])):
                row[column] = int(value)
        return row

    addresses = sorted(set().union(*(places for _, places in metrics.values())))
    start = next((address for address in addresses if counters(address)), None)
    if start is None:
        return []
    code = {} if code is None else code
    text = _source_texts(action, source)
    rows = []
    for address in addresses[addresses.index(start) :]:
        offset = address - start
        if offset in code and code[offset] is None:
            continue
        found = counters(address)
        if not found:
            continue
        if offset not in code:
            code[offset] = _instruction(action, address, text)
        told = code[offset]
        if told is None:
            continue
        row: dict[str, Any] = {"address": offset, **told, **found}
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


def _kernel_name(action: Any, ours: bool) -> str:
    """A kernel's name; of a library's the demangled one, whose template arguments tell the tile
    where the function's own name is ``Kernel2``."""
    if not ours:
        try:
            from ncu_report import IAction

            return str(action.name(IAction.NameBase_DEMANGLED))[:LONGEST_NAME]
        except (ImportError, TypeError):
            pass
    return str(action.name())


def result_of(
    job: Job, actions: Sequence[Any], names: Sequence[str], code: Code | None = None
) -> Result:
    """The result document of a case from its profiled kernels (at least one).

    code: see `instructions_of`; of a library's kernels nothing is known beforehand.
    """
    base: dict[str, Any] = {"key": job.get("key", "")}
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
    figures = [figure(name, value, units[name]) for name, value in values.items()]
    figures += derived(values, str((job.get("dtypes") or {}).get("a", "")))
    ours = job["provider"] == "nvrtc"
    source = str(job.get("source") or "")
    rows = [instructions_of(action, source, code if ours else None) for action in actions]
    figures += instruction_totals([row for kernel in rows for row in kernel])
    notes: dict[str, Any] = {"kernels": [_kernel_name(action, ours) for action in actions]}
    optional = {name for name, metric in catalogue.METRICS.items() if metric.optional}
    missing = [name for name in absent if name not in optional]
    if missing:
        notes["absent_metrics"] = missing
    passes = [_value(action, "profiler__replayer_passes") for action in actions]
    if all(catalogue.usable(count) for count in passes):
        notes["passes"] = int(sum(passes))
    instruction = job.get("instruction")
    if instruction and ours:
        if rows[0]:
            found, note = probe_figures(str(instruction), rows[0], values)
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
    report: Any,
    jobs: Sequence[Job],
    names: Sequence[Sequence[str]],
    places: Iterable[int] | None = None,
) -> Iterator[tuple[int, Result]]:
    """Results of the jobs that an ncu_report context holds, each with its job's place in the batch.

    names: metrics of each job. places: of the jobs that are asked for (default: all).
    """
    assigned = assign(actions_of(report), jobs)
    codes: dict[str, Code] = {}  # by cubin
    for index in range(len(jobs)) if places is None else places:
        if assigned[index]:
            cubin = jobs[index].get("cubin")
            code = codes.setdefault(str(cubin), {}) if cubin else None
            yield index, result_of(jobs[index], assigned[index], names[index], code)


def load_report(path: Path) -> Any:
    """Open a .ncu-rep file; needs neither a GPU nor Nsight Compute.

    Raises what ncu_report raises for a file that it cannot read.
    """
    import ncu_report  # type: ignore[import-untyped, unused-ignore]

    return ncu_report.load_report(str(path))
