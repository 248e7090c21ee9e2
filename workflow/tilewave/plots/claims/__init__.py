"""Claims: statements of documents on matrix products, beside predictions and measurements.

A YAML file beside this module has the claims of one document. Each has a statement and its judges: a closed
form (`predicted`) and a question to the records (`measured`). `judging` reads and judges them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.claims import judging
from tilewave.plots.claims.judging import JudgedClaim
from tilewave.plots.style import BAD, GREY, INK, OURS, Style

READING = (
    "A row is a claim that does not hold here. The mark is the found value over the claimed one, on a logarithmic "
    "axis; the stroke is the prediction of the closed form. A claim holds if its mark lies in the grey band."
)
OPEN_TABLE = True
"""The table is the purpose of the study: the page never folds it."""

MARKS: Mapping[str, tuple[str, str]] = {judging.FALSE: (BAD, "X"), judging.ELSEWHERE: (OURS, "D")}
"""Colour and marker of the verdicts that the figure shows."""
_BAND = "#E4E4E4"
_REACH = 12.0
"""Upper end of the axis, the inverse of its lower end; quotients outside stand at the ends."""


def judged(study: StudyData) -> list[JudgedClaim]:
    """Return all judged claims; none for a study without cases."""
    return [] if study.cases.empty else judging.judge_all(study, judging.all_claims())


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a claim: section, claimed, predicted, measured, deviation, verdict."""
    judgements = judged(study)
    return base.with_derived(judging.frame(judgements), judgements)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return how many claims hold; "" where none was judged."""
    counts = Counter(judgement.verdict for judgement in base.derived(table))
    if counts.total() == counts[judging.NOT_MEASURED]:
        return ""
    return f"{counts[judging.HOLDS]} of {counts.total()} claims hold on {study.target['label']}"


# ------------------------------------------------------------------------------------------ rows


def _rows(claims: Sequence[JudgedClaim]) -> list[str | JudgedClaim]:
    """Return the figure's rows: each document with its number of claims that hold, then those that do not hold
    here."""
    rows: list[str | JudgedClaim] = []
    for document in dict.fromkeys(judgement.claim.document for judgement in claims):
        of_document = [judgement for judgement in claims if judgement.claim.document == document]
        held = sum(judgement.verdict == judging.HOLDS for judgement in of_document)
        rows += [f"{document}\n{held} of {len(of_document)} hold"]
        rows += [judgement for judgement in of_document if judgement.verdict in MARKS]
    return rows


def _band(judgement: JudgedClaim) -> tuple[float, float] | None:
    """Return the range of value over claimed in which the claim holds; None for yes or no and for 0."""
    claim = judgement.claim
    if isinstance(claim.claimed, bool) or claim.claimed == 0:
        return None
    low, high = (edge / claim.claimed for edge in claim.accepted)
    if claim.relation == "equals":  # an exact claim needs a visible band, too
        low, high = min(low, 1 - 0.012), max(high, 1 + 0.012)
    return max(low, 1 / _REACH), min(high, _REACH)


def _row_text(judgement: JudgedClaim) -> str:
    """Return the text of a row without a place on the axis: yes, no, or both numbers."""
    unit = "%" if judgement.claim.unit.startswith("%") else ""
    how = "predicted" if judgement.measured is None else "found"
    return f"claimed {judging.value_text(judgement.claim.claimed)}{unit}, {how} {judging.value_text(judgement.value)}{unit}"


def _write(ax: Axes, y: int, text: str, style: Style, **how: Any) -> None:
    """Write a text in the middle of a row."""
    how |= {"ha": "center", "va": "center", "backgroundcolor": "white"}
    ax.text(1, y, text, size=style.small, **how)


def _draw_row(ax: Axes, y: int, judgement: JudgedClaim, style: Style) -> None:
    color, marker = MARKS[judgement.verdict]
    band, value = _band(judgement), judgement.over_claimed(judgement.value)
    if band is None or value is None:
        _write(ax, y, _row_text(judgement), style, color=color)
        return
    ax.fill_betweenx([y - 0.36, y + 0.36], *band, color=_BAND, linewidth=0, zorder=1)
    predicted = judgement.over_claimed(judgement.predicted)
    if predicted is not None:
        at = min(max(predicted, 1 / _REACH), _REACH)
        ax.plot(at, y, "|", color=INK, markersize=6.5, markeredgewidth=1.1, zorder=4)
    at = min(max(value, 1 / _REACH), _REACH)
    ax.plot(at, y, marker, markersize=4.2, color=color, zorder=5, clip_on=False)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a row a claim that does not hold here, by document: value over claimed, and the band in which it
    would hold."""
    with look.apply(style):
        claims: list[JudgedClaim] = base.derived(table)
        if not claims:
            return look.empty_figure(study, style, "claim")
        rows = _rows(claims)
        fig = look.new_figure(style, 0.5 * len(rows) * style.font_size + 10)
        ax = fig.subplots()
        ax.set(xscale="log", xlim=(1 / _REACH, _REACH), xlabel="found / claimed")
        ax.axvline(1.0, color=GREY, linewidth=0.7, zorder=2)
        labels = [row.partition("\n")[0] if isinstance(row, str) else row.claim.row for row in rows]
        look.rows_axis(ax, labels)
        for y, (row, tick) in enumerate(zip(rows, ax.get_yticklabels(), strict=True)):
            if isinstance(row, str):
                tick.set_fontweight("bold")
                _write(ax, y, row.partition("\n")[2], style, weight="bold")
            else:
                _draw_row(ax, y, row, style)
        ticks = [0.1, 0.2, 0.5, 1, 2, 5, 10]
        ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.set_xticks([], minor=True)
        look.grid(ax, "x")
        notes = [
            "The table has all claims. Claims of yes or no, and of 0, have no place on the axis."
        ]
        return look.finish(fig, study, style, _handles(claims), notes, ())


def _handles(claims: Sequence[JudgedClaim]) -> list[Artist]:
    counts = Counter(judgement.verdict for judgement in claims)
    looks = [(f"{name} ({counts[name]})", color, marker) for name, (color, marker) in MARKS.items()]
    looks.append(("predicted", INK, "|"))
    lines = [Line2D([], [], linestyle="", label=label, color=c, marker=m) for label, c, m in looks]
    return [*lines, Patch(color=_BAND, label="where the claim holds")]
