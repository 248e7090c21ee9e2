"""A study on the pages: its takeaway, figure, data and missing cases."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave import plots
from tilewave.pipeline.project import Project
from tilewave.report import FIGURE_KINDS, UNDRAWN, figures
from tilewave.report.cells import Table, plural, table, with_evidence
from tilewave.report.summary import FigureSource, ReasonGroup, sources, troubles, verdict_counts

FIRST_ROWS = 25
"""The most rows of a study's data on its page, unless its table stays open."""
READABLE = 12
"""The least font size on a phone, in pixels of 1/96 inch."""
FILTERED = ("document", "verdict", "dtype", "kernel", "study")
"""Columns that filter a table, where they have more than one value."""


@dataclass(frozen=True)
class PageImage:
    """A drawing with its size in pixels, so that nothing moves while it loads.

    larger: the factor at which its smallest text is READABLE; a phone shows this size and scrolls.
    """

    address: str
    width: int
    height: int
    alt: str
    larger: float


@dataclass(frozen=True)
class StudyView:
    """A study on the pages, with addresses relative to its page.

    undrawn: why there is neither figure nor data; more: number of rows if not all are shown.
    """

    name: str
    plot: str
    title: str
    question: str
    takeaway: str
    headline: bool
    reading: str
    notes: list[str]
    cases: str
    verdicts: list[tuple[str, int]]
    sources: list[FigureSource]
    table: Table | None
    more: int
    filters: list[str]
    groups: list[ReasonGroup]
    files: list[tuple[str, str]]
    figure: PageImage | None
    kernels: list[str]
    data: pd.DataFrame | None
    undrawn: str

    @property
    def page(self) -> str:
        return f"study/{self.name}.html"


def svg_size(path: Path) -> tuple[int, int]:
    """Return width and height of an SVG in pixels of 1/96 inch."""
    match = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', path.read_text("utf-8")[:2000])
    assert match, path
    return round(float(match[1]) * 96 / 72), round(float(match[2]) * 96 / 72)


def _csv(path: Path) -> pd.DataFrame | None:
    return pd.read_csv(path) if path.is_file() and path.stat().st_size > 1 else None


def _rows(plot: str, data: pd.DataFrame, summary: pd.DataFrame | None) -> tuple[pd.DataFrame, bool]:
    """Return the rows that the page shows, and whether they are all there are.

    They are those that the plot module makes for the page, else the summary, else the first of the data.
    """
    try:
        return pd.DataFrame(plots.load(plot).page_table(data)), True  # type: ignore[attr-defined]
    except Exception:  # no such function, or a user's that fails
        pass
    if summary is not None:
        return summary, True
    if plots.table_stays_open(plot) or len(data) <= FIRST_ROWS:
        return data, True
    return data.head(FIRST_ROWS), False


def view(
    project: Project,
    name: str,
    frames: tuple[pd.DataFrame, pd.DataFrame],
    environments: Mapping[str, Mapping[str, Any]],
    reports: Path,
) -> StudyView:
    """Return a study's view; frames: the run's cases and records; reports: the folder of the pages."""
    entries = project.config.studies
    entry = entries[name]
    first = next(study for study in project.plan.studies if entries[study].plot == entry.plot)
    wanted = set(project.plan.studies[name])
    cases, records = (frame[frame["case"].isin(wanted)] for frame in frames)
    folder = reports / "figures"
    sidecar, caption, svg = (folder / f"{name}.{kind}" for kind in ("json", "txt", "svg"))
    document = json.loads(sidecar.read_text("utf-8")) if sidecar.is_file() else {}
    takeaway, why = document.get("takeaway", ""), document.get(UNDRAWN, "")
    files = [
        (kind.upper(), f"../figures/{name}.{kind}")
        for kind in (("json",) if why else FIGURE_KINDS)
        if (folder / f"{name}.{kind}").is_file()
    ]
    summary, shown, complete, image = None, None, True, None
    if plots.has_summary(entry.plot) and not why:
        summary = _csv(reports / "tables" / f"{name}.csv")
        files += [("summary", f"../tables/{name}.csv")] * (summary is not None)
    data = None if why else _csv(folder / f"{name}.csv")
    if data is not None:
        shown, complete = _rows(entry.plot, data, summary)
    if svg.is_file() and not why:
        alt = f"Figure of the study {entry.title}: {takeaway or entry.question}"
        larger = READABLE / (figures.style_of(project, name).small * 96 / 72)
        image = PageImage(f"../figures/{name}.svg", *svg_size(svg), alt, larger)
    return StudyView(
        name=name,
        plot=entry.plot,
        title=entry.title,
        question=entry.question,
        takeaway=takeaway,
        headline=plots.is_headline(entry.plot) and name == first,  # of the studies with this plot
        # The caption between takeaway and source.
        notes=caption.read_text("utf-8").splitlines()[1:-1] if caption.is_file() else [],
        reading="" if why else getattr(plots.load(entry.plot), "READING", ""),
        cases=plural(len(cases), "case"),
        verdicts=[(word, count) for word, count in verdict_counts(cases) if count],
        sources=sources(records, environments),
        table=None if shown is None else with_evidence(table(shown)),
        more=0 if complete or data is None else len(data),
        filters=[
            column
            for column in FILTERED
            if shown is not None
            and complete
            and column in shown
            and 1 < shown[column].nunique() <= 40
        ],
        groups=troubles(cases, records),
        files=files,
        figure=image,
        kernels=list(dict.fromkeys(map(str, cases["kernel"]))),
        data=data,
        undrawn=why,
    )
