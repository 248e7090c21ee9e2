"""The order in which the rungs of a ladder stand, for all figures that have a row a rung."""

from __future__ import annotations

import pandas as pd

from tilewave.plots import base
from tilewave.plots.base import BASELINE, StudyData


def order(cases: pd.DataFrame) -> list[str]:
    """The kernels as the ladder is climbed: each behind the one that it follows, with all that
    follow it, before the next that follows the same; cuBLAS, which follows none, last."""
    kernels = [str(name) for name in cases["kernel"].drop_duplicates()]
    pairs = cases.drop_duplicates("kernel")
    before = dict(zip(pairs["kernel"].astype(str), pairs.get("follows", pairs["kernel"])))
    found: list[str] = []

    def climb(kernel: str) -> None:
        if kernel not in found:
            found.append(kernel)
            for other in kernels:
                if before[other] == kernel:
                    climb(other)

    for kernel in kernels:
        if before[kernel] not in kernels and kernel != BASELINE:
            climb(kernel)
    return [*found, *(name for name in kernels if name not in found)]


def in_order(study: StudyData) -> pd.DataFrame:
    """The cases by dtype and rung, each variant's sizes from small to large."""
    cases = study.cases
    if cases.empty:
        return cases
    dtypes, rungs = base.dtypes_in_order(study), order(cases)
    variants = [str(name) for name in cases["variant"].drop_duplicates()]
    place = pd.DataFrame(
        {
            "dtype": cases["dtype"].map(lambda d: dtypes.index(str(d)) if base.present(d) else -1),
            "rung": cases["kernel"].map(rungs.index),
            "variant": cases["variant"].map(variants.index),
            "work": base.flops(study).to_numpy(),
        },
        index=cases.index,
    )
    return cases.loc[place.sort_values(list(place.columns), kind="stable").index]
