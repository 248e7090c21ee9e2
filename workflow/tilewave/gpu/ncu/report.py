"""A report of Nsight Compute: its kernels and their counters."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tilewave.gpu.blocks import CASES
from tilewave.gpu.ncu import samples as profile_samples
from tilewave.gpu.ncu.idle import idle
from tilewave.gpu.ncu.instructions import Code, instructions_of, value_of
from tilewave.kernel.job import Job
from tilewave.kernel.result import NOT_MEASURED, SAMPLE, SOURCES, Result
from tilewave.records.counters import catalogue
from tilewave.records.counters.figures import derived, figure
from tilewave.records.counters.instructions import instruction_totals, of_launches, probe_figures

LONGEST_NAME = 400  # some kernels of libraries have pages of template arguments


def case_of(action: Any) -> str:
    """Return the case of a kernel, from its NVTX ranges; empty if it has none."""
    state = action.nvtx_state()
    if state is None:
        return ""
    for identity in state.domains():
        domain = state.domain_by_id(identity)
        if domain is not None and domain.name() == CASES:
            return str(next(iter(domain.push_pop_ranges()), ""))
    return ""


def _name(action: Any, base: str) -> str:
    """Return a kernel's MANGLED or DEMANGLED name; empty if ncu_report has none."""
    try:
        from ncu_report import IAction

        return str(action.name(getattr(IAction, f"NameBase_{base}")))
    except (ImportError, TypeError):
        return ""


def _names(action: Any) -> list[str]:
    """Return a kernel's names: as reported, without template arguments, mangled and demangled."""
    function = str(action.name())
    mangled = [_name(action, form) for form in ("MANGLED", "DEMANGLED")]
    names = [function, function.partition("<")[0], *mangled]
    return list(dict.fromkeys(filter(None, names)))


def mismatch(action: Any, job: Job) -> str:
    names = _names(action)
    # Without a mangled name from ncu, the entry of a kernel that is not extern "C" must contain its name.
    mangled = job.entry.startswith("_Z")
    if job.entry not in names and not (mangled and any(f"{len(n)}{n}" in job.entry for n in names)):
        return f"the report has the kernel {names[0]} where {job.entry} was launched"
    grid = [value_of(action, f"launch__grid_dim_{axis}") for axis in "xyz"]
    if all(map(catalogue.usable, grid)) and grid != list(job.launch.grid):
        has = list(map(int, grid))
        return f"the report has a grid of {has} where {list(job.launch.grid)} was launched"
    return ""


def assign(actions: Sequence[Any], jobs: Sequence[Job]) -> dict[int, list[Any]]:
    """Return the profiled kernels of each job by its index in the batch, from their NVTX ranges."""
    by_case: dict[str, list[Any]] = {}
    for action in actions:
        by_case.setdefault(case_of(action), []).append(action)
    return {index: by_case.get(job.case, []) for index, job in enumerate(jobs)}


def counters_of(
    actions: Sequence[Any], names: Iterable[str], leading: int | None = None
) -> tuple[dict[str, float], dict[str, str], list[str]]:
    """Return a case's counters: values over its kernels, ncu's units, and names without a value, except for
    those that a series cannot combine. leading: the index of its leading kernel."""
    values: dict[str, float] = {}
    units: dict[str, str] = {}
    absent = []
    for name in names:
        read = [value_of(action, name) for action in actions]
        if not read or not all(catalogue.usable(value) for value in read):
            absent.append(name)
            continue
        if leading is not None and catalogue.single_launch(name):
            continue
        values[name] = catalogue.combined(name, [float(value) for value in read], leading)
        metric = catalogue.METRICS.get(name)
        units[name] = metric.unit if metric else str(actions[0].metric_by_name(name).unit() or "")
    return values, units, absent


