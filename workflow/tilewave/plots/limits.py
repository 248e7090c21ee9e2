"""Limits: the cycles of each rung, its limiter, the distance to its bound, the stalls of its warps, and its clock.

Left, the cycles of a launch in four parts that add up to all: the busiest execution pipe works; it is idle
while the SM has warps; SMs have ended while others work; before the first and after the last warp. ncu counts
in several passes. Their differences, up to 3 % of a kernel at the power limit, are in the last part. Right, the
warps of a scheduler by what they wait for.

A share of cuBLAS is a product of two: that of the cycles, and that of the clocks. At the power limit of a GPU,
a kernel that needs fewer cycles may lose them again by its clock. The clock is the cycles that Nsight Compute
counted over the duration that was timed without it, so both must come from one environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tilewave.plots import _bounds, base
from tilewave.plots import style as look
from tilewave.plots._panels import below_dtypes, cells, listed
from tilewave.plots._rungs import in_order
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import Style
from tilewave.records.counters.catalogue import AVERAGE, BUSIEST, ELAPSED, PIPE, STALLED, STATES
from tilewave.theory import bounds

READING = (
    "A bar is a rung's elapsed cycles: its busiest pipe works in the darkest part, and is idle in the lighter ones. "
    "Beside it stand its limiter and the measured cycles over the bound; at 1 the limiter never waits. The cells "
    "show what its warps wait for, in % of their time; more is darker."
)


PIPES: Mapping[str, str] = {"tensor": "tensor", "fma": "FMA", "fp64": "FP64"}
PARTS: Mapping[str, str] = {
    "at work": "the pipe works",
    "idle": "pipe idle, the SM has warps",
    "uneven": "SM has ended, others work",
    "around": "launch, end, passes apart",
}
# States with the same remedy, in the order of the columns.
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
_STAGES = ("time", "counters")
_CLOCK, _BY_CYCLES, _BY_TIME = "clock (MHz)", "% of cuBLAS by cycles", "% of cuBLAS by time"
_FIGURES: Mapping[str, str] = {
    _bounds.LIMITER: "limiter", _bounds.RATIO: "measured / bound", _CLOCK: "MHz",
    _BY_CYCLES: "% of cuBLAS, cycles", _BY_TIME: "% of cuBLAS, time",
}  # fmt: skip
_SHORT: Mapping[str, str] = {
    bounds.ISSUE: "issue", bounds.TENSOR: "tensor", bounds.DATA: "L1", bounds.SPECIAL: "special",
}  # fmt: skip
_PARTS = {name: f"{label} (% of cycles)" for name, label in PARTS.items()}
_WAITS = {name: f"{name} (% of warps' time)" for name in (*GROUPS, OTHER)}


def parts(study: StudyData) -> pd.DataFrame:
    """Return one row a case: `pipe` (its name) and PARTS in percent of the elapsed cycles, which add up to 100.
    Cases without one of the counters are absent."""
    wanted = [AVERAGE, BUSIEST, ELAPSED, *(PIPE.format(pipe) for pipe in PIPES)]
    values = base.pivot(study, wanted, "counters")
    busy = values[[PIPE.format(pipe) for pipe in PIPES]].set_axis(list(PIPES.values()), axis=1)
    values = values[
        values[[AVERAGE, BUSIEST, ELAPSED]].notna().all(axis=1) & busy.notna().any(axis=1)
    ]
    busy = busy.loc[values.index].fillna(0.0)
    work = busy.max(axis=1) / 100 * values[AVERAGE]
    # The two counters may come from two passes, of which the second may be longer.
    elapsed = values[[ELAPSED, BUSIEST]].max(axis=1)
    columns = [
        work, values[AVERAGE] - work, values[BUSIEST] - values[AVERAGE], elapsed - values[BUSIEST],
    ]  # fmt: skip
    shares = pd.DataFrame(dict(zip(PARTS, columns, strict=True)), index=values.index)
    shares = shares.div(elapsed, axis=0) * 100
    shares.insert(0, "pipe", busy.idxmax(axis=1) if len(busy) else pd.Series(dtype=object))
    return shares


def waits(study: StudyData) -> pd.DataFrame:
    """Return one row a case, one column of GROUPS and OTHER: percent of the time of its resident warps."""
    values = base.pivot(study, [STALLED.format(state) for state in STATES], "counters")
    values = values.set_axis(list(STATES), axis=1).dropna(how="all").fillna(0.0)
    grouped = {name: values[list(states)].sum(axis=1) for name, states in GROUPS.items()}
    named = [state for states in GROUPS.values() for state in states]
    grouped[OTHER] = values.drop(columns=named).sum(axis=1)
    shares = pd.DataFrame(grouped, index=values.index)
    return shares.div(shares.sum(axis=1), axis=0) * 100


def clock(study: StudyData) -> pd.Series[float]:
    """Return elapsed cycles over the timed duration, in MHz, by case; both from one environment."""
    cycles = base.value_of(study, ELAPSED, "counters")
    duration = base.value_of(study, "duration", "time")
    counted = base.environment_of(study, ELAPSED, "counters")
    timed = base.environment_of(study, "duration", "time")
    same = [case for case in cycles.index if case in timed and counted[case] == timed[case]]
    same = [case for case in same if case in duration.index]
    return (cycles[same] / duration[same]).rename("clock")


def by_cycles(study: StudyData) -> pd.Series[float]:
    """Return the percent of cuBLAS that the elapsed cycles alone would give, by case.
    It is cuBLAS's cycles over the case's own, of the same dtype and shape, counted in one environment."""
    cycles = base.value_of(study, ELAPSED, "counters")
    places = base.environment_of(study, ELAPSED)
    products = zip(*(study.cases[name] for name in ("dtype", "m", "n", "k")), strict=True)
    product_of = dict(zip(study.cases["case"], products, strict=True))
    baselines: dict[tuple[Any, ...], str] = {}
    for case in study.cases.loc[study.cases["kernel"] == BASELINE, "case"]:
        if case in cycles.index:
            baselines.setdefault((*product_of[case], places[case]), case)
    shares = {
        case: 100 * float(cycles[baseline] / cycles[case])
        for case in cycles.index
        if (baseline := baselines.get((*product_of[case], places[case])))
    }
    return pd.Series(shares, dtype=float)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case: cycles, their parts, clock, shares of cuBLAS, stalls, and known bound and limiter."""
    cycle_parts, stalled = parts(study), waits(study)
    frame = base.with_columns(
        base.base_table(study),
        {
            "elapsed cycles": base.value_of(study, ELAPSED, "counters"),
            _CLOCK: clock(study),
            _BY_CYCLES: by_cycles(study),
            _BY_TIME: base.value_of(study, "percent_of_cublas", "time"),
            "pipe": cycle_parts["pipe"],
            **{column: cycle_parts[name] for name, column in _PARTS.items()},
            **{column: stalled[name] for name, column in _WAITS.items()},
            **dict(_bounds.by_case(study)),
        },
    )
    helpers = _bounds.helpers(study)
    ordered = [] if study.cases.empty else in_order(study)["case"]
    wanted = [case for case in ordered if case not in helpers]
    return frame.set_index("case", drop=False).loc[wanted].reset_index(drop=True)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the least share of its cycles that the busiest pipe works in the fastest kernels of the dtypes."""
    work = _PARTS["at work"]
    kernels = table[(table["kernel"] != BASELINE) & (table["verdict"] == "correct")]
    kernels = kernels[kernels[work].notna() & kernels[_BY_TIME].notna()]
    best = kernels.sort_values(_BY_TIME, ascending=False, kind="stable").drop_duplicates("dtype")
    if best.empty:
        return ""
    least = best[work].min()
    return f"The busiest pipe works at least {least:.0f} % of the cycles in the fastest kernel of each dtype"


def _lines(study: StudyData, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with something to draw, below a line for each dtype.
    `label` names both; `shape` is empty in a dtype's line."""
    rows = table[table[[*_PARTS.values(), *_WAITS.values()]].notna().any(axis=1)]
    if rows.empty:
        return rows
    # Other studies count the cycles of some cases without the stalls of their warps.
    with_stalls = rows[list(_WAITS.values())].notna().any(axis=1)
    rows = rows[with_stalls] if with_stalls.any() else rows
    # A probe's case has a name, which is in no column of the table.
    rows = rows.join(study.cases.set_index("case")["probe_case"], on="case")
    rows["shape"] = [base.shape_label(row) for row in rows.to_dict("records")]
    several = rows["shape"].nunique() > 1
    rows["label"] = [
        base.variant_label(row, str(row["dtype"])).replace("\n", " ")
        + (f" {row['shape']}" if several else "")
        + ("" if row["verdict"] == "correct" else f" ({row['verdict']})")
        for row in rows.to_dict("records")
    ]
    rows[[_BY_CYCLES, _BY_TIME]] = rows[[_BY_CYCLES, _BY_TIME]].where(rows["verdict"] == "correct")
    rows["bounded"] = rows["shape"]
    return below_dtypes(rows if several else _bounded(rows, table))


