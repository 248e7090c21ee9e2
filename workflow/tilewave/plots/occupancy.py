"""Occupancy: the closed form beside the driver's answer and ncu's, and what it takes to be fast.

Three panels: the occupancies that variants have by theory, driver and ncu, with the resource that limits
them; resident warps against registers for blocks of 128 and 256 threads, with the article's two blocks;
and multiply-adds per clock against resident warps and independent chains, from a probe.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MultipleLocator, NullLocator
from pydantic import Field

from tilewave.plots import _sweeps, base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.options import PlotOptions, Word
from tilewave.plots.style import BAD, GREY, INK, Style
from tilewave.theory import latency, occupancy
from tilewave.theory.occupancy import TURING, Occupancy

READING = (
    "Above, a row is a limit: the bar is the occupancy of the closed form, the stroke the driver's, "
    "the dots ncu's. Below, at the left, warps on an SM against the registers of a thread; at the "
    "right, how fast they multiply and add: where a line gets flat, more warps buy nothing."
)


class Options(PlotOptions):
    """What the studies of this plot may set."""

    chains: Word = Field(
        "occupancy", description="probe whose cases are the points of the rate by warps"
    )
    tile: Word = Field(
        "tile_threads", description="probe with the same tile by blocks of different sizes"
    )
    pair: tuple[Word, Word] = Field(
        ("matmul_tiled-tile32", "matmul_two_outputs"),
        description="variants with one output a thread and two, whose gain is compared with what ILP alone "
        "would give",
    )


DRIVER = "driver_blocks_per_sm"
THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
LIMITS: Mapping[str, str] = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
_COUNTED = {
    "threads": "launch__block_size",
    "registers": "launch__registers_per_thread",
    "static": "launch__shared_mem_per_block_static",
    "dynamic": "launch__shared_mem_per_block_dynamic",
}
_SAME = 0.01  # percentage points in which two occupancies may differ by rounding
_MOST = 5  # differences that the figure spells out
_EXAMPLES = ((128, 180, 0), (256, 128, 32768))  # the article's blocks: threads, registers, bytes
_BLOCKS = {128: "#332288", 256: "#CC6677"}
_FORM = "#C9D7EE"
# Column of `answers` -> what it is called, and how it is drawn on the closed form's bar.
_ASKED: Mapping[str, tuple[str, dict[str, Any]]] = {
    "driver": ("driver", {"marker": "|", "color": INK, "s": 60, "linewidth": 1.1}),
    "theoretical": (
        "ncu, theoretical",
        {"marker": "o", "color": "none", "edgecolor": INK, "s": 26, "linewidth": 0.7},
    ),
    "achieved": ("ncu, achieved", {"marker": "o", "color": "#882255", "s": 9, "linewidth": 0}),
}
_BLOCK_MARKERS = {128: "o", 256: "s"}
_CHAINS = ("#332288", "#117733", "#44AA99", "#DDCC77", "#CC6677", "#AA4499")


@dataclass(frozen=True)
class Row:
    """A case with what theory, driver and ncu say; None where one of them says nothing.

    Blocks are of one SM; ``theoretical`` and ``achieved`` are ncu's, in percent.
    """

    case: str
    variant: str
    kernel: str
    threads: int
    registers: int
    shared: int
    found: Occupancy
    driver: int | None
    theoretical: float | None
    achieved: float | None
    limits: Mapping[str, int]

    @property
    def percent(self) -> float:
        return 100 * self.found.fraction

    @property
    def differences(self) -> list[str]:
        """What driver or ncu say otherwise than the closed form."""
        told = []
        if self.driver is not None and self.driver != self.found.blocks:
            told.append(f"driver: {self.driver} blocks, closed form: {self.found.blocks}")
        if self.theoretical is not None and not abs(self.theoretical - self.percent) <= _SAME:
            told.append(f"ncu: {self.theoretical:g} %, closed form: {self.percent:g} %")
        for name, blocks in self.limits.items():
            ours = self.found.limits.get(name)
            # ncu divides the part of the L1 that this launch had as shared memory, which the driver
            # makes as small as it can; the closed form divides all that there is.
            carved = name == "shared memory" and self.found.blocks <= blocks <= (ours or blocks)
            if ours is not None and blocks != ours and not carved:
                told.append(f"ncu: {name} allow {blocks} blocks, closed form: {ours}")
        return told


def _whole(value: object) -> int | None:
    return int(float(str(value))) if base.present(value) else None


def rows(study: StudyData) -> list[Row]:
    """One row a case whose block and registers are known, in the config's order.

    From the compiled kernel; of a kernel without a source (cuBLAS) as ncu saw its launch.
    """
    wanted = [DRIVER, THEORETICAL, ACHIEVED, *LIMITS.values(), *_COUNTED.values()]
    values, limits = base.pivot(study, wanted), _sweeps.sm_limits(study)
    found = []
    for about, seen in zip(study.cases.to_dict("records"), values.to_dict("records"), strict=True):
        counted = {name: _whole(seen[metric]) for name, metric in _COUNTED.items()}
        threads, registers = _whole(about["block_threads"]), _whole(about["registers"])
        shared = _whole(about["shared_bytes"])
        if threads is None or registers is None:
            threads, registers = counted["threads"], counted["registers"]
            shared = (counted["static"] or 0) + (counted["dynamic"] or 0)
        if not threads or registers is None:
            continue
        answers = {name: _whole(seen[metric]) for name, metric in LIMITS.items()}
        found.append(
            Row(
                str(about["case"]), str(about["variant"]), str(about["kernel"]),
                threads, registers, shared or 0,
                occupancy.occupancy(limits, threads, registers, shared or 0),
                _whole(seen[DRIVER]), _number(seen[THEORETICAL]), _number(seen[ACHIEVED]),
                {name: blocks for name, blocks in answers.items() if blocks is not None},
            )
        )  # fmt: skip
    return found


def _number(value: Any) -> float | None:
    return float(value) if base.present(value) else None


def lanes_of(study: StudyData) -> int:
    """Multiply-add lanes of a scheduler of the study's target."""
    return latency.lanes_of(str(study.environment.get("compute_capability", "")))


