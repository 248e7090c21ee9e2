"""Stage sample: the one case of each kernel that Nsight Compute samples by instruction, with its rules.

One case is enough: samples show where warps wait, which shape and macros hardly change, and ncu runs a
launch dozens of times for its rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tilewave.kernel import result
from tilewave.pipeline.cases import Case, wants


def chosen(cases: Iterable[Case]) -> list[Case]:
    """Return each kernel's largest case of its first variant with counted instructions, which its page shows."""
    by_kernel: dict[str, Case] = {}
    for case in cases:
        if case.refusal is not None or not wants(result.SAMPLE, case):
            continue
        first = by_kernel.setdefault(case.kernel.name, case)
        larger = math.prod(case.sizes.values()) > math.prod(first.sizes.values())
        if case.variant.id == first.variant.id and larger:
            by_kernel[case.kernel.name] = case
    return list(by_kernel.values())
