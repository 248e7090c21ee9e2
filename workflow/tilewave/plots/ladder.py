"""Ladder: each rung's share of cuBLAS at each size, with its spread, one panel a dtype.

Rungs stand in the order of `follows`. A share is the median of those of neighbouring blocks of the
variant and of cuBLAS, timed in turn; its spread the quartiles (`records.tables.paired_shares`). Beside
it: the FLOPs that the counters counted over 2 m n k, which tells padding and recomputation apart from
slowness.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._rungs import in_order
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GOOD, GREY, INK, MARKERS, Style

OPTIONS: Mapping[str, str] = {
    "log": "true draws the shares on a logarithmic axis (default: false)",
}
SHARE, LOW, HIGH = "paired_share", "paired_share_low", "paired_share_high"
_STAGES = ("time", "counters")
_MOST_SHAPES = 5
"""More sizes than these have no columns of numbers: they would not fit."""
_BAND = "#F6F6F6"


def table(study: StudyData) -> pd.DataFrame:
    """One row a case, in the order of the rungs: share of cuBLAS with its quartiles, TFLOP/s,
    duration, counted FLOPs over 2 m n k."""
    ratio = base.over_2mnk(study, base.COUNTED_FLOPS)
    frame = base.with_columns(
        base.base_table(study),
        {
            "% of cuBLAS": base.value_of(study, SHARE, "time"),
            "lower quartile (%)": base.value_of(study, LOW, "time"),
            "upper quartile (%)": base.value_of(study, HIGH, "time"),
            "TFLOP/s": base.value_of(study, "tflops", "time"),
            "cuBLAS TFLOP/s (paired)": base.value_of(study, "baseline_tflops", "time"),
            "duration (us)": base.value_of(study, "duration", "time"),
            "spread of duration, IQR (us)": base.value_of(study, "duration_spread", "time"),
            "counted FLOPs / 2mnk": ratio,
        },
    )
    wanted = [] if study.cases.empty else in_order(study)["case"]
    return frame.set_index("case", drop=False).loc[wanted].reset_index(drop=True)


def summary(study: StudyData) -> pd.DataFrame:
    """One row a variant, in the order of the rungs: at each size its share of cuBLAS, the distance of
    the quartiles (percentage points) and TFLOP/s; of cuBLAS itself TFLOP/s. What is not correct has
    none."""
    shares, speed = base.pivot(study, [SHARE, LOW, HIGH], "time"), base.value_of(study, "tflops")
    may_rank = set(base.ranking(study))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    columns = ["dtype", "kernel", "variant"]
    for row in in_order(study).to_dict("records"):
        label, case = base.shape_label(row), str(row["case"])
        mine = rows.setdefault(
            (str(row["dtype"]), str(row["variant"])), {name: row[name] for name in columns}
        )
        share, low, high = shares.loc[case] if case in may_rank else (float("nan"),) * 3
        mine[f"% of cuBLAS, {label}"] = share
        mine[f"IQR, {label}"] = high - low
        mine[f"TFLOP/s, {label}"] = speed.get(case) if case in may_rank else None
    labels = [base.shape_label(row) for row in _shapes(study.cases).to_dict("records")]
    words = [f"{word}, {label}" for word in ("% of cuBLAS", "IQR", "TFLOP/s") for label in labels]
    return pd.DataFrame(list(rows.values()), columns=[*columns, *words])


def _shapes(cases: pd.DataFrame) -> pd.DataFrame:
    """The study's shapes, from little work to much."""
    sizes = cases[["m", "n", "k"]].drop_duplicates().astype(float)
    return sizes.loc[sizes.prod(axis=1).sort_values(kind="stable").index]


def _rows(study: StudyData, dtype: str) -> list[pd.DataFrame]:
    """A panel's rows: the cases of each variant that cuBLAS is a measure for.

    Not cuBLAS, and no code of the CPU: nothing of it was timed in turn with cuBLAS.
    """
    cases = in_order(study)
    cases = cases[(cases["dtype"].astype(str) == dtype) & (cases["kernel"] != BASELINE)]
    if "provider" in cases:
        cases = cases[cases["provider"] != "cpu"]
    return [group for _, group in cases.groupby("variant", sort=False)]


class _Looks:
    """Colour, marker and place in the row of each size."""

    def __init__(self, study: StudyData) -> None:
        shapes = _shapes(study.cases).to_dict("records")
        self.labels = [base.shape_label(row) for row in shapes]
        colors = sns.color_palette("crest", len(shapes))
        step = min(0.2, 0.8 / len(shapes))
        self.of = {
            label: (color, MARKERS[i % len(MARKERS)], (i - (len(shapes) - 1) / 2) * step)
            for i, (label, color) in enumerate(zip(self.labels, colors, strict=True))
        }


