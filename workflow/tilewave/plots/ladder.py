"""Ladder: TFLOP/s of each rung at one shape, with its percentage of cuBLAS, one panel a dtype.

The percentage is the one that the timing stage formed from interleaved runs of the variant and of
cuBLAS (same inputs, same result document). Beside it: the FLOPs that the counters counted over
2 m n k, which tells padding and recomputation apart from slowness.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GREY, INK, Style

OPTIONS: Mapping[str, str] = {
    "log": "true draws TFLOP/s on a logarithmic axis (default: false)",
}
_STAGES = ("time", "counters")


def table(study: StudyData) -> pd.DataFrame:
    """One row a case: TFLOP/s, percentage of cuBLAS, duration, counted FLOPs over 2 m n k."""
    ratio = base.over_2mnk(study, base.COUNTED_FLOPS)
    return base.with_columns(
        base.base_table(study),
        {
            "TFLOP/s": base.value_of(study, "tflops", "time"),
            "cuBLAS TFLOP/s (paired)": base.value_of(study, "baseline_tflops", "time"),
            "% of cuBLAS": base.value_of(study, "percent_of_cublas", "time"),
            "duration (us)": base.value_of(study, "duration", "time"),
            "spread of duration, IQR (us)": base.value_of(study, "duration_spread", "time"),
            "counted FLOPs / 2mnk": ratio,
        },
    )


def _rows(study: StudyData, dtype: str) -> pd.DataFrame:
    """A panel's cases: those that rank from slow to fast, cuBLAS, then what does not rank."""
    cases = study.cases[study.cases["dtype"].astype(str) == dtype]
    speed = cases["case"].map(base.value_of(study, "tflops", "time")).astype(float)
    group = pd.Series(0, index=cases.index)
    group[cases["kernel"] == BASELINE] = 1
    group[~cases["case"].isin(set(base.ranking(study))) | speed.isna()] = 2
    order = pd.DataFrame({"group": group, "speed": speed.where(group < 2, 0.0)})
    return cases.loc[order.sort_values(["group", "speed"], kind="stable").index]


def _labels(rows: pd.DataFrame, dtype: str, style: Style) -> list[str]:
    """The rows' labels: in one line where the figure is wide; with the shape where it varies."""
    several = len(rows[["m", "n", "k"]].drop_duplicates()) > 1
    labels = []
    for row in rows.to_dict("records"):
        label = base.variant_label(row, dtype)
        label += f"\n{base.shape_label(row)}" if several else ""
        labels.append(label if style.narrow else label.replace("\n", " "))
    return labels


def _bars(ax: Axes, study: StudyData, rows: pd.DataFrame, style: Style) -> float:
    """Draw a panel's bars; returns the longest of them in TFLOP/s."""
    speed = base.value_of(study, "tflops", "time")
    percent = base.value_of(study, "percent_of_cublas", "time")
    may_rank = set(base.ranking(study))
    verdicts, states = base.verdicts(study), base.statuses(study, ("check", "time"))
    colors = look.kernel_colors(style, study.cases["kernel"].astype(str))
    top = 0.0
    for place, row in enumerate(rows.to_dict("records")):
        case, kernel = str(row["case"]), str(row["kernel"])
        value = speed.get(case)
        if value is None:
            state = states[case]
            said = state.status if state.status != "ok" else "not timed"
            _say(ax, 0.0, place, said, GREY, style)
            continue
        top = max(top, float(value))
        if case in may_rank:
            ax.barh(place, value, height=0.72, color=colors[kernel], linewidth=0)
            share = percent.get(case)
            told = base.digits(float(value))
            if kernel != BASELINE and share is not None:
                told += f"  ({share:.1f} %)"
            _say(ax, float(value), place, told, INK, style)
        else:
            ax.barh(
                place, value, height=0.72, color="#EEEEEE", hatch="////", edgecolor="#AAAAAA",
            )  # fmt: skip
            _say(ax, float(value), place, f"{verdicts[case]}, not ranked", GREY, style)
    return top


def _say(ax: Axes, x: float, y: float, text: str, color: str, style: Style) -> None:
    ax.annotate(
        text, (x, y), xytext=(2, 0), textcoords="offset points",
        va="center", ha="left", size=style.small, color=color,
    )  # fmt: skip