def chains(study: StudyData, cycles: float | None) -> pd.DataFrame:
    """The probe's cases: case, ilp, warps (on an SM), model and measured (FMA per clock and SM).

    A column ``ranks`` tells which are correct. The model's latency is `cycles`; the model is NaN
    without it.
    """
    may_rank = set(base.ranking(study))
    sms = int(study.target.get("sms") or 0)
    rates = _fma_per_cycle(study, sms)
    made = []
    for about in study.cases.to_dict("records"):
        macros = base.macros_of({str(k): v for k, v in about.items()})
        sized = base.present(about["block_threads"]) and base.present(about["blocks"])
        if about["kernel"] != Options.of(study).chains or not sized or sms < 1:
            continue
        warps = int(about["block_threads"]) * int(about["blocks"]) // (occupancy.WARP * sms)
        ilp = int(macros.get("ILP", 1))
        model = math.nan
        if cycles is not None:
            model = latency.fma_per_cycle(warps, ilp, cycles, lanes=lanes_of(study))
        case = str(about["case"])
        made.append((case, ilp, warps, model, rates.get(case, math.nan), case in may_rank))
    columns = ["case", "ilp", "warps", "model", "measured", "ranks"]
    return pd.DataFrame(made, columns=columns).sort_values(["ilp", "warps"], ignore_index=True)


def _fma_per_cycle(study: StudyData, sms: int) -> pd.Series[float]:
    """FMA per clock and SM of each timed case, at the SM clock that was sampled meanwhile.

    Not from a clock that the kernel reads: where chains fill the schedulers, the warp that reads it
    waits for its turn while the others go on, and one that waited long measured too short a time.
    """
    timed = base.pivot(study, ["tflops", "sm_clock"], "time")
    return timed["tflops"] * 1e6 / (2 * max(1, sms) * timed["sm_clock"])


