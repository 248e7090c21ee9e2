"""Panels over N of one sweep, which both quantization figures share, with their notes.
Lines are closed forms with one measured number, the time of a wave (`_sweeps`); points are measurements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, MultipleLocator
from pydantic import Field

from tilewave.basics.columns import filled
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._sweeps import Sweep
from tilewave.plots.base import StudyData
from tilewave.plots.options import Name, Named
from tilewave.plots.style import BLUE, INK, MODEL, RED, Style

PANELS: Mapping[str, str] = {
    "tflops": "TFLOP/s", "useful": "useful share of the tensor operations",
    "active": "active cycles of an SM, average / maximum",
}  # fmt: skip


class Options(Named):
    """The options of plots of sweeps."""

    drawn: tuple[Name, ...] = Field(
        (),
        description="kernels or variants of which the figure shows the first sweep: one, of waves cured at most eight; "
        "without it the first sweeps",
    )


STAGES = ("time", "counters")
_EDGES = {"columns": "tile column", "waves": "wave"}


def drawn(study: StudyData, sweeps: Sequence[Sweep], most: int = 1) -> list[Sweep]:
    """Return the sweeps that the figure shows (option ``drawn``), in the option's order."""
    wanted = Options.of(study).drawn
    first: dict[str, Sweep] = {}
    for sweep in sweeps:
        for name in (sweep.kernel, sweep.variant):
            first.setdefault(name, sweep)
    named = [first[name] for name in wanted if name in first] or list(sweeps)
    return [sweep for sweep in named if sweep.frame["tflops"].notna().any()][:most]


def boundaries(ax: Axes, sweep: Sweep, by: str, where: str = "") -> None:
    """Draw a dashed line at the end of each full column or wave, the first with its name."""
    for index, (n, _, _) in enumerate(sweep.edges(by)):
        ax.axvline(n, color=INK, linewidth=0.7, linestyle="--", zorder=0)
        if not index:
            name = f"a {_EDGES[by]} is full{where}"
            look.write(ax, name, (n, 0.03), (3, 0), xycoords=ax.get_xaxis_transform(), va="bottom")


def axis_of_n(ax: Axes, study: StudyData, sweep: Sweep, most: int, name: str = "") -> None:
    """Set limits and ticks of N. name: the kernel's, after the dtype of its operands."""
    low, high = float(sweep.frame["n"].min()), float(sweep.frame["n"].max())
    step = 8.0
    while (high - low) / step > most:
        step *= 2
    ax.xaxis.set_major_locator(MultipleLocator(step))
    pad = max(4.0, 0.02 * (high - low))
    ax.set(xlim=(low - pad, high + pad), ylim=(0, None))
    dtype = study.cases.loc[study.cases["variant"] == sweep.variant, "dtype"].iloc[0]
    kind = base.operand_dtype(dtype) + name
    ax.set_xlabel(f"N (M = {sweep.m}, K = {sweep.k}, {kind})")
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    look.grid(ax, "y")


def _panel(ax: Axes, study: StudyData, sweep: Sweep, panel: str, by: str, style: Style) -> None:
    """Draw the model as a line and the correct cases as points, and a line at the ends of columns or waves."""
    points = sweep.frame[sweep.frame["ranks"]].dropna(subset=panel)
    model = sweep.model
    speed = 2e-6 * sweep.m * sweep.k * model["n"] / (model["work"] * sweep.wave_time)
    values = speed if panel == "tflops" else model[f"model_{panel}"]
    sns.lineplot(x=model["n"], y=values, color=MODEL, errorbar=None, estimator=None, ax=ax)
    sns.scatterplot(points, x="n", y=panel, color=BLUE, s=10, linewidth=0, zorder=3, ax=ax)
    boundaries(ax, sweep, by)
    top = float(ax.get_ylim()[1])
    axis_of_n(ax, study, sweep, 4 if style.narrow else 6, f", {name_of(study, sweep)}")
    ax.set(ylabel="", title=PANELS[panel], ylim=(0, top))


