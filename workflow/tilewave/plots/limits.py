"""Limits: the cycles of each rung by what they are spent on; the table has also its limiter, bound, stalls, clock.

The cycles of a launch have four parts that add up to all: the busiest arithmetic pipe works; it is idle while the
SM has warps; SMs have ended while others work; before the first and after the last warp. ncu counts in several
passes. Their differences, up to 3 % of a kernel at the power limit, are in the last part. The figure splits the
idle part by what the warps of a scheduler wait for.

A share of cuBLAS is a product of two: that of the cycles, and that of the clocks. At the power limit of a GPU,
a kernel that needs fewer cycles may lose them again by its clock. The clock is the cycles that Nsight Compute
counted over the duration that was timed without it, so both must come from one environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.plots import _bounds, base
from tilewave.plots import style as look
from tilewave.plots._panels import rows_mm, stacks
from tilewave.plots._rungs import Rungs, drawn, in_order, part_of
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import AREAS, Style
from tilewave.records.counters.catalogue import AVERAGE, BUSIEST, ELAPSED, PIPE, STALLED, STATES

Options = Rungs
TABLES: Mapping[str, Mapping[str, Any]] = table_beside(__file__)
PIPES, PARTS, GROUPS, _CLASSES = (TABLES[name] for name in ("pipes", "parts", "groups", "classes"))
OTHER = "other"
_PREDICTED = "predicted / measured cycles"
_STAGES = ("time", "counters")
_CLOCK, _BY_TIME = "clock (MHz)", "% of cuBLAS by time"
_ARITHMETIC = "arithmetic pipe works (% of cycles)"
_PARTS = {name: f"{label} (% of cycles)" for name, label in PARTS.items()}
_WAITS = {name: f"{name} (% of warps' time)" for name in (*GROUPS, OTHER)}


def parts(study: StudyData) -> pd.DataFrame:
    """Return a row for each case with all counters: `pipe` (its name), and PARTS in percent of the elapsed cycles,
    together 100."""
    wanted = [AVERAGE, BUSIEST, ELAPSED, *(PIPE.format(pipe) for pipe in PIPES)]
    values = base.pivot(study, wanted, "counters")
    busy = values[[PIPE.format(pipe) for pipe in PIPES]].set_axis(list(PIPES.values()), axis=1)
    counted = values[[AVERAGE, BUSIEST, ELAPSED]].notna().all(axis=1) & busy.notna().any(axis=1)
    values, busy = values[counted], busy[counted].fillna(0.0)
    work = busy.max(axis=1) / 100 * values[AVERAGE]
    # The two counters may come from two passes, of which the second may be longer.
    elapsed = values[[ELAPSED, BUSIEST]].max(axis=1)
    ends = pd.concat([work, values[AVERAGE], values[BUSIEST], elapsed], axis=1, keys=list(PARTS))
    shares = ends.diff(axis=1).fillna(ends).div(elapsed, axis=0) * 100
    shares.insert(0, "pipe", busy.idxmax(axis=1) if len(busy) else pd.Series(dtype=object))
    return shares


def predicted(measured: pd.Series) -> pd.Series:
    """Return predicted over measured cycles of the cases with recorded cycles (tools/predict_times.py)."""
    table = pd.read_csv(Path(__file__).with_suffix(".csv"), index_col="case")
    of_case = table.reindex(measured.index)
    return (of_case["predicted"] / measured).where(of_case["measured"] == measured.round())


def waits(study: StudyData) -> pd.DataFrame:
    """Return one row per case, one column of GROUPS and OTHER: percent of the time of its resident warps."""
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
    same = [case for case in cycles.index if counted[case] == timed.get(case)]
    return (cycles[same] / duration[same]).rename("clock")


def by_cycles(study: StudyData) -> pd.Series[float]:
    """Return the percent of cuBLAS that the elapsed cycles alone would give, by case.
    It is cuBLAS's cycles over the case's own, of the same dtype and shape, counted in one environment."""
    cycles = base.value_of(study, ELAPSED, "counters")
    about = study.cases.set_index("case").loc[cycles.index]
    about["place"] = pd.Series(base.environment_of(study, ELAPSED), dtype=object)
    product = [about[name] for name in ("dtype", "m", "n", "k", "place")]
    vendor = cycles.where(about["kernel"] == BASELINE)
    shares = 100 * (vendor.groupby(product, dropna=False).transform("first") / cycles)
    return shares.dropna().astype(float)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case: cycles, their parts, clock, shares of cuBLAS, stalls, and known bound and limiter."""
    cycle_parts, stalled, sampled = parts(study), waits(study), _bounds.samples(study)
    derived = {"clock": clock(study), "by_cycles": by_cycles(study), "pipe": cycle_parts["pipe"]}
    ratio = predicted(base.value_of(study, BUSIEST, "counters"))
    columns = base.columns(study, TABLES["columns"], predicted=ratio, **derived)
    columns |= {column: cycle_parts[name] for name, column in _PARTS.items()}
    columns |= {column: stalled[name] for name, column in _WAITS.items()}
    columns |= dict(_bounds.by_case(study, sampled))
    frame = base.with_columns(base.base_table(study), columns)
    helpers = _bounds.helpers(study, sampled)
    wanted = [case for case in in_order(study)["case"] if case not in helpers]
    return frame.set_index("case", drop=False).loc[wanted].reset_index(drop=True)


