"""Latency: cycles of one dependent access at each level, measured beside what documents claim.

The lecture gives a number for four levels. The article on vectorised access says "several hundred" of global
memory. The table's nanoseconds use the environment's highest SM clock: the probe counts cycles, and no clock
is read while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import dot_handles, dots, rows_mm
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

READING = look.READINGS["latency"]
_CLAIMED: Mapping[str, float] = {"register": 1, "shared": 5, "constant": 5, "dram": 500}
HUNDREDS = ("l2", "dram")
"""Probe cases of global memory for which the article claims several hundred cycles."""
_SEVERAL = (200.0, 999.0)  # range of several hundred cycles
_METRIC = "latency"
_MEASURED, _LECTURE = "measured (cycles)", "claimed by the lecture (cycles)"
_ARTICLE = "claimed by the article"


def _claimed(study: StudyData) -> pd.Series[float]:
    """Return the claim of each case: the kernel file's, else the lecture's for the level.
    The level is the probe case's name up to its first underscore."""
    cases = study.cases.set_index("case").reindex(columns=["probe_case", "latency_claimed"])
    levels = cases["probe_case"].str.lower().str.replace("_.*", "", regex=True)
    return cases["latency_claimed"].astype(float).fillna(levels.map(_CLAIMED))


def clock_mhz(study: StudyData) -> float | None:
    """Return the highest SM clock of the environment that all values come from; None where clocks differ."""
    used = set(base.environment_of(study, _METRIC).values())
    clocks = {study.environments.get(name, {}).get("sm_clock_max_mhz") for name in used}
    clock = clocks.pop() if len(clocks) == 1 else None
    return float(clock) if clock else None


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per level: measured cycles and nanoseconds, claimed cycles, the quotient."""
    frame = study.cases.reindex(columns=["case", "probe_case"])
    frame[_MEASURED] = frame["case"].map(base.value_of(study, _METRIC))
    frame[_LECTURE] = frame["case"].map(_claimed(study))
    frame["measured / claimed"] = frame[_MEASURED] / frame[_LECTURE]
    clock = clock_mhz(study)
    if clock is not None:
        frame[f"measured (ns at {clock:g} MHz)"] = 1e3 * frame[_MEASURED] / clock
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


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one row per level: the measured cycles, and the claimed ones."""
    rows = table[(table["verdict"] == "correct") & table[_MEASURED].notna()]
    if rows.empty:
        return look.empty_figure(study, style, "latency")
    rows = rows.assign(label=rows["probe_case"].map(_level))
    fig, (ax,) = look.panels(style, [rows_mm(len(rows))])
    cycles = rows[_MEASURED].map("{:.0f}".format)
    dots(ax, rows, [_LECTURE, _MEASURED], texts=cycles, heading="measured")
    ax.set(xscale="log", xlabel="latency of a dependent access (SM clock cycles)")
    ax.set_xlim(0.45 * rows[[_LECTURE, _MEASURED]].min(axis=None))
    look.decades(ax.xaxis, ax.get_xlim())
    for row, claim in enumerate(rows[_LECTURE]):
        text = f"{claim:g}" if claim > 0 else ""
        look.write(ax, text, (claim, row), (-5, 0), ha="right", va="center_baseline")
    handles = dot_handles("claimed by the matrix multiplication lecture", "measured")
    return look.finish(fig, study, style, handles)
