"""Figures of a comparison: ratios of times by case, and of counts that differ."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tilewave.plots import style as look
from tilewave.plots.style import BAD, GOOD, GREY, INK, Style
from tilewave.report.comparing import output
from tilewave.report.comparing.sides import OCCUPANCY
from tilewave.theory import ratios

MOST = 40
"""The most cases of a figure; the tables have all."""
_LOOKS: Mapping[str, tuple[str, str]] = {
    ratios.FASTER: (GOOD, "v"),
    ratios.SAME: (GREY, "o"),
    ratios.SLOWER: (BAD, "^"),
    ratios.AMBIGUOUS: ("#AA8800", "D"),
}
"""Colour and marker of a verdict."""
MORE_IS_BETTER = (OCCUPANCY,)
_COSTS: Mapping[bool, tuple[str, str, str]] = {
    True: (BAD, "^", "costs more"), False: (GOOD, "v", "costs less"),
}  # fmt: skip
"""Colour, marker and label by whether the count costs more than before."""


def _label(case: str, style: Style) -> str:
    return case.replace("@", "\n" if style.narrow else "  ")


def _figure(cases: Sequence[str], style: Style) -> tuple[Figure, Axes]:
    """Return a figure with a row for each case, and its axes."""
    labels = [_label(case, style) for case in cases]
    tall = 7.0 if any("\n" in label for label in labels) else 4.2
    fig = look.new_figure(style, tall * len(cases) + 13)
    ax = fig.subplots()
    look.rows_axis(ax, labels)
    return fig, ax


def _selection_note(shown: int, total: int) -> list[str]:
    return [f"Shown are the {shown} of {total} cases that differ most."] if shown < total else []


def drawn(times: pd.DataFrame) -> pd.DataFrame:
    """Return the comparable rows of `changes.times` for `draw_times`, the slowest first.

    Of more than MOST rows, those with a verdict other than *same* go first, then those farthest from 1.
    """
    rows = times[times["ratio"].notna()]
    far = np.log(rows["ratio"].astype(float)).abs()
    order = pd.DataFrame({"same": rows["verdict"] == ratios.SAME, "far": -far})
    rows = rows.loc[order.sort_values(["same", "far"], kind="stable").index[:MOST]]
    return rows.sort_values("ratio", ascending=False, kind="stable")


def draw_times(times: pd.DataFrame, title: str, source: str, style: Style) -> Figure:
    """Draw a row for each case: the change of its time with the interval; the margin is shaded.

    times: from `changes.times`, with at least one ratio; title, source: for `style.framed`.
    """
    rows, comparable = drawn(times), int(times["ratio"].notna().sum())
    with look.apply(style):
        fig, ax = _figure(list(rows["case"]), style)
        percent = rows.assign(**{name: 100 * (rows[name] - 1) for name in ("low", "ratio", "high")})
        margin = 100 * float(rows["margin"].max())
        ax.axvspan(-margin, margin, color=GREY, alpha=0.12, linewidth=0, zorder=-1)
        ax.axvline(0, color=INK, linewidth=0.8)
        verdicts = [name for name in _LOOKS if (percent["verdict"] == name).any()]
        for name in verdicts:
            color, marker = _LOOKS[name]
            part = percent[percent["verdict"] == name]
            positions = np.flatnonzero((percent["verdict"] == name).to_numpy())
            span = np.abs(part[["low", "high"]].sub(part["ratio"], axis=0).to_numpy().T)
            ax.errorbar(
                part["ratio"], positions, xerr=span, color=color, fmt=marker, markersize=3.4,
                elinewidth=0.9, label=name,
            )  # fmt: skip
        ax.set_xlabel("change in time (%)")
        look.grid(ax, "x")
        notes = [
            "Right of the line: slower than before. Marks: medians; bars: 95 % intervals. Shaded: the "
            f"margin of {margin:g} %.",
            *_selection_note(len(rows), comparable),
        ]
        return look.framed(fig, style, title, source, look.entries([ax]), notes)


def _change(rows: pd.DataFrame) -> str:
    """Return `128 to 143` for the case that changed most, and how many cases changed if they differ."""
    row = rows.loc[rows["far"].idxmax()]
    most = f" (of {len(rows)} cases)" if rows["ratio"].nunique() > 1 else ""
    return f"{output.amount(row['before'])} to {output.amount(row['after'])}{most}"


def draw_counts(counts: pd.DataFrame, title: str, source: str, style: Style) -> Figure:
    """Draw a row for each count: its ratio in each case, and the numbers of the case that changed most.

    Ratios from 0 or to 0 stand at the edges. counts: from `changes.counts`, at least one row; title, source:
    for `style.framed`.
    """
    ratio = (counts["after"] / counts["before"]).astype(float)  # infinite from 0
    finite = ratio[(ratio > 0) & np.isfinite(ratio)]
    lower, upper = 0.5 * min(0.8, *finite), 2 * max(1.25, *finite)
    rows = counts.assign(
        ratio=ratio.clip(lower, upper), far=np.log(ratio.clip(1e-9, 1e9)).abs(),
        costs_more=(ratio > 1) ^ counts["count"].isin(MORE_IS_BETTER),
    )  # fmt: skip
    names = list(dict.fromkeys(counts["count"]))
    changes = {name: _change(rows[rows["count"] == name]) for name in names}
    labels = [output.named(name) + ("\n" + changes[name]) * style.narrow for name in names]
    with look.apply(style):
        fig, ax = _figure(labels, style)
        ax.axvline(1, color=INK, linewidth=0.8)
        ax.set_xscale("log", base=2)
        ax.set_xlim(lower / 1.15, upper * 1.15)
        for costs_more, (color, marker, label) in _COSTS.items():
            part = rows[rows["costs_more"] == costs_more]
            if len(part):
                positions = [names.index(name) for name in part["count"]]
                ax.plot(
                    part["ratio"],
                    positions,
                    marker,
                    color=color,
                    markersize=3.4,
                    alpha=0.7,
                    label=label,
                )
        for position, name in enumerate(names if not style.narrow else ()):
            ax.annotate(
                changes[name], (1, position), xycoords=("axes fraction", "data"), xytext=(4, 0),
                textcoords="offset points", va="center", size=0.9 * style.font_size, color=GREY,
            )  # fmt: skip
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        for edge, label, mask in ((lower, "to 0", ratio == 0), (upper, "from 0", np.isinf(ratio))):
            if mask.any():
                ax.axvline(edge, color=GREY, linewidth=0.6, linestyle=":", zorder=0)
                ax.annotate(
                    label, (edge, 1), xycoords=("data", "axes fraction"), xytext=(0, 2),
                    textcoords="offset points", ha="center", color=GREY, size=0.8 * style.font_size,
                )  # fmt: skip
        ax.set(xlabel="ratio of counts, after over before", ylabel="")
        look.grid(ax, "x")
        return look.framed(fig, style, title, source, look.entries([ax]))
