"""Side by side: how much faster the cases are on another recorded GPU, beside what their roofs say, and which
claims hold on both.

The figures are those that the studies of roofs and of claims have on each GPU (`StudyData.sides`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, NullLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import titled
from tilewave.plots.base import StudyData
from tilewave.plots.style import FAINT, GREY, INK, Style
from tilewave.records import model

READING = (
    "Above, a mark is a case: its speed on the other GPU over that on the first, beside what the lowest roofs of "
    "both say. On the line they say all of it; below it the other GPU gives less than its roofs promise. Below, a "
    "cell counts claims by their verdicts: from left to right on the other GPU, downwards on the first."
)

_CASE, _CLAIM = "case", "claim"
_RATIO, _ROOFS = "speed over the first GPU's", "roof over the first GPU's"
_MARKS: Mapping[str, tuple[str, str]] = {
    "math": ("#4477AA", "o"), "dram": ("#EE6677", "s"), "l2": ("#228833", "^"), "l1": ("#CCBB44", "D"),
}  # fmt: skip
"""Colour and marker by what bounds a case on the first GPU."""
_UNBOUND = (GREY, "x")


def _gpus(study: StudyData) -> list[str]:
    """The recorded GPUs, the one that the report is about first."""
    known = list(dict.fromkeys(study.sides["gpu"])) if len(study.sides) else []
    return sorted(known, key=lambda name: name != study.target.get("label"))


def _cases(rows: pd.DataFrame, first: str, other: str) -> pd.DataFrame:
    """Cases that were measured on two GPUs."""
    one, two = (
        rows[rows["gpu"] == gpu].drop_duplicates("case").set_index("case") for gpu in (first, other)
    )
    one = one[one.index.isin(two.index)]
    two = two.loc[one.index]
    made = pd.DataFrame(index=one.index)
    for name, side in (("", one), (" there", two)):
        made[f"TFLOP/s{name}"] = side["TFLOP/s"].astype(float)
        made[f"TB/s{name}"] = side["bandwidth (TB/s)"].astype(float)
        made[f"lowest roof{name} (TFLOP/s)"] = side["lowest roof (TFLOP/s)"].astype(float)
        made[f"bound by{name}"] = side["bound by"]
    speeds, bytes_too = made["TFLOP/s there"] / made["TFLOP/s"], made["TB/s there"] / made["TB/s"]
    made[_RATIO] = speeds.fillna(bytes_too)
    made[_ROOFS] = made["lowest roof there (TFLOP/s)"] / made["lowest roof (TFLOP/s)"]
    return made[made[_RATIO].notna()].reset_index().rename(columns={"case": "what"})


def _claims(rows: pd.DataFrame, first: str, other: str) -> pd.DataFrame:
    """Claims with what came of them on two GPUs."""
    place = ["document", "claim"]
    one, two = (
        rows[rows["gpu"] == gpu].drop_duplicates(place).set_index(place) for gpu in (first, other)
    )
    there = {name: f"{name} there" for name in ("measured", "verdict")}
    made = one[["claimed", *there]].join(two[[*there]].rename(columns=there), how="inner")
    return made.reset_index().rename(columns={"claim": "what"})


def table(study: StudyData) -> pd.DataFrame:
    """A row for each case that is measured on the first and on another GPU, and for each claim: what
    it is, both GPUs, and what is known on the one and *there*, on the other. Without another GPU the
    study's cases."""
    head = ["kind", "what", "first GPU", "other GPU"]
    tail = ["verdict", "status", "reason", "source"]
    first, *others = _gpus(study) or [""]
    made = []
    for other in others:
        for plot, rows in study.sides.groupby("plot"):
            part = (_claims if plot == "claims" else _cases)(rows, first, other)
            kind = _CLAIM if plot == "claims" else _CASE
            made.append(part.assign(kind=kind, **{"first GPU": first, "other GPU": other}))
    if not made:
        known = base.base_table(study)[["case", *tail]].rename(columns={"case": "what"})
        made = [known.assign(kind=_CASE, **{"first GPU": first, "other GPU": None})]
    found = pd.concat(made, ignore_index=True)
    if others:
        found = found.assign(status=model.OK, reason="", source="recorded")
    found = found.reindex(columns=[
        *head, *(name for name in found if name not in (*head, *tail)), *tail,
    ])  # fmt: skip
    return found.sort_values("kind", kind="stable", ignore_index=True)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """The median speed of the other GPU, and how many claims are judged otherwise there."""
    told = []
    for other, rows in table.groupby("other GPU", sort=False):
        cases, claims = rows[rows["kind"] == _CASE], rows[rows["kind"] == _CLAIM]
        if len(cases):
            told.append(
                f"{other} has {cases[_RATIO].median():.2f} times the speed at {len(cases)} cases"
            )
        both = claims[(claims[["verdict", "verdict there"]] != model.NOT_MEASURED).all(axis=1)]
        if len(both):
            differ = int((both["verdict"] != both["verdict there"]).sum())
            told.append(
                f"{differ or 'none'} of {len(both)} claims that both have measured {'are' if differ > 1 else 'is'} "
                "judged otherwise"
            )
    return "; ".join(told)


