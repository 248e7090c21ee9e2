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
_SHARE, _LOW, _HIGH = "% of cuBLAS", "lower quartile (%)", "upper quartile (%)"
_SPEED, _RATIO = "TFLOP/s", "counted FLOPs / 2mnk"
_MOST_SHAPES = 5
"""More sizes than these have no columns of numbers: they would not fit."""
_BAND = "#F6F6F6"


def table(study: StudyData) -> pd.DataFrame:
    """One row a case, in the order of the rungs: share of cuBLAS with its quartiles, TFLOP/s,
    duration, counted FLOPs over 2 m n k."""
    frame = base.with_columns(
        base.base_table(study),
        {
            _SHARE: base.value_of(study, SHARE, "time"),
            _LOW: base.value_of(study, LOW, "time"),
            _HIGH: base.value_of(study, HIGH, "time"),
            _SPEED: base.value_of(study, "tflops", "time"),
            "cuBLAS TFLOP/s (paired)": base.value_of(study, "baseline_tflops", "time"),
            "duration (us)": base.value_of(study, "duration", "time"),
            "spread of duration, IQR (us)": base.value_of(study, "duration_spread", "time"),
            _RATIO: base.over_2mnk(study, base.COUNTED_FLOPS),
        },
    )
    wanted = [] if study.cases.empty else in_order(study)["case"]
    return frame.set_index("case", drop=False).loc[wanted].reset_index(drop=True)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row a variant, in the order of the rungs: at each size its share of cuBLAS, the distance of
    the quartiles (percentage points) and TFLOP/s; of cuBLAS itself TFLOP/s. What is not correct has
    none."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    columns = ["dtype", "kernel", "variant"]
    for row in table.to_dict("records"):
        label, ranks = base.shape_label(row), row["verdict"] == "correct"
        mine = rows.setdefault(
            (str(row["dtype"]), str(row["variant"])), {name: row[name] for name in columns}
        )
        mine[f"% of cuBLAS, {label}"] = row[_SHARE] if ranks else None
        mine[f"IQR, {label}"] = row[_HIGH] - row[_LOW] if ranks else None
        mine[f"TFLOP/s, {label}"] = row[_SPEED] if ranks else None
    labels = [base.shape_label(row) for row in _shapes(table).to_dict("records")]
    words = [f"{word}, {label}" for word in ("% of cuBLAS", "IQR", "TFLOP/s") for label in labels]
    return pd.DataFrame(list(rows.values()), columns=[*columns, *words])


def _shapes(cases: pd.DataFrame) -> pd.DataFrame:
    """The study's shapes, from little work to much."""
    sizes = cases[["m", "n", "k"]].drop_duplicates().astype(float)
    return sizes.loc[sizes.prod(axis=1).sort_values(kind="stable").index]


def _rows(study: StudyData, table: pd.DataFrame, dtype: str) -> list[pd.DataFrame]:
    """A panel's rows: the table's of each variant that cuBLAS is a measure for.

    Not cuBLAS, and no code of the CPU: nothing of it was timed in turn with cuBLAS.
    """
    rows = table[(table["dtype"].astype(str) == dtype) & (table["kernel"] != BASELINE)]
    if "provider" in study.cases:
        by_cpu = study.cases.loc[study.cases["provider"] == "cpu", "case"]
        rows = rows[~rows["case"].isin(by_cpu)]
    return [group for _, group in rows.groupby("variant", sort=False)]


class _Looks:
    """Colour, marker and place in the row of each size."""

    def __init__(self, table: pd.DataFrame) -> None:
        shapes = _shapes(table).to_dict("records")
        self.labels = [base.shape_label(row) for row in shapes]
        colors = sns.color_palette("crest", len(shapes))
        step = min(0.2, 0.8 / len(shapes))
        self.of = {
            label: (color, MARKERS[i % len(MARKERS)], (i - (len(shapes) - 1) / 2) * step)
            for i, (label, color) in enumerate(zip(self.labels, colors, strict=True))
        }


def _shares(ax: Axes, rows: list[pd.DataFrame], looks: _Looks) -> float:
    """Draw a panel's shares with their quartiles; returns the largest in percent."""
    top = 100.0
    for place, group in enumerate(rows):
        if place % 2:
            ax.axhspan(place - 0.5, place + 0.5, color=_BAND, linewidth=0, zorder=-2)
        for row in group.to_dict("records"):
            share, low, high = row[_SHARE], row[_LOW], row[_HIGH]
            if pd.isna(share):
                continue
            color, marker, shift = looks.of[base.shape_label(row)]
            top = max(top, float(high))
            if row["verdict"] != "correct":
                ax.plot([share], [place + shift], "x", color=GREY, markersize=3.5)
                continue
            ax.plot([low, high], [place + shift] * 2, "-", color=color, linewidth=0.9)
            ax.plot(
                [share], [place + shift], marker, color=color, markersize=2.9, markeredgewidth=0
            )
    return top


