"""Correctness: the verdict of every kernel at every shape, or the status that prevented one.

A row is a kernel, a cell the outcomes of its variants at a shape, the worst one in colour. Kernels that are
right everywhere share a row. A probe that ended badly as its kernel file announces is no failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style

READING = (
    "A row is a kernel, a column a shape. The signs in a cell show how its variants ended, and how many did so. A "
    "capital letter is a fault."
)

EXPECTED = "ended as planned"
# Verdicts and statuses with a colour and a sign each, the worst first: no colour alone carries a meaning.
OUTCOMES: Mapping[str, tuple[str, str]] = {
    "wrong": ("#CC3311", "W"),
    "race": ("#AA4499", "R"),
    "uninitialised read": ("#AA4499", "U"),
    "barrier": ("#AA4499", "B"),
    "failed to compile": ("#882255", "C"),
    "failed to launch": ("#882255", "L"),
    "invalid access": ("#882255", "A"),
    "assertion failed": ("#882255", "F"),
    "trap": ("#882255", "P"),
    "timed out": ("#882255", "T"),
    "other": ("#AA4499", "!"),
    "stale": ("#DDCC77", "s"),
    "not measured": ("#C5D5EA", "n"),
    "not checked": ("#DDDDDD", "?"),
    "correct": ("#9AD5CB", "+"),
    EXPECTED: ("#DDF1EE", "e"),
    "unsupported": ("#F3F3F3", "u"),
}
_SIGNS = list(OUTCOMES)
_BAD = frozenset(_SIGNS[: _SIGNS.index("stale")])
_MOST = 3
"""Largest number of rows that are right everywhere and still stand alone; more share a row."""


def outcomes(study: StudyData) -> dict[str, str]:
    """Return the check's status where it is not ok, else the verdict, by case."""
    states, verdicts = base.statuses(study, ("check",)), base.verdicts(study)
    return {
        case: states[case].status if states[case].status != "ok" else verdict
        for case, verdict in verdicts.items()
    }


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case: outcome, errors of the result, and the tolerance of an element of typical size.
    The check compares each element with its own tolerance."""
    frame = base.base_table(study)
    outcome = pd.Series(outcomes(study), dtype=object).reindex(frame.index)
    about = study.cases.set_index("case").reindex(columns=["probe_case", "ends", "finds"])
    planned = (outcome == about["ends"]) & (outcome != "ok") | (outcome == about["finds"])
    frame.insert(2, "probe_case", about["probe_case"])
    return base.with_columns(
        frame,
        {
            "outcome": outcome,
            "as its kernel file says": planned.map({True: "yes", False: ""}),
            "largest error": base.value_of(study, "max_error", "check"),
            "tolerance of a typical element": base.value_of(study, "tolerance", "check"),
            "relative error (Frobenius)": base.value_of(study, "relative_error", "check"),
        },
    )


def shown(table: pd.DataFrame) -> pd.Series[Any]:
    """Return the entry of OUTCOMES of each row."""
    names = table["outcome"].where(table["outcome"].isin(_SIGNS), "other")
    return names.mask(table["as its kernel file says"] == "yes", EXPECTED)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return how many checked cases are right, or which kernels fail; "" where nothing was checked."""
    counts = Counter(shown(table))
    bad = table[shown(table).isin(_BAD)]
    checked = counts["correct"] + len(bad)
    if not checked:
        return ""
    if bad.empty:
        return f"All {checked} checked cases are right"
    kernels = ", ".join(dict.fromkeys(bad["kernel"]))
    return f"{len(bad)} of {checked} checked cases fail: {kernels}"