def _short(gpu: str) -> str:
    return gpu.removeprefix("NVIDIA ")


def _roofs(ax: Axes, rows: pd.DataFrame, style: Style) -> None:
    """Measured against predicted ratios."""
    known = rows[rows[_ROOFS].notna()]
    if known.empty:
        ax.set_axis_off()
        return
    ends = [*known[_RATIO], *known[_ROOFS], 1.0]
    low, high = 0.95 * min(ends), 1.05 * max(ends)
    ax.plot([low, high], [low, high], color=INK, linewidth=0.8, zorder=0)
    for place, part in known.groupby(known["bound by"].fillna(""), sort=False):
        color, marker = _MARKS.get(str(place), _UNBOUND)
        ax.plot(
            part[_ROOFS], part[_RATIO], marker, color=color, markersize=3.4, alpha=0.75,
            label=f"bound by {place}" if place else "bound by nothing known",
        )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    ticks = np.unique(np.round(np.geomspace(low, high, 5), 2))
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks)
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())
    which = f"{_short(rows['other GPU'].iloc[0])} over {_short(rows['first GPU'].iloc[0])}"
    ax.set(xlabel=f"lowest roof, {which}", ylabel=f"speed, {which}")
    look.grid(ax, "both")


def _verdicts(ax: Axes, rows: pd.DataFrame, style: Style) -> None:
    """How many claims have which verdicts on both."""
    if rows.empty:
        ax.set_axis_off()
        return
    counts = pd.crosstab(rows["verdict"], rows["verdict there"])
    names = sorted({*counts.index, *counts.columns})
    counts = counts.reindex(index=names, columns=names, fill_value=0)
    for y, name in enumerate(names):
        for x, there in enumerate(names):
            number = int(counts.loc[name, there])
            if number:
                same = name == there
                color = FAINT if same else "#F4D9B8"
                ax.add_patch(
                    Rectangle((x - 0.5, y - 0.5), 1, 1, color=color, linewidth=0, zorder=0)
                )
                ax.text(
                    x, y, str(number), ha="center", va="center", weight="normal" if same else "bold"
                )
    look.rows_axis(ax, names)
    ax.set_xticks(range(len(names)), [name.replace(" ", "\n", 1) for name in names])
    ax.set(
        xlim=(-0.5, len(names) - 0.5), xlabel=f"on {_short(rows['other GPU'].iloc[0])}",
        ylabel=f"on {_short(rows['first GPU'].iloc[0])}",
    )  # fmt: skip
    ax.tick_params(axis="x", length=0)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A column for each other GPU: cases against their roofs, and claims by both verdicts."""
    with look.apply(style):
        others = list(dict.fromkeys(table["other GPU"].dropna()))
        if not others:
            return look.empty_figure(study, style, "recording of another GPU")
        across = 1 if style.narrow else 2
        down = 2 * len(others) // across
        fig = look.new_figure(style, 68.0 * down + 20)
        axes = fig.subplots(down, across, squeeze=False).ravel()
        for at, other in enumerate(others):
            rows = table[table["other GPU"] == other]
            cases, claims = axes[2 * at : 2 * at + 2]
            _roofs(cases, rows[rows["kind"] == _CASE], style)
            titled(cases, "Cases", "", style)
            _verdicts(claims, rows[rows["kind"] == _CLAIM], style)
            titled(claims, "Claims", "", style)
        first = table["first GPU"].iloc[0]
        title = study.takeaway or study.question or study.title
        notes = [
            f"The first GPU is {first}. Times of a case and its roofs are of one GPU; a ratio is of two."
        ]
        source = f"source: recorded on {', '.join([first, *others])}"
        return look.framed(fig, style, title, source, *look.entries([axes[0]]), notes=notes)
