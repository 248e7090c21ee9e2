"""Latency: cycles of one dependent access at each level, measured beside what documents claim.
Nanoseconds are at the environment's highest SM clock: no clock is read while the probe counts cycles."""

import pandas as pd
from matplotlib.figure import Figure

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import dot_handles, dots, rows_mm
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

_METRIC = "latency"
_MEASURED, _LECTURE = "measured (cycles)", "claimed by the lecture (cycles)"


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
    frame[_LECTURE] = study.cases.reindex(columns=["latency_claimed"]).astype(float)
    frame["measured / claimed"] = frame[_MEASURED] / frame[_LECTURE]
    clock = clock_mhz(study)
    if clock is not None:
        frame[f"measured (ns at {clock:g} MHz)"] = 1e3 * frame[_MEASURED] / clock
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
    look.stop_if(rows.empty, "latency")
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
