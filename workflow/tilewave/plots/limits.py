"""Limits: where the cycles of each rung go, what its warps wait for, and at which clock it was timed.

Left, the cycles of a launch in four parts that add up to all of them: the execution pipe that the
kernel uses most is at work; it is idle while the SM has warps; SMs have ended while others work;
before the first and behind the last warp. ncu counts in several passes: what passes differ by, up to
3 % of a kernel at the power limit, is in the last part, or takes from it. Right, the warps of a scheduler by what they wait for.

A share of cuBLAS is a product of two: that of the cycles, and that of the clocks. Where a GPU stands
at its power limit, a kernel that needs fewer cycles may lose them again by its clock. The clock is
the cycles that Nsight Compute counted over the duration that was timed without it, so it is only
formed where both were measured in one environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tilewave.counters.catalogue import PIPE, STALLED, STATES
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._rungs import in_order
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GREY, INK, Style

OPTIONS: Mapping[str, str] = {}
AVERAGE, BUSIEST = "sm__cycles_active.avg", "sm__cycles_active.max"
ELAPSED = "sm__cycles_elapsed.max"
PIPES: Mapping[str, str] = {"tensor": "tensor", "fma": "FMA", "fp64": "FP64"}
PARTS: Mapping[str, str] = {
    "at work": "the pipe works",
    "idle": "pipe idle, the SM has warps",
    "uneven": "SM has ended, others work",
    "around": "launch, end, passes apart",
}
_PART_COLORS = ("#117733", "#DDCC77", "#CC6677", "#BBBBBB")
# States that a reader would mend in the same way, in the order in which they are stacked.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "issued": ("selected",),
    "ready": ("not_selected",),
    "pipe, wgmma": ("math_pipe_throttle", "gmma"),
    "fixed latency": ("wait",),
    "register banks": ("dispatch_stall",),
    "shared memory": ("short_scoreboard", "mio_throttle"),
    "L1, L2, DRAM": ("long_scoreboard", "lg_throttle", "tex_throttle"),
    "barrier, end of wgmma": ("barrier",),
}
OTHER = "other"
_GROUP_COLORS = (
    "#117733", "#88CCEE", "#44AA99", "#DDDDDD", "#AA4499", "#CC6677", "#332288", "#DDCC77", "#888888",
)  # fmt: skip
_STAGES = ("time", "counters")
_CLOCK, _BY_CYCLES, _BY_TIME = "clock (MHz)", "% of cuBLAS by cycles", "% of cuBLAS by time"
_PARTS = {name: f"{words} (% of cycles)" for name, words in PARTS.items()}
_WAITS = {name: f"{name} (% of warps' time)" for name in (*GROUPS, OTHER)}


def parts(study: StudyData) -> pd.DataFrame:
    """One row a case: `pipe` (its name) and PARTS in percent of the elapsed cycles, which they add up to.

    Cases without one of the counters are absent.
    """
    wanted = [AVERAGE, BUSIEST, ELAPSED, *(PIPE.format(pipe) for pipe in PIPES)]
    values = base.pivot(study, wanted, "counters")
    busy = values[[PIPE.format(pipe) for pipe in PIPES]].set_axis(list(PIPES.values()), axis=1)
    values = values[
        values[[AVERAGE, BUSIEST, ELAPSED]].notna().all(axis=1) & busy.notna().any(axis=1)
    ]
    busy = busy.loc[values.index].fillna(0.0)
    work = busy.max(axis=1) / 100 * values[AVERAGE]
    # They may come from two passes, and the second be the longer one.
    whole = values[[ELAPSED, BUSIEST]].max(axis=1)
    columns = [
        work, values[AVERAGE] - work, values[BUSIEST] - values[AVERAGE], whole - values[BUSIEST],
    ]  # fmt: skip
    found = pd.DataFrame(dict(zip(PARTS, columns, strict=True)), index=values.index)
    found = found.div(whole, axis=0) * 100
    found.insert(0, "pipe", busy.idxmax(axis=1) if len(busy) else pd.Series(dtype=object))
    return found


def waits(study: StudyData) -> pd.DataFrame:
    """One row a case, one column of GROUPS and OTHER: percent of the time of its resident warps."""
    values = base.pivot(study, [STALLED.format(state) for state in STATES], "counters")
    values = values.set_axis(list(STATES), axis=1).dropna(how="all").fillna(0.0)
    grouped = {name: values[list(states)].sum(axis=1) for name, states in GROUPS.items()}
    named = [state for states in GROUPS.values() for state in states]
    grouped[OTHER] = values.drop(columns=named).sum(axis=1)
    found = pd.DataFrame(grouped, index=values.index)
    return found.div(found.sum(axis=1), axis=0) * 100


def clock(study: StudyData) -> pd.Series[float]:
    """Elapsed cycles over the timed duration, in MHz, by case; both of one environment."""
    cycles = base.value_of(study, ELAPSED, "counters")
    duration = base.value_of(study, "duration", "time")
    counted = base.environment_of(study, ELAPSED, "counters")
    timed = base.environment_of(study, "duration", "time")
    same = [case for case in cycles.index if case in timed and counted[case] == timed[case]]
    same = [case for case in same if case in duration.index]
    return (cycles[same] / duration[same]).rename("clock")


def by_cycles(study: StudyData) -> pd.Series[float]:
    """Percent of cuBLAS that the elapsed cycles alone would give, by case: cuBLAS's cycles over the
    case's own, of the same dtype and shape, counted in one environment."""
    cycles = base.value_of(study, ELAPSED, "counters")
    places = base.environment_of(study, ELAPSED)
    products = zip(*(study.cases[name] for name in ("dtype", "m", "n", "k")), strict=True)
    product_of = dict(zip(study.cases["case"], products, strict=True))
    baselines: dict[tuple[Any, ...], str] = {}
    for case in study.cases.loc[study.cases["kernel"] == BASELINE, "case"]:
        if case in cycles.index:
            baselines.setdefault((*product_of[case], places[case]), case)
    found = {
        case: 100 * float(cycles[other] / cycles[case])
        for case in cycles.index
        if (other := baselines.get((*product_of[case], places[case])))
    }
    return pd.Series(found, dtype=float)


