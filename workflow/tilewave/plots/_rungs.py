"""Rungs of a ladder, for all figures with one row per rung: their order, and the choice of those that are drawn."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
from pydantic import Field

from tilewave.plots import base
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.options import Name, Named

MOST = 8
"""The most rungs of a dtype in a figure."""


class Rungs(Named):
    """The options of plots that draw some rungs of some dtypes."""

    dtypes: tuple[Name, ...] = Field(
        (), max_length=4, description="the dtypes to draw, in this order. The table always has all"
    )
    variants: tuple[Name, ...] = Field(
        (),
        max_length=99,
        description=f"the variants to draw, in this order, at most {MOST} of a dtype",
    )


def drawn(study: StudyData, rows: pd.DataFrame, dtypes: int, vendors: bool = False) -> pd.DataFrame:
    """Return the rows that are drawn, by dtype and variant, with their `label`: those of the options, by
    default the first rungs of as many dtypes. vendors: whether cuBLAS is drawn, after the others."""
    options, of_vendor = Rungs.of(study), rows["kernel"].isin(base.vendors(study))
    wanted = options.dtypes or tuple(dict.fromkeys(rows["dtype"].dropna()))[:dtypes]
    kept = []
    for dtype in wanted:
        part = rows[rows["dtype"] == dtype]
        rungs = part.loc[~of_vendor, "variant"].drop_duplicates()
        named = [name for name in options.variants if name in set(rungs)] or list(rungs)
        beside = part.loc[of_vendor, "variant"].drop_duplicates() if vendors else ()
        order = [*named[:MOST], *beside]
        chosen = part[part["variant"].isin(order)]
        at = chosen["variant"].map(order.index).sort_values(kind="stable").index
        labels = [base.plain_label(study, row) for row in chosen.to_dict("records")]
        kept.append(chosen.assign(label=labels).loc[at])
    return pd.concat(kept) if kept else rows.iloc[:0].assign(label="")


def part_of(study: StudyData, rows: pd.DataFrame, more: pd.Series[bool] | None = None) -> StudyData:
    """Return the study with a caption's cases: of the drawn dtypes and the named variants. more: others to keep."""
    cases, named = study.cases, Rungs.of(study).variants
    kept = cases["dtype"].isin(rows["dtype"])
    if named:
        kept &= cases["variant"].isin([*named, *rows["variant"]])
    return replace(study, cases=cases[kept if more is None else kept | more])


def order(cases: pd.DataFrame) -> list[str]:
    """Return the kernels in the ladder's order: each behind the one it follows, branch by branch, cuBLAS last."""
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
    cases, dtypes, rungs = study.cases, base.dtypes_in_order(study), order(study.cases)
    variants = [str(name) for name in cases["variant"].drop_duplicates()]
    keys = pd.DataFrame(
        {
            "dtype": [dtypes.index(str(d)) if base.present(d) else -1 for d in cases["dtype"]],
            "rung": [rungs.index(kernel) for kernel in cases["kernel"]],
            "variant": [variants.index(variant) for variant in cases["variant"]],
            "work": base.flops(study).to_list(),
        }
    )
    return cases.iloc[keys.sort_values(list(keys), kind="stable").index]
