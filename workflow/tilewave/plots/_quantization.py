"""What the two quantization figures share: the panels over N, and what is said below them.

Lines are closed forms of tilewave.theory, points are measurements. The only number that the model
takes from a sweep is the time of a wave (tilewave.plots._sweeps); how far it is from each point is
a panel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator, MultipleLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._sweeps import Sweep
from tilewave.plots.base import StudyData
from tilewave.plots.style import FAINT, GREY, MODEL, Style
from tilewave.theory.quantization import PredictionError

PANELS = (
    "tflops", "duration", "error", "cublas", "useful", "tiles", "operations", "active",
)  # fmt: skip
OPTIONS: Mapping[str, str] = {
    "panels": f"the panels in order, of {', '.join(PANELS)}",
    "blocks_per_sm": "blocks that an SM holds at a time (default: from registers, shared memory "
    "and threads of the kernel)",
}
_STAGES = ("time", "counters")
_WAVE_COLOR = "#555555"
_WAVES_DASH = (0, (2, 1.2))
_EDGE_DASH = (0, (6, 2.5))
_ALONE_DASH = (0, (4, 1.2, 1, 1.2))
_PAIR_COLOR = "#B8860B"  # of the model between the two limits
_MOST_COLUMNS = 20  # boundaries of tile columns that can be told apart
_BAND = 5.0  # %, the error that the model is held to
_MOST_TILES = 7  # rows of the cuBLAS panel; what it chose more rarely shares one row


# ------------------------------------------------------------------------------------------ panels


def _model_line(ax: Axes, sweep: Sweep, values: pd.Series[float]) -> None:
    ax.plot(sweep.model["n"], values, color=MODEL, linewidth=1.1, zorder=2)


def _limits(ax: Axes, sweep: Sweep, of: Callable[[pd.Series[float]], pd.Series[float]]) -> None:
    """The model's line and, where an SM holds several blocks, that of counting SMs alone."""
    _model_line(ax, sweep, of(sweep.model["waves"] * sweep.wave_time))
    if sweep.blocks_per_sm > 1:
        ax.plot(
            sweep.model["n"], of(sweep.model["rounds"] * sweep.round_time), color=MODEL,
            linewidth=0.9, linestyle=_ALONE_DASH, zorder=2,
        )  # fmt: skip
        whole, single = sweep.pair
        both = sweep.model["whole"] * whole + sweep.model["single"] * single
        ax.plot(sweep.model["n"], of(both), color=_PAIR_COLOR, linewidth=0.9, zorder=3)


def _points(ax: Axes, sweep: Sweep, column: str, color: str) -> None:
    good = sweep.frame[sweep.frame["ranks"] & sweep.frame[column].notna()]
    bad = sweep.frame[~sweep.frame["ranks"] & sweep.frame[column].notna()]
    size = 3.0 if len(sweep.frame) < 40 else 2.2
    ax.plot(good["n"], good[column], "o", color=color, markersize=size, zorder=4)
    ax.plot(bad["n"], bad[column], "x", color=GREY, markersize=3.6, zorder=4)


def _cublas(ax: Axes, sweep: Sweep, column: str) -> None:
    frame = sweep.frame[sweep.frame[column].notna()]
    ax.plot(frame["n"], frame[column], "-", color="#000000", linewidth=0.8, zorder=3)


def _tflops(ax: Axes, sweep: Sweep, color: str) -> None:
    useful = 2.0 * sweep.m * sweep.k * sweep.model["n"] / 1e6
    _limits(ax, sweep, lambda duration: useful / duration)
    _cublas(ax, sweep, "cublas_tflops")
    _points(ax, sweep, "tflops", color)
    ax.set_ylim(bottom=0)


def _duration(ax: Axes, sweep: Sweep, color: str) -> None:
    _limits(ax, sweep, lambda duration: duration)
    _cublas(ax, sweep, "cublas_duration")
    _points(ax, sweep, "duration", color)
    ax.set_ylim(bottom=0)


