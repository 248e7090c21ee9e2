"""Claims: what documents say of matrix products beside what is predicted and measured.

A YAML file beside this module has the claims of one document: what each says beside what it is judged by, a
closed form (`predicted`) and a question to the records (`measured`). `judging` reads and judges them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation
from pydantic import Field

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.claims import judging
from tilewave.plots.claims.judging import Judged
from tilewave.plots.options import PlotOptions, Word
from tilewave.plots.style import BAD, FAINT, GOOD, GREY, INK, Style

READING = (
    "A row is a claim: the dot is what was found over what was claimed, on a logarithmic axis, the "
    "stroke what the closed form predicts. A claim holds where the dot lies in the grey band."
)


class Options(PlotOptions):
    """What the studies of this plot may set."""

    documents: Word | Annotated[list[Word], Field(max_length=100)] | None = Field(
        None, description="the documents to show, by name and in order; without it all"
    )
    range: float = Field(
        12,
        ge=2,
        le=1e6,
        description="how far the axis goes: quotients above it or below its inverse stand at its ends",
    )


OPEN_TABLE = True
"""The table is what the study is for: the page never folds it away."""

# Colour, marker and whether it is filled: each differs without colours too. Of a row's claims, a reader must see
# the last of these.
MARKS: Mapping[str, tuple[str, str, bool]] = {
    judging.HOLDS: (GOOD, "o", True),
    judging.THEORY_ONLY: (INK, "^", False),
    judging.NOT_MEASURED: (GREY, "o", False),
    judging.ELSEWHERE: ("#332288", "D", True),
    judging.FALSE: (BAD, "X", True),
}
_BAND = "#E4E4E4"
_ROW_MM = 3.7
_GUTTER = 6.0  # points from the axis to the symbols


def judged(study: StudyData) -> list[Judged]:
    """All claims, or those of the documents that the option names; none where there is no case."""
    if study.cases.empty:
        return []
    claims, wanted = judging.all_claims(), Options.of(study).documents
    if wanted is not None:
        order = [wanted] if isinstance(wanted, str) else wanted
        claims = tuple(one for name in order for one in claims if one.document == name)
    return judging.judge_all(study, claims)


def table(study: StudyData) -> pd.DataFrame:
    """One row a claim: where it stands, claimed, predicted, measured, deviation, verdict."""
    found = judged(study)
    return base.with_derived(judging.frame(found), found)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """How many claims hold, hold elsewhere and do not; "" where none was judged."""
    counts = Counter(one.verdict for one in base.derived(table))
    if counts.total() == counts[judging.NOT_MEASURED]:
        return ""
    rest = {
        judging.ELSEWHERE: "hold elsewhere only",
        judging.FALSE: "do not hold",
        judging.THEORY_ONLY: "rest on theory alone",
        judging.NOT_MEASURED: "were not measured",
    }
    told = [f"{counts[verdict]} {words}" for verdict, words in rest.items() if counts[verdict]]
    hold = f"{counts[judging.HOLDS]} of {counts.total()} claims hold on {study.target['label']}"
    return ", ".join([hold, *told])


# ------------------------------------------------------------------------------------------ rows


def _rows(claims: Sequence[Judged], narrow: bool) -> list[str | list[Judged]]:
    """The figure's rows from top to bottom: a document's name, or the claims that share a label.

    A narrow figure has those that do not hold here; its documents' rows count the others.
    """
    places: dict[str, dict[str, list[Judged]]] = {}
    for one in claims:
        labels = places.setdefault(one.claim.document, {})
        labels.setdefault(one.claim.row, []).append(one)
    told = (judging.FALSE, judging.ELSEWHERE)
    rows: list[str | list[Judged]] = []
    for document, labels in places.items():
        rows += [document, *(row for row in labels.values() if not narrow or _worst(row) in told)]
    return rows


def _held(claims: Sequence[Judged]) -> dict[str, str]:
    """How many claims of each document hold, in words."""
    every = Counter(one.claim.document for one in claims)
    held = Counter(one.claim.document for one in claims if one.verdict == judging.HOLDS)
    return {name: f"{held[name]} of {count} hold" for name, count in every.items()}


def _columns(rows: list[str | list[Judged]]) -> list[list[str | list[Judged]]]:
    """The rows in two columns of about one length; a document that is cut is named again."""
    cut = -(-len(rows) // 2)
    while isinstance(rows[cut - 1], str):
        cut -= 1
    left, right = rows[:cut], rows[cut:]
    if not isinstance(right[0], str):
        name = next(row for row in reversed(left) if isinstance(row, str))
        right = [f"{name}, continued", *right]
    return [left, right]


def _worst(claims: Sequence[Judged]) -> str:
    """The verdict of a row."""
    return max((one.verdict for one in claims), key=list(MARKS).index)


def _band(one: Judged, reach: float) -> tuple[float, float] | None:
    """Where value over claimed may lie for the claim to hold; None for yes or no and for 0."""
    claim = one.claim
    if isinstance(claim.claimed, bool) or claim.claimed == 0:
        return None
    low, high = (edge / claim.claimed for edge in claim.accepted)
    if claim.relation == "equals":  # an exact claim still needs a band that can be seen
        low, high = min(low, 1 - 0.012), max(high, 1 + 0.012)
    return max(low, 1 / reach), min(high, reach)


def _symbol(verdict: str) -> dict[str, Any]:
    """How a verdict's symbol looks."""
    color, marker, filled = MARKS[verdict]
    size, edge = 4.6 if marker == "X" else 4.2, 0.3 if filled else 0.9
    sizes = {"linestyle": "", "markersize": size, "markeredgewidth": edge}
    return {
        "marker": marker,
        "color": color,
        "markerfacecolor": color if filled else "white",
    } | sizes


