"""What the quantization figures share: two panels over N for each sweep, and what is said of them.

Lines are closed forms of tilewave.theory, points are measurements. The only number that the model
takes from a sweep is the time of a wave (tilewave.plots._sweeps).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

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
from tilewave.plots._sweeps import Resident, Sweep
from tilewave.plots.base import StudyData
from tilewave.plots.options import Word
from tilewave.plots.style import GREY, MODEL, Style
from tilewave.theory.quantization import PredictionError

PANELS: Mapping[str, str] = {
    "tflops": "TFLOP/s", "duration": "duration (µs)", "useful": "2mnk / operations",
    "active": "SM cycles active,\naverage / maximum",
}  # fmt: skip


class Options(Resident):
    """What the studies of this plot may set."""

    panels: tuple[Literal["tflops", "duration", "useful", "active"], ...] | None = Field(
        None,
        min_length=1,
        max_length=4,
        description="the panels in order; without it those that the plot has by itself",
    )
    drawn: tuple[Word, ...] = Field(
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
_MOST_COLUMNS = 20  # boundaries of tile columns that can be told apart


# ------------------------------------------------------------------------------------------ panels


def _lines(sweep: Sweep, panel: str) -> pd.DataFrame:
    """The panel's lines, a row a point: n, value, line (of _COLORS)."""
    model, frame = sweep.model, sweep.frame
    if panel not in ("tflops", "duration"):
        return pd.DataFrame({"n": model["n"], "value": model[f"model_{panel}"], "line": _MODEL})
    times = {_MODEL: model["work"] * sweep.wave_time}
    if sweep.blocks_per_sm > 1:
        times[_ALONE] = model["rounds"] * sweep.round_time
    parts = [pd.DataFrame({"n": model["n"], "value": t, "line": n}) for n, t in times.items()]
    parts.append(frame[["n"]].assign(value=frame["cublas_duration"], line=_CUBLAS))
    lines = pd.concat(parts, ignore_index=True)
    if panel == "tflops":
        lines["value"] = 2e-6 * sweep.m * sweep.k * lines["n"] / lines["value"]
    return lines.dropna()


def _panel(ax: Axes, sweep: Sweep, panel: str, color: str) -> None:
    """Lines and points of one sweep; a case that is not correct is a grey cross."""
    lines = _lines(sweep, panel)
    if not lines.empty:  # seaborn warns of colours that nothing needs
        sns.lineplot(
            lines, x="n", y="value", hue="line", style="line", palette=_COLORS,
            dashes=_DASHES, estimator=None, errorbar=None, linewidth=1.0, zorder=2, ax=ax,
        )  # fmt: skip
    good = f"{sweep.kernel}, measured"
    points = sweep.frame.assign(shown=np.where(sweep.frame["ranks"], good, _WRONG))
    known = points.dropna(subset=panel)
    if not known.empty:
        sns.scatterplot(
            known, x="n", y=panel, hue="shown", style="shown",
            palette={good: color, _WRONG: GREY}, markers={good: "o", _WRONG: "X"},
            s=11 if len(points) < 40 else 7, edgecolor=look.darker(color), linewidth=0.3, zorder=4, ax=ax,
        )  # fmt: skip
    ax.set(xlabel="", ylabel="", ylim=(0, None if panel in ("tflops", "duration") else 1.08))
    ax.yaxis.set_major_locator(MaxNLocator(4))
    look.grid(ax, "y")


def _marks(axes: Sequence[Axes], sweep: Sweep, style: Style, by: str) -> None:
    """Boundaries through all panels: tile columns dotted, where an SM holds several blocks the last
    N of one more on every SM dash-dotted, waves dashed; those of `by` labelled."""
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