def _error(ax: Axes, sweep: Sweep, color: str) -> None:
    """Measured over model, less 1, in percent: of the duration, and of the busiest SM's cycles."""
    n = sweep.frame["n"]
    size = 3.0 if len(n) < 40 else 2.2
    ax.axhspan(-_BAND, _BAND, color="#EFEFEF", linewidth=0, zorder=0)
    ax.axhline(0.0, color=MODEL, linewidth=0.9, zorder=1)
    shown = [100 * sweep.errors("cycles"), 100 * sweep.errors()]
    ax.plot(n, shown[0], "o", color=GREY, markersize=size, fillstyle="none", markeredgewidth=0.5)
    if sweep.blocks_per_sm > 1:
        shown.append(100 * sweep.errors("duration", "rounds"))
        ax.plot(n, shown[2], "+", color=GREY, markersize=size + 1, markeredgewidth=0.6)
    ax.plot(n, shown[1], "o", color=color, markersize=size, zorder=4)
    reach = max([2 * _BAND, *(float(s.abs().max()) for s in shown if s.notna().any())])
    ax.set_ylim(-1.12 * reach, 1.12 * reach)
    ax.yaxis.set_major_locator(MaxNLocator(4, symmetric=True))


def _tile_name(tile: tuple[float, float]) -> str:
    return f"{int(tile[0])}×{int(tile[1])}"


def _chosen(sweep: Sweep) -> pd.Series[str]:
    """The tile that cuBLAS chose at each N, as a name; missing where no counter tells one."""
    pairs = zip(sweep.frame["cublas_tile_m"], sweep.frame["cublas_tile_n"], strict=True)
    return pd.Series([None if math.isnan(m + n) else _tile_name((m, n)) for m, n in pairs])


def _area(name: str) -> tuple[int, str]:
    rows, _, columns = name.partition("×")
    return int(rows) * int(columns), name


def _cublas_tile(ax: Axes, sweep: Sweep, color: str) -> None:
    """One row for each tile that cuBLAS chose, the smallest below, and the kernel's own."""
    chosen = _chosen(sweep)
    own = _tile_name((sweep.tile[0], sweep.tile[1]))
    often = chosen.value_counts()
    named = sorted({own, *often.index[:_MOST_TILES]}, key=_area)
    names = [*(["other"] if len(often) > _MOST_TILES else []), *named]
    rows = {name: place for place, name in enumerate(names)}
    ax.axhline(rows[own], color=color, linewidth=0.8, zorder=1)
    known = chosen.notna()
    places = [rows.get(name, 0) for name in chosen[known]]
    ax.plot(sweep.frame["n"][known], places, "s", color="#000000", markersize=2.2, zorder=3)
    ax.yaxis.set_major_locator(FixedLocator(list(rows.values())))
    ax.set_yticklabels(names)
    ax.set_ylim(-0.6, len(names) - 0.4)


def _useful(ax: Axes, sweep: Sweep, color: str) -> None:
    _model_line(ax, sweep, sweep.model["model_useful"])
    _points(ax, sweep, "useful", color)
    ax.set_ylim(0, 1.08)


def _tiles(ax: Axes, sweep: Sweep, color: str) -> None:
    frame, model = sweep.frame, sweep.model
    _model_line(ax, sweep, model["tiles"] / sweep.sms)
    ax.plot(model["n"], model["waves"], color=MODEL, linewidth=1.1, linestyle=_WAVES_DASH)
    # ncu divides by what an SM holds at a time; tiles are drawn over SMs alone.
    counted = frame["counted_waves"] * sweep.blocks_per_sm
    known = counted.notna()
    ax.plot(frame["n"][known], counted[known], "o", color=color, markersize=2.2)
    ax.set_ylim(0, 1.15 * float(max(model["waves"].max(), model["tiles"].max() / sweep.sms)))
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))


def _operations(ax: Axes, sweep: Sweep, color: str) -> None:
    _model_line(ax, sweep, sweep.model["model_ratio"])
    _points(ax, sweep, "ratio", color)
    ax.axhline(1.0, color=FAINT, linewidth=0.6, zorder=0)
    ax.set_ylim(bottom=0.95)


def _active(ax: Axes, sweep: Sweep, color: str) -> None:
    _model_line(ax, sweep, sweep.model["model_active"])
    _points(ax, sweep, "active", color)
    ax.set_ylim(0, 1.08)


