"""Panels over N for each sweep, which both quantization figures share, with their notes.

Lines are closed forms of tilewave.theory, points are measurements. The model takes a single number from a
sweep: the time of a wave (tilewave.plots._sweeps).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, MultipleLocator
from pydantic import Field

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._sweeps import Sweep
from tilewave.plots.base import StudyData
from tilewave.plots.options import Name, PlotOptions
from tilewave.plots.style import GREY, MODEL, Style

PANELS: Mapping[str, str] = {
    "tflops": "TFLOP/s", "useful": "2mnk / operations", "active": "SM cycles active,\naverage / maximum",
}  # fmt: skip


class Options(PlotOptions):
    """The options of both quantization plots."""

    drawn: tuple[Name, ...] = Field(
        (),
        description="kernels or variants that the figure shows, of each the first sweep; without it all sweeps",
    )


_STAGES = ("time", "counters")
_MODEL, _ALONE, _CUBLAS = "model", "model, blocks over SMs alone", "cuBLAS, measured"
_COLORS = {_MODEL: MODEL, _ALONE: MODEL, _CUBLAS: "#000000"}
_DASHES = {_MODEL: "", _ALONE: (4, 1.2, 1, 1.2), _CUBLAS: (1.5, 1)}
_WRONG = "not correct, not ranked"
_FAINT = "#BBBBBB"
_EDGE_DASH = (0, (6, 2.5))
_EDGES = {"columns": "tile column", "waves": "wave"}
_MOST_COLUMNS = 20  # largest number of distinguishable boundaries of tile columns


# ------------------------------------------------------------------------------------------ panels


def _lines(sweep: Sweep, panel: str) -> pd.DataFrame:
    """Return the panel's lines, a row a point: n, value, line (of _COLORS)."""
    model, frame = sweep.model, sweep.frame
    if panel != "tflops":
        return pd.DataFrame({"n": model["n"], "value": model[f"model_{panel}"], "line": _MODEL})
    times = {_MODEL: model["work"] * sweep.wave_time}
    if sweep.blocks_per_sm > 1:
        times[_ALONE] = model["rounds"] * sweep.round_time
    parts = [pd.DataFrame({"n": model["n"], "value": t, "line": n}) for n, t in times.items()]
    parts.append(frame[["n"]].assign(value=frame["cublas_duration"], line=_CUBLAS))
    lines = pd.concat(parts, ignore_index=True)
    lines["value"] = 2e-6 * sweep.m * sweep.k * lines["n"] / lines["value"]
    return lines.dropna()


def _panel(ax: Axes, sweep: Sweep, panel: str) -> None:
    """Draw lines and points of one sweep; a case that is not correct is a grey cross."""
    lines = _lines(sweep, panel)
    if not lines.empty:  # seaborn warns of unused colours
        sns.lineplot(
            lines, x="n", y="value", hue="line", style="line", palette=_COLORS,
            dashes=_DASHES, estimator=None, errorbar=None, linewidth=1.0, zorder=2, ax=ax,
        )  # fmt: skip
    good = "measured"
    points = sweep.frame.assign(shown=np.where(sweep.frame["ranks"], good, _WRONG))
    plotted = points.dropna(subset=panel)
    if not plotted.empty:
        sns.scatterplot(
            plotted, x="n", y=panel, hue="shown", style="shown",
            palette={good: look.OURS, _WRONG: GREY}, markers={good: "o", _WRONG: "X"},
            s=11 if len(points) < 40 else 7, linewidth=0, zorder=4, ax=ax,
        )  # fmt: skip
    ax.set(xlabel="", ylabel="", ylim=(0, None if panel == "tflops" else 1.08))
    ax.yaxis.set_major_locator(MaxNLocator(4))
    look.grid(ax, "y")