def _shares(ax: Axes, study: StudyData, rows: list[pd.DataFrame], looks: _Looks) -> float:
    """Draw a panel's shares with their quartiles; returns the largest in percent."""
    shares = base.pivot(study, [SHARE, LOW, HIGH], "time")
    may_rank = set(base.ranking(study))
    top = 100.0
    for place, group in enumerate(rows):
        if place % 2:
            ax.axhspan(place - 0.5, place + 0.5, color=_BAND, linewidth=0, zorder=-2)
        for row in group.to_dict("records"):
            share, low, high = shares.loc[str(row["case"])]
            if pd.isna(share):
                continue
            color, marker, shift = looks.of[base.shape_label(row)]
            top = max(top, float(high))
            if row["case"] not in may_rank:
                ax.plot([share], [place + shift], "x", color=GREY, markersize=3.5)
                continue
            ax.plot([low, high], [place + shift] * 2, "-", color=color, linewidth=0.9)
            ax.plot(
                [share], [place + shift], marker, color=color, markersize=2.9, markeredgewidth=0
            )
    return top


def _numbers(
    ax: Axes, study: StudyData, dtype: str, rows: list[pd.DataFrame], looks: _Looks, style: Style,
) -> None:  # fmt: skip
    """The medians as columns of numbers, below them what 100 % is in TFLOP/s."""
    shares = base.value_of(study, SHARE, "time")
    may_rank = set(base.ranking(study))
    speed = base.value_of(study, "tflops", "time")
    own = study.cases[
        (study.cases["dtype"].astype(str) == dtype) & (study.cases["kernel"] == BASELINE)
    ]

    def say(x: int, y: float, text: str, color: Any = INK, weight: str = "normal") -> None:
        ax.text(
            x + 0.92, y, text, ha="right", va="center", size=style.small, color=color, weight=weight
        )

    for place, group in enumerate(rows):
        if place % 2:
            ax.axhspan(place - 0.5, place + 0.5, color=_BAND, linewidth=0, zorder=-2)
        told = {base.shape_label(row): str(row["case"]) for row in group.to_dict("records")}
        for x, label in enumerate(looks.labels):
            case = told.get(label)
            if case is not None and case in shares.index and case in may_rank:
                share = float(shares[case])
                good = share >= 100
                say(x, place, f"{share:.1f}", GOOD if good else INK, "bold" if good else "normal")
            elif case is not None:
                say(x, place, "×" if case in shares.index else "–", GREY)
    for x, label in enumerate(looks.labels):
        say(x, -1, label.removesuffix("³"), looks.of[label][0], "bold")
    for row in own.drop_duplicates(["m", "n", "k"]).to_dict("records"):
        value = speed.get(str(row["case"]))
        if value is not None and str(row["case"]) in may_rank:
            at = looks.labels.index(base.shape_label(row))
            say(at, len(rows), base.digits(float(value)), GREY)
    ax.set_axis_off()
    ax.set_xlim(0, len(looks.labels))


def _ratios(
    ax: Axes, rows: list[pd.DataFrame], ratio: pd.Series[float], looks: _Looks, style: Style
) -> None:
    """Counted FLOPs over 2 m n k, of each variant the one of its largest counted size."""
    top = 1.0
    for place, group in enumerate(rows):
        if place % 2:
            ax.axhspan(place - 0.5, place + 0.5, color=_BAND, linewidth=0, zorder=-2)
        counted = [row for row in group.to_dict("records") if str(row["case"]) in ratio.index]
        if not counted:
            continue
        value = float(ratio[str(counted[-1]["case"])])
        top = max(top, value)
        ax.plot([value], [place], "o", color=looks.of[base.shape_label(counted[-1])][0])
        ax.annotate(
            f"{value:.3f}", (value, place), xytext=(4, 0), textcoords="offset points",
            va="center", ha="left", size=style.small, color=INK,
        )  # fmt: skip
    ax.axvline(1.0, color=GREY, linewidth=0.6, zorder=0)
    ax.set_yticks([])
    ax.set_xlim(0.93, 1.0 + max(0.45 if style.narrow else 0.3, (top - 1.0) * 2.2))
    ax.set_xticks([1.0], ["1"])
    ax.spines["left"].set_visible(False)


