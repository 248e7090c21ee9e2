"""A study on the pages: its takeaway, figure, data and missing cases."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave import plots
from tilewave.pipeline.project import Project
from tilewave.report import FIGURE_KINDS, UNDRAWN, figures
from tilewave.report.cells import plural, table
from tilewave.report.summary import sources, troubles, verdict_counts

FIRST_ROWS = 25
"""The most rows of a study's data on its page."""
READABLE = 12
"""The least font size on a phone, in pixels of 1/96 inch."""
FILTERED = ("document", "verdict", "dtype", "kernel", "study")
"""Columns that filter a table, where they have more than one value."""


def svg_size(path: Path) -> tuple[int, int]:
    """Return width and height of an SVG in pixels of 1/96 inch."""
    match = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', path.read_text("utf-8")[:2000])
    assert match, path
    return round(float(match[1]) * 96 / 72), round(float(match[2]) * 96 / 72)


def _csv(path: Path) -> pd.DataFrame | None:
    return pd.read_csv(path) if path.is_file() and path.stat().st_size > 1 else None


def _rows(plot: str, data: pd.DataFrame, summary: pd.DataFrame | None) -> tuple[pd.DataFrame, bool]:
    """Return the rows that the page shows, and whether they are all there are.
    They are those that the plot module makes for the page, else the summary, else the first of the data."""
    try:
        return pd.DataFrame(plots.load(plot).page_table(data)), True
    except Exception:  # no such function, or a user's that fails
        pass
    if summary is not None:
        return summary, True
    return data.head(FIRST_ROWS), len(data) <= FIRST_ROWS


class StudyView:
    """A study on the pages, with addresses relative to its page.
    undrawn: why there is neither figure nor data; more: number of rows if not all are shown; figure: with its size in
    pixels, so that nothing moves while it loads, and the factor for READABLE text: a phone shows this size and scrolls."""

    def __init__(
        self,
        project: Project,
        name: str,
        frames: tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame],
        environments: Mapping[str, Mapping[str, Any]],
        reports: Path,
    ) -> None:
        """Collect what the page shows; frames: the run's cases, records, problems; reports: the folder of the pages."""
        entries = project.config.studies
        entry = entries[name]
        self.name, self.page, self.plot = name, f"study/{name}.html", entry.plot
        self.title, self.question = entry.title, entry.question
        wanted = set(project.plan.studies[name])
        cases, records, problems = (frame[frame["case"].isin(wanted)] for frame in frames)
        folder = reports / "figures"
        suffixes = (".json", ".txt", ".svg", ".csv")
        sidecar, caption, svg, data = map((folder / name).with_suffix, suffixes)
        document = json.loads(sidecar.read_text("utf-8")) if sidecar.is_file() else {}
        self.takeaway: str = document.get("takeaway", "")
        self.undrawn: str = document.get(UNDRAWN, "")
        first = next(study for study in project.plan.studies if entries[study].plot == entry.plot)
        self.headline = plots.offers(entry.plot, "HEADLINE") and name == first
        self.reading = "" if self.undrawn else plots.reading(entry.plot)
        lines = caption.read_text("utf-8").splitlines() if caption.is_file() else []
        # The caption's last line has checks, missing cases and sources.
        self.notes, self.checks = lines[1:-1], "".join(lines[1:][-1:])
        self.cases, self.kernels = plural(len(cases), "case"), list(dict.fromkeys(cases["kernel"]))
        self.verdicts = verdict_counts(cases)
        self.groups = troubles(cases, problems)
        records = records if entry.execute else figures.without_executions(records)
        self.sources = sources(records, environments)
        kinds = ("json",) if self.undrawn else FIGURE_KINDS
        there = (kind for kind in kinds if (folder / f"{name}.{kind}").is_file())
        self.files = [(kind.upper(), f"../figures/{name}.{kind}") for kind in there]
        summary, self.data, self.figure = None, None, None
        self.table, self.more, self.filters = None, 0, list[str]()
        if self.undrawn:
            return
        if plots.offers(entry.plot, "summary"):
            summary = _csv(reports / "tables" / f"{name}.csv")
            self.files += [("summary", f"../tables/{name}.csv")] * (summary is not None)
        if svg.is_file():
            alt = f"Figure of the study {self.title}: {self.takeaway or self.question}"
            larger = READABLE / (figures.style_of(project).small * 96 / 72)
            self.figure = {"address": f"../figures/{name}.svg", "alt": alt, "larger": larger}
            self.figure["width"], self.figure["height"] = svg_size(svg)
        self.data = _csv(data)
        if self.data is not None:
            shown, complete = _rows(entry.plot, self.data, summary)
            self.table, self.more = table(shown), 0 if complete else len(self.data)
            filtered = [column for column in FILTERED if complete and column in shown]
            self.filters = [column for column in filtered if 1 < shown[column].nunique() <= 40]
