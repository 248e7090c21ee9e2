"""Correctness: the verdict of every kernel at every shape, or the status that prevented one.

A row is an operation, its bar the outcomes of its cases; the table has each case. A probe that ended badly as
its kernel file announces is no failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import rows_mm, stacks
from tilewave.plots.base import StudyData
from tilewave.plots.style import BLUE, FAINT, LIGHT, RED, Style

READING = (
    "A row is an operation, its bar all of its cases, with their number. Red would be a case that is wrong, races, or "
    "fails; grey cases cannot run at that shape, or were not checked."
)

EXPECTED = "ended as planned"
_RIGHT, _FAILS, _NOT_RUN = "right", "fails", "not run"
_COLORS: Mapping[str, str] = {_RIGHT: BLUE, EXPECTED: LIGHT, _FAILS: RED, _NOT_RUN: FAINT}
_IDLE = ("stale", "not measured", "not checked", "unsupported")
"""Outcomes of cases that did not run."""
_MOST = 12
"""The most rows of the figure."""


def outcomes(study: StudyData) -> dict[str, str]:
    """Return the check's status where it is not ok, else the verdict, by case."""
    states, verdicts = base.statuses(study, ("check",)), base.verdicts(study)
    return {
        case: states[case].status if states[case].status != "ok" else verdict
        for case, verdict in verdicts.items()
    }


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case: outcome, errors of the result, and the tolerance of an element of typical size.
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
    """Return the class of each row's outcome, of _COLORS."""
    kinds = {"correct": _RIGHT, **dict.fromkeys(_IDLE, _NOT_RUN)}
    names = table["outcome"].map(lambda outcome: kinds.get(outcome, _FAILS))
    return names.mask(table["as its kernel file says"] == "yes", EXPECTED)


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per kernel for the page, failures first: its cases by outcome, the share that is right with a bar."""
    counts = pd.crosstab(table["kernel"], shown(table)).reindex(columns=list(_COLORS), fill_value=0)
    counts = counts.sort_values(_FAILS, ascending=False, kind="stable")
    right = 100 * counts[_RIGHT] / (counts[_RIGHT] + counts[_FAILS]).clip(lower=1)
    return counts.assign(**{"% right": base.bars(right)}).reset_index()


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return how many of the study's checked cases are correct, or which kernels fail; "" where nothing was checked."""
    counts = Counter(shown(table))
    checked = counts[_RIGHT] + counts[_FAILS]
    if not checked:
        return ""
    if not counts[_FAILS]:
        return f"All {checked} cases that this study checks are correct"
    kernels = ", ".join(dict.fromkeys(table.loc[shown(table) == _FAILS, "kernel"]))
    return f"{counts[_FAILS]} of the {checked} cases that this study checks fail: {kernels}"


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a bar for each operation: the shares of its cases by outcome."""
    with look.apply(style):
        if study.cases.empty:
            return look.empty_figure(study, style, "verdict")
        names = pd.Series(list(map(base.operation_label, study.cases["operation"])))
        counts = pd.crosstab(names, shown(table).to_numpy()).loc[names.unique()]
        # Operations with a failure first, where there are too many.
        failed = counts.reindex(columns=[_FAILS]).fillna(0)[_FAILS]
        counts = counts.loc[failed.sort_values(ascending=False, kind="stable").index[:_MOST]]
        fig, (ax,) = look.panels(style, [rows_mm(len(counts)) + 4])
        handles = stacks(ax, 100 * counts.div(counts.sum(axis=1), axis=0), _COLORS)
        look.beside(ax, counts.sum(axis=1).map("{:,}".format))
        ax.set(xlim=(0, 100), xlabel="% of the operation's cases")
        return look.finish(fig, study, style, handles, [], ("check",))