def _labels(rows: list[pd.DataFrame], dtype: str, style: Style) -> list[str]:
    """The rows' labels: in one line where the figure is wide."""
    labels = [base.variant_label(group.iloc[0].to_dict(), dtype) for group in rows]
    return labels if style.narrow else [label.replace("\n", " ") for label in labels]


def draw(study: StudyData, style: Style) -> Figure:
    """One panel a dtype, a row a rung, a marker a size."""
    with look.apply(style):
        parts = {dtype: _rows(study, dtype) for dtype in base.dtypes_in_order(study)}
        parts = {dtype: rows for dtype, rows in parts.items() if rows}
        if not parts or base.value_of(study, SHARE, "time").empty:
            return look.empty_figure(study, style, "share of cuBLAS")
        looks, line = _Looks(study), style.line * 25.4
        written = not style.narrow and len(looks.labels) <= _MOST_SHAPES
        labels = {dtype: _labels(rows, dtype, style) for dtype, rows in parts.items()}
        heights = [
            (len(rows) + 2) * 3.9
            + sum(label.count("\n") for label in labels[dtype]) * max(0.0, 2 * line - 3.9)
            for dtype, rows in parts.items()
        ]
        fig = look.new_figure(style, sum(heights) + 9 * len(parts) + 6)
        # Long labels take more room in the file than at a screen's resolution, where letters are
        # moved to whole pixels: laid out as it is saved.
        fig.set_dpi(float(mpl.rcParams["savefig.dpi"]))
        widths = [3, 0.33 * len(looks.labels), 0.55] if written else [3, 0.8]
        axes = fig.subplots(
            len(parts), len(widths), squeeze=False,
            gridspec_kw={"height_ratios": heights, "width_ratios": widths},
        )  # fmt: skip
        ratio = base.over_2mnk(study, base.COUNTED_FLOPS)
        tops = []
        for line_of_axes, (dtype, rows) in zip(axes, parts.items(), strict=True):
            left, right = line_of_axes[0], line_of_axes[-1]
            last = dtype == list(parts)[-1]
            tops.append(_shares(left, study, rows, looks))
            look.rows_axis(left, labels[dtype])
            left.set_title(base.dtype_label(dtype))
            left.set_xlabel("% of cuBLAS" if last else "")
            _ratios(right, rows, ratio, looks, style)
            if written:
                _numbers(line_of_axes[1], study, dtype, rows, looks, style)
                left.set_yticks(range(len(rows) + 1), [*labels[dtype], "cuBLAS itself, TFLOP/s"])
                left.get_yticklabels()[-1].set_color(GREY)
            for ax in line_of_axes:
                ax.set_ylim(len(rows) + (0.6 if written else -0.4), -1.6 if written else -0.6)
        for ax in axes[:, 0]:
            if study.option("log", False):
                ax.set_xscale("log")
            else:
                ax.set_xlim(left=0)
            ax.set_xlim(right=1.03 * max(tops))
            ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
            ax.axvspan(100, 1.03 * max(tops), color=GOOD, alpha=0.08, linewidth=0, zorder=-1)
            look.grid(ax, "x")
        axes[0][-1].set_title("FLOPs\n/ 2mnk")
        handles, told = _legend(study, looks)
        return look.finish(fig, study, style, handles, told, _notes(study, ratio, parts), _STAGES)


def _legend(study: StudyData, looks: _Looks) -> tuple[list[Artist], list[str]]:
    handles: list[Artist] = []
    for label in looks.labels:
        color, marker, _ = looks.of[label]
        handles.append(Line2D([], [], color=color, marker=marker, markersize=3.4, linewidth=0.9))
    told = list(looks.labels)
    handles += [Line2D([], [], color=INK, linewidth=0.9), Patch(color=GOOD, alpha=0.15)]
    told += ["cuBLAS, timed in turn", "faster than cuBLAS"]
    shares, may_rank = base.value_of(study, SHARE, "time"), set(base.ranking(study))
    if any(case not in may_rank for case in shares.index):
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle=""))
        told.append("not correct, not ranked")
    return handles, told


def _notes(study: StudyData, ratio: pd.Series[float], drawn: Collection[str]) -> list[str]:
    notes = ["Markers: medians; lines: from the lower to the upper quartile."]
    rows = study.cases[study.cases["case"].isin(ratio.index)].to_dict("records")
    shapes = list(dict.fromkeys(base.shape_label(row) for row in rows))
    if len(shapes) == 1:
        notes.append(f"FLOPs were counted at {shapes[0]}.")
    return notes + (base.rate_notes(study) if "i8" in drawn else [])
