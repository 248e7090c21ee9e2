"""Cases resolved for a target: sizes, launch, or why a case cannot run."""

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
    """Return buffers and values of a probe's case, as a job has them; None for a product."""
    front = case.variant.kernel.front
    if case.probe_case is None:
        return None
    named = front.cases[case.probe_case]
    buffers = {
        name: ProbeBuffer(buffer.dtype, buffer.size, buffer.expect, buffer.report)
        for name, buffer in front.buffers.items()
    }
    return Probe(buffers, named.macros, named.values, named.sizes, named.scalars)


def _needed_device(case: Case, device: Mapping[str, Any]) -> dict[str, Any]:
    """Return the device facts that a kernel's arguments, or a probe's expressions, use; the key has them."""
    front, names = case.variant.kernel.front, case.variant.device_of_arguments
    if case.probe_case is not None:
        named, work = front.cases[case.probe_case], front.work
        texts: list[Any] = [*named.values.values(), *named.sizes.values(), *named.scalars.values()]
        for buffer in front.buffers.values():
            texts += [buffer.size, buffer.expect]
        texts += [work.flop, work.byte] if work else []
        names |= {name for text in texts for name in names_in(text)} & set(DEVICE_NAMES)
    return {name: device[name] for name in sorted(names) if name in device}


def _work(case: Case, device: Mapping[str, Any]) -> dict[str, float]:
    """Return operations and bytes of one launch of a probe, as its front matter counts them. Raises UserError."""
    front, about = case.variant.kernel.front, probe_of(case)
    if front.work is None or about is None:
        return {}
    names = probe.launch_names(about, device, case.variant.names)
    amounts = {}
    for key, text in (("flop", front.work.flop), ("byte", front.work.byte)):
        if text is None:
            continue
        try:
            amounts[key] = float(evaluate(text, names))
        except (ExpressionError, TypeError, ValueError) as error:
            remedy = "Use numbers and names that the front matter defines"
            problem, path = f"work.{key}: {error}", case.kernel.path
            raise UserError.because(path, problem, remedy, f"work.{key}") from error
    return {key: amount for key, amount in amounts.items() if amount > 0}


def resolve(case: Case, target: Mapping[str, Any]) -> Case:
    """Return the case for a target (its ``device`` and ``arch``).
    A case with an expression that has no value at its shape is *failed to launch*."""
    try:
        return _resolve(case, target)
    except (UserError, ExpressionError) as error:
        return replace(case, refusal=(result.FAILED_TO_LAUNCH, str(error)))


def _resolve(case: Case, target: Mapping[str, Any]) -> Case:
    variant, facts = case.variant, target["device"]
    device = {**facts, "arch": target["arch"]}
    try:
        sizes = {} if case.shape is None else case.shape.resolve(facts)
    except ExpressionError as error:
        situation = "on this device" if "sms" in facts else "without a GPU"
        reason = f"the shape is not known {situation}: {error}"
        return replace(case, refusal=(result.NOT_MEASURED, reason))
    unsupported = variant.supports(sizes, device)
    if unsupported:
        return replace(case, sizes=sizes, refusal=(result.UNSUPPORTED, unsupported))
    missing = variant.unknown_device(facts)
    if missing:
        reason = f"the launch is not known without a GPU: it asks for {missing}"
        return replace(case, sizes=sizes, refusal=(result.NOT_MEASURED, reason))
    launch = variant.plan(sizes, facts)
    variant.strides(sizes)
    problem = launch.exceeded_limit(device) if case.kernel.provider == "nvrtc" else ""
    needed = _needed_device(case, facts)
    return replace(
        case,
        sizes=sizes,
        refusal=(result.UNSUPPORTED, problem) if problem else None,
        launch=launch,
        arguments=variant.arguments(sizes, needed),
        device=needed,
        work=_work(case, needed),
    )