def table(study: StudyData) -> pd.DataFrame:
    """One row a case: cycles, their parts, the clock, shares of cuBLAS, and what warps wait for."""
    found, stalled = parts(study), waits(study)
    frame = base.with_columns(
        base.base_table(study),
        {
            "elapsed cycles": base.value_of(study, ELAPSED, "counters"),
            _CLOCK: clock(study),
            _BY_CYCLES: by_cycles(study),
            _BY_TIME: base.value_of(study, "percent_of_cublas", "time"),
            "pipe": found["pipe"],
            **{told: found[name] for name, told in _PARTS.items()},
            **{told: stalled[name] for name, told in _WAITS.items()},
        },
    )
    wanted = [] if study.cases.empty else in_order(study)["case"]
    return frame.set_index("case", drop=False).loc[wanted].reset_index(drop=True)


def _stack(ax: Axes, rows: pd.DataFrame, colors: tuple[str, ...]) -> None:
    """A bar a row from 0 to 100; rows without values stay empty."""
    for place, values in enumerate(rows.to_numpy(float)):
        if not np.isnan(values).all():
            left = np.concatenate([[0.0], values.cumsum()[:-1]])
            ax.barh(place, values, left=left, height=0.72, color=colors, linewidth=0)
    ax.set_xlim(0, 100)
    ax.set_xticks([0, 50, 100])


