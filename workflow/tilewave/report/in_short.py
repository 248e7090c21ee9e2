"""The run in short: what was found, summary.md for people who read a terminal or a pull request, junit.xml for CI."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pandas as pd

from tilewave.kernel import result
from tilewave.plots.base import present
from tilewave.report import verdict
from tilewave.report.cells import number
from tilewave.report.summary import Banner, troubles, verdict_counts

if TYPE_CHECKING:
    from tilewave.report.kernel_views import KernelRow
    from tilewave.report.studies import StudyView


MOST_KERNELS = 5
"""Of which it is told what the rules find, where no study has a headline."""


@dataclass(frozen=True)
class Highlight:
    """A sentence that the data give, and the page that it comes from."""

    sentence: str
    title: str = ""
    address: str = ""


def findings(
    shown: Sequence[StudyView], cases: pd.DataFrame, rows: Iterable[KernelRow] = ()
) -> list[Highlight]:
    """What the headline studies found, or else what the rules find in kernels; and what failed."""
    found = [
        Highlight(one.takeaway, one.title, f"study/{one.name}.html")
        for one in shown
        if one.headline and one.takeaway
    ]
    if not found:
        advised = [one for one in rows if one.advice][:MOST_KERNELS]
        found = [
            Highlight(f"{one.name}: {one.advice}", one.title, f"kernel/{one.name}.html")
            for one in advised
        ]
    bad = {word: count for word, count in verdict_counts(cases) if verdict.wrong(word) and count}
    failed = ", ".join(f"{count} {word}" for word, count in bad.items())
    checked = sum(verdict.checked(word) for word in cases["verdict"])
    if failed:
        right = number(checked - sum(bad.values()))
        found.append(
            Highlight(f"Of {number(checked)} checked cases {right} are correct; {failed}.")
        )
    return found


def markdown(
    told: Banner,
    judged: verdict.Verdict,
    found: Sequence[Highlight],
    shown: Sequence[StudyView],
    cases: pd.DataFrame,
    records: pd.DataFrame,
) -> str:
    """The summary: whose figures, the verdict, cases, findings, studies, and what is not ok."""
    counts = ", ".join(f"{number(count)} {word}" for word, count in verdict_counts(cases))
    lines = [
        f"# {told.headline}",
        "",
        judged.sentence,
        "",
        f"{number(len(cases))} cases: {counts}.",
        "",
    ]
    lines += [f"* {one.sentence}" for one in found]
    lines += ["", "| study | cases | finding |", "|---|---|---|"]
    lines += [f"| {one.title} | {one.cases} | {one.takeaway or '-'} |" for one in shown]
    groups = troubles(cases, records)
    if groups:
        lines += ["", "| not ok | cases | stage | reason | first case |", "|---|---|---|---|---|"]
        for one in groups:
            reason = one.reason.replace("|", "\\|")
            lines.append(
                f"| {one.word} | {len(one.cases)} | {one.stages} | {reason} | {one.cases[0]} |"
            )
    return "\n".join(lines) + "\n"


def junit(cases: pd.DataFrame, records: pd.DataFrame) -> bytes:
    """One test a case: failed where its verdict is bad or its check failed, skipped where it was not
    checked."""
    rows = records[records["stage"] == "check"].drop_duplicates("case")
    checks = dict(zip(rows["case"], zip(rows["status"], rows["reason"]), strict=True))
    suite = ElementTree.Element("testsuite", name="tilewave")
    counted = {"failure": 0, "skipped": 0}
    for case, kernel, word in zip(cases["case"], cases["kernel"], cases["verdict"], strict=True):
        test = ElementTree.SubElement(suite, "testcase", name=str(case), classname=str(kernel))
        status, reason = checks.get(case, (result.OK, ""))
        reason = str(reason) if present(reason) else ""
        if verdict.wrong(word) or status in result.FAILURES:
            kind, said = "failure", str(word) if verdict.wrong(word) else status
        elif not verdict.checked(word):
            kind, said = "skipped", status if status != result.OK else str(word)
        else:
            continue
        counted[kind] += 1
        ElementTree.SubElement(test, kind, message=f"{said}: {reason}" if reason else said)
    suite.attrib |= {
        "tests": str(len(cases)), "failures": str(counted["failure"]),
        "skipped": str(counted["skipped"]),
    }  # fmt: skip
    ElementTree.indent(suite)
    made: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return made + b"\n"