def drawn(study: StudyData, found: Sequence[Sweep]) -> list[Sweep]:
    """The sweeps that the figure shows (option ``drawn``), in the option's order."""
    wanted = Options.of(study).drawn
    if not wanted:
        return list(found)
    first: dict[str, Sweep] = {}
    for sweep in found:
        for name in (sweep.kernel, sweep.variant):
            first.setdefault(name, sweep)
    return [first[name] for name in wanted if name in first]


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
        found = drawn(study, base.derived(table))
        measured = any(s.frame[[*PANELS]].notna().any(axis=None) for s in found)
        if not measured:
            return look.empty_figure(study, style, "sweep")
        panels = Options.of(study).panels or order
        across = 1 if style.narrow else min(2, len(found))
        bands = -(-len(found) // across)
        fig = look.new_figure(style, bands * (len(panels) * (24.0 if style.narrow else 34.0) + 14))
        grid = fig.add_gridspec(bands * len(panels), across)
        colors = look.kernel_colors(style, study.cases["kernel"].astype(str))
        for place, sweep in enumerate(found):
            band, column = divmod(place, across)
            axes: list[Axes] = []
            for row, panel in enumerate(panels):
                spot = grid[band * len(panels) + row, column]
                axes.append(fig.add_subplot(spot, sharex=axes[0] if axes else None))
                _panel(axes[-1], sweep, panel, colors[sweep.kernel])
                axes[-1].set_ylabel(PANELS[panel] if column == 0 else "")
                axes[-1].tick_params(axis="x", labelbottom=row == len(panels) - 1)
            _ticks(axes[0], sweep, 5 if style.narrow else 8)
            _marks(axes, sweep, style, by)
            # A variant's name takes a line of its own: both do not fit above half of the width.
            title = _name(sweep, found).replace(f"{sweep.variant}, ", f"{sweep.variant}\n", 1)
            axes[0].set_title(title, pad=style.font_size * 1.5)
            axes[-1].set_xlabel(f"N (K = {sweep.k})")
        handles, labels = look.entries(fig.axes)
        marks = _mark_handles(found, by)
        return look.finish(
            fig, study, style, [*handles, *marks], [*labels, *(str(m.get_label()) for m in marks)],
            _notes(found, style.narrow), _STAGES,
        )  # fmt: skip


def _mark_handles(found: Sequence[Sweep], by: str) -> list[Artist]:
    """The legend of the boundaries."""
    said = {name: f"last N of a {name}" for name in _EDGES.values()}
    said[_EDGES[by]] += " (numbered)"
    marks: list[tuple[str, str, Any]] = [(said["wave"], GREY, _EDGE_DASH)]
    if any(len(s.edges("columns")) <= _MOST_COLUMNS for s in found):
        marks.append((said["tile column"], _FAINT, ":"))
    if any(s.blocks_per_sm > 1 for s in found):
        marks.append(("last N of one more block on every SM", _FAINT, "-."))
    return [Line2D([], [], color=c, linestyle=dash, label=label) for label, c, dash in marks]


# ------------------------------------------------------------------------------- what is said


def _drops(sweep: Sweep, by: str) -> Iterator[tuple[float, float, int, int]]:
    """At each boundary: the share of the throughput lost beyond it, that of the model, both N."""
    at = sweep.frame.assign(model=sweep.frame["n"] / sweep.frame["work"]).set_index("n")
    rates = at["tflops"].where(at["ranks"])
    sizes = list(at.index)
    for n, _, _ in sweep.edges(by):
        past = sizes[sizes.index(n) + 1]
        lost = [1 - float(one[past] / one[n]) for one in (rates, at["model"])]
        if not math.isnan(lost[0]):
            yield lost[0], lost[1], int(n), past


def takeaway(study: StudyData, table: pd.DataFrame, by: str) -> str:
    """What the worst boundary costs each kernel that is drawn; where all SMs hold several blocks, how they count."""
    found = [s for s in drawn(study, base.derived(table)) if s.summary().count]
    shared = [s for s in found if s.blocks_per_sm > 1]
    found = [s for s in found if s.blocks_per_sm == 1]
    if shared and not found:
        counts = {"the blocks of the busiest SM": "rounds", "whole waves": "work"}
        errors = {
            words: [100 * sweep.summary("duration", count).median for sweep in shared]
            for words, count in counts.items()
        }
        better, worse = sorted(errors, key=lambda words: max(errors[words]))
        told = {words: " and ".join(f"{e:.1f}" for e in found) for words, found in errors.items()}
        tiles = " and ".join(_tile_name(s.tile) for s in shared)
        return (
            f"Durations follow {better} (median error {told[better]} % with {tiles} tiles), "
            f"not {worse} ({told[worse]} %)"
        )
    worst: dict[str, tuple[float, float, int, int]] = {}
    for sweep in found:
        drops = [*_drops(sweep, by), worst.get(sweep.kernel, (0.0, 0.0, 0, 0))]
        worst[sweep.kernel] = max(drops)
    parts = [
        f"{100 * lost:.0f} % in {kernel} (N = {n} → {past}, model {100 * model:.0f} %)"
        for kernel, (lost, model, n, past) in worst.items()
        if lost > 0
    ]
    return f"Past a full {_EDGES[by]} throughput falls by up to {', '.join(parts)}" if parts else ""


def _tile_name(tile: tuple[float, ...]) -> str:
    return f"{int(tile[0])}×{int(tile[1])}"


def _chosen(sweep: Sweep) -> pd.Series[str]:
    """The tile that cuBLAS chose at each N, as a name; missing where no counter tells one."""
    pairs = zip(sweep.frame["cublas_tile_m"], sweep.frame["cublas_tile_n"], strict=True)
    return pd.Series([None if math.isnan(m + n) else _tile_name((m, n)) for m, n in pairs])


def _area(name: str) -> int:
    rows, _, columns = name.partition("×")
    return int(rows) * int(columns)


def _name(sweep: Sweep, found: Sequence[Sweep]) -> str:
    """What tells a sweep from the others: its M, its tile where tiles differ, and its variant where
    several have the same of both."""
    several = len({s.tile[:2] for s in found}) > 1
    tile = f"{_tile_name(sweep.tile)} tiles, " if several else ""
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
    smaller = sum(_area(name) < own for name in chosen)
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


def _notes(found: Sequence[Sweep], narrow: bool) -> list[str]:
    """What is drawn and what was fitted; at a full width how far off the model is."""
    tiles = ", ".join(dict.fromkeys(_tile_name(s.tile) for s in found))
    per_sm = list(dict.fromkeys(s.blocks_per_sm for s in found))
    told = " and ".join(str(p) for p in per_sm)
    notes = [
        f"{', '.join(dict.fromkeys(s.variant for s in found))}; tile {tiles}, "
        f"{found[0].sms} SMs, {told} block{'s' if per_sm != [1] else ''} an SM at a time."
    ]
    times = [
        f"{s.wave_time:.3g} µs at {_name(s, found)}" for s in found if not math.isnan(s.wave_time)
    ]
    if times:
        notes.append(
            "Model: waves times the time of one. That time alone is fitted, one number a sweep: the "
            "median over N of measured duration over waves (" + "; ".join(times) + ")."
        )  # fmt: skip
    if narrow:
        return notes
    errors = [note for sweep in found for note in error_notes(sweep, _name(sweep, found))]
    return [*notes, *(["Error of the duration. " + errors[0], *errors[1:]] if errors else []),
            *vendor_notes(found)]  # fmt: skip