def register_latency(study: StudyData) -> float | None:
    """Cycles from a multiply-add to one that needs its result, as the latency probe measured them."""
    measured = base.value_of(study, "latency")
    names = study.cases.set_index("case")["probe_case"] if len(study.cases) else pd.Series()
    for case in measured.index:
        if names.get(case) == "register" and case in base.ranking(study):
            return float(measured[case])
    return None


@dataclass(frozen=True)
class Made:
    """What the table is made of: `rows`, `chains`, and the cycles of `register_latency`."""

    rows: list[Row]
    chains: pd.DataFrame
    cycles: float | None


def table(study: StudyData) -> pd.DataFrame:
    """One row a case with all three answers, then the article's two blocks on two GPUs."""
    rest = base.base_table(study).reset_index(drop=True)
    cycles = register_latency(study)
    made = Made(rows(study), chains(study, cycles), cycles)
    found = pd.DataFrame([_cells(row) for row in made.rows] or [{"case": ""}])
    rate = made.chains.set_index("case")
    frame = rest.iloc[:, :4].merge(found, on="case", how="left")
    frame["FMA per clock and SM (model)"] = frame["case"].map(rate["model"])
    frame["FMA per clock and SM (measured)"] = frame["case"].map(rate["measured"])
    frame["TFLOP/s"] = frame["case"].map(base.value_of(study, "tflops", "time"))
    frame = frame.join(rest.iloc[:, 4:])
    examples: list[dict[str, Any]] = []
    if frame.empty:
        return base.with_derived(frame, made)
    for place, limits in (("Turing", TURING), ("this GPU", _sweeps.sm_limits(study))):
        for threads, registers, shared in _EXAMPLES:
            one = occupancy.occupancy(limits, threads, registers, shared)
            examples.append(
                {
                    "case": f"article: {threads} threads of {registers} registers on {place}",
                    **_answer(threads, registers, shared, one), "source": "model",
                }
            )  # fmt: skip
    whole = pd.concat([frame, pd.DataFrame(examples)], ignore_index=True)
    return base.with_derived(whole, made)


def _answer(threads: int, registers: int, shared: int, found: Occupancy) -> dict[str, Any]:
    return {
        "threads of a block": threads,
        "registers of a thread": registers,
        "shared memory of a block (byte)": shared,
        "blocks on an SM (closed form)": found.blocks,
        "warps on an SM (closed form)": found.warps,
        "occupancy (%, closed form)": 100 * found.fraction,
        "limited by": ", ".join(found.limiters),
    }


def _cells(row: Row) -> dict[str, Any]:
    return {
        "case": row.case,
        **_answer(row.threads, row.registers, row.shared, row.found),
        "blocks on an SM (driver)": row.driver,
        "occupancy (%, ncu, theoretical)": row.theoretical,
        "occupancy (%, ncu, achieved)": row.achieved,
        **{f"blocks by {name} (ncu)": row.limits.get(name) for name in LIMITS},
        "differences": "; ".join(row.differences),
    }


# ------------------------------------------------------------------------------------------ panels


def _made(table: pd.DataFrame) -> Made:
    made: Made = base.derived(table)
    return made


def _shown(study: StudyData, table: pd.DataFrame) -> list[Row]:
    """One row a variant for the first panel: products, and the tile dealt to two block sizes.

    Of a variant's cases the one of which most is known.
    """
    operations = study.cases.set_index("case")["operation"] if len(study.cases) else pd.Series()
    tile = Options.of(study).tile
    best: dict[str, Row] = {}
    for row in _made(table).rows:
        if operations.get(row.case) == "probe" and row.kernel != tile:
            continue
        known = best.get(row.variant)
        if known is None or _known(row) > _known(known):
            best[row.variant] = row
    return list(best.values())


def _known(row: Row) -> int:
    return sum(value is not None for value in (row.driver, row.theoretical, row.achieved))