def _numbers(
    ax: Axes, own: pd.DataFrame, rows: list[pd.DataFrame], looks: _Looks, style: Style
) -> None:
    """The medians as columns of numbers, below them what 100 % is in TFLOP/s: cuBLAS's `own` rows."""

    def say(x: int, y: float, text: str, color: Any = INK, weight: str = "normal") -> None:
        ax.text(
            x + 0.92, y, text, ha="right", va="center", size=style.small, color=color, weight=weight
        )

    for place, group in enumerate(rows):
        if place % 2:
            ax.axhspan(place - 0.5, place + 0.5, color=_BAND, linewidth=0, zorder=-2)
        told = {base.shape_label(row): row for row in group.to_dict("records")}
        for x, label in enumerate(looks.labels):
            if label not in told:
                continue
            share = told[label][_SHARE]
            if base.present(share) and told[label]["verdict"] == "correct":
                good = share >= 100
                say(x, place, f"{share:.1f}", GOOD if good else INK, "bold" if good else "normal")
            else:
                say(x, place, "×" if base.present(share) else "–", GREY)
    for x, label in enumerate(looks.labels):
        say(x, -1, label.removesuffix("³"), looks.of[label][0], "bold")
    for row in own.drop_duplicates(["m", "n", "k"]).to_dict("records"):
        if base.present(row[_SPEED]) and row["verdict"] == "correct":
            at = looks.labels.index(base.shape_label(row))
            say(at, len(rows), base.digits(row[_SPEED]), GREY)
    ax.set_axis_off()
    ax.set_xlim(0, len(looks.labels))


def _ratios(ax: Axes, rows: list[pd.DataFrame], looks: _Looks, style: Style) -> None:
    """Counted FLOPs over 2 m n k, of each variant the one of its largest counted size."""
    top = 1.0
    for place, group in enumerate(rows):
        if place % 2:
            ax.axhspan(place - 0.5, place + 0.5, color=_BAND, linewidth=0, zorder=-2)
        counted = group[group[_RATIO].notna()].to_dict("records")
        if not counted:
            continue
        value = counted[-1][_RATIO]
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


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """One panel a dtype, a row a rung, a marker a size."""
    with look.apply(style):
        parts = {dtype: _rows(study, table, dtype) for dtype in base.dtypes_in_order(study)}
        parts = {dtype: rows for dtype, rows in parts.items() if rows}
        if not parts or table[_SHARE].isna().all():
            return look.empty_figure(study, style, "share of cuBLAS")
        looks, line = _Looks(table), style.line * 25.4
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
        # As the config has them: of several variants of cuBLAS the first is the one compared with.
        baseline = table.set_index("case", drop=False).loc[base.case_order(study)]
        baseline = baseline[baseline["kernel"] == BASELINE]
        tops = []
        for line_of_axes, (dtype, rows) in zip(axes, parts.items(), strict=True):
            left, right = line_of_axes[0], line_of_axes[-1]
            last = dtype == list(parts)[-1]
            tops.append(_shares(left, rows, looks))
            look.rows_axis(left, labels[dtype])
            left.set_title(base.dtype_label(dtype))
            left.set_xlabel("% of cuBLAS" if last else "")
            _ratios(right, rows, looks, style)
            if written:
                own = baseline[baseline["dtype"].astype(str) == dtype]
                _numbers(line_of_axes[1], own, rows, looks, style)
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
        handles, told = _legend(table, looks)
        return look.finish(fig, study, style, handles, told, _notes(study, table, parts), _STAGES)


def _legend(table: pd.DataFrame, looks: _Looks) -> tuple[list[Artist], list[str]]:
    handles: list[Artist] = []
    for label in looks.labels:
        color, marker, _ = looks.of[label]
        handles.append(Line2D([], [], color=color, marker=marker, markersize=3.4, linewidth=0.9))
    told = list(looks.labels)
    handles += [Line2D([], [], color=INK, linewidth=0.9), Patch(color=GOOD, alpha=0.15)]
    told += ["cuBLAS, timed in turn", "faster than cuBLAS"]
    if (table[_SHARE].notna() & (table["verdict"] != "correct")).any():
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle=""))
        told.append("not correct, not ranked")
    return handles, told


def _notes(study: StudyData, table: pd.DataFrame, drawn: Collection[str]) -> list[str]:
    notes = ["Markers: medians; lines: from the lower to the upper quartile."]
    counted = table[table[_RATIO].notna()].to_dict("records")
    shapes = {base.shape_label(row) for row in counted}
    if len(shapes) == 1:
        notes.append(f"FLOPs were counted at {shapes.pop()}.")
    return notes + (base.rate_notes(study) if "i8" in drawn else [])
