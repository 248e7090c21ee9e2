"""What is known of a case once the target is: its sizes, its launch, or why it cannot run.

Derived once for each plan and target, by whoever comes first (the Snakefile, as a rule), and kept in
the store under its content; every stage and the tables read it from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from functools import cached_property
from typing import Any

from tilewave.cases import Case, Plan, Request
from tilewave.errors import UserError
from tilewave.expressions import ExpressionError, evaluate, names_in
from tilewave.jobs import Probe, ProbeBuffer
from tilewave.launches import Argument, LaunchPlan
from tilewave.operations import probe
from tilewave.records import model
from tilewave.records.keys import digest
from tilewave.records.store import Store
from tilewave.variants import DEVICE_NAMES

VERSION = 1
"""Raised when the same plan and target resolve to something else."""


@dataclass(frozen=True)
class Resolved:
    """A case for one target.

    refusal: status and reason where it cannot run, whatever its code is. launch: None where the
    shape, or the device that its geometry asks for, is not known. device: what of the device
    arguments, or a probe's expressions, ask for. work: operations and bytes of a probe's launch, where counted.
    """

    request: Request
    shape: Mapping[str, int] = field(default_factory=dict)
    refusal: tuple[str, str] | None = None
    launch: LaunchPlan | None = None
    device: Mapping[str, Any] = field(default_factory=dict)
    work: Mapping[str, float] = field(default_factory=dict)

    @property
    def case(self) -> Case:
        return self.request.case

    @cached_property
    def arguments(self) -> tuple[Argument, ...]:
        """Of the launch that leads; every stage's job has them."""
        return self.case.variant.arguments(self.shape, self.device)


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


def resolve(request: Request, target: Mapping[str, Any]) -> Resolved:
    """A case for a target (its ``device`` and ``arch``). One whose front matter has expressions without a
    value at this shape is *failed to launch*."""
    try:
        return _resolve(request, target)
    except (UserError, ExpressionError) as error:
        return Resolved(request, refusal=(model.FAILED_TO_LAUNCH, str(error)))


def _resolve(request: Request, target: Mapping[str, Any]) -> Resolved:
    case, known = request.case, target["device"]
    variant = case.variant
    device = {**known, "arch": target["arch"]}
    try:
        shape = {} if case.shape is None else case.shape.resolve(known)
    except ExpressionError as error:
        why = "on this device" if "sms" in known else "without a GPU"
        reason = f"the shape is not known {why}: {error}"
        return Resolved(request, refusal=(model.NOT_MEASURED, reason))
    unsupported = variant.supports(shape, device)
    if unsupported:
        return Resolved(request, shape, (model.UNSUPPORTED, unsupported))
    missing = variant.unknown_device(known)
    if missing:
        reason = f"the launch is not known without a GPU: it asks for {missing}"
        return Resolved(request, shape, (model.NOT_MEASURED, reason))
    launch = variant.plan(shape, known)
    variant.strides(shape)
    refusal = None
    if variant.kernel.provider == "nvrtc" and (beyond := launch.beyond(device)):
        refusal = (model.UNSUPPORTED, beyond)
    asked = _asked_device(case, known)
    return Resolved(request, shape, refusal, launch, asked, _work(case, asked))


# ----------------------------------------------------------------------------------- kept in the store


def _plain(value: Any) -> Any:
    """A launch as JSON has it; `dataclasses.asdict` also copies every number."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return {k: _plain(v) for k, v in vars(value).items()} if is_dataclass(value) else value


def _document(one: Resolved) -> dict[str, Any]:
    """A resolved case as JSON, without the request that the plan has."""
    rest = {name: getattr(one, name) for name in ("shape", "refusal", "device", "work")}
    return rest | {"launch": _plain(one.launch)}


def _of_document(request: Request, document: Mapping[str, Any]) -> Resolved:
    refusal, launch = document["refusal"], document["launch"]
    return Resolved(
        request,
        document["shape"],
        None if refusal is None else (refusal[0], refusal[1]),
        None if launch is None else LaunchPlan.of_document(launch),
        document["device"],
        document["work"],
    )


def _key(plan: Plan, target: Mapping[str, Any]) -> str:
    """Everything that decides how the cases of a plan resolve."""
    kernels = {r.case.variant.kernel.name: r.case.variant.kernel for r in plan.requests.values()}
    return digest(
        {
            "version": VERSION,
            "cases": list(plan.requests),
            "front": {name: one.front.model_dump_json() for name, one in kernels.items()},
            "device": target["device"],
            "arch": target["arch"],
        }
    )


def of_plan(plan: Plan, target: Mapping[str, Any], store: Store) -> dict[str, Resolved]:
    """All cases of a plan for the target, by id, in the plan's order."""
    path = store.blob("resolved", _key(plan, target), ".json")
    documents = store.read(path)
    try:
        return {
            case: _of_document(request, documents[case]) for case, request in plan.requests.items()
        }
    except (AttributeError, KeyError, TypeError, ValueError):  # not there, or of another form
        pass
    found = {case: resolve(request, target) for case, request in plan.requests.items()}
    store.write(path, {case: _document(one) for case, one in found.items()})
    return found