_DRAWN: Mapping[str, tuple[Callable[[Axes, Sweep, str], None], str]] = {
    "tflops": (_tflops, "TFLOP/s"),
    "duration": (_duration, "duration (µs)"),
    "error": (_error, "error (%)"),
    "cublas": (_cublas_tile, "tile"),
    "useful": (_useful, "2mnk / ops"),
    "tiles": (_tiles, "per SM"),
    "operations": (_operations, "tensor ops\n/ 2mnk"),
    "active": (_active, "cycles active\navg / max"),
}
_TITLES = {
    "tflops": "Throughput",
    "duration": "Duration",
    "error": "Error of the model: measured / model − 1",
    "cublas": "Tile that cuBLAS chose, rows × columns",
    "useful": "Useful share of the tiles",
    "tiles": "Tiles over SMs, and waves",
    "operations": "Operations executed",
    "active": "Balance of the SMs",
}


def _faint_edges(sweep: Sweep) -> list[tuple[float, Any]]:
    """Tile columns where they are few enough to be told apart; where an SM holds several blocks,
    the last N at which all have had one more."""
    columns = [(n, ":") for n, _, _ in sweep.edges("columns")]
    found: list[tuple[float, Any]] = columns if len(columns) <= _MOST_COLUMNS else []
    if sweep.blocks_per_sm > 1:
        found = [*found, *((n, _ALONE_DASH) for n, _, _ in sweep.edges("rounds"))]
    return found