def answers(shown: Sequence[Row]) -> pd.DataFrame:
    """One row a variant: its block, warps on an SM, limiter, the four answers (%), whether they differ.

    Those of one answer stand together, the fewest warps first.
    """
    columns = (
        "kernel", "threads", "registers", "warps", "limit", "closed", "driver", "theoretical",
        "achieved", "differs",
    )  # fmt: skip
    found = [
        (
            row.kernel, row.threads, row.registers, row.found.warps, _limited_by(row), row.percent,
            math.nan if row.driver is None else row.percent * row.driver / max(1, row.found.blocks),
            row.theoretical, row.achieved, bool(row.differences),
        )
        for row in shown
    ]  # fmt: skip
    frame = pd.DataFrame(found, columns=columns).astype({"theoretical": float, "achieved": float})
    return frame.sort_values(["warps", "limit"], kind="stable", ignore_index=True)


def _limited_by(row: Row) -> str:
    if row.found.fraction == 1:
        return "all slots"
    return ", ".join(row.found.limiters) or "nothing fits"


def _named(kernels: pd.Series[Any], narrow: bool) -> str:
    """The kernels of an answer with their variants counted, in lines; narrow: how many variants."""
    if narrow:
        return str(len(kernels))
    counts = kernels.groupby(kernels, sort=False).size()
    words = [name if count == 1 else f"{name} ×{count}" for name, count in counts.items()]
    return textwrap.fill(", ".join(words), 54, break_long_words=False)


def _variants(ax: Axes, frame: pd.DataFrame, style: Style) -> None:
    """A bar an answer, its variants' other answers on it and their kernels beside it."""
    groups = frame.groupby(["warps", "limit"], sort=False)
    named = [_named(group["kernel"], style.narrow) for _, group in groups]
    high = [1 + names.count("\n") for names in named]
    # A row is as high as the names beside it.
    middle = [sum(high[:place]) + lines / 2 for place, lines in enumerate(high)]
    y = groups.ngroup().map(dict(enumerate(middle)))
    ax.barh(middle, groups["closed"].first(), height=0.7, color=_FORM, linewidth=0)
    for column, (_, looks) in _ASKED.items():
        if frame[column].notna().any():
            sns.scatterplot(x=frame[column], y=y, legend=False, ax=ax, **looks)
    for at, names, (_, group) in zip(middle, named, groups, strict=True):
        ax.text(
            104,
            at,
            names,
            va="center",
            size=style.small,
            color=BAD if group["differs"].any() else INK,
        )
    between = ",\n" if style.narrow else ", "
    told = [f"{warps} warps: {limit.replace(', ', between)}" for warps, limit in groups.groups]
    ax.set_yticks(middle, told)
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 112 if style.narrow else 260), ylim=(sum(high), 0), ylabel="")
    ax.spines["bottom"].set_bounds(0, 100)
    ax.xaxis.set_major_locator(FixedLocator([0, 25, 50, 75, 100]))
    ax.set_xlabel("occupancy (% of the SM's warp slots)", loc="left")
    look.grid(ax, "x")