@look.styled
def draw(
    study: StudyData, table: pd.DataFrame, style: Style, by: str, order: Sequence[str]
) -> Figure:
    """Draw two panels of one sweep, with the largest drop.
    by: "columns" or "waves", the boundaries. order: the panels, of PANELS."""
    sweeps = drawn(study, base.derived(table))
    look.stop_if(not sweeps, "sweep")
    fig, axes = look.panels(style, [52.0] * len(order))
    for ax, panel in zip(axes, order, strict=True):
        _panel(ax, study, sweeps[0], panel, by, style)
    lost, n, past = max(drops(sweeps[0], by), default=(0.0, 0, 0))
    if lost > 0:
        _drop(axes[0], sweeps[0].frame.set_index("n")["tflops"], n, past, lost, style)
    for at, (text, color) in enumerate((("● measured", BLUE), ("— model", MODEL))):
        place = (0.66, 0.17 + 0.1 * at)
        look.write(axes[0], text, place, xycoords="axes fraction", color=color)
    return look.finish(fig, study, style, notes=notes(sweeps), stages=STAGES)


def _drop(ax: Axes, rates: pd.Series[float], n: int, past: int, lost: float, style: Style) -> None:
    """Draw an arrow from the speed at a boundary to that past it, with the share lost."""
    arrow: dict[str, Any] = {"arrowstyle": "->", "color": RED, "linewidth": 1.2, "shrinkA": 0}
    ax.annotate("", (past, rates[past]), (past, rates[n]), arrowprops=arrow)
    ax.hlines(rates[n], n, past, color=RED, linewidth=0.8)
    left = past > sum(ax.get_xlim()) / 2
    at, offset, side = (n, -5, "right") if left else (past, 5, "left")
    bold: dict[str, Any] = {"color": RED, "weight": "bold", "size": 1.2 * style.font_size}
    middle = (rates[n] + rates[past]) / 2
    look.write(ax, f"−{100 * lost:.0f} %", (at, middle), (offset, 0), ha=side, va="center", **bold)


def drops(sweep: Sweep, by: str) -> Iterator[tuple[float, int, int]]:
    """Yield at each boundary the share of the throughput lost past it, and both N."""
    frame = sweep.frame
    rates = frame["tflops"].where(frame["ranks"]).set_axis(frame["n"])
    sizes = list(rates.index)
    for n, _, _ in sweep.edges(by):
        past = sizes[sizes.index(n) + 1]
        if not math.isnan(lost := 1 - float(rates[past] / rates[n])):
            yield lost, int(n), past


def takeaway(study: StudyData, table: pd.DataFrame, by: str) -> str:
    """Return the largest loss of throughput at a boundary of the drawn sweeps, and the kernel."""
    sweeps = drawn(study, base.derived(table))
    losses = [(drop[0], name_of(study, sweep)) for sweep in sweeps for drop in drops(sweep, by)]
    lost, name = max(losses, default=(0.0, ""))
    fall = f"Throughput falls by {100 * lost:.0f} % past a full {_EDGES[by]}"
    return f"{fall}: {name}" if lost > 0 else ""


def name_of(study: StudyData, sweep: Sweep) -> str:
    """Return the plain name of a sweep's variant or kernel, else the variant."""
    names = Options.of(study).names
    return names.get(sweep.variant, names.get(sweep.kernel, sweep.variant))


def percent(value: float) -> str:
    """Return a share as text, with a minus sign where it is negative."""
    return f"{100 * value:.1f} %".replace("-", "−")


def notes(sweeps: Sequence[Sweep]) -> list[str]:
    """Return the sweeps, the fitted number and the error of the model."""
    errors = [(sweep, error) for sweep in sweeps if (error := sweep.summary()).count]
    facts = {"sms": sweeps[0].sms, "errors": errors, "percent": percent}
    return filled(__file__, "_quantization", **facts).splitlines()
