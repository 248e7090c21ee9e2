"""What the two quantization figures share: sweeps over N, the closed forms, the panels.

A sweep is a kernel at one M and K over many N. Lines are closed forms of tilewave.theory, points
are measurements. The only number that the model takes from the measurements is the time of a wave:
the median over the sweep of duration over waves; steps, their places and their heights are its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, MultipleLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import FAINT, GREY, MODEL, Style
from tilewave.theory import occupancy, quantization

OPTIONS: Mapping[str, str] = {
    "panels": "the panels in order, of tflops, duration, tiles, operations, active",
    "blocks_per_sm": "blocks that an SM holds at a time (default: from registers, shared memory "
    "and threads of the kernel)",
}
PANELS = ("tflops", "duration", "tiles", "operations", "active")
WAVES = "launch__waves_per_multiprocessor"
ACTIVE = ("sm__cycles_active.avg", "sm__cycles_active.max")
_STAGES = ("time", "counters")
_WAVE_COLOR = "#555555"
_WAVES_DASH = (0, (2, 1.2))
_EDGE_DASH = (0, (6, 2.5))


# ------------------------------------------------------------------------------------------ panels


def _model_line(ax: Axes, sweep: Sweep, values: pd.Series[float]) -> None:
    ax.plot(sweep.model["n"], values, color=MODEL, linewidth=1.1, zorder=2)


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
    _model_line(ax, sweep, useful / (sweep.model["waves"] * sweep.wave_time))
    _cublas(ax, sweep, "cublas_tflops")
    _points(ax, sweep, "tflops", color)
    ax.set_ylim(bottom=0)


def _duration(ax: Axes, sweep: Sweep, color: str) -> None:
    _model_line(ax, sweep, sweep.model["waves"] * sweep.wave_time)
    _cublas(ax, sweep, "cublas_duration")
    _points(ax, sweep, "duration", color)
    ax.set_ylim(bottom=0)


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
    "tiles": (_tiles, "per SM"),
    "operations": (_operations, "tensor ops\n/ 2mnk"),
    "active": (_active, "cycles active\navg / max"),
}
_TITLES = {
    "tflops": "Throughput",
    "duration": "Duration",
    "tiles": "Tiles over SMs, and waves",
    "operations": "Operations executed",
    "active": "Balance of the SMs",
}


def _marks(axes: Sequence[Axes], sweep: Sweep, style: Style, by: str) -> None:
    """Boundaries through all panels: tile columns dotted, waves dashed; those of `by` labelled."""
    for n, _, _ in sweep.edges("columns"):
        for ax in axes:
            ax.axvline(n, color="#BBBBBB", linewidth=0.6, linestyle=":", zorder=0)
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


def draw(study: StudyData, style: Style, by: str, order: Sequence[str]) -> Figure:
    """Panels under one another, sweeps side by side (under one another at a narrow width).

    Parameters
    ----------
    by: "columns" or "waves": the boundaries that carry labels.
    order: the panels, of PANELS; the option `panels` overrides it.
    """
    with look.apply(style):
        found = sweeps(study)
        measured = any(
            s.frame[["tflops", "duration", "ratio", "active"]].notna().any(axis=None) for s in found
        )
        if not found or not measured:
            return look.empty_figure(study, style, "sweep")
        panels = [p for p in study.option("panels", order) if p in _DRAWN]
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
            axes[0].set_title(f"M = {sweep.m}, K = {sweep.k}", pad=style.font_size * 1.5)
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
    if any(s.frame["cublas_tflops"].notna().any() for s in found):
        handles.append(Line2D([], [], color="#000000", linewidth=0.8, label="cuBLAS, measured"))
    if any((~s.frame["ranks"] & s.frame["tflops"].notna()).any() for s in found):
        handles.append(
            Line2D([], [], linestyle="", marker="x", color=GREY, label="not correct, not ranked")
        )
    label = " (numbered)"
    handles.append(
        Line2D([], [], color="#BBBBBB", linestyle=":", linewidth=0.8,
               label="last N of a tile column" + (label if by == "columns" else ""))
    )  # fmt: skip
    handles.append(
        Line2D([], [], color=_WAVE_COLOR, linestyle=_EDGE_DASH, linewidth=0.8,
               label="last N of a wave" + (label if by == "waves" else ""))
    )  # fmt: skip
    if "tiles" in panels:
        handles.append(Line2D([], [], color=MODEL, linestyle=_WAVES_DASH, label="waves (model)"))
    return handles


def _notes(study: StudyData, found: Sequence[Sweep]) -> list[str]:
    tile = found[0].tile
    per_sm = sorted({s.blocks_per_sm for s in found})
    told = " and ".join(str(p) for p in per_sm)
    notes = [
        f"{', '.join(dict.fromkeys(s.variant for s in found))}; tile {tile[0]}×{tile[1]}, "
        f"{found[0].sms} SMs, {told} block{'s' if per_sm != [1] else ''} an SM at a time."
    ]
    times = [f"{s.wave_time:.3g} µs at M = {s.m}" for s in found if not np.isnan(s.wave_time)]
    if times:
        notes.append(
            "Model: waves times the time of one, the median of the measured duration over waves ("
            + "; ".join(times) + ")."
        )  # fmt: skip
    return notes
