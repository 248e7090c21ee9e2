"""Ladder: share of cuBLAS of the chosen rungs at a small and at a large size, one panel per dtype, at most two.

The table has all rungs and sizes. Rungs stand in the order of `follows`. Kernel and cuBLAS are timed in turn, some
launches each; a share is the median over these pairs (`pipeline.tables.paired_shares`). The table also has the counted
FLOPs divided by 2 m n k: over 1, a rung does needless work. It ends with the times in ms of a lecture's comparison
(docs/origins.md, option `lecture`).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import BaseModel, ConfigDict, Field

from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import dot_handles, dots, rows_mm
from tilewave.plots._rungs import Rungs, drawn, in_order, part_of
from tilewave.plots.base import StudyData
from tilewave.plots.options import Count, Name
from tilewave.plots.style import DTYPES, INK, PALETTE, Style

HEADLINE = True
"""The report opens with this study's finding."""


class Lecture(BaseModel):
    """The variants and sizes in the table of times of the lecture on matrix multiplication (docs/origins.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rows: dict[Name, Name] = Field(max_length=100)
    sizes: tuple[Count, ...] = Field(max_length=100)


class Options(Rungs):
    """The options of the ladder."""

    lecture: Lecture | None = Field(
        None, description="table of times in ms: variants by the labels of its rows, and sizes N"
    )


_STAGES = ("time", "counters")
# Columns of the table.
SHARE_COLUMN, LOW_COLUMN, HIGH_COLUMN = "% of cuBLAS", "lower quartile (%)", "upper quartile (%)"
_SPEED, _PAIRED, _TIME = "TFLOP/s", "cuBLAS TFLOP/s (paired)", "duration (us)"
_DEVICE, _LECTURE = "device", "lecture"
_SHAPES = 4
"""The number of largest shapes in the summary; of as many with a share of cuBLAS the first and the last are drawn."""
_MOST_DTYPES = 2


def of_highest(study: StudyData) -> pd.Series[float]:
    """Return by correct case the percent of its variant's highest speed at any size, in one environment."""
    speed, ranking = base.speed(study), set(base.ranking(study))
    speed = speed[[case for case in speed.index if case in ranking]]
    variants = study.cases.set_index("case")["variant"].reindex(speed.index)
    environments = pd.Series(base.environment_of(study, "tflops", "time"), dtype=object)
    highest = speed.groupby([variants, environments.reindex(speed.index)]).transform("max")
    return 100 * speed / highest


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case, in the order of the rungs, then the lecture's rows (column `lecture` names
    them): shares of cuBLAS with quartiles, TFLOP/s, also at one clock, duration, FLOPs over 2 m n k."""
    paired = base.value_of(study, "paired_tflops", "time")
    speed = paired.combine_first(base.value_of(study, "tflops", "time"))
    ratio = base.over_2mnk(study, base.COUNTED_FLOPS)
    derived = {"even": base.speed(study), "highest": of_highest(study)}
    frame = base.table_of(study, table_beside(__file__), speed=speed, ratio=ratio, **derived)
    provider = study.cases.reindex(columns=["provider"])["provider"].to_numpy()
    frame.insert(4, _DEVICE, np.where(provider == "cpu", "CPU", "GPU"))
    frame = frame.set_index("case", drop=False).loc[in_order(study)["case"]].reset_index(drop=True)
    wanted = Options.of(study).lecture
    lecture = lecture_table(frame, wanted) if wanted else pd.DataFrame()
    return frame if lecture.empty else pd.concat([frame, lecture], ignore_index=True)


def lecture_table(cases: pd.DataFrame, wanted: Lecture) -> pd.DataFrame:
    """Return times in ms: a row a label, a column a size; a text for no time; no rows without a case of the study."""
    absent = "not in the study"

    def cell(variant: str, size: int) -> str:
        cube = (cases[["m", "n", "k"]] == size).all(axis=1)
        for row in cases[cube & (cases["variant"] == variant)].to_dict("records"):
            if not base.present(row[_TIME]):
                return str(row["status"] if row["status"] != "ok" else "not timed")
            ranks = row["verdict"] == "correct"
            return base.digits(row[_TIME] / 1e3) if ranks else str(row["verdict"])
        return absent

    cells = {
        f"{n}×{n} (ms)": [cell(variant, n) for variant in wanted.rows.values()]
        for n in wanted.sizes
    }
    frame = pd.DataFrame({_LECTURE: list(wanted.rows), **cells})
    return frame if (frame[list(cells)] != absent).to_numpy().any() else frame.iloc[:0]


def _cases(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table's cases that ran on the GPU; `size` names a row's shape."""
    cases = table[table[_DEVICE] == "GPU"]
    return cases.assign(size=base.shape_labels(cases), ranks=cases["verdict"] == "correct")