def _numbers(ax: Axes, columns: Mapping[str, pd.Series[Any]], style: Style, head: bool) -> None:
    """Columns of figures beside the bars."""
    for x, (title, values) in enumerate(columns.items()):
        if head:
            ax.text(
                x + 0.95, -0.8, title, ha="right", va="bottom", size=style.small, color=GREY,
                linespacing=0.95,
            )  # fmt: skip
        for place, value in enumerate(values):
            told = value if base.present(value) else "–"
            told = told if isinstance(told, str) else f"{told:.0f}" if told > 200 else f"{told:.1f}"
            ax.text(x + 0.95, place, told, ha="right", va="center", size=style.small, color=INK)
    ax.set_axis_off()
    ax.set_xlim(0, len(columns))


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """One block of rows a dtype, a row a variant: cycles, figures, what warps wait for."""
    with look.apply(style):
        rows = table[table[[*_PARTS.values(), *_WAITS.values()]].notna().any(axis=1)]
        if rows.empty:
            return look.empty_figure(study, style, "cycles of pipes")
        # Its name tells a probe's case, and is in no column of the table.
        rows = rows.join(study.cases.set_index("case")["probe_case"], on="case")
        shapes = {base.shape_label(row) for row in rows.to_dict("records")}
        blocks = dict(iter(rows.groupby(rows["dtype"].astype(str), sort=False)))
        heights = [len(block) * 3.6 + 9 for block in blocks.values()]
        fig = look.new_figure(style, sum(heights) + 8)
        # Where the figure is narrow the table has the numbers.
        widths = [1.15, 1.15] if style.narrow else [1.15, 0.95, 1.15]
        axes = fig.subplots(
            len(blocks), len(widths), squeeze=False,
            gridspec_kw={"height_ratios": heights, "width_ratios": widths},
        )  # fmt: skip
        for place, (line, (dtype, block)) in enumerate(zip(axes, blocks.items(), strict=True)):
            labels = []
            for row in block.to_dict("records"):
                label = base.variant_label(row, dtype).replace("\n", " ")
                label += f" {base.shape_label(row)}" if len(shapes) > 1 else ""
                verdict = row["verdict"]
                labels.append(label if verdict == "correct" else f"{label} ({verdict})")
            _stack(line[0], block[list(_PARTS.values())], _PART_COLORS)
            _stack(line[-1], block[list(_WAITS.values())], _GROUP_COLORS)
            if not style.narrow:
                ranks = block["verdict"] == "correct"
                columns: dict[str, pd.Series[Any]] = {
                    "pipe": block["pipe"],
                    "MHz": block[_CLOCK],
                    "% by\ncycles": block[_BY_CYCLES].where(ranks),
                    "% by\ntime": block[_BY_TIME].where(ranks),
                }
                _numbers(line[1], columns, style, place == 0)
            for at, ax in enumerate(line):
                if not (at == 1 and len(line) == 3):
                    look.rows_axis(ax, labels if at == 0 else [""] * len(block))
                ax.set_ylim(len(block) - 0.4, -0.6)
            line[0].set_title(base.dtype_label(dtype), loc="left")
            if place == len(blocks) - 1:
                line[0].set_xlabel("% of elapsed cycles")
                line[-1].set_xlabel("% of warps' time")
        handles, told = _legend()
        return look.finish(fig, study, style, handles, told, _notes(table, shapes), _STAGES)


def _legend() -> tuple[list[Artist], list[str]]:
    entries = [
        *zip(PARTS.values(), _PART_COLORS, strict=True),
        *(
            (f"warps: {name}", color)
            for name, color in zip([*GROUPS, OTHER], _GROUP_COLORS, strict=True)
        ),
    ]
    return [Patch(color=color) for _, color in entries], [words for words, _ in entries]


def _notes(table: pd.DataFrame, shapes: set[str]) -> list[str]:
    notes = [f"All at {shape}." for shape in shapes if len(shapes) == 1]
    notes.append(
        "The pipe is the busiest of tensor, FMA and FP64. Clock: cycles counted by ncu over the duration timed "
        "without it. Shares of cuBLAS: by cycles, its elapsed cycles over the variant's; by time, timed in turn."
    )
    throttled = table[_CLOCK].dropna()
    if len(throttled) and np.ptp(throttled.to_numpy(float)) > 0.1 * float(throttled.max()):
        notes.append(
            f"Clocks lie between {throttled.min():.0f} and {throttled.max():.0f} MHz: the power limit "
            "decides what cycles are worth."
        )
    return notes
