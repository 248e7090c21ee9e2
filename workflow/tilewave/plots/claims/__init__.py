"""Claims: what documents say of matrix products beside what is predicted and measured.

The verdicts are computed from the claimed, predicted and measured values; see `judging.judge`. A module of
this package has the claims of one document, or of a part of a long one: what each says beside what it
is judged by, a closed form (`predicted`) and a question to the records (`measured`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import ScaledTranslation
from pydantic import Field

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.claims import (
    hgemm,
    judging,
    lecture,
    multiplication,
    performance,
    performance_quantization,
    performance_tiles,
    vectorised,
)
from tilewave.plots.claims.judging import Claim, Judged
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

# Colour, marker and whether it is filled: each differs without colours too.
MARKS: Mapping[str, tuple[str, str, bool]] = {
    judging.HOLDS: (GOOD, "o", True),
    judging.ELSEWHERE: ("#332288", "D", True),
    judging.FALSE: (BAD, "X", True),
    judging.THEORY_ONLY: (INK, "^", False),
    judging.NOT_MEASURED: (GREY, "o", False),
}
CLAIMS: list[Claim] = [
    *multiplication.CLAIMS,
    *lecture.CLAIMS,
    *performance.CLAIMS,
    *performance_tiles.CLAIMS,
    *performance_quantization.CLAIMS,
    *vectorised.CLAIMS,
    *hgemm.CLAIMS,
]
_BAND = "#E4E4E4"
_ROW_MM = 3.7
_GUTTER = 6.0  # points from the axis to the symbols


def judged(study: StudyData) -> list[Judged]:
    """All claims, or those of the documents that the option names; none where there is no case."""
    if study.cases.empty:
        return []
    claims = CLAIMS
    wanted = Options.of(study).documents
    if wanted is not None:
        order = [str(name) for name in ([wanted] if isinstance(wanted, str) else wanted)]
        claims = sorted(
            (c for c in claims if c.document in order), key=lambda c: order.index(c.document)
        )
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
    rows: list[str | list[Judged]] = []
    places: dict[tuple[str, str], list[Judged]] = {}
    for one in claims:
        document, label = one.claim.document, one.claim.row
        if document not in rows:
            rows.append(document)
        if (document, label) in places:
            places[document, label].append(one)
        else:
            places[document, label] = [one]
            rows.append(places[document, label])
    told = (judging.FALSE, judging.ELSEWHERE)
    return [row for row in rows if isinstance(row, str) or not narrow or _worst(row) in told]


def _held(claims: Sequence[Judged]) -> dict[str, str]:
    """How many claims of each document hold, in words."""
    documents = [one.claim.document for one in claims]
    held = Counter(one.claim.document for one in claims if one.verdict == judging.HOLDS)
    return {name: f"{held[name]} of {count} hold" for name, count in Counter(documents).items()}


def _columns(rows: list[str | list[Judged]], count: int) -> list[list[str | list[Judged]]]:
    """The rows in `count` columns of about one length; a document that is cut is named again."""
    if count == 1 or len(rows) < 2 * count:
        return [rows]
    cut = -(-len(rows) // count)
    while isinstance(rows[cut - 1], str):
        cut -= 1
    left, right = rows[:cut], rows[cut:]
    if right and not isinstance(right[0], str):
        name = next(row for row in reversed(left) if isinstance(row, str))
        right = [f"{name}, continued", *right]
    return [left, right]


def _worst(claims: Sequence[Judged]) -> str:
    """The verdict of a row: the one that a reader must see of those of its claims."""
    order = (
        judging.FALSE, judging.ELSEWHERE, judging.NOT_MEASURED, judging.THEORY_ONLY, judging.HOLDS,
    )  # fmt: skip
    return next(v for v in order if any(one.verdict == v for one in claims))


def _band(one: Judged, reach: float) -> tuple[float, float] | None:
    """Where value over claimed may lie for the claim to hold; None for yes or no and for 0."""
    claim = one.claim
    if isinstance(claim.claimed, bool) or claim.claimed == 0:
        return None
    margin = max(claim.tolerance, 0.012)  # an exact claim still needs a band that can be seen
    return {
        "equals": (max(1 - margin, 1 / reach), 1 + margin),
        "at least": (1 - claim.tolerance, reach),
        "at most": (1 / reach, 1 + claim.tolerance),
        "more than": (1 + claim.tolerance, reach),
        "less than": (1 / reach, 1 - claim.tolerance),
    }[claim.relation]


def _key(verdict: str) -> Line2D:
    """A verdict's symbol."""
    color, marker, filled = MARKS[verdict]
    return Line2D(
        [], [], linestyle="", marker=marker, markersize=4.6 if marker == "X" else 4.2, color=color,
        markerfacecolor=color if filled else "white", markeredgewidth=0.3 if filled else 0.9,
    )  # fmt: skip


def _mark(ax: Axes, y: float, verdict: str) -> None:
    """A row's verdict, in a gutter of its own left of the axis."""
    symbol = _key(verdict)
    symbol.set_data([0], [y])
    beside = ScaledTranslation(-_GUTTER / 72, 0, ax.figure.dpi_scale_trans)
    symbol.set_transform(ax.get_yaxis_transform() + beside)
    symbol.set_clip_on(False)
    ax.add_line(symbol)