def scaled(name: str, value: float, action: Any) -> float:
    """Return a duration in ns, whatever its unit in the report; other values stay the same."""
    if name != "gpu__time_duration.sum":
        return value
    unit = str(action.metric_by_name(name).unit() or "").lower()
    factors = {"usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9}
    return value * factors.get(unit, 1.0)


def _kernel_name(action: Any, ours: bool) -> str:
    """Return a kernel's name; for a library's kernel the demangled one, whose template arguments contain the tile."""
    demangled = "" if ours else _name(action, "DEMANGLED")
    return demangled[:LONGEST_NAME] or str(action.name())


def _sampled(job: Job, actions: Sequence[Any]) -> Result:
    """Return the result of a sampled case: samples of all launches."""
    every = map(profile_samples.samples_of, actions)
    sampled = [samples for samples in every if samples is not None]
    if len(sampled) < len(actions):
        reason = "ncu's report has the kernel, but no stall samples of it"
        return Result.of_job(job, NOT_MEASURED, reason)
    rows = of_launches([step.entry for step in job.steps], sampled)
    notes: dict[str, Any] = {"kernels": [_kernel_name(action, ours=True) for action in actions]}
    figures, source = profile_samples.totals(rows), SOURCES[SAMPLE]
    return Result.of_job(job, source=source, figures=figures, instructions=rows, notes=notes)


def _unlike(actions: Sequence[Any], job: Job) -> str:
    """Return the difference between profiled kernels and the job's launches, empty if there is none."""
    steps = job.steps
    difference = next(filter(None, map(mismatch, actions, steps)), "")
    if not difference and len(actions) != len(steps):
        profiled = "1 launch" if len(actions) == 1 else f"{len(actions)} launches"
        difference = f"the report has {profiled}, the job has {len(steps)}"
    return difference


def result_of(
    job: Job, actions: Sequence[Any], names: Sequence[str], codes: dict[str, Code] | None = None
) -> Result:
    """Return the result of a case from its profiled kernels (at least one).
    codes: known instructions of its cubin, by function; none for a library's kernels."""
    ours = job.provider == "nvrtc"
    if ours and (wrong := _unlike(actions, job)):
        return Result.of_job(job, NOT_MEASURED, wrong)
    if job.stage == SAMPLE:
        return _sampled(job, actions)
    leading = job.leading if ours and len(actions) > 1 else None
    values, units, absent = counters_of(actions, catalogue.of_launches(names), leading)
    if not values:
        reason = "ncu's report has the kernel, but no value of any metric"
        return Result.of_job(job, NOT_MEASURED, reason)
    for name in values:
        values[name] = scaled(name, values[name], actions[0])
    figures = [figure(name, value, units[name]) for name, value in values.items()]
    zero = dict.fromkeys(idle(job).difference(values), 0.0)
    figures += derived(values | zero, job.dtypes.get("a", ""))
    codes = {} if codes is None or not ours else codes
    functions = [step.entry for step in job.steps] if ours else list(map(str, range(len(actions))))
    each = [
        instructions_of(action, codes.setdefault(function, {}))
        for action, function in zip(actions, functions, strict=True)
    ]
    rows = of_launches(functions, each)
    figures += instruction_totals(rows)
    notes: dict[str, Any] = {"kernels": [_kernel_name(action, ours) for action in actions]}
    missing = [name for name in absent if name not in catalogue.OPTIONAL]
    if missing:
        notes["absent_metrics"] = missing
    if job.instruction and ours:
        figures += probe_figures(job.instruction, rows, values)
    rows = rows if ours else []
    return Result.of_job(job, source="counters", figures=figures, instructions=rows, notes=notes)


def parse_report(
    report: Any,
    jobs: Sequence[Job],
    names: Sequence[Sequence[str]],
    places: Iterable[int] | None = None,
) -> Iterator[tuple[int, Result]]:
    """Yield the results in an ncu_report context, each with its job's index in the batch.
    names: metrics of each job. places: indices of the wanted jobs (default: all)."""
    launched = [report[i][j] for i in range(len(report)) for j in range(report[i].num_actions())]
    assigned = assign(launched, jobs)
    codes: dict[str, dict[str, Code]] = {}  # by cubin and function
    for index in range(len(jobs)) if places is None else places:
        if assigned[index]:
            cubin = jobs[index].cubin
            code = codes.setdefault(cubin, {}) if cubin else None
            yield index, result_of(jobs[index], assigned[index], names[index], code)


def load_report(path: Path) -> Any:
    import ncu_report  # type: ignore[import-untyped, unused-ignore]

    return ncu_report.load_report(str(path))
