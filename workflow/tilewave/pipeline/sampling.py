"""Stage sample: which case of each kernel is sampled by instruction, with the rules of Nsight Compute.

One a kernel: samples say where warps wait, which another shape or macro hardly moves, and ncu runs a
launch dozens of times for its rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilewave.kernel import result
from tilewave.pipeline.cases import Case, wants


def chosen(cases: Iterable[Case]) -> list[Case]:
    """Of each own product the case with the most work of its first variant whose instructions are
    counted: that of which its page shows source and machine code. Counters of other cases, and whether
    there is a GPU, change nothing of it.
    """
    found: dict[str, Case] = {}
    for case in cases:
        if case.refusal is not None or not wants(result.SAMPLE, case):
            continue
        first = found.setdefault(case.kernel.name, case)
        larger = math.prod(case.sizes.values()) > math.prod(first.sizes.values())
        if case.variant.id == first.variant.id and larger:
            found[case.kernel.name] = case
    return list(found.values())