def _said(one: Judged) -> str:
    """The words of a row that has no place on the axis: yes, no, or both numbers."""
    unit = "%" if one.claim.unit.startswith("%") else ""
    claimed = f"claimed {judging.told(one.claim.claimed)}{unit}"
    if one.value is None:
        return f"{claimed}, {judging.NOT_MEASURED}"
    how = "predicted" if one.measured is None else "found"
    return f"{claimed}, {how} {judging.told(one.value)}{unit}"


def _write(ax: Axes, y: int, text: str, color: str, style: Style) -> None:
    ax.annotate(
        text, (1.0, y), va="center", ha="center", size=style.small * 0.92, color=color, zorder=4,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
    )  # fmt: skip


def _draw_row(ax: Axes, y: int, claims: Sequence[Judged], reach: float, style: Style) -> None:
    ax.plot(
        [0, 1], [y + 0.5, y + 0.5], color="#EEEEEE", linewidth=0.5, zorder=0,
        transform=ax.get_yaxis_transform(),
    )  # fmt: skip
    band = _band(claims[0], reach)
    if band is None:
        measured = claims[0].verdict != judging.NOT_MEASURED
        _write(ax, y, _said(claims[0]), INK if measured else GREY, style)
    else:
        ax.fill_betweenx([y - 0.36, y + 0.36], *band, color=_BAND, linewidth=0, zorder=1)
        for one in claims:
            predicted, ratio = one.predicted_ratio, one.ratio
            if predicted is not None:
                at = min(max(predicted, 1 / reach), reach)
                ax.plot([at], [y], "|", color=INK, markersize=6.5, markeredgewidth=1.1, zorder=4)
            if one.measured is not None and ratio is not None:
                inside = 1 / reach <= ratio <= reach
                ax.plot(
                    [min(max(ratio, 1 / reach), reach)], [y], linestyle="",
                    marker="o" if inside else ">" if ratio > 1 else "<", markersize=3.4,
                    color=MARKS[one.verdict][0], zorder=5,
                )  # fmt: skip
        if all(one.value is None for one in claims):
            _write(ax, y, judging.NOT_MEASURED, GREY, style)
    _mark(ax, y, _worst(claims))


def _panel(
    ax: Axes, rows: list[str | list[Judged]], held: Mapping[str, str], reach: float, style: Style
) -> None:
    labels: list[str] = []
    ax.set_xscale("log")
    ax.axvline(1.0, color=GREY, linewidth=0.7, zorder=2)
    for y, row in enumerate(rows):
        if isinstance(row, str):
            labels.append(row)
            if row in held:
                _write(ax, y, held[row], INK, style)
            continue
        count = f" ({len(row)})" if len(row) > 1 else ""
        labels.append(row[0].claim.row + count)
        _draw_row(ax, y, row, reach, style)
    look.rows_axis(ax, labels)
    for row, tick in zip(rows, ax.get_yticklabels(), strict=True):
        if isinstance(row, str):
            tick.set_fontweight("bold")
    ax.tick_params(axis="y", pad=2 * _GUTTER)
    ax.set_xlim(1 / reach, reach)
    ticks = [t for t in (0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100) if 1 / reach <= t <= reach]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
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
        columns = _columns(_rows(claims, style.narrow), 1 if style.narrow else 2)
        height = max(len(column) for column in columns)
        fig = look.new_figure(style, height * _ROW_MM * style.font_size / 7.5 + 10)
        axes = fig.subplots(1, len(columns), squeeze=False)[0]
        for ax, column in zip(axes, columns, strict=True):
            # Columns of one length, so that a row is as high in both.
            _panel(ax, column, _held(claims), reach, style)
            ax.set_ylim(height - 0.5, -0.5)
        handles = _handles(claims)
        return look.finish(
            fig,
            study,
            style,
            handles,
            [str(h.get_label()) for h in handles],
            _notes(claims, style),
            (),
        )


def _handles(claims: Sequence[Judged]) -> list[Artist]:
    handles: list[Artist] = []
    for verdict in judging.VERDICTS:
        count = sum(one.verdict == verdict for one in claims)
        if count:
            symbol = _key(verdict)
            symbol.set_label(f"{verdict} ({count})")
            handles.append(symbol)
    handles += [
        Line2D([], [], linestyle="", marker="o", color=INK, markersize=3.4, label="measured"),
        Line2D([], [], linestyle="", marker="|", color=INK, markersize=6.5, label="predicted"),
        Patch(color=_BAND, label="where the claim holds"),
    ]
    return handles


def _notes(claims: Sequence[Judged], style: Style) -> list[str]:
    notes = [
        "The symbol left of a row is its verdict; a number in brackets counts the claims of a row."
    ]
    if style.narrow:
        notes.append("Shown are the claims that do not hold here; the table has all of them.")
    if any(one.ratio is None for one in claims):
        notes.append("Claims of yes or no, and of 0, have no place on the axis.")
    return notes
