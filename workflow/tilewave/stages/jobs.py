"""From cases to jobs: everything one measurement needs, or the result that says why there is none."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewave import architectures, execution, operations
from tilewave.cases import Case, Request, wants
from tilewave.config import Config
from tilewave.dtypes import has_fp8
from tilewave.execution import cost
from tilewave.jobs import Job, Timing
from tilewave.kernels import operation_code
from tilewave.records import model
from tilewave.records.keys import key as content_key
from tilewave.stages.resolving import Resolved, probe_of, resolve


@dataclass(frozen=True)
class Planned:
    """A case of a stage: a job to run, a result that is known without running, or, as long as its
    variant is not compiled, only the stage that it waits for."""

    case: Case
    job: Job | None
    result: dict[str, Any] | None
    waits_for: str = ""


# A check runs a product twice (with and without beta), a timing at least warm-up and three samples.
LEAST_RUNS = {"check": 2, "time": 4, "tune": 4, "counters": 1, "sample": 1}


def too_dear(resolved: Resolved, job: Job) -> str:
    """Empty where a job may be begun; else why its predicted time is too long.

    On a GPU: of the stage's fewest runs, at the `flop_rate` that the front matter is sure of.
    """
    limit = f"case_limit_s = {job.limit_s:g} s"
    rate = resolved.case.variant.kernel.front.flop_rate
    if job.stage == "execute":
        seconds = cost.predicted_s(job, resolved.work.get("flop", 0))
        if seconds > job.limit_s:
            return f"executing it takes {seconds:.0f} s at least, and execute: {limit}"
    elif rate is not None:
        work = operations.work(job)
        seconds = LEAST_RUNS[job.stage] * work.flops / rate
        if seconds > job.limit_s:
            return f"predicted cost {seconds:.0f} s exceeds {limit}"
    return ""


@functools.lru_cache(maxsize=64)
def _counted(
    stage: str, sets: frozenset[str], fp8: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Metrics and sections that a stage asks Nsight Compute for; fp8: of a product of FP8."""
    from tilewave.counters import catalogue

    if stage == model.SAMPLE:
        return catalogue.SAMPLED, catalogue.SAMPLED_SECTIONS
    if stage != "counters":
        return (), ()
    names, sections = catalogue.merged(sorted(sets), fp8)
    return tuple(names), tuple(sections)


def _limit_s(stage: str, config: Config) -> float:
    limits = {
        "execute": config.execute.case_limit_s,
        "check": config.check.case_limit_s,
        "counters": config.counters.case_limit_s,
        model.SAMPLE: config.counters.case_limit_s,
    }
    return limits.get(stage, config.timing.case_limit_s)


def _known(stage: str, case: Case, status: str, reason: str) -> Planned:
    return Planned(case, None, model.result(stage, case.id, status, reason))


def _without_code(
    compiled: Mapping[str, Mapping[str, Any] | None], arch: str
) -> tuple[str, str] | None:
    """Status and reason where a variant has no code, and none is to be expected, that could run."""
    if arch not in compiled:
        return model.NOT_MEASURED, f"architectures leaves out {arch}, the target's"
    entry = compiled[arch]
    if entry is None or "code" in entry:
        return None
    return entry["status"], entry["reason"]


