"""From cases to jobs: everything one measurement needs, or the result that says why there is none."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tilewave import execution, operations
from tilewave.cases import Case, Request, wants
from tilewave.config import Config
from tilewave.errors import UserError
from tilewave.execution import cost
from tilewave.expressions import ExpressionError, evaluate, names_in
from tilewave.operations import probe
from tilewave.records import model
from tilewave.records.keys import key as content_key
from tilewave.variants import DEVICE_NAMES


@dataclass(frozen=True)
class Planned:
    """A case of a stage: a job to run, or a result that is known without running."""

    case: Case
    job: dict[str, Any] | None
    result: dict[str, Any] | None


def _shape(case: Case, device: dict[str, Any]) -> dict[str, int]:
    return {} if case.shape is None else case.shape.resolve(device)


def _probe(case: Case) -> dict[str, Any] | None:
    front = case.variant.kernel.front
    if case.probe_case is None:
        return None
    # What only products have is left out: it would be part of every probe's key.
    buffers = {name: one.model_dump(exclude={"zeroed"}) for name, one in front.buffers.items()}
    kept = {"macros", "values", "sizes", "scalars"}
    return {
        "buffers": buffers,
        "case": front.cases[case.probe_case].model_dump(include=kept),
    }


def _asked_device(case: Case, device: Mapping[str, Any]) -> dict[str, Any]:
    """What of the device a probe's buffers, scalars and work ask for; part of its key."""
    front = case.variant.kernel.front
    if case.probe_case is None:
        return {}
    own, work = front.cases[case.probe_case], front.work
    texts: list[Any] = [*own.values.values(), *own.sizes.values(), *own.scalars.values()]
    texts += [text for buffer in front.buffers.values() for text in (buffer.size, buffer.expect)]
    texts += [work.flop, work.byte] if work else []
    asked = {name for text in texts for name in names_in(text)} & set(DEVICE_NAMES)
    return {name: device[name] for name in sorted(asked) if name in device}


def _work(job: Mapping[str, Any], case: Case) -> dict[str, float]:
    """Operations and bytes of one launch of a probe, as its front matter counts them.

    Raises UserError where an expression has no value.
    """
    front = case.variant.kernel.front
    if front.work is None or job["operation"] != "probe":
        return {}
    names = probe.launch_names({**job, "macros": case.variant.names})
    found = {}
    for key, text in (("flop", front.work.flop), ("byte", front.work.byte)):
        if text is None:
            continue
        try:
            found[key] = float(evaluate(text, names))
        except (ExpressionError, TypeError, ValueError) as error:
            raise UserError(case.variant.kernel.path, f"work.{key}", text, str(error)) from error
    return {key: amount for key, amount in found.items() if amount > 0}


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


def too_dear(stage: str, case: Case, job: dict[str, Any]) -> str:
    """Empty where a job may be begun; else why its predicted time is too long."""
    limit = f"case_limit_s = {job['limit_s']:g} s"
    if stage == "execute":
        seconds = cost.predicted_s(job, _work(job, case).get("flop", 0))
        if seconds > job["limit_s"]:
            return f"executing it takes {seconds:.0f} s at least, and execute: {limit}"
        return ""
    known = predicted_s(stage, case, job["shape"])
    if known is not None and known > job["limit_s"]:
        return f"predicted cost {known:.0f} s exceeds {limit}"
    return ""


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
    from tilewave.counters import catalogue as metrics

    names, sections = metrics.merged(sorted(request.counters))
    return {
        "limit_s": config.counters.case_limit_s,
        "metrics": names,
        "sections": sections,
        "clock_control": config.counters.clock_control,
        "cache_control": config.counters.cache_control,
    }


def _known(stage: str, case: Case, status: str, reason: str) -> Planned:
    return Planned(case, None, model.result(stage, case.id, status, reason))


def plan(
    stage: str,
    requests: list[Request],
    compiled: dict[str, Any],
    target: dict[str, Any],
    config: Config,
) -> Iterator[Planned]:
    """Jobs of one kernel's cases for a stage, in config order."""
    for request in requests:
        if not wants(stage, request):
            continue
        case = request.case
        variant = case.variant
        kernel = variant.kernel
        known = functools.partial(_known, stage, case)
        device = {**target["device"], "arch": target["arch"]}
        try:
            shape = _shape(case, target["device"])
        except ExpressionError as error:
            device_known = "sms" in target["device"]
            why = "on this device" if device_known else "without a GPU"
            yield known(model.NOT_MEASURED, f"the shape is not known {why}: {error}")
            continue
        unsupported = variant.supports(shape, device)
        if unsupported:
            yield known(model.UNSUPPORTED, unsupported)
            continue
        entry = compiled["variants"][variant.id].get(compiled["arch"])
        if entry is None:
            reason = f"architectures leaves out {compiled['arch']}, the target's"
            yield known(model.NOT_MEASURED, reason)
            continue
        if entry["status"] == model.FAILED_TO_COMPILE:
            yield known(model.FAILED_TO_COMPILE, entry["reason"])
            continue
        if "code" not in entry:
            yield known(model.NOT_MEASURED, entry["reason"])
            continue
        if stage == "execute" and "cubin" not in entry:
            yield known(model.NOT_MEASURED, entry["reason"])
            continue
        missing = variant.unknown_device(target["device"])
        if missing:
            reason = f"the launch is not known without a GPU: it asks for {missing}"
            yield known(model.NOT_MEASURED, reason)
            continue
        launch = variant.plan(shape, target["device"])
        if kernel.provider == "nvrtc" and launch.beyond(device):
            yield known(model.UNSUPPORTED, launch.beyond(device))
            continue
        job: dict[str, Any] = {
            "case": case.id,
            "kernel": kernel.name,
            "variant": variant.id,
            "stage": stage,
            "provider": kernel.provider,
            "operation": kernel.front.operation,
            "cubin": entry.get("cubin"),
            "source": str(kernel.path.resolve()),
            "entry": entry.get("symbol", kernel.entry),
            "grid": list(launch.grid),
            "block": list(launch.block),
            "shared_bytes": launch.shared_bytes,
            "cluster": list(launch.cluster) if launch.cluster else None,
            "arguments": list(kernel.front.arguments),
            "shape": shape,
            "dtypes": variant.dtypes,
            "layouts": variant.layouts if kernel.front.operation == "matmul" else {},
            "probe": _probe(case),
            "seed": config.seed,
            "working_blocks": launch.working_blocks,
            "scratch": [vars(one) for one in launch.scratch],
            **_stage_parts(stage, request, config),
        }
        asked = _asked_device(case, target["device"])
        if asked:
            job["device"] = asked
        if launch.tensor_maps:
            job["tensor_maps"] = {one.name: one.document() for one in launch.tensor_maps}
        if stage == "time":
            job["work"] = _work(job, case)
        probe_case = kernel.front.cases.get(case.probe_case or "")
        if probe_case is not None:
            job["instruction"] = probe_case.instruction
            if probe_case.limit_s is not None:
                job["limit_s"] = min(job["limit_s"], probe_case.limit_s)
        dear = too_dear(stage, case, job)
        if dear:
            yield known(model.NOT_MEASURED, dear)
            continue
        job["key"] = content_key(stage, entry["code"], job)
        yield Planned(case, job, None)
