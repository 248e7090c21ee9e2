"""Rungs of a ladder, for all figures with a row a rung: their order, and the choice of those that are drawn."""

from __future__ import annotations

from typing import Annotated

import pandas as pd
from pydantic import Field

from tilewave.plots import base
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.options import Name, PlotOptions


class Runged(PlotOptions):
    """The option of plots that draw the main rungs alone."""

    rungs: dict[Name, Annotated[tuple[Name, ...], Field(max_length=9)]] = Field(
        {},
        description="the rungs to draw by dtype, at most nine, by their names in the figure. A dtype without an "
        "entry has all rungs. The table always has all",
    )


def drawn(study: StudyData, rows: pd.DataFrame) -> pd.Series[bool]:
    """Return whether each row (columns kernel, variant, dtype) is drawn: rungs of the option, and cuBLAS."""
    rungs, vendors = Runged.of(study).rungs, base.vendors(study)

    def wanted(row: pd.Series[str]) -> bool:
        name = base.variant_label(row, row["dtype"]).replace("\n", " ")
        return row["kernel"] in vendors or name in rungs.get(row["dtype"], (name,))

    return pd.Series([wanted(row) for _, row in rows.iterrows()], rows.index, dtype=bool)


def order(cases: pd.DataFrame) -> list[str]:
    """Return the kernels in the order of the ladder: each behind the one that it follows, branch by branch.
    cuBLAS, which follows none, is last."""
    kernels = [str(name) for name in cases["kernel"].drop_duplicates()]
    pairs = cases.drop_duplicates("kernel")
    before = dict(zip(pairs["kernel"].astype(str), pairs.get("follows", pairs["kernel"])))
    climbed: list[str] = []

    def climb(kernel: str) -> None:
        if kernel not in climbed:
            climbed.append(kernel)
            for follower in kernels:
                if before[follower] == kernel:
                    climb(follower)

    for kernel in kernels:
        if before[kernel] not in kernels and kernel != BASELINE:
            climb(kernel)
    return [*climbed, *(name for name in kernels if name not in climbed)]


def in_order(study: StudyData) -> pd.DataFrame:
    """Return the cases by dtype and rung, each variant's sizes from small to large."""
    cases = study.cases
    if cases.empty:
        return cases
    dtypes, rungs = base.dtypes_in_order(study), order(cases)
    variants = [str(name) for name in cases["variant"].drop_duplicates()]
    keys = pd.DataFrame(
        {
            "dtype": cases["dtype"].map(lambda d: dtypes.index(str(d)) if base.present(d) else -1),
            "rung": cases["kernel"].map(rungs.index),
            "variant": cases["variant"].map(variants.index),
            "work": base.flops(study).to_numpy(),
        },
        index=cases.index,
    )
    return cases.loc[keys.sort_values(list(keys.columns), kind="stable").index]