def of_case(
    stage: str,
    resolved: Resolved,
    compiled: Mapping[str, Mapping[str, Any] | None],
    arch: str,
    config: Config,
) -> Planned:
    """What a stage does for a case: a job with its key, the result that is known without one, or
    neither where that is not known before its variant was compiled.

    compiled: what is known of its variant by architecture, None where it is yet to be compiled;
    arch: the target's (``sm_90``).
    """
    case, launch = resolved.case, resolved.launch
    variant, kernel = case.variant, case.variant.kernel
    refusal = resolved.refusal or _without_code(compiled, arch)
    if refusal is not None:
        return _known(stage, case, *refusal)
    assert launch is not None
    entry = compiled[arch] or {}
    symbols = entry.get("symbols", {kernel.entry: entry.get("symbol", kernel.entry)})
    if kernel.provider == "nvrtc":
        entries = [name for name, _ in kernel.launches]
        device = {"arch": architectures.number(arch)}
        beyond = launch.beyond_code(entry.get("resources", {}), entries, device)
        # Recorded ones were looked at when they were compiled; stores of before have `waits`, of a whole cubin.
        waiting = entry.get("waiting", symbols.values() if entry.get("waits", True) else ())
        early = [name for name, symbol in symbols.items() if symbol not in waiting]
        if launch.programmatic and early:
            told = ", ".join(early)
            beyond = f"programmatic: {told} never waits for the launch before (griddepcontrol.wait)"
        if beyond:
            return _known(stage, case, model.UNSUPPORTED, beyond)
    named = kernel.front.cases.get(case.probe_case or "")
    operation = operations.load(kernel.front.operation, kernel.path)
    limit_s = _limit_s(stage, config)
    if named is not None and named.limit_s is not None:
        limit_s = min(limit_s, named.limit_s)
    without = kernel.provider == "nvrtc" and "cubin" not in entry
    counted = _counted(stage, frozenset(resolved.request.counters), has_fp8(variant.dtypes))
    if launch.series:
        named_by_code = (
            replace(one, entry=symbols.get(one.entry, one.entry)) for one in launch.series
        )
        launch = replace(launch, series=tuple(named_by_code))
    job = Job(
        stage=stage,
        case=case.id,
        kernel=kernel.name,
        variant=variant.id,
        provider=kernel.provider,
        operation=kernel.front.operation,
        operation_code=operation_code(kernel.front.operation),
        source=_source(kernel.path),
        entry=entry.get("symbol", kernel.entry),
        arguments=resolved.arguments,
        shape=resolved.shape,
        strides=variant.strides(resolved.shape),
        dtypes=variant.dtypes,
        layouts=variant.layouts if operation.laid_out else {},
        seed=config.seed,
        launch=launch,
        limit_s=limit_s,
        cubin=entry.get("cubin") or "",
        no_cubin=entry.get("reason", "") if without else "",
        probe=probe_of(case),
        device=resolved.device,
        instruction=None if named is None else named.instruction,
        timing=Timing(config.timing.block_ms, config.timing.rounds),
        baseline=bool(operation.vendor) and stage == "time",
        reads_c=kernel.front.reads_c,
        work=resolved.work if stage == "time" else {},
        metrics=counted[0],
        sections=counted[1],
        clock_control=config.counters.clock_control,
        cache_control=config.counters.cache_control,
        include=tuple(map(_source, kernel.folders[1:])),
        versions=tuple(execution.version()) if stage == "execute" else (),
    )
    dear = too_dear(resolved, job)
    if dear:
        return _known(stage, case, model.NOT_MEASURED, dear)
    if not entry:
        return Planned(case, None, None, stage)
    code = entry["code"]
    return Planned(case, replace(job, key=content_key(code, job), code=code), None)


@functools.lru_cache(maxsize=1024)
def _source(path: Path) -> str:
    return str(path.resolve())


def of_stage(
    stage: str,
    resolved: Iterable[Resolved],
    compiled: Mapping[str, Mapping[str, Mapping[str, Any] | None]],
    arch: str,
    config: Config,
) -> Iterator[Planned]:
    """What a stage does for those of the cases that it has anything to do for, in their order.

    compiled: by variant and architecture, as in `of_case`.
    """
    for one in resolved:
        if wants(stage, one.request):
            yield of_case(stage, one, compiled[one.case.variant.id], arch, config)


def plan(
    stage: str,
    requests: Iterable[Request],
    compiled: Mapping[str, Any],
    target: Mapping[str, Any],
    config: Config,
) -> Iterator[Planned]:
    """The same for requests that are not resolved yet, as one command has them.

    compiled: ``arch`` and ``variants``.
    """
    resolved = (resolve(one, target) for one in requests)
    return of_stage(stage, resolved, compiled["variants"], compiled["arch"], config)