def _panels(study: StudyData, table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the number of cases by outcome for each operation, row and column.
    Operations that are right everywhere share the last panel, except the first operation."""
    probes = study.cases["operation"] == "probe"
    frame = study.cases[["operation"]].assign(
        kernel=study.cases["kernel"].astype(str),
        place=[base.shape_label(row) for row in study.cases.to_dict("records")],
        shown=shown(table),
    )
    # A probe has many named cases: they are rows, and its kernels are columns.
    frame["row"] = frame["kernel"].mask(probes, frame["place"])
    frame["column"] = frame["place"].mask(probes, frame["kernel"])
    panels: dict[str, pd.DataFrame] = {}
    clean: dict[str, Counter[str]] = {}
    right = frame["shown"].eq("correct").groupby(frame["operation"]).all()
    for operation, group in frame.groupby("operation", sort=False):
        name = base.operation_label(operation)
        if right[operation] and panels:
            clean[name] = Counter(group["shown"])
            continue
        group = _folded(group, "cases" if operation == "probe" else "kernels")
        cells = group.groupby(["row", "column"], sort=False)["shown"].agg(Counter).unstack()
        order = [list(dict.fromkeys(group[side])) for side in ("row", "column")]
        panels[name] = cells.reindex(index=order[0], columns=order[1])
    return panels | ({"others": pd.Series(clean).to_frame("all shapes")} if clean else {})


def _folded(group: pd.DataFrame, what: str) -> pd.DataFrame:
    """Return the cells with a single row, the last, for all rows that are right everywhere."""
    last = group["shown"].eq("correct").groupby(group["row"]).transform("all")
    count = group.loc[last, "row"].nunique()
    if count <= _MOST:
        return group
    return pd.concat([group[~last], group[last].assign(row=f"{count} {what}, all right")])


def _cell_text(counts: Any) -> str:
    """Return a cell's outcomes: `+`, or with several variants `+8 u1`."""
    if not isinstance(counts, Counter):
        return ""
    single = sum(counts.values()) == 1
    order = sorted(counts, key=_SIGNS.index)
    return " ".join(OUTCOMES[name][1] + ("" if single else str(counts[name])) for name in order)


def _code(counts: Any) -> float:
    """Return the index among OUTCOMES of a cell's worst."""
    return min(map(_SIGNS.index, counts)) if isinstance(counts, Counter) else float("nan")


def _draw_panel(ax: Axes, title: str, cells: pd.DataFrame, high: int, style: Style) -> None:
    """Draw the panel as a heat map, its columns' names on top, in an axes for `high` rows."""
    look.heatmap(
        ax, cells.map(_code).astype(float), cells.map(_cell_text).to_numpy(),
        cmap=ListedColormap([color for color, _ in OUTCOMES.values()]), vmin=-0.5,
        vmax=len(_SIGNS) - 0.5, linewidths=0.6, linecolor="white",
        annot_kws={"size": style.small}, xticklabels=True, yticklabels=True,
    )  # fmt: skip
    ax.set(xlabel="", ylabel="", ylim=(high, 0), title=title)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelrotation=0)
    ax.tick_params(axis="x", labelrotation=90 if len(cells.columns) > 3 else 0)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a matrix of kernels and shapes for each operation, a colour and a sign an outcome."""
    with look.apply(style):
        if study.cases.empty:
            return look.empty_figure(study, style, "verdict")
        panels = _panels(study, table)
        rows, row_mm = [len(cells) for cells in panels.values()], 1.25 * style.line * 25.4
        if style.narrow:
            fig = look.new_figure(style, sum(rows) * row_mm + 28 * len(rows))
            axes = fig.subplots(len(rows), 1, squeeze=False, height_ratios=rows)[:, 0]
        else:
            fig = look.new_figure(style, max(rows) * row_mm + 24)
            wide = [2 + len(cells.columns) for cells in panels.values()]
            axes = fig.subplots(1, len(rows), squeeze=False, width_ratios=wide)[0]
        for ax, (name, cells) in zip(axes, panels.items(), strict=True):
            _draw_panel(ax, name, cells, len(cells) if style.narrow else max(rows), style)
        counts = Counter(shown(table))
        handles = [
            Patch(facecolor=color, edgecolor="#BBBBBB", label=f"{sign}  {name} ({counts[name]})")
            for name, (color, sign) in OUTCOMES.items()
            if counts[name]
        ]
        notes = ["A number counts a kernel's variants, or all cases of an operation."]
        return look.finish(fig, study, style, handles, notes, ("check",))