def _classes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one column of _CLASSES in % of the cycles; the idle part is split in proportion to the warps' waits."""
    columns = {name: [_WAITS[group] for group in _CLASSES[name]] for name in _CLASSES}
    waits = {name: rows[some].sum(axis=1) for name, some in columns.items() if some}
    shares = pd.DataFrame(waits).pipe(lambda sums: sums.div(sums.sum(axis=1), axis=0))
    work, *_, rest = _CLASSES
    classes = shares.mul(rows[_PARTS["idle"]], axis=0).fillna(0.0)
    classes[work] = rows[_PARTS["at work"]]
    classes[rest] = rows[_PARTS["uneven"]] + rows[_PARTS["around"]]
    return classes[list(_CLASSES)]


def _drawn(study: StudyData, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rungs that are drawn, each once, at the shape that has most stalls."""
    rows = table[table[[*_PARTS.values(), *_WAITS.values()]].notna().all(axis=1)]
    rows = rows[rows["verdict"] == "correct"]
    shapes = base.shape_labels(rows)
    rows = rows[shapes == shapes.mode()[0]] if len(rows) else rows
    return drawn(study, rows.drop_duplicates(["variant", "dtype"]), 2)


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per case for the page: its limiter, its cycles over the bound, the arithmetic pipe's share."""
    rows = table[table[[_bounds.RATIO, _PARTS["at work"]]].notna().any(axis=1)]
    shown = rows[["dtype", "variant", _bounds.LIMITER, _bounds.RATIO, _PREDICTED, _CLOCK, _BY_TIME]]
    shown.insert(2, "shape", base.shape_labels(rows))
    waits = rows[list(_WAITS.values())].set_axis(list(_WAITS), axis=1).fillna(-1.0)
    most = waits.idxmax(axis=1).where(waits.max(axis=1) >= 0, "")
    work = base.bars(rows[_PARTS["at work"]])
    return shown.assign(**{"warps wait most for": most, _ARITHMETIC: work})


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the share of the cycles that the busiest pipe works in the rung of the last dtype where it works most."""
    rows = _drawn(study, table)
    if rows.empty:
        return ""
    dtype = rows["dtype"].iloc[-1]
    most = rows.loc[rows["dtype"] == dtype, _PARTS["at work"]].max()
    name = base.operand_dtype(dtype)
    return f"The best {name} rung keeps its arithmetic pipe at work {most:.0f} % of the cycles"


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one panel per dtype, one row per rung: its cycles in classes."""
    rows = _drawn(study, table)
    look.stop_if(rows.empty, "cycles of pipes")
    parts = dict(iter(rows.groupby("dtype", sort=False)))
    heights = [rows_mm(len(part)) for part in parts.values()]
    fig, axes = look.panels(style, [heights[0] + 6, *heights[1:]])
    colors = dict(zip(_CLASSES, AREAS, strict=True))
    for ax, (dtype, part) in zip(axes, parts.items(), strict=True):
        classes = _classes(part).set_index(part["label"])
        handles = stacks(ax, classes, colors, classes.map("{:.0f}".format))
        title = f"{base.dtype_short(dtype)}, {base.shape_label(part.iloc[0].to_dict())}"
        ax.set(title=title, xlabel="share of elapsed cycles (%)")
    shown = part_of(study, rows)
    label = base.shape_label(rows.iloc[0].to_dict())
    notes = filled(__file__, "limits", label=label).splitlines()
    return look.finish(fig, shown, style, handles, notes, _STAGES, _checks(table))


def _checks(table: pd.DataFrame) -> list[str]:
    """Return the origin of the counts, and how often bound and limiter agree with ncu."""
    ratios, scaled = table[_bounds.RATIO].dropna(), table[_bounds.COUNTS] == _bounds.EXECUTED
    facts = {"label": "", "ratios": ratios, "scaled": scaled, "right": _bounds.agreement(table)}
    return filled(__file__, "limits", **facts).splitlines()
