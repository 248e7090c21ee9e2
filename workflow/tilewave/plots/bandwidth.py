"""Bandwidth: kernels that move data rather than compute, beside a copy.

A kernel's bandwidth is that of the bytes that it must move at least, each input read once and each output
written once: what it moves besides makes it slower, and counts for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from pydantic import Field

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.options import PlotOptions, Word
from tilewave.plots.style import GREY, INK, Style

READING = (
    "A bar is a kernel's rate for the bytes that its operation must move at least; longer is better. "
    "The line is the rate of the copy, the most that memory gives. Behind a bar: its share of the "
    "copy, and how many more wavefronts its accesses to shared memory take than their data need."
)


class Options(PlotOptions):
    """What the studies of this plot may set."""

    reference: Word = Field("copy", description="operation whose best rate is the line")


_RATE, _SHARE = "bandwidth (TB/s)", "share of the copy (%)"
_EXCESS = "excess wavefronts (%)"


def table(study: StudyData) -> pd.DataFrame:
    """One row a case: the rate, its share of the copy's, excess wavefronts, the duration."""
    frame = study.cases.reindex(columns=["case", "operation"])
    frame["shape"] = [base.shape_label(row) for row in study.cases.to_dict("records")]
    good = study.cases["case"].isin(base.ranking(study))
    rate = frame["case"].map(base.value_of(study, "bandwidth")).where(good)
    frame[_RATE] = rate
    best = rate[frame["operation"] == Options.of(study).reference].max()
    frame[_SHARE] = 100 * rate / best
    frame[_EXCESS] = frame["case"].map(base.excess_percent(study.instructions))
    frame["duration (us)"] = frame["case"].map(base.value_of(study, "duration"))
    rest = base.base_table(study).reset_index(drop=True)
    kept = ["kernel", "variant", "dtype", "verdict", "status", "reason", "source"]
    frame = frame.join(rest[kept])
    # The operations as the config has them, of each the slowest first.
    place = {name: at for at, name in enumerate(dict.fromkeys(frame["operation"]))}
    order = frame.assign(place=frame["operation"].map(place)).sort_values(["place", _RATE])
    return frame.loc[order.index].reset_index(drop=True)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """The best of each operation, and the kernel that is farthest from the copy."""
    others = table[(table["operation"] != "copy") & table[_SHARE].notna()]
    if others.empty:
        return ""
    best = others.loc[others.groupby("operation", sort=False)[_SHARE].idxmax()]
    told = [f"{row['operation']} {row[_SHARE]:.0f} %" for row in best.to_dict("records")]
    last = others.loc[others[_SHARE].idxmin()]
    return (
        f"Of a copy's bandwidth the best kernels reach: {', '.join(told)}; the slowest, "
        f"{last['variant']}, {last[_SHARE]:.0f} %"
    )


def _size(shape: str) -> str:
    """Sizes as they are, of an array its elements in short."""
    return shape if "×" in shape else f"{base.compact(float(shape))} elements"


def _told(row: Mapping[str, Any]) -> str:
    """What stands behind a bar."""
    if not base.present(row[_RATE]):
        return str(row["status"] if row["status"] != "ok" else "no rate")
    told = f"{row[_RATE]:.2f}"
    if base.present(row[_SHARE]):
        told += f"  ({row[_SHARE]:.0f} %)"
    if base.present(row[_EXCESS]) and row[_EXCESS]:
        told += f"  excess {row[_EXCESS]:.0f} %"
    return told


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A bar a variant, in the order of the operations; the line is the copy."""
    with look.apply(style):
        if table[_RATE].isna().all():
            return look.empty_figure(study, style, "bandwidth")
        fig = look.new_figure(style, len(table) * 4.5 + 13)
        ax = fig.subplots()
        rows = table.assign(row=[f"{place}" for place in range(len(table))])
        kinds = list(dict.fromkeys(rows["operation"]))
        sns.barplot(
            rows, x=_RATE, y="row", hue="operation", hue_order=kinds, dodge=False, ax=ax, width=0.7,
            palette=sns.color_palette("colorblind", len(kinds)), saturation=1, legend=False,
        )  # fmt: skip
        most = float(rows[_RATE].max())
        copied = rows.loc[rows["operation"] == Options.of(study).reference, _RATE].max()
        if base.present(copied):
            ax.axvline(float(copied), color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
        for place, row in enumerate(rows.to_dict("records")):
            known = base.present(row[_RATE])
            ax.annotate(
                _told(row), (max(row[_RATE], 0) if known else 0, place), xytext=(4, 0),
                textcoords="offset points", va="center", ha="left", size=style.small,
                color=INK if known else GREY,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
            )  # fmt: skip
        ax.set_xlim(0, most * (1.75 if style.narrow else 1.4))
        ax.set(xlabel="compulsory bytes by time (TB/s)", ylabel="")
        look.rows_axis(
            ax, [f"{row['variant']}  {_size(row['shape'])}" for row in rows.to_dict("records")]
        )
        look.grid(ax, "x")
        return look.finish(fig, study, style, *look.entries([ax]))
