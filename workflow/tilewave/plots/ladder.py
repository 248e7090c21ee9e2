"""Ladder: each rung's share of cuBLAS at each size, with its spread, one panel a dtype.

Rungs stand in the order of `follows`. A share is the median of those of neighbouring blocks of the
variant and of cuBLAS, timed in turn; its spread the quartiles (`records.tables.paired_shares`). Beside
it: the FLOPs that the counters counted over 2 m n k, which tells padding and recomputation apart from
slowness.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from pydantic import Field

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import heatmap, stacked
from tilewave.plots._rungs import in_order
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.options import PlotOptions
from tilewave.plots.style import GOOD, GREY, INK, MARKERS, Style

HEADLINE = True
READING = (
    "A row is a rung, a dot its share of cuBLAS at one size, larger sizes darker; right of the "
    "line, where the panel is shaded, it is faster than cuBLAS. The numbers beside it are the same "
    "shares."
)


class Options(PlotOptions):
    """What the studies of this plot may set."""

    log: bool = Field(False, description="draw the shares on a logarithmic axis")


SHARE, LOW, HIGH = "paired_share", "paired_share_low", "paired_share_high"
_STAGES = ("time", "counters")
_SHARE, _LOW, _HIGH = "% of cuBLAS", "lower quartile (%)", "upper quartile (%)"
_SPEED, _PAIRED, _RATIO = "TFLOP/s", "cuBLAS TFLOP/s (paired)", "counted FLOPs / 2mnk"
_MOST_SHAPES = 5
"""More sizes than these have no columns of numbers: they would not fit."""
_MORE_WORK = 0.01
"""A rung that counts this much over 2 m n k is named."""
_LONG = 28  # letters of a label in one line
_BAND = "#F6F6F6"


def table(study: StudyData) -> pd.DataFrame:
    """One row a case, in the order of the rungs: share of cuBLAS with its quartiles, TFLOP/s of the case and of the
    cuBLAS beside it, duration, counted FLOPs over 2 m n k."""
    paired = base.value_of(study, "paired_tflops", "time")
    frame = base.with_columns(
        base.base_table(study),
        {
            _SHARE: base.value_of(study, SHARE, "time"),
            _LOW: base.value_of(study, LOW, "time"),
            _HIGH: base.value_of(study, HIGH, "time"),
            _SPEED: paired.combine_first(base.value_of(study, "tflops", "time")),
            _PAIRED: base.value_of(study, "paired_baseline_tflops", "time"),
            "duration (us)": base.value_of(study, "duration", "time"),
            "spread of duration, IQR (us)": base.value_of(study, "duration_spread", "time"),
            _RATIO: base.over_2mnk(study, base.COUNTED_FLOPS),
        },
    )
    wanted = [] if study.cases.empty else in_order(study)["case"]
    return frame.set_index("case", drop=False).loc[wanted].reset_index(drop=True)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row a variant, in the order of the rungs: at each size its share of cuBLAS, the distance of
    the quartiles (percentage points), TFLOP/s and those of the cuBLAS that it was paired with; of
    cuBLAS itself TFLOP/s. What is not correct has none."""
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
        mine[f"cuBLAS TFLOP/s, {label}"] = row[_PAIRED] if ranks else None
    labels = [base.shape_label(row) for row in _shapes(table).to_dict("records")]
    words = [
        f"{word}, {label}"
        for word in ("% of cuBLAS", "IQR", "TFLOP/s", "cuBLAS TFLOP/s")
        for label in labels
    ]
    return pd.DataFrame(list(rows.values()), columns=[*columns, *words])


def _shapes(cases: pd.DataFrame) -> pd.DataFrame:
    """The study's shapes, from little work to much."""
    sizes = cases[["m", "n", "k"]].drop_duplicates().astype(float)
    return sizes.loc[sizes.prod(axis=1).sort_values(kind="stable").index]


def _rows(study: StudyData, table: pd.DataFrame) -> pd.DataFrame:
    """The table's rows that cuBLAS is a measure for: not its own, and none of the CPU's code, which is
    not timed in turn with cuBLAS. `label` names the row's variant, `size` its shape."""
    rows = table[table["kernel"] != BASELINE]
    if "provider" in study.cases:
        by_cpu = study.cases.loc[study.cases["provider"] == "cpu", "case"]
        rows = rows[~rows["case"].isin(by_cpu)]
    told = rows.to_dict("records")
    return rows.assign(
        label=[_in_lines(base.variant_label(r, str(r["dtype"]))) for r in told],
        size=[base.shape_label(r) for r in told],
        ranks=rows["verdict"] == "correct",
    )


