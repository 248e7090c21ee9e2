"""Latency: cycles of one dependent access at each level, measured beside what the lecture claims."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import GREY, INK, Style

OPTIONS: Mapping[str, str] = {
    "claimed": "{probe case: cycles} (default: the lecture's register 1, shared 5, constant 5 and "
    "500 for global memory, shown at the case `dram`)",
    "metric": "metric of the cycles (default: latency)",
}
_CLAIMED: Mapping[str, float] = {"register": 1, "shared": 5, "constant": 5, "dram": 500}
_COLOR = "#332288"


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


def table(study: StudyData) -> pd.DataFrame:
    """One row a level: measured and claimed cycles and their quotient."""
    frame = study.cases.reindex(columns=["case", "probe_case"])
    frame["measured (cycles)"] = frame["case"].map(_measured(study))
    frame["claimed by the lecture (cycles)"] = frame["case"].map(
        pd.Series(_claimed(study), dtype=float)
    )
    frame["measured / claimed"] = (
        frame["measured (cycles)"] / frame["claimed by the lecture (cycles)"]
    )
    rest = base.base_table(study).reset_index(drop=True)
    return frame.join(rest[["verdict", "status", "reason", "source"]])


def draw(study: StudyData, style: Style) -> Figure:
    """A bar a level on a logarithmic axis, the claim as a hollow diamond."""
    with look.apply(style):
        values, claims = _measured(study), _claimed(study)
        if study.cases.empty or values.empty:
            return look.empty_figure(study, style, "latency")
        verdicts, states = base.verdicts(study), base.statuses(study)
        rows = study.cases.to_dict("records")
        fig = look.new_figure(style, len(rows) * 6 + 13)
        ax = fig.subplots()
        labels, hatched = [], False
        for place, row in enumerate(rows):
            case = str(row["case"])
            labels.append(str(row["probe_case"]).replace("_", " "))
            value, claim = values.get(case), claims.get(case)
            ranks = verdicts[case] == "correct"
            if value is not None:
                hatched = hatched or not ranks
                ax.barh(
                    place, float(value), height=0.62, linewidth=0.4,
                    color=_COLOR if ranks else "#EEEEEE", hatch=None if ranks else "////",
                    edgecolor=_COLOR if ranks else "#AAAAAA",
                )  # fmt: skip
                told = base.digits(float(value)) + ("" if ranks else f" ({verdicts[case]})")
            else:
                told = states[case].status if states[case].status != "ok" else "no value"
            if claim is not None:
                ax.plot([claim], [place], "D", color="white", markeredgecolor=INK, markersize=4.2)
                told += f"   (claimed: {claim:g})"
            reach = max(float(value) if value is not None else 0.7, claim or 0.7)
            if value is None and (claim or 0.0) > 60:
                reach = 0.7  # the text fits left of the claim
            ax.annotate(
                told, (reach, place), xytext=(5, 0), textcoords="offset points", va="center",
                ha="left", size=style.small, color=INK if value is not None else GREY,
            )  # fmt: skip
        ax.set_xscale("log")
        top = max([float(values.max()), *claims.values()])
        ax.set_xlim(0.7, top * (20 if style.narrow else 5))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_xlabel("cycles for one dependent access (SM clock)")
        look.rows_axis(ax, labels)
        look.grid(ax, "x")
        handles = [
            Patch(color=_COLOR, label="measured"),
            Line2D([], [], linestyle="", marker="D", color="white", markeredgecolor=INK,
                   markersize=4.2, label="claimed by the lecture"),
        ]  # fmt: skip
        if hatched:
            handles.append(
                Patch(facecolor="#EEEEEE", edgecolor="#AAAAAA", hatch="////", label="not correct")
            )
        return look.finish(fig, study, style, handles, [str(h.get_label()) for h in handles])