def _sizes(cases: pd.DataFrame) -> list[str]:
    """Return the largest shapes, from little work to much."""
    work = cases[["m", "n", "k"]].astype(float).prod(axis=1)
    shapes = cases.loc[work.sort_values(kind="stable").index, "size"].drop_duplicates()
    return list(shapes)[-_SHAPES:]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per variant of the GPU, in the order of the rungs, with its values at the largest sizes:
    share of cuBLAS, interquartile range, TFLOP/s, TFLOP/s of cuBLAS beside it; none if incorrect."""
    cases = _cases(table)
    names = {SHARE_COLUMN: SHARE_COLUMN, "IQR": "IQR", _SPEED: _SPEED, _PAIRED: "cuBLAS TFLOP/s"}
    cases["IQR"] = cases[HIGH_COLUMN] - cases[LOW_COLUMN]
    cases[list(names)] = cases[list(names)].where(cases["ranks"])
    columns, sizes = ["dtype", "kernel", "variant"], _sizes(cases)
    wide = cases.set_index([*columns, "size"])[list(names)].unstack("size")
    order = pd.MultiIndex.from_frame(cases[columns].drop_duplicates())
    wide = wide.reindex(order)[[(name, size) for name in names for size in sizes]]
    wide.columns = [f"{names[name]}, {size}" for name, size in wide.columns]
    return wide.reset_index()


def _drawn(study: StudyData, table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the rungs that are drawn, with their shares at a small and at a large size, and these sizes."""
    cases = _cases(table)
    ends = _sizes(cases[cases[SHARE_COLUMN].notna()])
    sizes = list(dict.fromkeys([*ends[:1], *ends[-1:]]))
    shares = cases[cases["size"].isin(sizes) & cases["ranks"] & cases[SHARE_COLUMN].notna()]
    wide = shares.pivot_table(SHARE_COLUMN, ["dtype", "kernel", "variant"], "size", sort=False)
    rows = wide.reindex(columns=sizes).reset_index().dropna(subset=sizes[-1:])
    return drawn(study, rows, _MOST_DTYPES), sizes


def drawn_rungs(study: StudyData, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rungs that are drawn by the short name of their dtype; `share`: of cuBLAS at the large size (%)."""
    rows, sizes = _drawn(study, table)
    rows = rows.assign(share=rows[sizes[-1]] if sizes else 0.0)
    parts = dict(iter(rows.groupby("dtype", sort=False)))
    return {base.operand_dtype(dtype): part for dtype, part in parts.items()}


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return a sentence: the share of cuBLAS that the best drawn rung of the last dtype reaches at the largest size."""
    for dtype, rungs in [*drawn_rungs(study, table).items()][-1:]:
        return f"The best {dtype} rung reaches {rungs['share'].max():.0f} % of cuBLAS's speed"
    return ""


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one panel per dtype, one row per rung: its share at a small and at a large size."""
    rows, sizes = _drawn(study, table)
    look.stop_if(rows.empty, "share of cuBLAS")
    panels = dict(iter(rows.groupby("dtype", sort=False)))
    heights = [rows_mm(len(rungs)) for rungs in panels.values()]
    fig, axes = look.panels(style, [heights[0] + 6, *heights[1:]])
    right = 1.04 * max(100.0, float(rows[sizes].max(axis=None)))
    for ax, (dtype, rungs), color in zip(axes, panels.items(), PALETTE):
        shares = [f"{share:.0f} %" for share in rungs[sizes[-1]]]
        dots(ax, rungs, sizes, DTYPES.get(dtype, color), shares, sizes[-1])
        ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
        ax.set(xlim=(0, right), xlabel="speed (% of cuBLAS)", title=base.dtype_short(dtype))
    shown = part_of(study, rows)
    line = Line2D([], [], color=INK, linewidth=0.9, label="cuBLAS")
    handles = [*dot_handles(sizes[0], sizes[-1], INK), line]
    return look.finish(fig, shown, style, handles, base.rate_notes(shown), _STAGES)
