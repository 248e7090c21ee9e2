"""Latency: cycles of one dependent access at each level, measured beside what documents claim.

The lecture gives a number for four levels. The article on vectorised access says "several hundred" of global
memory. The axis in nanoseconds uses the environment's highest SM clock: the probe counts cycles, and no clock
is read while it runs.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import FAINT, GREY, INK, Style
from tilewave.theory.latency import nanoseconds

READING = (
    "A row is a level of the memory; right is slower, on a logarithmic axis. The dot is the measurement, the diamond "
    "the lecture's claim, and the bar the article's several hundred cycles."
)


_CLAIMED: Mapping[str, float] = {"register": 1, "shared": 5, "constant": 5, "dram": 500}
HUNDREDS = ("l2", "dram")
"""Probe cases of global memory for which the article claims several hundred cycles."""
_SEVERAL = (200.0, 999.0)  # range of several hundred cycles
_METRIC = "latency"
_MEASURED, _LECTURE = "measured (cycles)", "claimed by the lecture (cycles)"
_ARTICLE = "claimed by the article"
_MARKS: Mapping[str, Mapping[str, Any]] = {
    _MEASURED: {"marker": "o", "color": "#332288", "s": 24, "linewidth": 0},
    _LECTURE: {"marker": "D", "color": "white", "edgecolor": INK, "s": 18, "linewidth": 0.9},
    "not correct": {"marker": "X", "color": GREY, "s": 26, "linewidth": 0},
}


def _claimed(study: StudyData) -> dict[str, float]:
    """Return the claim of each case: the kernel file's, else the lecture's for the level.
    The level is the probe case's name up to its first underscore."""
    claims = {}
    for row in study.cases.to_dict("records"):
        level = str(row["probe_case"]).lower().partition("_")[0]
        claim = row.get("latency_claimed")
        if claim := claim if base.present(claim) else _CLAIMED.get(level):
            claims[str(row["case"])] = float(claim)
    return claims


def clock_mhz(study: StudyData) -> float | None:
    """Return the highest SM clock of the environment that all values come from; None where clocks differ."""
    used = set(base.environment_of(study, _METRIC).values())
    clocks = {study.environments.get(name, {}).get("sm_clock_max_mhz") for name in used}
    clock = clocks.pop() if len(clocks) == 1 else None
    return float(clock) if clock else None


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a level: measured cycles and nanoseconds, claimed cycles, the quotient."""
    frame = study.cases.reindex(columns=["case", "probe_case"])
    frame[_MEASURED] = frame["case"].map(base.value_of(study, _METRIC))
    frame[_LECTURE] = frame["case"].map(pd.Series(_claimed(study), dtype=float))
    frame["measured / claimed"] = frame[_MEASURED] / frame[_LECTURE]
    clock = clock_mhz(study)
    if clock is not None:
        cycles = frame[_MEASURED]
        frame[f"measured (ns at {clock:g} MHz)"] = cycles.map(lambda c: nanoseconds(c, clock))
    claimed = frame["probe_case"].str.lower().isin(HUNDREDS)
    frame[_ARTICLE] = claimed.map({True: "several hundred cycles", False: ""})
    holds = frame[_MEASURED].between(*_SEVERAL)
    comparable = claimed & frame[_MEASURED].notna()
    frame["the article holds"] = holds.map({True: "yes", False: "no"}).where(comparable, "")
    base_rows = base.base_table(study).reset_index(drop=True)
    return frame.join(base_rows[["verdict", "status", "reason", "source"]])


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the cycles of the slowest level."""
    good = table[(table["verdict"] == "correct") & table[_MEASURED].notna()]
    if good.empty:
        return ""
    slowest = good.loc[good[_MEASURED].idxmax()]
    level, cycles = _level(slowest["probe_case"]), base.digits(slowest[_MEASURED])
    return f"A dependent access to the slowest level, {level}, takes {cycles} cycles"


def _level(probe_case: object) -> str:
    """Return a level's common spelling: L1, DRAM, register."""
    name = str(probe_case).replace("_", " ")
    return name.upper() if name in ("l1", "l2", "dram") else name


def _row_text(row: Mapping[str, Any]) -> str:
    """Return a level's cycles and how many times the claim they are."""
    value, claim = row[_MEASURED], row[_LECTURE]
    is_measured = base.present(value)
    text = row["status"] if row["status"] != "ok" else "no value"
    if is_measured:
        text = base.digits(value) + ("" if row["verdict"] == "correct" else f" ({row['verdict']})")
    if base.present(claim):
        text += f"   ({base.digits(value / claim) + ' × ' if is_measured else ''}{claim:g} claimed)"
    return str(text)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a row a level on a logarithmic axis: a dot measured, a hollow diamond claimed, a line between."""
    with look.apply(style):
        if table[_MEASURED].isna().all():
            return look.empty_figure(study, style, "latency")
        fig = look.new_figure(style, len(table) * 5 + 13)
        ax = fig.subplots()
        rows = table.assign(row=range(len(table)), ranks=table["verdict"] == "correct")
        hundreds = rows[rows[_ARTICLE] != ""]
        ax.barh(
            hundreds["row"], _SEVERAL[1] - _SEVERAL[0], left=_SEVERAL[0], height=0.9, color=FAINT,
            linewidth=0, zorder=0.5,
        )  # fmt: skip
        ax.hlines(rows["row"], rows[_MEASURED], rows[_LECTURE], color=GREY, linewidth=0.8, zorder=1)
        dots = rows.melt(["row", "ranks"], [_MEASURED, _LECTURE], "kind", "cycles").dropna()
        claimed = dots["kind"] == _LECTURE
        dots["kind"] = dots["kind"].where(claimed | dots["ranks"], "not correct")
        names = {
            _MEASURED: "measured", _LECTURE: "claimed by the lecture", "not correct": "not correct",
        }  # fmt: skip
        kinds = [kind for kind in names if (dots["kind"] == kind).any()]
        for kind in kinds:
            sns.scatterplot(
                dots[dots["kind"] == kind], x="cycles", y="row", ax=ax, label=names[kind],
                legend=False, zorder=3, **_MARKS[kind],
            )  # fmt: skip
        look.beside(ax, map(_row_text, rows.to_dict("records")))
        ax.set(xscale="log", xlabel="cycles for one dependent access (SM clock)", ylabel="")
        axes = [ax.xaxis]
        clock = clock_mhz(study)
        if clock is not None:
            ns = 1e3 / clock  # of a cycle
            top = ax.secondary_xaxis(
                "top", functions=(lambda c: np.asarray(c) * ns, lambda t: np.asarray(t) / ns)
            )
            top.set_xlabel(f"ns at {clock:g} MHz, the highest SM clock")
            axes.append(top.xaxis)
        for axis in axes:
            axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            axis.set_minor_locator(NullLocator())
        look.rows_axis(ax, [_level(name) for name in rows["probe_case"]])
        look.grid(ax, "x")
        handles = look.entries([ax])
        if len(hundreds):
            handles.append(Patch(color=FAINT, label="the article's several hundred"))
        return look.finish(fig, study, style, handles)