def _told(rows: pd.DataFrame) -> pd.Series:
    """Whether there is anything to say of a row's rung: a share at some size, or a verdict that is bad."""
    known = rows[_SHARE].notna() | ~rows["verdict"].isin(["correct", "not checked"])
    return known.groupby([rows["dtype"], rows["label"]], sort=False).transform("any")


def _in_lines(label: str) -> str:
    """The label in one line where it is short."""
    return label.replace("\n", " ") if len(label) <= _LONG else label


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """At the largest shape, the best rung of each dtype; ahead of cuBLAS first."""
    rows = _rows(study, table)
    rows = rows[rows["ranks"] & rows[_SHARE].notna()]
    if rows.empty:
        return ""
    largest = base.shape_label(_shapes(rows).iloc[-1].to_dict())
    best = rows[rows["size"] == largest].sort_values(_SHARE, ascending=False, kind="stable")
    best = best.drop_duplicates("dtype")
    told = [
        f"{base.dtype_short(dtype)} {share:.0f} %"
        for dtype, share in zip(best["dtype"], best[_SHARE])
    ]
    return f"Best rungs at {largest}, in % of cuBLAS: {', '.join(told)}"


def _looks(sizes: list[str]) -> dict[str, Any]:
    """How seaborn draws the sizes: from light to dark, each with a marker of its own."""
    return {
        "hue_order": sizes,
        "palette": sns.color_palette("crest", len(sizes)).as_hex(),
        "markers": [MARKERS[i % len(MARKERS)] for i in range(len(sizes))],
    }


def _shares(ax: Axes, rows: pd.DataFrame, order: list[str], looks: Mapping[str, Any]) -> None:
    """A panel's medians with their quartiles; what is not correct as a cross."""
    good = rows[rows["ranks"]]
    # Seaborn's median and range of the three are the median and the quartiles.
    spread = good.melt(["label", "size"], [_LOW, _SHARE, _HIGH])
    sizes = len(looks["hue_order"])
    sns.pointplot(
        spread, x="value", y="label", hue="size", order=order, **looks, ax=ax, estimator="median",
        errorbar=("pi", 100), dodge=0.14 * sizes if sizes > 1 else False, linestyle="none", legend=False,
        markersize=3.0, markeredgewidth=0, err_kws={"linewidth": 0.9},
    )  # fmt: skip
    bad = rows[~rows["ranks"]]
    ax.plot(bad[_SHARE], bad["label"].map(order.index), "x", color=GREY, markersize=3.5)
    for place in range(1, len(order), 2):
        ax.axhspan(place - 0.5, place + 0.5, color=_BAND, linewidth=0, zorder=-2)
    ax.set(xlabel="", ylabel="", ylim=(len(order) - 0.5, -0.5))
    ax.tick_params(axis="y", length=0)


def _numbers(
    ax: Axes, rows: pd.DataFrame, order: list[str], sizes: list[str], style: Style
) -> None:
    """The medians in figures: bold and green where they pass cuBLAS, a cross where they do not rank."""
    shares = rows.pivot(index="label", columns="size", values=_SHARE).reindex(order, columns=sizes)
    ranks = rows.pivot(index="label", columns="size", values="ranks").reindex(order, columns=sizes)
    ranked = shares.where(ranks.eq(True))
    told = shares.map(lambda share: "×" if base.present(share) else "–").where(
        ranked.isna(), ranked.map("{:.1f}".format)
    )
    heatmap(ax, ranked.fillna(0.0), told, style, vmin=0, vmax=300, cmap="Blues")
    for text, share in zip(ax.texts, ranked.to_numpy().ravel(), strict=True):
        if share >= 100:
            text.set(color=GOOD, weight="bold", size=0.68 * style.font_size)
    ax.set_yticks([])
    ax.set_xticks(ax.get_xticks(), [size.removesuffix("³") for size in sizes], rotation=0)
    ax.tick_params(labelsize=0.8 * style.font_size, labelbottom=False)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """One panel for each dtype of which anything was measured, a row a rung, a marker a size."""
    with look.apply(style):
        rows = _rows(study, table)
        if rows[_SHARE].isna().all():
            return look.empty_figure(study, style, "share of cuBLAS")
        sizes = [base.shape_label(row) for row in _shapes(table).to_dict("records")]
        looks = _looks(sizes)
        written = not style.narrow and len(sizes) <= _MOST_SHAPES
        shown = set(rows.loc[rows[_SHARE].notna(), "dtype"])
        wanted = [dtype for dtype in base.dtypes_in_order(study) if dtype in shown]
        told = rows[_told(rows)]
        parts = {dtype: told[told["dtype"] == dtype] for dtype in wanted}
        orders = {dtype: list(dict.fromkeys(part["label"])) for dtype, part in parts.items()}
        row = 3.1 if style.narrow else 3.7
        heights = {
            dtype: row * len(order) * (1.7 if any("\n" in label for label in order) else 1)
            for dtype, order in orders.items()
        }
        fig, columns = stacked(style, heights, [1.0, 0.6 * len(sizes)] if written else [1.0])
        right = 1.04 * max(100.0, float(rows[_HIGH].max()))
        log = Options.of(study).log
        for column in columns:
            for dtype, (ax, *numbers) in column.items():
                _shares(ax, parts[dtype], orders[dtype], looks)
                for other in numbers:
                    _numbers(other, parts[dtype], orders[dtype], sizes, style)
                    other.tick_params(labeltop=dtype == next(iter(column)))
                ax.set_xscale("log" if log else "linear")
                ax.set_xlim(None if log else 0, right)
                ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
                ax.axvspan(100, right, color=GOOD, alpha=0.08, linewidth=0, zorder=-1)
                look.grid(ax, "x")
                heads = bool(numbers) and dtype == next(iter(column))
                ax.set_title(base.dtype_short(dtype), pad=13 if heads else 4)
                ax.annotate(
                    _hundred(dtype, table, sizes[-1]), (0, 1), xytext=(-3, 4), ha="right",
                    xycoords="axes fraction", textcoords="offset points", color=GREY,
                    size=0.8 * style.font_size,
                )  # fmt: skip
                ax.tick_params(labelbottom=dtype == list(column)[-1])
            ax.set_xlabel("% of cuBLAS")
        handles, told = _legend(table, sizes, looks)
        return look.finish(fig, study, style, handles, told, _notes(study, rows), _STAGES)