def draw(study: StudyData, style: Style) -> Figure:
    """One panel a dtype, a bar a case."""
    with look.apply(style):
        dtypes, line = base.dtypes_in_order(study), style.line * 25.4
        if not dtypes or base.value_of(study, "tflops", "time").empty:
            return look.empty_figure(study, style, "throughput")
        parts = {dtype: _rows(study, dtype) for dtype in dtypes}
        labels = {dtype: _labels(rows, dtype, style) for dtype, rows in parts.items()}
        heights = [
            len(labels[d]) * max(4.4, (1 + max(lb.count("\n") for lb in labels[d])) * 0.95 * line)
            for d in dtypes
        ]
        fig = look.new_figure(style, sum(heights) + 11 * len(dtypes) + 8)
        axes = fig.subplots(
            len(dtypes), 2, squeeze=False,
            gridspec_kw={"height_ratios": heights, "width_ratios": [3, 0.8]},
        )  # fmt: skip
        ratio = base.over_2mnk(study, base.COUNTED_FLOPS)
        colors = look.kernel_colors(style, study.cases["kernel"].astype(str))
        for (left, right), dtype in zip(axes, dtypes, strict=True):
            rows = parts[dtype]
            top = _bars(left, study, rows, style)
            look.rows_axis(left, labels[dtype])
            if study.option("log", False) and top > 0:
                left.set_xscale("log")
                left.set_xlim(right=top * 8)
            else:
                left.set_xlim(0, (top or 1.0) * (1.55 if style.narrow else 1.22))
            left.set_title(base.dtype_label(dtype))
            left.set_xlabel("TFLOP/s" if dtype == dtypes[-1] else "")
            look.grid(left, "x")
            _ratio_panel(right, rows, ratio, colors, style, dtype == dtypes[-1])
        axes[0][1].set_title("FLOPs\n/ 2mnk" if style.narrow else "counted FLOPs")
        handles = [
            Patch(color="#BBBBBB", label="2mnk over median time (% of cuBLAS, interleaved)"),
            Line2D([], [], color=GREY, marker="o", linestyle="", label="counted FLOPs over 2mnk"),
        ]
        timed, may_rank = base.value_of(study, "tflops", "time"), set(base.ranking(study))
        if any(case not in may_rank for case in timed.index):
            handles.insert(
                1, Patch(facecolor="#EEEEEE", edgecolor="#AAAAAA", hatch="////", label="not ranked")
            )
        shapes = list(dict.fromkeys(base.shape_label(r) for r in study.cases.to_dict("records")))
        notes = [f"m = n = k = {shapes[0][:-1]}." if shapes[0].endswith("³") else f"{shapes[0]}."]
        return look.finish(
            fig, study, style, handles, [str(h.get_label()) for h in handles],
            [*(notes if len(shapes) == 1 else []), *base.rate_notes(study)], _STAGES,
        )  # fmt: skip


def _ratio_panel(
    ax: Axes, rows: pd.DataFrame, ratio: pd.Series[float], colors: dict[str, str], style: Style,
    last: bool,
) -> None:  # fmt: skip
    top = 1.0
    for place, row in enumerate(rows.to_dict("records")):
        value = ratio.get(str(row["case"]))
        if value is None:
            continue
        top = max(top, float(value))
        ax.plot([value], [place], "o", color=colors[str(row["kernel"])])
        ax.annotate(
            f"{value:.3f}", (float(value), place), xytext=(4, 0), textcoords="offset points",
            va="center", ha="left", size=style.small, color=INK,
        )  # fmt: skip
    ax.axvline(1.0, color=GREY, linewidth=0.6, zorder=0)
    look.rows_axis(ax, [""] * len(rows))
    ax.set_yticks([])
    ax.set_xlim(0.93, 1.0 + max(0.45 if style.narrow else 0.35, (top - 1.0) * 2.2))
    ax.set_xticks([1.0], ["1"])
    ax.set_xlabel("" if style.narrow or not last else "over 2mnk")
    ax.spines["left"].set_visible(False)