def _said(one: Judged) -> str:
    """The words of a row that has no place on the axis: yes, no, or both numbers."""
    unit = "%" if one.claim.unit.startswith("%") else ""
    how = "predicted" if one.measured is None else "found"
    found = judging.NOT_MEASURED if one.value is None else f"{how} {judging.told(one.value)}{unit}"
    return f"claimed {judging.told(one.claim.claimed)}{unit}, {found}"


def _write(ax: Axes, y: int, text: str, color: str, style: Style) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    looks: dict[str, Any] = {"size": style.small * 0.92, "color": color, "zorder": 4, "bbox": box}
    ax.annotate(text, (1.0, y), va="center", ha="center", **looks)


def _draw_row(ax: Axes, y: int, claims: Sequence[Judged], reach: float, style: Style) -> None:
    along = ax.get_yaxis_transform()
    ax.plot([0, 1], [y + 0.5] * 2, color="#EEEEEE", linewidth=0.5, zorder=0, transform=along)
    band = _band(claims[0], reach)
    if band is None:
        known = claims[0].verdict != judging.NOT_MEASURED
        _write(ax, y, _said(claims[0]), INK if known else GREY, style)
    else:
        ax.fill_betweenx([y - 0.36, y + 0.36], *band, color=_BAND, linewidth=0, zorder=1)
        for one in claims:
            predicted, measured = map(one.over_claimed, (one.predicted, one.measured))
            if predicted is not None:
                at = min(max(predicted, 1 / reach), reach)
                ax.plot(at, y, "|", color=INK, markersize=6.5, markeredgewidth=1.1, zorder=4)
            if measured is not None:
                at = min(max(measured, 1 / reach), reach)
                marker = "o" if at == measured else ">" if measured > 1 else "<"
                ax.plot(at, y, marker, markersize=3.4, color=MARKS[one.verdict][0], zorder=5)
        if all(one.value is None for one in claims):
            _write(ax, y, judging.NOT_MEASURED, GREY, style)
    # The verdict, in a gutter of its own left of the axis.
    beside = along + ScaledTranslation(-_GUTTER / 72, 0, ax.figure.dpi_scale_trans)
    ax.plot(0, y, transform=beside, clip_on=False, **_symbol(_worst(claims)))


def _label(row: Sequence[Judged]) -> str:
    return row[0].claim.row + (f" ({len(row)})" if len(row) > 1 else "")


def _panel(
    ax: Axes, rows: list[str | list[Judged]], held: Mapping[str, str], reach: float, style: Style
) -> None:
    ax.set_xscale("log")
    ax.axvline(1.0, color=GREY, linewidth=0.7, zorder=2)
    look.rows_axis(ax, [row if isinstance(row, str) else _label(row) for row in rows])
    for y, (row, tick) in enumerate(zip(rows, ax.get_yticklabels(), strict=True)):
        if not isinstance(row, str):
            _draw_row(ax, y, row, reach, style)
            continue
        tick.set_fontweight("bold")
        if row in held:
            _write(ax, y, held[row], INK, style)
    ax.tick_params(axis="y", pad=2 * _GUTTER)
    ax.set_xlim(1 / reach, reach)
    ticks = [t for t in (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100) if 1 / reach <= t <= reach]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.grid(True, axis="x", color=FAINT, linewidth=0.4)
    ax.set_xlabel("found / claimed")
    ax.spines["left"].set_visible(False)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A row a claim, grouped by document: value over claimed on a logarithmic axis.

    The band is where the claim holds; the gutter has the verdict. Two columns at full width.
    """
    with look.apply(style):
        claims: list[Judged] = base.derived(table)
        if not claims:
            return look.empty_figure(study, style, "claim")
        reach = Options.of(study).range
        rows = _rows(claims, style.narrow)
        columns = [rows] if style.narrow or len(rows) < 4 else _columns(rows)
        height = max(len(column) for column in columns)
        fig = look.new_figure(style, height * _ROW_MM * style.font_size / 7.5 + 10)
        axes = fig.subplots(1, len(columns), squeeze=False)[0]
        for ax, column in zip(axes, columns, strict=True):
            # Columns of one length, so that a row is as high in both.
            _panel(ax, column, _held(claims), reach, style)
            ax.set_ylim(height - 0.5, -0.5)
        handles = _handles(claims)
        labels = [str(handle.get_label()) for handle in handles]
        return look.finish(fig, study, style, handles, labels, _notes(claims, style), ())


def _handles(claims: Sequence[Judged]) -> list[Artist]:
    counts = Counter(one.verdict for one in claims)
    looks = {f"{name} ({counts[name]})": _symbol(name) for name in judging.VERDICTS if counts[name]}
    looks["measured"] = {"marker": "o", "markersize": 3.4, "color": INK, "linestyle": ""}
    looks["predicted"] = {"marker": "|", "markersize": 6.5, "color": INK, "linestyle": ""}
    lines = [Line2D([], [], label=label, **look) for label, look in looks.items()]
    return [*lines, Patch(color=_BAND, label="where the claim holds")]


def _notes(claims: Sequence[Judged], style: Style) -> list[str]:
    symbols = "The symbol left of a row is its verdict"
    notes = [f"{symbols}; a number in brackets counts the claims of a row."]
    if style.narrow:
        notes.append("Shown are the claims that do not hold here; the table has all of them.")
    if any(one.over_claimed(one.value) is None for one in claims):
        notes.append("Claims of yes or no, and of 0, have no place on the axis.")
    return notes
