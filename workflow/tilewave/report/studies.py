"""A study on the pages: its takeaway, figure, data and missing cases."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave import plots
from tilewave.pipeline.project import Project
from tilewave.report import FIGURE_KINDS, undrawn
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

    readable: the size at which its smallest text is READABLE; a phone shows this size and scrolls.
    """

    address: str
    width: int
    height: int
    alt: str = ""
    readable: tuple[int, int] = 0, 0


@dataclass(frozen=True)
class StudyView:
    """A study on the pages, with addresses relative to its page.

    undrawn: why there is neither figure nor data.
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
    summary: Table | None
    table: Table | None
    more: int
    filters: list[str]
    groups: list[ReasonGroup]
    files: list[tuple[str, str]]
    figure: PageImage | None
    kernels: list[str]
    data: pd.DataFrame | None
    undrawn: str = ""

    @property
    def page(self) -> str:
        return f"study/{self.name}.html"


def svg_size(path: Path) -> tuple[int, int]:
    """Return width and height of an SVG in pixels of 1/96 inch."""
    match = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', path.read_text("utf-8")[:2000])
    assert match, path
    return round(float(match[1]) * 96 / 72), round(float(match[2]) * 96 / 72)


def smallest_font(path: Path) -> float:
    """Return the smallest font size of a figure in pixels of 1/96 inch; an em has 100 units."""
    scales = re.findall(r" scale\(([\d.]+) -[\d.]+\)", path.read_text("utf-8"))
    return min(map(float, scales), default=0.12) * 100 * 96 / 72


def image(path: Path, address: str, alt: str) -> PageImage | None:
    """Return a page's view of an SVG; None if there is no file."""
    if not path.is_file():
        return None
    width, height = svg_size(path)
    larger = READABLE / smallest_font(path)
    return PageImage(
        address, width, height, alt, (math.ceil(width * larger), math.ceil(height * larger))
    )


def data_of(reports: Path, name: str) -> pd.DataFrame | None:
    """Read the CSV beside a study's figure; None if there is none."""
    path = reports / "figures" / f"{name}.csv"
    return pd.read_csv(path) if path.is_file() and path.stat().st_size > 1 else None


def _page_table(plot: str, data: pd.DataFrame) -> pd.DataFrame | None:
    """Return the table that the plot module makes of its data for the page; None where it makes none."""
    compute = getattr(plots.load(plot), "page_table", None)
    try:
        return None if compute is None else pd.DataFrame(compute(data))
    except Exception:  # a user's module: the page shows the data instead
        return None


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
    sidecar, caption = folder / f"{name}.json", folder / f"{name}.txt"
    document = json.loads(sidecar.read_text("utf-8")) if sidecar.is_file() else {}
    takeaway, why = document.get("takeaway", ""), document.get(undrawn.KEY, "")
    files = [
        (kind.upper(), f"../figures/{name}.{kind}")
        for kind in (("json",) if why else FIGURE_KINDS)
        if (folder / f"{name}.{kind}").is_file()
    ]
    summed = reports / "tables" / f"{name}.csv"
    summary = None
    if plots.offers(entry.plot, "summary") and summed.is_file() and not why:
        files.append(("summary", f"../tables/{name}.csv"))
        summary = table(pd.read_csv(summed))
    data = None if why else data_of(reports, name)
    drawn = None if data is None else _page_table(entry.plot, data)
    is_open = drawn is not None or plots.offers(entry.plot, "OPEN_TABLE")
    drawn = data if drawn is None else drawn
    shown = None if drawn is None else table(drawn if is_open else drawn.head(FIRST_ROWS))
    if shown and ("judged by", False) in shown.columns:
        shown = with_evidence(shown)
    alt = f"Figure of the study {entry.title}: {takeaway or entry.question}"
    figure = None if why else image(folder / f"{name}.svg", f"../figures/{name}.svg", alt)
    return StudyView(
        name=name,
        plot=entry.plot,
        title=entry.title,
        question=entry.question,
        takeaway=takeaway,
        headline=plots.offers(entry.plot, "HEADLINE")
        and name == first,  # of the studies with this plot
        # The caption between takeaway and source.
        notes=caption.read_text("utf-8").splitlines()[1:-1] if caption.is_file() else [],
        reading="" if why else getattr(plots.load(entry.plot), "READING", ""),
        cases=plural(len(cases), "case"),
        verdicts=[(word, count) for word, count in verdict_counts(cases) if count],
        sources=sources(records, environments),
        summary=summary,
        table=shown,
        more=len(data) if data is not None and not is_open and len(data) > FIRST_ROWS else 0,
        filters=_filters(drawn) if drawn is not None and is_open else [],
        groups=troubles(cases, records),
        files=files,
        figure=figure,
        kernels=list(dict.fromkeys(map(str, cases["kernel"]))),
        data=data,
        undrawn=why,
    )


def _filters(data: pd.DataFrame) -> list[str]:
    return [name for name in FILTERED if name in data and 1 < data[name].nunique() <= 40]
