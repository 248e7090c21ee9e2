"""Latency: cycles of one dependent access at each level, measured beside what is claimed.

The lecture gives a number for four levels, the article on vectorised access says "several hundred"
of global memory. The axis in nanoseconds takes the environment's highest SM clock: the probe counts
cycles, and no clock is read while it runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import FAINT, GREY, INK, Style
from tilewave.theory.latency import nanoseconds

OPTIONS: Mapping[str, str] = {
    "claimed": "{probe case: cycles} (default: the lecture's register 1, shared 5, constant 5 and "
    "500 for global memory, shown at the case `dram`)",
    "metric": "metric of the cycles (default: latency)",
    "hundreds": "probe cases of global memory that the article gives several hundred cycles "
    "(default: l2 and dram)",
}
_CLAIMED: Mapping[str, float] = {"register": 1, "shared": 5, "constant": 5, "dram": 500}
_HUNDREDS = ("l2", "dram")
_SEVERAL = (200.0, 999.0)  # cycles that can be called several hundred
_COLOR = "#332288"
_MEASURED, _LECTURE = "measured (cycles)", "claimed by the lecture (cycles)"
_ARTICLE = "claimed by the article"


def _claimed(study: StudyData) -> dict[str, float]:
    """The claim of each case, by case id: the option's, else the kernel file's (a column of the
    cases, or a record), else the lecture's.

    A claim is made for a level: the case's name, or the word before its first underscore.
    """
    given = study.option("claimed", None)
    recorded = base.value_of(study, "latency_claimed")
    if "latency_claimed" in study.cases:
        column = study.cases.set_index("case")["latency_claimed"].astype(float).dropna()
        recorded = column.combine_first(recorded)
    claims = {str(k): float(v) for k, v in dict(_CLAIMED if given is None else given).items()}
    found = {}
    for row in study.cases.to_dict("records"):
        name = str(row["probe_case"]).lower()
        level = name if name in claims else name.partition("_")[0]
        if given is None and row["case"] in recorded.index:
            found[str(row["case"])] = float(recorded[row["case"]])
        elif level in claims:
            found[str(row["case"])] = claims[level]
    return found


def _measured(study: StudyData) -> pd.Series[float]:
    return base.value_of(study, str(study.option("metric", "latency")))


def clock_mhz(study: StudyData) -> float | None:
    """The highest SM clock of the environment that all values come from; None where it differs."""
    used = set(base.environment_of(study, str(study.option("metric", "latency"))).values())
    clocks = {study.environments.get(one, {}).get("sm_clock_max_mhz") for one in used}
    clock = clocks.pop() if len(clocks) == 1 else None
    return float(clock) if clock else None


def _hundreds(study: StudyData) -> set[str]:
    """Ids of the cases of which the article says "several hundred"."""
    levels = set(study.option("hundreds", _HUNDREDS))
    cases = study.cases.to_dict("records")
    return {str(row["case"]) for row in cases if str(row["probe_case"]).lower() in levels}


def table(study: StudyData) -> pd.DataFrame:
    """One row a level: measured cycles and nanoseconds, claimed cycles, the quotient."""
    frame = study.cases.reindex(columns=["case", "probe_case"])
    frame[_MEASURED] = frame["case"].map(_measured(study))
    frame[_LECTURE] = frame["case"].map(pd.Series(_claimed(study), dtype=float))
    frame["measured / claimed"] = frame[_MEASURED] / frame[_LECTURE]
    clock = clock_mhz(study)
    if clock is not None:
        cycles = frame[_MEASURED]
        frame[f"measured (ns at {clock:g} MHz)"] = cycles.map(lambda c: nanoseconds(c, clock))
    said = frame["case"].isin(_hundreds(study))
    frame[_ARTICLE] = said.map({True: "several hundred cycles", False: ""})
    holds = frame[_MEASURED].between(*_SEVERAL)
    known = said & frame[_MEASURED].notna()
    frame["the article holds"] = holds.map({True: "yes", False: "no"}).where(known, "")
    rest = base.base_table(study).reset_index(drop=True)
    return frame.join(rest[["verdict", "status", "reason", "source"]])


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A bar a level on a logarithmic axis, the claim as a hollow diamond."""
    with look.apply(style):
        values, claims = base.column(table, _MEASURED), base.column(table, _LECTURE)
        if values.empty:
            return look.empty_figure(study, style, "latency")
        rows = table.to_dict("records")
        fig = look.new_figure(style, len(rows) * 6 + 13)
        ax = fig.subplots()
        labels, hatched, hundreds = [], False, set(table.loc[table[_ARTICLE] != "", "case"])
        for place, row in enumerate(rows):
            case, verdict = row["case"], row["verdict"]
            labels.append(str(row["probe_case"]).replace("_", " "))
            value, claim = values.get(case), claims.get(case)
            ranks = verdict == "correct"
            if value is not None:
                hatched = hatched or not ranks
                ax.barh(
                    place, float(value), height=0.62, linewidth=0.4,
                    color=_COLOR if ranks else "#EEEEEE", hatch=None if ranks else "////",
                    edgecolor=_COLOR if ranks else "#AAAAAA",
                )  # fmt: skip
                told = base.digits(float(value)) + ("" if ranks else f" ({verdict})")
            else:
                told = row["status"] if row["status"] != "ok" else "no value"
            if case in hundreds:
                ax.barh(place, _SEVERAL[1] - _SEVERAL[0], left=_SEVERAL[0], height=0.9,
                        color=FAINT, linewidth=0, zorder=0.5)  # fmt: skip
            if claim is not None:
                ax.plot([claim], [place], "D", color="white", markeredgecolor=INK, markersize=4.2)
                times = "" if value is None else f"{base.digits(float(value) / claim)} × "
                told += f"   ({times}{claim:g} claimed)"
            reach = max(float(value) if value is not None else 0.7, claim or 0.7)
            if case in hundreds and value is not None:
                reach = max(reach, _SEVERAL[1])
            if value is None and (claim or 0.0) > 60:
                reach = 0.7  # the text fits left of the claim
            ax.annotate(
                told, (reach, place), xytext=(5, 0), textcoords="offset points", va="center",
                ha="left", size=style.small, color=INK if value is not None else GREY,
            )  # fmt: skip
        ax.set_xscale("log")
        top = max([float(values.max()), *claims, *([_SEVERAL[1]] if hundreds else [])])
        ax.set_xlim(0.7, top * (20 if style.narrow else 5))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("cycles for one dependent access (SM clock)")
        clock = clock_mhz(study)
        if clock is not None:
            ns = 1e3 / clock  # of a cycle
            top_axis = ax.secondary_xaxis(
                "top", functions=(lambda c: np.asarray(c) * ns, lambda t: np.asarray(t) / ns)
            )
            top_axis.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            top_axis.xaxis.set_minor_locator(NullLocator())
            top_axis.set_xlabel(f"ns at {clock:g} MHz, the highest SM clock")
        look.rows_axis(ax, labels)
        look.grid(ax, "x")
        handles = [
            Patch(color=_COLOR, label="measured"),
            Line2D([], [], linestyle="", marker="D", color="white", markeredgecolor=INK,
                   markersize=4.2, label="claimed by the lecture"),
        ]  # fmt: skip
        if hundreds:
            handles.append(Patch(color=FAINT, label="the article's several hundred"))
        if hatched:
            handles.append(
                Patch(facecolor="#EEEEEE", edgecolor="#AAAAAA", hatch="////", label="not correct")
            )
        return look.finish(fig, study, style, handles, [str(h.get_label()) for h in handles])
