"""The run in short: the index's title and findings, summary.md for pull requests, junit.xml for CI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pandas as pd

from tilewave.kernel import result
from tilewave.plots.base import present
from tilewave.report import verdict
from tilewave.report.cells import markdown as as_markdown
from tilewave.report.cells import markdown_row, number
from tilewave.report.summary import Banner, ReasonGroup, verdict_counts

if TYPE_CHECKING:
    from tilewave.pipeline.project import Project
    from tilewave.report.kernel_views import KernelRow
    from tilewave.report.studies import StudyView

FINDINGS = 3
"""The most findings on the index."""
MOST_FINDINGS = 10
"""The most findings of summary.md."""
MOST_KERNELS = 5
"""The most kernels among the findings."""
STORY = (
    "ladder", "roofline", "limits", "wavefronts", "ablation", "tile_quantization", "wave_quantization",
    "waves_cured", "split_k", "tile_size", "exactness",
)  # fmt: skip
"""Plots whose studies tell the story, in this order."""
SHARE = "% of cuBLAS"
_NUMBERS = ("No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


@dataclass(frozen=True)
class Highlight:
    """A sentence derived from the data, and the page that it comes from."""

    sentence: str
    title: str = ""
    address: str = ""


def story(shown: Sequence[StudyView]) -> list[StudyView]:
    """Return the studies, the first of each plot of STORY before the others."""
    first = {study.plot: study for study in reversed(shown)}
    first_of_plots = [first[plot] for plot in STORY if plot in first]
    return [*first_of_plots, *(study for study in shown if study not in first_of_plots)]


def question(project: Project, shown: Sequence[StudyView]) -> tuple[StudyView | None, str]:
    """Return the study of the ladder, if drawn, and the index's title with its first and its last rung.

    The rungs are those that the study draws of one dtype, at the largest size, as far as each is faster than all
    before it.
    """
    title, best = "Why is a CUDA kernel slow?", list[float]()
    study = next((study for study in shown if study.plot == "ladder"), None)
    if study is None or study.data is None or SHARE not in study.data:
        return None, title
    options = project.config.studies[study.name].options
    rows = study.data[(study.data["verdict"] == result.CORRECT) & study.data[SHARE].notna()]
    if options.get("variants"):
        rows = rows[rows["variant"].isin(options["variants"])]
    for dtype in options.get("dtypes") or rows["dtype"].unique():
        part = rows[rows["dtype"] == dtype]
        work = part["m"] * part["n"] * part["k"]
        climbed = list[float]()
        for share in part[work == work.max()].drop_duplicates("kernel")[SHARE]:
            if not climbed or share > climbed[-1]:
                climbed.append(float(share))
        best = max(best, climbed, key=lambda shares: (len(shares), -min(shares, default=0)))
    if len(best) < 2:
        return study, title
    count = _NUMBERS[len(best)] if len(best) < len(_NUMBERS) else str(len(best))
    return study, f"{title} {count} kernels from {best[0]:.0f} % to {best[-1]:.0f} % of cuBLAS"


def findings(studies: Sequence[StudyView], rows: Sequence[KernelRow] = ()) -> list[Highlight]:
    """Return the sentences on kernels if they are few, and the takeaways, headlines first."""
    ordered = sorted(studies, key=lambda study: not study.headline)
    takeaways = [
        Highlight(study.takeaway, study.title, study.page) for study in ordered if study.takeaway
    ]
    # With few kernels, a reader comes for them.
    if takeaways and len(rows) > MOST_KERNELS:
        return takeaways
    spoken = [
        Highlight(f"{row.name}: {row.sentence}", row.title, f"kernel/{row.name}.html")
        for row in rows
        if row.sentence
    ]
    return [*spoken[:MOST_KERNELS], *takeaways]


def markdown(
    banner: Banner,
    judged: verdict.Verdict,
    highlights: Sequence[Highlight],
    cases: pd.DataFrame,
    groups: Sequence[ReasonGroup],
) -> str:
    """Return the summary: source of the figures, verdict, cases, findings, and problems that can be acted on."""
    counts = ", ".join(f"{number(count)} {word}" for word, count in verdict_counts(cases))
    lines = [
        f"# {as_markdown(banner.headline)}",
        "",
        as_markdown(judged.sentence),
        "",
        f"{number(len(cases))} cases: {counts}.",
        "",
    ]
    lines += [f"* {as_markdown(highlight.sentence)}" for highlight in highlights[:MOST_FINDINGS]]
    groups = [group for group in groups if group.word != result.UNSUPPORTED]
    if groups:
        lines += ["", "| problem | cases | stage | reason | first case |", "|---|---|---|---|---|"]
    for group in groups:
        count, first = len(group.cases), group.cases[0]
        lines.append(markdown_row(group.word, count, group.stages, group.reason, first))
    return "\n".join(lines) + "\n"


def junit(cases: pd.DataFrame, judged: verdict.Verdict) -> bytes:
    """Return JUnit XML with a test for each case, figure that was not drawn, and file that was not read.

    A test fails where the verdict has a problem. It is skipped where nothing was checked, unless the kernel file
    expects that.
    """
    suite = ElementTree.Element("testsuite", name="tilewave")
    failed = {problem.case: problem.line for problem in judged.problems}
    ends = cases.reindex(columns=["ends", "finds"]).replace(result.OK, "")
    planned = ends.map(present).any(axis=1)
    tests = [
        (str(case), str(kernel), failed.get(str(case), ""), not (verdict.checked(word) or expected))
        for case, kernel, word, expected in zip(
            cases["case"], cases["kernel"], cases["verdict"], planned, strict=True
        )
    ]
    tests += [(name, "figure", why, False) for name, why in judged.undrawn.items()]
    tests += [(name, "kernel file", why, False) for name, why in judged.unread.items()]
    for name, kind, why, skipped in tests:
        test = ElementTree.SubElement(suite, "testcase", name=name, classname=kind)
        if why:
            ElementTree.SubElement(test, "failure", message=why)
        elif skipped:
            ElementTree.SubElement(test, "skipped", message=result.NOT_CHECKED)
    counts = {"tests": len(tests), "failures": len(suite.findall("*/failure")),
              "skipped": len(suite.findall("*/skipped"))}  # fmt: skip
    suite.attrib |= {name: str(count) for name, count in counts.items()}
    ElementTree.indent(suite)
    document: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return document + b"\n"
