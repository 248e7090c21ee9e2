"""Correctness: the verdict of every kernel at every shape, or the status that prevented one. A row is a
dtype, a dot a case's error. A probe that ended badly as its kernel file announces is no failure."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import rows_mm
from tilewave.plots.base import StudyData
from tilewave.plots.style import BLUE, GREY, INK, RED, Style

EXPECTED = "ended as planned"
_RIGHT, _FAILS, _NOT_RUN = "right", "fails", "not run"
_OUTCOMES = (_RIGHT, EXPECTED, _FAILS, _NOT_RUN)
_IDLE = ("stale", "not measured", "not checked", "unsupported")
"""Outcomes of cases that did not run."""
_ERROR, _TOLERANCE = "relative error (Frobenius)", "tolerance of the relative error"


def outcomes(study: StudyData) -> dict[str, str]:
    """Return the check's status where it is not ok, else the verdict, by case."""
    states, verdicts = base.statuses(study, ("check",)), base.verdicts(study)
    ended = {case: state.status for case, state in states.items()}
    return {case: verdicts[case] if end == "ok" else end for case, end in ended.items()}


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case: outcome, errors of the result, and the tolerance of an element of typical size.
    The check compares each element with its own tolerance."""
    outcome = pd.Series(outcomes(study), dtype=object)
    about = study.cases.set_index("case").reindex(columns=["probe_case", "ends", "finds"])
    planned = (outcome == about["ends"]) & (outcome != "ok") | (outcome == about["finds"])
    planned = planned.map({True: "yes", False: ""})
    frame = base.table_of(study, table_beside(__file__), outcome=outcome, planned=planned)
    frame.insert(2, "probe_case", about["probe_case"].to_numpy())
    return frame


def shown(table: pd.DataFrame) -> pd.Series[Any]:
    """Return the class of each row's outcome, of _OUTCOMES."""
    kinds = {"correct": _RIGHT, **dict.fromkeys(_IDLE, _NOT_RUN)}
    names = table["outcome"].map(lambda outcome: kinds.get(outcome, _FAILS))
    return names.mask(table["as its kernel file says"] == "yes", EXPECTED)


def page_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per kernel for the page, failures first: its cases by outcome, the share that is right with a bar."""
    counts = pd.crosstab(table["kernel"], shown(table)).reindex(columns=[*_OUTCOMES], fill_value=0)
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


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a dot for the error of each checked case, a row a dtype, with how many are right."""
    rows = table.assign(shown=shown(table), dtype=table["dtype"].fillna("").map(_name))
    rows = rows[rows["shown"].isin([_RIGHT, _FAILS])]
    look.stop_if(rows.empty, "verdict")
    right = (rows["shown"] == _RIGHT).groupby(rows["dtype"]).agg(["sum", "size"])
    # Dtypes with a failure first, where there are too many, then the largest error on top.
    errors = rows.groupby("dtype")[_ERROR].median()
    order = right.assign(fails=right["size"] - right["sum"], error=errors)
    order = order.sort_values(["fails", "error"], ascending=False, kind="stable")[: look.MOST_ROWS]
    fig, (ax,) = look.panels(style, [rows_mm(len(order)) + 4])
    drawn = rows[rows["dtype"].isin(order.index)]
    for column, name, outcomes, color, mark in (
        (_TOLERANCE, "tolerance", [_RIGHT, _FAILS], GREY, "|"),
        (_ERROR, "error", [_RIGHT], BLUE, "o"),
        (_ERROR, "error of a case that fails", [_FAILS], RED, "X"),
    ):
        part = drawn[drawn["shown"].isin(outcomes) & (drawn[column] > 0)]
        at = {"x": part[column], "y": part["dtype"].map(list(order.index).index)}
        size = {"s": 40, "linewidth": 0.7} if mark == "|" else {"s": 18, "linewidth": 0}
        if len(part):
            sns.scatterplot(**at, **size, color=color, marker=mark, label=name, ax=ax)
    look.rows_axis(ax, list(order.index))
    texts = [f"{n} of {of}" for n, of in order[["sum", "size"]].itertuples(index=False)]
    total = right.sum()
    colors = order["fails"].map(lambda fails: RED if fails else INK)
    look.beside(ax, texts, colors, f"{total['sum']} of {total['size']} right")
    for row, dtype in enumerate(order.index):
        errors = rows.loc[rows["dtype"] == dtype, _ERROR]
        if order["fails"].iloc[row] == 0 and not (errors > 0).any():
            text = "exact" if (errors == 0).all() else "as expected"
            left = ax.get_yaxis_transform()
            at = {"xycoords": left, "va": "center_baseline", "bbox": look.PLAIN}
            look.write(ax, text, (0.01, row), color=BLUE, **at)
    ax.set(xscale="log", xlabel="relative error of the result (Frobenius norm)", ylabel="")
    ax.xaxis.set_major_formatter(_power)
    look.grid(ax, "x")
    notes = ["A result that is exact has no dot."] if (rows[_ERROR] == 0).any() else []
    return look.finish(fig, study, style, look.entries([ax]), notes, ("check",))


def _power(value: float, _: object) -> str:
    """Return a power of ten as text: 10⁻⁴."""
    return "10" + f"{math.log10(value):.0f}".translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _name(dtype: str) -> str:
    return base.operand_dtype(dtype).replace("i32", "INT32") if dtype else "probes (no dtype)"