def _marks(axes: Sequence[Axes], sweep: Sweep, style: Style, by: str) -> None:
    """Boundaries through all panels: tile columns dotted, blocks over SMs alone dash-dotted, waves
    dashed; those of `by` labelled."""
    for n, dash in _faint_edges(sweep):
        for ax in axes:
            ax.axvline(n, color="#BBBBBB", linewidth=0.6, linestyle=dash, zorder=0)
    for n, _, _ in sweep.edges("waves"):
        for ax in axes:
            ax.axvline(n, color=_WAVE_COLOR, linewidth=0.7, linestyle=_EDGE_DASH, zorder=1)
    labelled = sweep.edges(by)
    if len(labelled) > 8:
        labelled = labelled[:: -(-len(labelled) // 8)]
    if not labelled:
        return
    top = axes[0].secondary_xaxis("top")
    top.set_xticks([n for n, _, _ in labelled], [f"{a}→{b}" for _, a, b in labelled])
    top.tick_params(length=0, pad=0, labelsize=style.small)
    top.spines["top"].set_visible(False)


def _ticks(ax: Axes, sweep: Sweep, most: int) -> None:
    sizes = sweep.frame["n"]
    low, high = float(sizes.min()), float(sizes.max())
    step = 8.0
    while (high - low) / step > most:
        step *= 2
    ax.xaxis.set_major_locator(MultipleLocator(step))
    pad = max(4.0, 0.02 * (high - low))
    ax.set_xlim(low - pad, high + pad)


def draw(
    study: StudyData, table: pd.DataFrame, style: Style, by: str, order: Sequence[str]
) -> Figure:
    """Panels under one another, sweeps side by side (under one another at a narrow width).

    Parameters
    ----------
    by: "columns" or "waves": the boundaries that carry labels.
    order: the panels, of PANELS; the option `panels` overrides it.
    """
    with look.apply(style):
        found: list[Sweep] = base.derived(table)
        columns = ["tflops", "duration", "ratio", "active"]
        measured = any(s.frame[columns].notna().any(axis=None) for s in found)
        if not found or not measured:
            return look.empty_figure(study, style, "sweep")
        told = any(s.frame["cublas_tile_m"].notna().any() for s in found)
        panels = [p for p in study.option("panels", order) if p in _DRAWN]
        panels = [p for p in panels if p != "cublas" or told]
        stacked = 1 if style.narrow else min(2, len(found))
        bands = -(-len(found) // stacked)
        panel_mm = 20.0 if style.narrow else 25.0
        fig = look.new_figure(style, bands * (len(panels) * panel_mm + 16))
        grid = fig.add_gridspec(bands * len(panels), stacked)
        colors = look.kernel_colors(style, study.cases["kernel"].astype(str))
        for place, sweep in enumerate(found):
            band, column = divmod(place, stacked)
            axes: list[Axes] = []
            for row, panel in enumerate(panels):
                ax = fig.add_subplot(
                    grid[band * len(panels) + row, column], sharex=axes[0] if axes else None
                )
                axes.append(ax)
                drawn, label = _DRAWN[panel]
                drawn(ax, sweep, colors[sweep.kernel])
                ax.set_ylabel(label if column == 0 else "")
                look.grid(ax, "y")
                if row:
                    ax.set_title(_TITLES[panel], weight="normal", color=GREY, size=style.small)
                if row < len(panels) - 1:
                    ax.tick_params(axis="x", labelbottom=False)
            _ticks(axes[0], sweep, 5 if style.narrow else 8)
            _marks(axes, sweep, style, by)
            axes[0].set_title(f"{_name(sweep, found)}, K = {sweep.k}", pad=style.font_size * 1.5)
            axes[-1].set_xlabel("N")
        handles = _handles(study, found, panels, colors, by)
        return look.finish(
            fig, study, style, handles, [str(h.get_label()) for h in handles],
            _notes(study, found), _STAGES,
        )  # fmt: skip


def _handles(
    study: StudyData, found: Sequence[Sweep], panels: Sequence[str], colors: Mapping[str, str],
    by: str,
) -> list[Artist]:  # fmt: skip
    handles: list[Artist] = []
    for kernel in dict.fromkeys(s.kernel for s in found):
        handles.append(
            Line2D(
                [], [], linestyle="", marker="o", color=colors[kernel], label=f"{kernel}, measured"
            )
        )
    handles.append(Line2D([], [], color=MODEL, label="model"))
    shared = any(s.blocks_per_sm > 1 for s in found)
    if shared:
        handles.append(
            Line2D([], [], color=MODEL, linestyle=_ALONE_DASH, linewidth=0.9,
                   label="model, blocks over SMs alone")
        )  # fmt: skip
        handles.append(Line2D([], [], color=_PAIR_COLOR, label="model, two times fitted"))
    if "error" in panels:
        handles.append(Patch(color="#EFEFEF", label=f"within {_BAND:g} %"))
        if any(s.frame["cycles"].notna().any() for s in found):
            handles.append(
                Line2D([], [], linestyle="", marker="o", fillstyle="none", color=GREY,
                       markersize=2.6, markeredgewidth=0.5, label="error in SM cycles")
            )  # fmt: skip
        if shared:
            handles.append(
                Line2D([], [], linestyle="", marker="+", color=GREY, markeredgewidth=0.6,
                       label="error of SMs alone")
            )  # fmt: skip
    if "cublas" in panels:
        handles.append(
            Line2D([], [], linestyle="", marker="s", color="#000000", markersize=2.2,
                   label="cuBLAS's tile")
        )  # fmt: skip
    if any(s.frame["cublas_tflops"].notna().any() for s in found):
        handles.append(Line2D([], [], color="#000000", linewidth=0.8, label="cuBLAS, measured"))
    if any((~s.frame["ranks"] & s.frame["tflops"].notna()).any() for s in found):
        handles.append(
            Line2D([], [], linestyle="", marker="x", color=GREY, label="not correct, not ranked")
        )
    label = " (numbered)"
    if any(len(s.edges("columns")) <= _MOST_COLUMNS for s in found):
        handles.append(
            Line2D([], [], color="#BBBBBB", linestyle=":", linewidth=0.8,
                   label="last N of a tile column" + (label if by == "columns" else ""))
        )  # fmt: skip
    if shared:
        handles.append(
            Line2D([], [], color="#BBBBBB", linestyle=_ALONE_DASH, linewidth=0.8,
                   label="last N of one more block on every SM")
        )  # fmt: skip
    handles.append(
        Line2D([], [], color=_WAVE_COLOR, linestyle=_EDGE_DASH, linewidth=0.8,
               label="last N of a wave" + (label if by == "waves" else ""))
    )  # fmt: skip
    if "tiles" in panels:
        handles.append(Line2D([], [], color=MODEL, linestyle=_WAVES_DASH, label="waves (model)"))
    return handles


def _name(sweep: Sweep, found: Sequence[Sweep]) -> str:
    """What tells a sweep from the others: its M, its tile where tiles differ, and its variant where
    several have the same of both."""
    several = len({s.tile[:2] for s in found}) > 1
    tile = f"{_tile_name((sweep.tile[0], sweep.tile[1]))} tiles, " if several else ""
    alike = {s.variant for s in found if (s.m, s.tile[:2]) == (sweep.m, sweep.tile[:2])}
    variant = f"{sweep.variant}, " if len(alike) > 1 else ""
    return f"{variant}{tile}M = {sweep.m}"


def percent(value: float) -> str:
    """A share as text, with a minus sign for a negative one."""
    return f"{100 * value:.1f} %".replace("-", "−")


def _told(sweep: Sweep, error: PredictionError) -> str:
    at = int(sweep.frame["n"].iloc[error.place])
    return f"median {percent(error.median)}, worst {percent(error.worst)} at N = {at}"


def error_notes(sweep: Sweep, name: str) -> list[str]:
    """How far the model of one sweep is from it, in sentences; none where nothing was timed."""
    whole = sweep.summary()
    if not whole.count:
        return []
    parts = [f"{name}: {_told(sweep, whole)}"]
    partial = sweep.frame["partial_tail"].astype(bool) & sweep.errors().notna()
    if 0 < partial.mean() <= 0.5:
        sizes = sweep.frame.loc[partial, "n"]
        rest = sweep.summary(where=~partial)
        parts.append(
            f"without {len(sizes)} N from {sizes.min()} to {sizes.max()}, whose last wave works on "
            f"a partly filled tile column only, {_told(sweep, rest)}"
        )
    if sweep.frame["cycles"].notna().any():
        parts.append(
            f"in cycles of the busiest SM, counted one launch at a time, "
            f"{_told(sweep, sweep.summary('cycles'))}"
        )
    notes = ["; ".join(parts) + "."]
    if sweep.blocks_per_sm > 1:
        alone = sweep.summary("duration", "rounds")
        better = "less" if alone.median < whole.median else "more"
        notes.append(
            f"{name}: counting blocks over SMs alone (an SM's blocks share its throughput) "
            f"errs {better} than whole waves of {sweep.blocks_per_sm} blocks an SM: "
            f"{_told(sweep, alone)}."
        )
        both, (full, single) = sweep.summary("duration", "pair"), sweep.pair
        if both.count:
            notes.append(
                f"{name}: with two fitted times, {full:.3g} µs for a wave of full SMs and "
                f"{single:.3g} µs for one with a block on each: {_told(sweep, both)}."
            )
    return notes


def vendor_notes(found: Sequence[Sweep]) -> list[str]:
    """Which tiles cuBLAS chose, how often a smaller one than the kernel's, and whether the
    operations it executed are those of that tile."""
    chosen = pd.concat([_chosen(s) for s in found]).dropna()
    if chosen.empty:
        return []
    own = found[0].tile[0] * found[0].tile[1]
    often = chosen.value_counts()
    listed = ", ".join(f"{name} ({count})" for name, count in list(often.items())[:4])
    more = f" and {len(often) - 4} others" if len(often) > 4 else ""
    smaller = sum(_area(name)[0] < own for name in chosen)
    notes = [
        f"cuBLAS chose a smaller tile than {found[0].tile[0]}×{found[0].tile[1]} at {smaller} of "
        f"{len(chosen)} N: {listed}{more}."
    ]
    counted = pd.concat([s.frame[["cublas_ratio", "cublas_tile_ratio"]] for s in found]).dropna()
    if len(counted):
        off = (counted["cublas_ratio"] / counted["cublas_tile_ratio"] - 1).abs()
        notes.append(
            f"The tensor operations counted for it are those of that tile within 1 % at "
            f"{int((off <= 0.01).sum())} of {len(counted)} N."
        )
    return notes


def _notes(study: StudyData, found: Sequence[Sweep]) -> list[str]:
    tiles = ", ".join(dict.fromkeys(_tile_name((s.tile[0], s.tile[1])) for s in found))
    per_sm = list(dict.fromkeys(s.blocks_per_sm for s in found))
    told = " and ".join(str(p) for p in per_sm)
    notes = [
        f"{', '.join(dict.fromkeys(s.variant for s in found))}; tile {tiles}, "
        f"{found[0].sms} SMs, {told} block{'s' if per_sm != [1] else ''} an SM at a time."
    ]
    times = [
        f"{s.wave_time:.3g} µs at {_name(s, found)}" for s in found if not np.isnan(s.wave_time)
    ]
    if times:
        notes.append(
            "Model: waves times the time of one. That time alone is fitted, one number a sweep: the "
            "median over N of measured duration over waves (" + "; ".join(times) + ")."
        )  # fmt: skip
        errors = [note for sweep in found for note in error_notes(sweep, _name(sweep, found))]
        notes += ["Error of the duration. " + errors[0], *errors[1:]]
    return [*notes, *vendor_notes(found)]