def _marks(axes: Sequence[Axes], sweep: Sweep, style: Style, by: str) -> None:
    """Draw boundaries through all panels, and label those of `by`. Tile columns are dotted, waves dashed. Where an
    SM holds several blocks, the last N of one more block on every SM is dash-dotted."""
    columns, rounds = sweep.edges("columns"), sweep.edges("rounds")
    marks: list[tuple[float, str, Any]] = []
    marks += [(n, _FAINT, ":") for n, _, _ in columns if len(columns) <= _MOST_COLUMNS]
    marks += [(n, _FAINT, "-.") for n, _, _ in rounds if sweep.blocks_per_sm > 1]
    marks += [(n, GREY, _EDGE_DASH) for n, _, _ in sweep.edges("waves")]
    for ax in axes:
        for n, color, dash in marks:
            ax.axvline(n, color=color, linewidth=0.7, linestyle=dash, zorder=0)
    labelled = sweep.edges(by)
    labelled = labelled[:: max(1, -(-len(labelled) // 8))]
    if labelled:
        top = axes[0].secondary_xaxis("top")
        top.set_xticks([n for n, _, _ in labelled], [f"{a}→{b}" for _, a, b in labelled])
        top.tick_params(length=0, pad=0, labelsize=style.small)
        top.spines["top"].set_visible(False)


def _ticks(ax: Axes, sweep: Sweep, most: int) -> None:
    low, high = float(sweep.frame["n"].min()), float(sweep.frame["n"].max())
    step = 8.0
    while (high - low) / step > most:
        step *= 2
    ax.xaxis.set_major_locator(MultipleLocator(step))
    pad = max(4.0, 0.02 * (high - low))
    ax.set_xlim(low - pad, high + pad)


def drawn(study: StudyData, sweeps: Sequence[Sweep]) -> list[Sweep]:
    """Return the sweeps that the figure shows (option ``drawn``), in the option's order."""
    wanted = Options.of(study).drawn
    if not wanted:
        return list(sweeps)
    first: dict[str, Sweep] = {}
    for sweep in sweeps:
        for name in (sweep.kernel, sweep.variant):
            first.setdefault(name, sweep)
    return [first[name] for name in wanted if name in first]


def draw(
    study: StudyData, table: pd.DataFrame, style: Style, by: str, order: Sequence[str]
) -> Figure:
    """Draw panels above one another, sweeps side by side (above one another in a narrow figure).
    by: "columns" or "waves", the boundaries with labels. order: the panels, of PANELS."""
    with look.apply(style):
        sweeps = drawn(study, base.derived(table))
        measured = any(s.frame[[*PANELS]].notna().any(axis=None) for s in sweeps)
        if not measured:
            return look.empty_figure(study, style, "sweep")
        across = 1 if style.narrow else min(2, len(sweeps))
        bands = -(-len(sweeps) // across)
        fig = look.new_figure(style, bands * (len(order) * (24.0 if style.narrow else 34.0) + 14))
        grid = fig.add_gridspec(bands * len(order), across)
        for index, sweep in enumerate(sweeps):
            band, column = divmod(index, across)
            axes: list[Axes] = []
            for row, panel in enumerate(order):
                spot = grid[band * len(order) + row, column]
                axes.append(fig.add_subplot(spot, sharex=axes[0] if axes else None))
                _panel(axes[-1], sweep, panel)
                axes[-1].set_ylabel(PANELS[panel] if column == 0 else "")
                axes[-1].tick_params(axis="x", labelbottom=row == len(order) - 1)
            _ticks(axes[0], sweep, 5 if style.narrow else 8)
            _marks(axes, sweep, style, by)
            # A variant's name has its own line: both do not fit above half of the width.
            title = _name(sweep, sweeps).replace(f"{sweep.variant}, ", f"{sweep.variant}\n", 1)
            axes[0].set_title(title, pad=style.font_size * 1.5)
            axes[-1].set_xlabel(f"N (K = {sweep.k})")
        handles = [*look.entries(fig.axes), *_mark_handles(sweeps, by)]
        return look.finish(fig, study, style, handles, _notes(sweeps), _STAGES)


def _mark_handles(sweeps: Sequence[Sweep], by: str) -> list[Artist]:
    """Return legend entries of the boundaries."""
    labels = {name: f"last N of a {name}" for name in _EDGES.values()}
    labels[_EDGES[by]] += " (numbered)"
    marks: list[tuple[str, str, Any]] = [(labels["wave"], GREY, _EDGE_DASH)]
    if any(len(s.edges("columns")) <= _MOST_COLUMNS for s in sweeps):
        marks.append((labels["tile column"], _FAINT, ":"))
    if any(s.blocks_per_sm > 1 for s in sweeps):
        marks.append(("last N of one more block on every SM", _FAINT, "-."))
    return [Line2D([], [], color=c, linestyle=dash, label=label) for label, c, dash in marks]


# ------------------------------------------------------------------------- takeaway and notes


def _drops(sweep: Sweep, by: str) -> Iterator[tuple[float, float, int, int]]:
    """Yield at each boundary the share of the throughput lost behind it, that of the model, and both N."""
    at = sweep.frame.assign(model=sweep.frame["n"] / sweep.frame["work"]).set_index("n")
    rates = at["tflops"].where(at["ranks"])
    sizes = list(at.index)
    for n, _, _ in sweep.edges(by):
        past = sizes[sizes.index(n) + 1]
        lost = [1 - float(rate[past] / rate[n]) for rate in (rates, at["model"])]
        if not math.isnan(lost[0]):
            yield lost[0], lost[1], int(n), past


def takeaway(study: StudyData, table: pd.DataFrame, by: str) -> str:
    """Return the largest loss of throughput at a boundary, with the kernel that has it."""
    losses = [
        (*drop, sweep.kernel)
        for sweep in drawn(study, base.derived(table))
        if sweep.summary().count and sweep.blocks_per_sm == 1
        for drop in _drops(sweep, by)
    ]
    lost, model, n, past, kernel = max(losses, default=(0.0, 0.0, 0, 0, ""))
    if lost <= 0:
        return ""
    return (
        f"Throughput falls by up to {100 * lost:.0f} % past a full {_EDGES[by]}: {kernel}, N = {n} → {past}, "
        f"model {100 * model:.0f} %"
    )


def _tile_name(tile: tuple[float, ...]) -> str:
    return f"{int(tile[0])}×{int(tile[1])}"


def _name(sweep: Sweep, sweeps: Sequence[Sweep]) -> str:
    """Return a sweep's name: its M, its tile where tiles differ, its variant where several share both."""
    several = len({s.tile[:2] for s in sweeps}) > 1
    tile = f"{_tile_name(sweep.tile)} tiles, " if several else ""
    alike = {s.variant for s in sweeps if (s.m, s.tile[:2]) == (sweep.m, sweep.tile[:2])}
    variant = f"{sweep.variant}, " if len(alike) > 1 else ""
    return f"{variant}{tile}M = {sweep.m}"


def percent(value: float) -> str:
    """Return a share as text, with a minus sign where it is negative."""
    return f"{100 * value:.1f} %".replace("-", "−")


def _notes(sweeps: Sequence[Sweep]) -> list[str]:
    """Return notes on the fitted number and on the error of the model."""
    held = dict.fromkeys(f"{s.blocks_per_sm} of {_tile_name(s.tile)}" for s in sweeps)
    notes = [
        f"{sweeps[0].sms} SMs; an SM holds {', '.join(held)}. The model is waves times the time of a wave, the only "
        "number fitted: the median over N."
    ]
    errors = [
        f"{_name(sweep, sweeps)} {percent(error.median)}, worst {percent(error.worst)} "
        f"at N = {sweep.frame['n'].iloc[error.place]}"
        for sweep in sweeps
        if (error := sweep.summary()).count
    ]
    return [*notes, f"Error of the duration, median: {'; '.join(errors)}."] if errors else notes