def _registers(
    ax: Axes, study: StudyData, table: pd.DataFrame, frame: pd.DataFrame, style: Style
) -> None:
    limits, rates = _sweeps.sm_limits(study), _tile_rates(study, table)
    counts = range(16, occupancy.MAX_REGISTERS_PER_THREAD + 1)
    steps = pd.DataFrame(
        [
            (threads, count, occupancy.occupancy(limits, threads, count).warps)
            for threads, count in itertools.product(_BLOCKS, counts)
        ],
        columns=["threads", "registers", "warps"],
    )
    sns.lineplot(
        steps, x="registers", y="warps", hue="threads", style="threads", palette=_BLOCKS,
        dashes={128: "", 256: (4, 1.5)}, drawstyle="steps-pre", estimator=None, legend=False, ax=ax,
    )  # fmt: skip
    held = frame.assign(held=frame["driver"].fillna(frame["closed"]) * limits.max_warps / 100)
    held = held[
        held["threads"].isin(list(_BLOCKS)) & held[["driver", "theoretical"]].notna().any(axis=1)
    ]
    if len(held):
        sns.scatterplot(
            held, x="registers", y="held", hue="threads", style="threads", palette=_BLOCKS,
            markers=_BLOCK_MARKERS, s=16, linewidth=0.3, legend=False, ax=ax,
        )  # fmt: skip
    for threads, registers, shared in _EXAMPLES:
        one = occupancy.occupancy(limits, threads, registers, shared)
        ax.plot([registers], [one.warps], "D", color="none", markeredgecolor=INK, markersize=6.5)
        # Below the steps nothing is drawn: in the middle of the lower one, left of the upper one's end.
        low = threads == min(_BLOCKS)
        between = ", " if low else "\n"
        rate = f"{between}{base.digits(rates[threads])} TFLOP/s" if threads in rates else ""
        ax.annotate(
            f"{one.warps} warps{rate}", (registers, one.warps), textcoords="offset points",
            xytext=(0, -6) if low else (-7, -3), va="top",
            ha="center" if low else "right", size=style.small,
        )  # fmt: skip
    ax.set_xlim(16, 258)
    ax.xaxis.set_major_locator(MultipleLocator(32))
    _doubling(ax, "y", 4, limits.max_warps)
    ax.set_xlabel("registers of a thread")
    ax.set_ylabel("warps on an SM")
    look.grid(ax, "y")


def _doubling(ax: Axes, axis: str, low: float, high: float) -> None:
    """A log2 axis from `low` to a little above `high`."""
    ticks = [2**power for power in range(12) if low <= 2**power <= high]
    ax.set(**{f"{axis}scale": "log", f"{axis}lim": (low * 0.88, high * 1.15)})
    chosen = getattr(ax, f"{axis}axis")
    chosen.set_major_locator(FixedLocator(ticks))
    chosen.set_minor_locator(NullLocator())
    chosen.set_major_formatter(lambda value, _: f"{value:g}")


def _timed(table: pd.DataFrame) -> list[tuple[Row, float]]:
    """The rows of correct cases that were timed, with TFLOP/s."""
    rates = base.column(table[table["verdict"] == "correct"], "TFLOP/s")
    return [(row, float(rates[row.case])) for row in _made(table).rows if row.case in rates.index]


def _tile_rates(study: StudyData, table: pd.DataFrame) -> dict[int, float]:
    """TFLOP/s of the tile's probe by threads of a block, of correct cases."""
    tile = Options.of(study).tile
    return {row.threads: rate for row, rate in _timed(table) if row.kernel == tile}


def _rates(ax: Axes, study: StudyData, made: Made, style: Style) -> None:
    frame = made.chains
    if frame.empty:
        look.empty(ax, f"No case of {Options.of(study).chains} to draw.", style)
        return
    palette = dict(zip(sorted(set(frame["ilp"])), _CHAINS, strict=False))
    # What lies on one point is seen around what lies above it.
    sizes = {ilp: 44 - 9 * min(place, 3) for place, ilp in enumerate(palette)}
    same: dict[str, Any] = {
        "x": "warps",
        "hue": "ilp",
        "palette": palette,
        "legend": False,
        "ax": ax,
    }
    if made.cycles is not None:
        sns.lineplot(frame, y="model", linewidth=0.9, estimator=None, **same)
    measured = frame[frame["measured"].notna()]
    good, bad = (measured[measured["ranks"] == ranks] for ranks in (True, False))
    if len(good):
        sns.scatterplot(
            good, y="measured", style="ilp", size="ilp", sizes=sizes, linewidth=0.3,
            markers=dict(zip(palette, look.MARKERS, strict=False)), zorder=4, **same,
        )  # fmt: skip
    ax.plot(bad["warps"], bad["measured"], "x", color=GREY, markersize=3.6, zorder=4)
    peak = latency.SCHEDULERS * lanes_of(study)
    ax.axhline(peak, color=GREY, linewidth=0.6, linestyle=":")
    _doubling(ax, "x", 1, float(frame["warps"].max()))
    _doubling(ax, "y", min(8.0, float(frame["measured"].min())), peak)
    ax.set_xlabel("warps on an SM")
    ax.set_ylabel("FMA per clock and SM")
    look.grid(ax, "y")


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """How often the closed form is what driver and ncu say, and how many warps hide a multiply-add."""
    made, told = _made(table), []
    agreed, answered = _agreed(made.rows)
    if answered:
        told.append(
            f"Driver and ncu give the closed form's occupancy in {agreed} of {answered} cases"
        )
    if made.cycles is not None and not made.chains.empty:
        few, many = made.chains["ilp"].min(), made.chains["ilp"].max()
        needed = [
            latency.warps_to_hide(made.cycles, float(n), lanes=lanes_of(study)) for n in (few, many)
        ]
        told.append(
            f"an SM needs {needed[0]:.0f} warps to stay busy at ILP {few}, {needed[1]:.0f} at ILP {many}"
        )
    return "; ".join(told)


