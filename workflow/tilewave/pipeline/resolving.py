"""What is known of a case once the target is: its sizes, its launch, or why it cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel import result
from tilewave.kernel.expressions import ExpressionError, evaluate, names_in
from tilewave.kernel.job import Probe, ProbeBuffer
from tilewave.kernel.operations import probe
from tilewave.kernel.variants import DEVICE_NAMES
from tilewave.pipeline.cases import Case


def probe_of(case: Case) -> Probe | None:
    """Buffers and values of a probe's case, as a job has them; None for a product."""
    front = case.variant.kernel.front
    if case.probe_case is None:
        return None
    own = front.cases[case.probe_case]
    buffers = {
        name: ProbeBuffer(one.dtype, one.size, one.expect, one.report)
        for name, one in front.buffers.items()
    }
    return Probe(buffers, own.macros, own.values, own.sizes, own.scalars)


def _asked_device(case: Case, device: Mapping[str, Any]) -> dict[str, Any]:
    """What of the device a kernel's arguments ask for, and a probe's buffers, scalars and work; part of
    its key."""
    front, asked = case.variant.kernel.front, case.variant.device_of_arguments
    if case.probe_case is not None:
        own, work = front.cases[case.probe_case], front.work
        texts: list[Any] = [*own.values.values(), *own.sizes.values(), *own.scalars.values()]
        texts += [text for one in front.buffers.values() for text in (one.size, one.expect)]
        texts += [work.flop, work.byte] if work else []
        asked |= {name for text in texts for name in names_in(text)} & set(DEVICE_NAMES)
    return {name: device[name] for name in sorted(asked) if name in device}


def _work(case: Case, device: Mapping[str, Any]) -> dict[str, float]:
    """Operations and bytes of one launch of a probe, as its front matter counts them.

    Raises UserError where an expression has no value.
    """
    front, about = case.variant.kernel.front, probe_of(case)
    if front.work is None or about is None:
        return {}
    names = probe.launch_names(about, device, case.variant.names)
    found = {}
    for key, text in (("flop", front.work.flop), ("byte", front.work.byte)):
        if text is None:
            continue
        try:
            found[key] = float(evaluate(text, names))
        except (ExpressionError, TypeError, ValueError) as error:
            raise UserError(case.variant.kernel.path, f"work.{key}", text, str(error)) from error
    return {key: amount for key, amount in found.items() if amount > 0}


def resolve(case: Case, target: Mapping[str, Any]) -> Case:
    """The case for a target (its ``device`` and ``arch``). One whose front matter has expressions without a
    value at this shape is *failed to launch*."""
    try:
        return _resolve(case, target)
    except (UserError, ExpressionError) as error:
        return replace(case, refusal=(result.FAILED_TO_LAUNCH, str(error)))


def _resolve(case: Case, target: Mapping[str, Any]) -> Case:
    variant, known = case.variant, target["device"]
    device = {**known, "arch": target["arch"]}
    try:
        sizes = {} if case.shape is None else case.shape.resolve(known)
    except ExpressionError as error:
        why = "on this device" if "sms" in known else "without a GPU"
        reason = f"the shape is not known {why}: {error}"
        return replace(case, refusal=(result.NOT_MEASURED, reason))
    unsupported = variant.supports(sizes, device)
    if unsupported:
        return replace(case, sizes=sizes, refusal=(result.UNSUPPORTED, unsupported))
    missing = variant.unknown_device(known)
    if missing:
        reason = f"the launch is not known without a GPU: it asks for {missing}"
        return replace(case, sizes=sizes, refusal=(result.NOT_MEASURED, reason))
    launch = variant.plan(sizes, known)
    variant.strides(sizes)
    beyond = launch.exceeded_limit(device) if case.kernel.provider == "nvrtc" else ""
    asked = _asked_device(case, known)
    return replace(
        case,
        sizes=sizes,
        refusal=(result.UNSUPPORTED, beyond) if beyond else None,
        launch=launch,
        arguments=variant.arguments(sizes, asked),
        device=asked,
        work=_work(case, asked),
    )
