"""Stage sample: which case of each kernel is sampled by instruction, with the rules of Nsight Compute.

One a kernel: samples say where warps wait, which another shape or macro hardly moves, and ncu runs a
launch dozens of times for its rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilewave.cases import wants
from tilewave.records import model
from tilewave.stages.resolving import Resolved


def chosen(resolved: Iterable[Resolved]) -> list[Resolved]:
    """Of each own product the case with the most work of its first variant whose instructions are
    counted: that of which its page shows source and machine code. Counters of other cases, and whether
    there is a GPU, change nothing of it.
    """
    found: dict[str, Resolved] = {}
    for one in resolved:
        if one.refusal is not None or not wants(model.SAMPLE, one.request):
            continue
        variant = one.case.variant
        first = found.setdefault(variant.kernel.name, one)
        larger = math.prod(one.shape.values()) > math.prod(first.shape.values())
        if variant.id == first.case.variant.id and larger:
            found[variant.kernel.name] = one
    return list(found.values())