def _agreed(rows: Sequence[Row]) -> tuple[int, int]:
    """In how many cases driver and ncu say what the closed form does, and of how many they say anything."""
    answered = [row for row in rows if row.driver is not None or row.theoretical is not None]
    return sum(not row.differences for row in answered), len(answered)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Answers above, registers and rates side by side below them; under one another where narrow."""
    with look.apply(style):
        study = _on_gpu(study)
        shown, made = _shown(study, table), _made(table)
        if not shown and made.chains.empty:
            return look.empty_figure(study, style, "occupancy")
        frame = answers(shown)
        groups = frame.groupby(["warps", "limit"])["kernel"]
        lines = sum(1 + _named(names, style.narrow).count("\n") for _, names in groups)
        tall = lines * style.line * 25.4 * (1.75 if style.narrow else 1.15) + 14
        low = 44 if style.narrow else 58
        if style.narrow:
            fig = look.new_figure(style, tall + 2 * low)
            axes = list(fig.subplots(3, 1, height_ratios=[tall, low, low]))
        else:
            fig = look.new_figure(style, tall + low)
            grid = fig.add_gridspec(2, 2, height_ratios=[tall, low])
            axes = [fig.add_subplot(place) for place in (grid[0, :], grid[1, 0], grid[1, 1])]
        if len(frame):
            _variants(axes[0], frame, style)
        _registers(axes[1], study, table, frame, style)
        _rates(axes[2], study, made, style)
        titles = (
            f"{len(frame)} variants, by what limits them",
            "What registers allow",
            "What it takes to be busy",
        )
        for ax, title in zip(axes, titles, strict=True):
            ax.set_title(title)
        handles = _handles(frame, made.chains)
        return look.finish(
            fig, study, style, handles, [str(h.get_label()) for h in handles],
            _notes(study, table),
        )  # fmt: skip


def _on_gpu(study: StudyData) -> StudyData:
    """The study without the products that a CPU computes: they occupy nothing."""
    if "provider" not in study.cases:
        return study
    return replace(study, cases=study.cases[study.cases["provider"] != "cpu"])


def _handles(frame: pd.DataFrame, chains: pd.DataFrame) -> list[Artist]:
    def mark(label: str, marker: str, **more: Any) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, label=label, **more)

    handles: list[Artist] = [Patch(color=_FORM, label="closed form")]
    for column, (label, looks) in _ASKED.items():
        if frame[column].notna().any():
            edge = looks.get("edgecolor", looks["color"])
            handles.append(mark(label, str(looks["marker"]), color=looks["color"], markeredgecolor=edge,
                                markersize=math.sqrt(looks["s"])))  # fmt: skip
    handles += [
        Line2D([], [], color=color, label=f"blocks of {threads} threads", marker=_BLOCK_MARKERS[threads],
               linestyle="-" if threads == 128 else (0, (4, 1.5)))
        for threads, color in _BLOCKS.items()
    ]  # fmt: skip
    handles.append(mark("the article's blocks", "D", color="none", markeredgecolor=INK))
    each = zip(sorted(set(chains["ilp"])), _CHAINS, look.MARKERS, strict=False)
    handles += [
        Line2D([], [], color=color, marker=marker, label=f"ILP {ilp}: model, measured")
        for ilp, color, marker in each
    ]
    return handles


def _notes(study: StudyData, table: pd.DataFrame) -> list[str]:
    notes, made = [], _made(table)
    every, frame, cycles = made.rows, made.chains, made.cycles
    agreed, answered = _agreed(every)
    if answered:
        by_driver = sum(row.driver is not None for row in every)
        by_ncu = sum(row.theoretical is not None for row in every)
        notes.append(
            f"The closed form is what others say in {agreed} of {answered} cases (the driver "
            f"says something of {by_driver}, ncu of {by_ncu})."
        )
    differ = [row for row in every if row.differences]
    notes += [f"{row.case}: {'; '.join(row.differences)}." for row in differ[:_MOST]]
    if len(differ) > _MOST:
        notes.append(f"And {len(differ) - _MOST} more cases: they are in the table.")
    limits = _sweeps.sm_limits(study)
    for threads, registers, shared in _EXAMPLES:
        on_turing = occupancy.occupancy(TURING, threads, registers, shared)
        here = occupancy.occupancy(limits, threads, registers, shared)
        notes.append(
            f"{threads} threads of {registers} registers: {on_turing.warps} warps, "
            f"{100 * on_turing.fraction:g} % of Turing; {here.warps} warps, "
            f"{100 * here.fraction:g} % here."
        )
    if cycles is not None and not frame.empty:
        needed = ", ".join(
            f"{latency.warps_to_hide(cycles, float(ilp), lanes=lanes_of(study)):.1f} with ILP {ilp}"
            for ilp in sorted(set(frame["ilp"]))
        )
        told = f"Warps that hide the {cycles:.2f} cycles of a multiply-add: {needed}"
        good = frame[frame["ranks"] & frame["measured"].notna()]
        if len(good):
            off = 100 * (good["measured"] / good["model"] - 1).abs()
            told += (
                f"; the model is off by {off.median():.1f} % (median), {off.max():.1f} % (worst)"
            )
        notes.append(told + ".")
    gain = ilp_gain(study, table)
    if gain is not None:
        notes.append(gain.sentence)
    return notes


@dataclass(frozen=True)
class Gain:
    """Two outputs a thread against one: what was measured, and what ILP alone would give."""

    one: Row
    two: Row
    measured: float
    model: float

    @property
    def sentence(self) -> str:
        return (
            f"{self.two.variant} is {self.measured:.2f} times as fast as {self.one.variant}; with "
            f"{self.one.found.warps} and {self.two.found.warps} warps on an SM an ILP of 2 by itself "
            f"gives {self.model:.2f}."
        )


def ilp_gain(study: StudyData, table: pd.DataFrame) -> Gain | None:
    """The pair of the option at the same shape and in the same environment; None without it."""
    pair = Options.of(study).pair
    first, second = ([t for t in _timed(table) if t[0].variant == name] for name in pair)
    cycles = _made(table).cycles
    for (one, slow), (two, fast) in itertools.product(first, second):
        alike = one.case.partition("@")[2] == two.case.partition("@")[2]
        if not alike or not base.same_environment(study, "tflops", one.case, two.case):
            continue
        if cycles is None or not one.found.warps or not two.found.warps:
            continue
        model = [
            latency.fma_per_cycle(row.found.warps, ilp, cycles, lanes=lanes_of(study))
            for row, ilp in ((one, 1), (two, 2))
        ]
        return Gain(one, two, fast / slow, model[1] / model[0])
    return None
