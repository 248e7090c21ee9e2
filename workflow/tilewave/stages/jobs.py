"""From cases to jobs: everything one measurement needs, or the result that says why there is none."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave import execution, operations
from tilewave.cases import Case, Request, wants
from tilewave.config import Config
from tilewave.execution import cost
from tilewave.records import model
from tilewave.records.keys import key as content_key
from tilewave.stages.resolving import Resolved, probe_document, resolve


@dataclass(frozen=True)
class Planned:
    """A case of a stage: a job to run, a result that is known without running, or, as long as its
    variant is not compiled, only the stage that it waits for."""

    case: Case
    job: dict[str, Any] | None
    result: dict[str, Any] | None
    waits_for: str = ""


# A check runs a product twice (with and without beta), a timing at least warm-up and three samples.
LEAST_RUNS = {"check": 2, "time": 4, "tune": 4, "counters": 1}


def predicted_s(stage: str, case: Case, shape: dict[str, int]) -> float | None:
    """Seconds that a stage's fewest runs take at the `flop_rate` that the front matter is sure of.

    None where it names no rate.
    """
    front = case.variant.kernel.front
    if front.flop_rate is None:
        return None
    work = operations.load(front.operation).work(shape, case.variant.dtypes)
    return float(LEAST_RUNS[stage] * work.flops / front.flop_rate)


def too_dear(stage: str, resolved: Resolved, job: Mapping[str, Any]) -> str:
    """Empty where a job may be begun; else why its predicted time is too long."""
    limit = f"case_limit_s = {job['limit_s']:g} s"
    if stage == "execute":
        seconds = cost.predicted_s(job, resolved.work.get("flop", 0))
        if seconds > job["limit_s"]:
            return f"executing it takes {seconds:.0f} s at least, and execute: {limit}"
        return ""
    known = predicted_s(stage, resolved.case, job["shape"])
    if known is not None and known > job["limit_s"]:
        return f"predicted cost {known:.0f} s exceeds {limit}"
    return ""


@functools.lru_cache(maxsize=64)
def _counted(sets: tuple[str, ...]) -> tuple[list[str], list[str]]:
    from tilewave.counters import catalogue as metrics

    return metrics.merged(list(sets))


def _stage_parts(stage: str, request: Request, config: Config) -> dict[str, Any]:
    if stage == "execute":
        return {"limit_s": config.execute.case_limit_s, "versions": execution.version()}
    if stage == "check":
        return {"limit_s": config.check.case_limit_s}
    if stage == "tune":
        return {
            "limit_s": config.timing.case_limit_s,
            "timing": {"block_ms": config.timing.block_ms, "rounds": config.timing.rounds},
        }
    if stage == "time":
        timing = config.timing
        return {
            "limit_s": timing.case_limit_s,
            "baseline": request.case.variant.kernel.front.operation == "matmul",
            "timing": {"block_ms": timing.block_ms, "rounds": timing.rounds},
        }
    names, sections = _counted(tuple(sorted(request.counters)))
    return {
        "limit_s": config.counters.case_limit_s,
        "metrics": names,
        "sections": sections,
        "clock_control": config.counters.clock_control,
        "cache_control": config.counters.cache_control,
    }


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
    request, case = resolved.request, resolved.case
    variant, kernel, launch = case.variant, case.variant.kernel, resolved.launch
    refusal = resolved.refusal or _without_code(compiled, arch)
    if refusal is not None:
        return _known(stage, case, *refusal)
    assert launch is not None
    entry = compiled[arch] or {}
    job: dict[str, Any] = {
        "case": case.id,
        "kernel": kernel.name,
        "variant": variant.id,
        "stage": stage,
        "provider": kernel.provider,
        "operation": kernel.front.operation,
        "cubin": entry.get("cubin"),
        "source": _source(kernel.path),
        "entry": entry.get("symbol", kernel.entry),
        "grid": list(launch.grid),
        "block": list(launch.block),
        "shared_bytes": launch.shared_bytes,
        "cluster": list(launch.cluster) if launch.cluster else None,
        "arguments": list(kernel.front.arguments),
        "shape": dict(resolved.shape),
        "dtypes": variant.dtypes,
        "layouts": variant.layouts if kernel.front.operation == "matmul" else {},
        "probe": probe_document(case),
        "seed": config.seed,
        "working_blocks": launch.working_blocks,
        "scratch": [vars(one) for one in launch.scratch],
        **_stage_parts(stage, request, config),
    }
    if resolved.device:
        job["device"] = dict(resolved.device)
    if launch.tensor_maps:
        job["tensor_maps"] = {one.name: one.document() for one in launch.tensor_maps}
    if stage == "time":
        job["work"] = dict(resolved.work)
    probe_case = kernel.front.cases.get(case.probe_case or "")
    if probe_case is not None:
        job["instruction"] = probe_case.instruction
        if probe_case.limit_s is not None:
            job["limit_s"] = min(job["limit_s"], probe_case.limit_s)
    dear = too_dear(stage, resolved, job)
    if dear:
        return _known(stage, case, model.NOT_MEASURED, dear)
    if not entry:
        return Planned(case, None, None, stage)
    if kernel.provider == "nvrtc" and "cubin" not in entry:
        job["no_cubin"] = entry["reason"]
    job["key"] = content_key(stage, entry["code"], job)
    return Planned(case, job, None)


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
