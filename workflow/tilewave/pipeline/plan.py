"""The plan as a document: every case, resolved once for the target, for all later stages, tables and pages."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.basics.validation import of_document
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.launches import Argument, LaunchPlan
from tilewave.kernel.variants import Variant
from tilewave.pipeline.cases import Case, Plan
from tilewave.pipeline.resolving import resolve
from tilewave.pipeline.shapes import Shape
from tilewave.records.store import write_atomically

CONVERTED = ("variant", "shape", "studies", "counters", "refusal", "launch", "arguments")
PLAIN = tuple(field.name for field in fields(Case) if field.name not in CONVERTED)
"""Fields that JSON holds as they are."""


def resolved(plan: Plan, target: Mapping[str, Any]) -> Plan:
    cases = {name: resolve(case, target) for name, case in plan.cases.items()}
    return Plan(cases, plan.studies)


def _document(case: Case) -> dict[str, Any]:
    shape, counters = case.shape and case.shape.dimensions, sorted(case.counters)
    written = {field.name: getattr(case, field.name) for field in fields(Case)}
    return written | {"variant": case.variant.id, "shape": shape, "counters": counters}


def write(
    path: Path, plan: Plan, left_out: Mapping[str, str], no_kernels: Mapping[str, str]
) -> None:
    """Write a resolved plan as JSON, with the skipped files (see `Project`)."""
    variants = {
        name: {"kernel": variant.kernel.name, "macros": variant.macros}
        for name, variant in plan.variants.items()
    }
    cases = {name: _document(case) for name, case in plan.cases.items()}
    document = {"variants": variants, "cases": cases, "studies": plan.studies}
    document |= {"left_out": left_out, "no_kernels": no_kernels}
    write_atomically(path, json.dumps(document, default=vars, separators=(",", ":")).encode())


def _case(variant: Variant, document: Mapping[str, Any]) -> Case:
    shape, launch, refusal = document["shape"], document["launch"], document["refusal"]
    return Case(
        variant=variant,
        shape=None if shape is None else Shape(tuple((name, size) for name, size in shape)),
        studies=tuple(document["studies"]),
        counters=frozenset(document["counters"]),
        refusal=None if refusal is None else (refusal[0], refusal[1]),
        launch=None if launch is None else of_document(LaunchPlan, launch),
        arguments=of_document(tuple[Argument, ...], document["arguments"]),
        **{name: document[name] for name in PLAIN},
    )


def read(path: Path, kernels: Mapping[str, Kernel]) -> tuple[Plan, dict[str, str], dict[str, str]]:
    """Return the plan of a run, and its skipped files. Raises UserError if the file of a planned kernel is gone."""
    document = json.loads(path.read_bytes())
    variants = {}
    for name, entry in document["variants"].items():
        if entry["kernel"] not in kernels:
            problem = f"the file of kernel {entry['kernel']} is gone"
            raise UserError.because(path, problem, "Run again to plan without it", "kernel")
        macros = tuple((macro, value) for macro, value in entry["macros"])
        variants[name] = Variant(kernels[entry["kernel"]], macros)
    cases = {name: _case(variants[row["variant"]], row) for name, row in document["cases"].items()}
    return Plan(cases, document["studies"]), document["left_out"], document["no_kernels"]