def _bounded(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with their variants' limiter and ratio at the shape with most bounds, `bounded`."""
    bounded = table[table[_bounds.RATIO].notna() & table["variant"].isin(rows["variant"])][::-1]
    if bounded.empty:
        return rows
    shape = base.common_shape(bounded)
    bounded = bounded[[base.shape_label(row) == shape for row in bounded.to_dict("records")]]
    columns = [_bounds.LIMITER, _bounds.RATIO]
    shape_bounds = bounded.drop_duplicates("variant").set_index("variant")[columns]
    return rows.drop(columns=columns).join(shape_bounds, on="variant").assign(bounded=shape)


def _cells(lines: pd.DataFrame) -> pd.DataFrame:
    """Return the texts of _FIGURES, a row a line."""
    forms = {_bounds.RATIO: "{:.2f}", _CLOCK: "{:.0f}", _BY_CYCLES: "{:.1f}", _BY_TIME: "{:.1f}"}
    texts = {name: lines[name].map(form.format, na_action="ignore") for name, form in forms.items()}
    texts[_bounds.LIMITER] = lines[_bounds.LIMITER].replace(dict(_SHORT))
    shown = pd.DataFrame(texts, dtype=object)[list(_FIGURES)].fillna("")
    return shown.set_axis(list(_FIGURES.values()), axis=1)


def _stack(ax: Axes, lines: pd.DataFrame) -> list[Artist]:
    """Draw a bar a row from 0 to 100 and return the legend's handles; rows without values stay empty."""
    colors = dict(zip(PARTS, sns.color_palette("Blues_r", len(PARTS)), strict=True))
    parts = lines.rename(columns={column: name for name, column in _PARTS.items()})
    sns.histplot(
        parts.assign(row=parts.index).melt("row", list(PARTS), "part", "share").dropna(),
        y="row", weights="share", hue="part", hue_order=list(PARTS)[::-1], palette=colors,
        multiple="stack", discrete=True, shrink=0.75, alpha=1, linewidth=0, legend=False, ax=ax,
    )  # fmt: skip
    ax.set(xlim=(0, 100), xticks=[0, 50, 100], xlabel="% of elapsed cycles", ylabel="")
    return [Patch(color=color, label=PARTS[part]) for part, color in colors.items()]


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a row a variant, by dtype: cycles, limiter, bound, clock, shares, and the stalls of its warps.
    A narrow figure has the stalls, measured over bound, and the cycles in which the pipe works."""
    with look.apply(style):
        lines = _lines(study, table)
        if lines.empty:
            return look.empty_figure(study, style, "cycles of pipes")
        fig = look.new_figure(style, (2.65 if style.narrow else 2.8) * len(lines) + 40)
        waits = lines[list(_WAITS.values())].set_axis(list(_WAITS), axis=1)
        handles: list[Artist] = []
        figures = _cells(lines)
        if style.narrow:
            ax = last = fig.subplots()
            waits.insert(0, "pipe, % of cycles", lines[_PARTS["at work"]])
        else:
            ax, beside, last = fig.subplots(1, 3, width_ratios=[1, 0.95, 1.45])
            handles = _stack(ax, lines)
            cells(beside, figures, pd.DataFrame(0.0, figures.index, figures.columns), style)
        texts = waits.map(lambda n: f"{n:.0f}" if n >= 0.5 else "")
        if style.narrow:
            ratio = _FIGURES[_bounds.RATIO]
            texts.insert(0, ratio, figures[ratio])
            waits.insert(0, ratio, 0.0)
        cells(last, texts, waits, style)
        # Cells begin at whole numbers, bars do not.
        listed(ax, lines, style, 0.5 if style.narrow else 0.0)
        last.set_title("% of warps' time by what they wait for", loc="right")
        notes = _notes(table, *(set(lines[name].dropna()) for name in ("shape", "bounded")))
        return look.finish(fig, study, style, handles, notes, _STAGES)


def _notes(table: pd.DataFrame, shapes: set[str], bounded: set[str]) -> list[str]:
    """Return the shapes, the definition of the bound, and how often bound and limiter agree with ncu."""
    notes = []
    if len(shapes) == 1:
        suffix = "".join(f", but limiter and bound at {shape}" for shape in bounded - shapes)
        notes.append(f"All at {shapes.pop()}{suffix}.")
    notes.append(
        "The pipe is the busiest of tensor, FMA and FP64. MHz are ncu's cycles over the duration timed without ncu."
    )
    ratios, scaled = table[_bounds.RATIO].dropna(), table[_bounds.COUNTS] == _bounds.EXECUTED
    if ratios.empty:
        return notes
    right = [f"{n} of {of} among {among}" for among, (n, of) in _bounds.agreement(table).items()]
    return [
        *notes,
        "The bound is the work of the busiest SM at the rate of the limiter, the pipe that needs longest. Counts of "
        f"{int(scaled.sum())} of {len(ratios)} cases are executed on a CPU at two small sizes and scaled; the others "
        f"are ncu's. {int((ratios < 1).sum())} of {len(ratios)} bounds lie above the measurement."
        + (f" The limiter is ncu's busiest in {', '.join(right)}." if right else ""),
    ]