def _hundred(dtype: str, table: pd.DataFrame, size: str) -> str:
    """What 100 % is: cuBLAS's speed at the largest shape; "" where it has none."""
    own = table[(table["kernel"] == BASELINE) & (table["dtype"] == dtype)]
    own = own[(own["verdict"] == "correct") & own[_SPEED].notna()].to_dict("records")
    speed = [base.digits(row[_SPEED]) for row in own if base.shape_label(row) == size]
    return f"100 %: {speed[0]} TFLOP/s" if speed else ""


def _legend(
    table: pd.DataFrame, sizes: list[str], looks: Mapping[str, Any]
) -> tuple[list[Artist], list[str]]:
    handles: list[Artist] = [
        Line2D([], [], color=color, marker=marker, markersize=3.4, linewidth=0.9)
        for color, marker in zip(looks["palette"], looks["markers"], strict=True)
    ]
    handles += [Line2D([], [], color=INK, linewidth=0.9), Patch(color=GOOD, alpha=0.15)]
    told = [*sizes, "cuBLAS, timed in turn", "faster than cuBLAS"]
    if (table[_SHARE].notna() & (table["verdict"] != "correct")).any():
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle=""))
        told.append("not correct, not ranked")
    return handles, told


def _notes(study: StudyData, rows: pd.DataFrame) -> list[str]:
    """How to read the marks, and the work that was counted: who does more than 1 % too much is named."""
    notes = [
        "Markers: medians; lines: from the lower to the upper quartile. What 100 % is, is told of the "
        "largest size."
    ]
    counted = rows[rows[_RATIO].notna()]
    more = counted[counted[_RATIO] > 1 + _MORE_WORK].sort_values(_RATIO, ascending=False)
    if len(counted):
        at = f" at {counted['size'].iloc[0]}" if counted["size"].nunique() == 1 else ""
        named = [f"{label} {ratio:.3f}" for label, ratio in zip(more["label"], more[_RATIO])]
        told = f"; more than that: {', '.join(dict.fromkeys(named))}" if named else ""
        least, most = counted[_RATIO].min(), counted[_RATIO].drop(more.index).max()
        notes.append(f"FLOPs counted over 2mnk{at}: {least:.3f} to {most:.3f}{told}.")
    bare = rows[_SHARE].isna().groupby(rows["dtype"], sort=False).all()
    if bare.any():
        notes.append(
            f"No share was measured of {', '.join(map(base.dtype_short, bare.index[bare]))}."
        )
    left_out = rows[~_told(rows) & ~rows["dtype"].isin(bare.index[bare])]
    if len(left_out):
        names = dict.fromkeys(label.replace("\n", " ") for label in left_out["label"])
        notes.append(f"Rungs without a measured share: {', '.join(names)}.")
    return notes + (base.rate_notes(study) if (rows["dtype"] == "i8").any() else [])
