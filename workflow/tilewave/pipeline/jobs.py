"""From cases to jobs: all that one measurement needs, or the result that says why there is none."""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tilewave import execution
from tilewave.execution import cost
from tilewave.kernel import operations, result
from tilewave.kernel.digests import operation_code
from tilewave.kernel.job import BlockTiming, Job
from tilewave.kernel.result import Result
from tilewave.pipeline.cases import Builds, Case, wants
from tilewave.pipeline.config import Config
from tilewave.pipeline.resolving import probe_of
from tilewave.records.counters import catalogue
from tilewave.records.keys import key as content_key
from tilewave.theory import architectures
from tilewave.theory.dtypes import has_fp8

# A check runs a product twice (with and without beta), a timing at least warm-up and three samples.
LEAST_RUNS = {"check": 2, "time": 4, "tune": 4, "counters": 1, "sample": 1}


def over_limit(case: Case, job: Job) -> str:
    """Return why a job's predicted time (on a GPU: of the stage's fewest runs) is over its limit, empty if not."""
    seconds, room, rate = 0.0, "", case.kernel.front.flop_rate
    if job.stage == "execute":
        seconds, room = cost.predicted_s(job, case.work.get("flop", 0)), "execute: "
    elif rate is not None:
        seconds = LEAST_RUNS[job.stage] * operations.work(job).flops / rate
    if seconds <= job.limit_s:
        return ""
    return f"predicted cost {seconds:.0f} s exceeds {room}case_limit_s = {job.limit_s:g} s"


@functools.lru_cache(maxsize=64)
def _counted(
    stage: str, sets: frozenset[str], fp8: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the metrics and sections that a stage asks Nsight Compute for."""
    if stage == result.SAMPLE:
        return catalogue.SAMPLED, catalogue.SAMPLED_SECTIONS
    if stage != "counters":
        return (), ()
    names, sections = catalogue.merged(sorted(sets), fp8)
    return tuple(names), tuple(sections)


def of_case(stage: str, case: Case, compiled: Builds, arch: str, config: Config) -> Job | Result:
    """Return a stage's job for a resolved case with its key, or the result if there is nothing to run.
    compiled: its variant's entries, by architecture. arch: the target's."""
    launch, variant, kernel = case.launch, case.variant, case.kernel
    entry, refusal = compiled.get(arch) or {}, case.refusal
    if refusal is None and "code" not in entry:  # it could not run, and there will be none
        why = "its variant was not compiled"
        if arch not in compiled:
            why = f"`architectures` lacks {arch}, the target's"
        refusal = entry.get("status", result.NOT_MEASURED), entry.get("reason", why)
    if refusal is not None:
        return Result(stage, case.id, *refusal)
    assert launch is not None
    symbols = entry.get("symbols", {kernel.entry: entry.get("symbol", kernel.entry)})
    if kernel.provider == "nvrtc":
        entries = [name for name, _ in kernel.launches]
        device = {"arch": architectures.number(arch)}
        reason = launch.exceeded_code_limit(entry.get("resources", {}), entries, device)
        # Recorded entries were checked when they were compiled.
        waiting = entry.get("waiting", symbols.values())
        early = ", ".join(name for name, symbol in symbols.items() if symbol not in waiting)
        if launch.programmatic and early:
            waits = "never waits for the launch before (griddepcontrol.wait)"
            reason = f"programmatic: {early} {waits}"
        if launch.cooperative and stage == result.EXECUTE:
            reason = "cooperative: only a GPU runs a launch with grid.sync()"
        if reason:
            return Result(stage, case.id, result.UNSUPPORTED, reason)
    named = kernel.front.cases.get(case.probe_case or "")
    operation = operations.load(kernel.front.operation, kernel.path)
    limits = {"execute": config.execute.case_limit_s, "check": config.check.case_limit_s}
    limits |= dict.fromkeys(("counters", result.SAMPLE), config.counters.case_limit_s)
    limit_s = limits.get(stage, config.timing.case_limit_s)
    if named is not None and named.limit_s is not None:
        limit_s = min(limit_s, named.limit_s)
    no_cubin = kernel.provider == "nvrtc" and "cubin" not in entry
    counted = _counted(stage, case.counters, has_fp8(variant.dtypes))
    if launch.series:
        steps = (replace(step, entry=symbols.get(step.entry, step.entry)) for step in launch.series)
        launch = replace(launch, series=tuple(steps))
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
        arguments=case.arguments,
        shape=case.sizes,
        strides=variant.strides(case.sizes),
        dtypes=variant.dtypes,
        layouts=variant.layouts if operation.laid_out else {},
        seed=config.seed,
        launch=launch,
        limit_s=limit_s,
        cubin=entry.get("cubin") or "",
        no_cubin=entry.get("reason", "") if no_cubin else "",
        probe=probe_of(case),
        device=case.device,
        instruction=None if named is None else named.instruction,
        timing=BlockTiming(config.timing.block_ms, config.timing.rounds),
        baseline=bool(operation.vendor) and stage == "time",
        reads_c=kernel.front.reads_c,
        work=case.work if stage == "time" else {},
        metrics=counted[0],
        sections=counted[1],
        clock_control=config.counters.clock_control,
        cache_control=config.counters.cache_control,
        include=tuple(map(_source, kernel.folders[1:])),
        versions=tuple(execution.version()) if stage == "execute" else (),
    )
    over = over_limit(case, job)
    if over:
        return Result(stage, case.id, result.NOT_MEASURED, over)
    code = entry["code"]
    return replace(job, key=content_key(code, job), code=code)


@functools.lru_cache(maxsize=1024)
def _source(path: Path) -> str:
    return str(path.resolve())


def of_stage(
    stage: str, cases: Iterable[Case], compiled: Mapping[str, Builds], arch: str, config: Config
) -> dict[str, Job | Result]:
    """Return a stage's jobs and results by case, in their order; cases without work are skipped."""
    some = (case for case in cases if wants(stage, case))
    return {case.id: of_case(stage, case, compiled[case.variant.id], arch, config) for case in some}
