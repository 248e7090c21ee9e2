"""Figures of a comparison: ratios of times by case, and of counts that differ."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tilewave.plots import style as look
from tilewave.plots.style import BAD, GOOD, GREY, INK, Style
from tilewave.report.comparing import output
from tilewave.report.comparing.changes import OCCUPANCY
from tilewave.theory import ratios

MOST = 40
"""The most cases of a figure; the tables have all."""
COSTS, SAVES = "costs more", "costs less"
_LOOKS: Mapping[str, tuple[str, str]] = {
    ratios.FASTER: (GOOD, "v"), ratios.SAME: (GREY, "o"), ratios.SLOWER: (BAD, "^"),
    ratios.AMBIGUOUS: ("#AA8800", "D"), COSTS: (BAD, "^"), SAVES: (GOOD, "v"),
}  # fmt: skip
"""Colour and marker of a verdict, and of a count by whether it costs more than before."""
MORE_IS_BETTER = (OCCUPANCY,)
STYLE = Style()


def _draw(rows: pd.DataFrame, xlabel: str, middle: float, margin: float = 0.0) -> Figure:
    """Draw a mark for each row (columns label, x, kind; low and high for its interval) from top to bottom."""
    labels = list(dict.fromkeys(rows["label"]))
    with look.apply(STYLE):
        fig = look.new_figure(STYLE, 4.2 * len(labels) + 13)
        ax = fig.subplots()
        rows = rows.assign(y=rows["label"].map(labels.index))
        ax.axvspan(middle - margin, middle + margin, color=GREY, alpha=0.12, linewidth=0)
        ax.axvline(middle, color=INK, linewidth=0.8)
        if "low" in rows:
            ax.hlines(rows["y"], rows["low"], rows["high"], color=GREY, linewidth=0.9)
        kinds = [kind for kind in _LOOKS if (rows["kind"] == kind).any()]
        sns.scatterplot(
            rows, x="x", y="y", hue="kind", style="kind", hue_order=kinds, style_order=kinds, ax=ax,
            palette=[_LOOKS[kind][0] for kind in kinds], markers=[_LOOKS[kind][1] for kind in kinds], s=18,
        )  # fmt: skip
        look.rows_axis(ax, labels)
        ax.set(xlabel=xlabel, ylabel="")
        ax.legend(title=None, loc="best")
        look.grid(ax, "x")
        fig.set_layout_engine("constrained")
    return fig


def draw_times(times: pd.DataFrame) -> Figure:
    """Draw the change of each case's time (%) with its interval, the slowest first; the margin is shaded.

    Of more than MOST rows, those with a verdict other than *same* go first, then those farthest from 1.
    """
    far = np.log(times["ratio"].astype(float)).abs()
    order = pd.DataFrame({"same": times["verdict"] == ratios.SAME, "far": -far})
    rows = times.loc[order.sort_values(["same", "far"], kind="stable").index[:MOST]]
    rows = rows.sort_values("ratio", ascending=False, kind="stable")
    percent = {name: 100 * (rows[name].astype(float) - 1) for name in ("low", "ratio", "high")}
    rows = rows.assign(**percent, label=rows["case"].str.replace("@", "  "), kind=rows["verdict"])
    margin = 100 * float(rows["margin"].max())
    return _draw(rows.assign(x=rows["ratio"]), "change in time (%)", 0.0, margin)


def _label(rows: pd.DataFrame) -> str:
    """Return `registers: 128 to 143` for the case that changed most, and of how many cases that differ."""
    row = rows.loc[rows["far"].idxmax()]
    most = f" (of {len(rows)} cases)" if rows["x"].nunique() > 1 else ""
    change = f"{output.amount(row['before'])} to {output.amount(row['after'])}"
    return f"{output.named(row['count'])}: {change}{most}"


def draw_counts(counts: pd.DataFrame) -> Figure:
    """Draw the ratio of each count in each case. Ratios from 0 or to 0 stand at the edges."""
    ratio = (counts["after"] / counts["before"]).astype(float)  # infinite from 0
    finite = ratio[(ratio > 0) & np.isfinite(ratio)]
    costs = (ratio > 1) ^ counts["count"].isin(MORE_IS_BETTER)
    rows = counts.assign(
        x=ratio.clip(0.5 * min(0.8, *finite), 2 * max(1.25, *finite)), far=np.log(ratio.clip(1e-9, 1e9)).abs(),
        kind=np.where(costs, COSTS, SAVES),
    )  # fmt: skip
    labels = {name: _label(part) for name, part in rows.groupby("count")}
    fig = _draw(
        rows.assign(label=rows["count"].map(labels)), "ratio of counts, after over before", 1.0
    )
    ax = fig.axes[0]
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return fig
