"""The run in short: highlights, summary.md for terminals and pull requests, junit.xml for CI."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pandas as pd

from tilewave.kernel import result
from tilewave.plots.base import present
from tilewave.report import verdict
from tilewave.report.cells import markdown as as_markdown
from tilewave.report.cells import markdown_row, number
from tilewave.report.summary import Banner, troubles, verdict_counts

if TYPE_CHECKING:
    from tilewave.report.kernel_views import KernelRow
    from tilewave.report.studies import StudyView


MOST_KERNELS = 5
"""The most kernels with advice among the highlights, where no study has a headline."""


@dataclass(frozen=True)
class Highlight:
    """A sentence derived from the data, and the page that it comes from."""

    sentence: str
    title: str = ""
    address: str = ""


def findings(
    shown: Sequence[StudyView], cases: pd.DataFrame, rows: Iterable[KernelRow] = ()
) -> list[Highlight]:
    """Return the takeaways of headline studies, or else the advice on kernels; and what failed."""
    highlights = [
        Highlight(study.takeaway, study.title, f"study/{study.name}.html")
        for study in shown
        if study.headline and study.takeaway
    ]
    if not highlights:
        advised = [row for row in rows if row.advice][:MOST_KERNELS]
        highlights = [
            Highlight(f"{row.name}: {row.advice}", row.title, f"kernel/{row.name}.html")
            for row in advised
        ]
    bad = {word: count for word, count in verdict_counts(cases) if verdict.wrong(word) and count}
    failed = ", ".join(f"{count} {word}" for word, count in bad.items())
    checked = sum(verdict.checked(word) for word in cases["verdict"])
    if failed:
        right = number(checked - sum(bad.values()))
        highlights.append(
            Highlight(f"{right} of {number(checked)} checked cases are correct; {failed}.")
        )
    return highlights


def markdown(
    banner: Banner,
    judged: verdict.Verdict,
    highlights: Sequence[Highlight],
    shown: Sequence[StudyView],
    cases: pd.DataFrame,
    records: pd.DataFrame,
) -> str:
    """Return the summary: source of the figures, verdict, cases, highlights, studies, and problems."""
    counts = ", ".join(f"{number(count)} {word}" for word, count in verdict_counts(cases))
    lines = [
        f"# {as_markdown(banner.headline)}",
        "",
        as_markdown(judged.sentence),
        "",
        f"{number(len(cases))} cases: {counts}.",
        "",
    ]
    lines += [f"* {as_markdown(highlight.sentence)}" for highlight in highlights]
    lines += ["", "| study | cases | finding |", "|---|---|---|"]
    lines += [markdown_row(study.title, study.cases, study.takeaway or "-") for study in shown]
    groups = troubles(cases, records)
    if groups:
        lines += ["", "| problem | cases | stage | reason | first case |", "|---|---|---|---|---|"]
        for group in groups:
            count, first = len(group.cases), group.cases[0]
            lines.append(markdown_row(group.word, count, group.stages, group.reason, first))
    return "\n".join(lines) + "\n"


def junit(cases: pd.DataFrame, records: pd.DataFrame) -> bytes:
    """Return JUnit XML with a test for each case.

    A test fails where the verdict is bad or the check failed, and is skipped where nothing was checked.
    """
    rows = records[records["stage"] == "check"].drop_duplicates("case")
    checks = dict(zip(rows["case"], zip(rows["status"], rows["reason"]), strict=True))
    suite = ElementTree.Element("testsuite", name="tilewave")
    counted = {"failure": 0, "skipped": 0}
    for case, kernel, judged in zip(cases["case"], cases["kernel"], cases["verdict"], strict=True):
        test = ElementTree.SubElement(suite, "testcase", name=str(case), classname=str(kernel))
        status, reason = checks.get(case, (result.OK, ""))
        reason = str(reason) if present(reason) else ""
        if verdict.wrong(judged) or status in result.FAILURES:
            kind, word = "failure", str(judged) if verdict.wrong(judged) else status
        elif not verdict.checked(judged):
            kind, word = "skipped", status if status != result.OK else str(judged)
        else:
            continue
        counted[kind] += 1
        ElementTree.SubElement(test, kind, message=f"{word}: {reason}" if reason else word)
    suite.attrib |= {
        "tests": str(len(cases)), "failures": str(counted["failure"]),
        "skipped": str(counted["skipped"]),
    }  # fmt: skip
    ElementTree.indent(suite)
    document: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return document + b"\n"
