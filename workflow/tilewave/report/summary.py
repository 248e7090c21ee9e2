"""The whole run: problems, statuses, sources, summary.md for pull requests, junit.xml for CI."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from tilewave.basics.columns import filled
from tilewave.kernel import result
from tilewave.plots.base import present
from tilewave.report import figures, verdict
from tilewave.report.cells import plural
from tilewave.report.rendering import render

_SPOILT = tuple(word.rstrip(": ") for word in result.SPOILT)
_FAULTS = (result.WRONG, *result.FINDINGS, *result.FAILURES, result.STALE)
# The order of problems on the page, the worst first.
_SEVERITY = (*_FAULTS, result.NOT_MEASURED, *_SPOILT, result.NOT_CHECKED, result.UNSUPPORTED)
ALWAYS = (result.CORRECT, result.WRONG, result.NOT_CHECKED)
"""Verdicts that the whole run's counts have even without a case."""

MOST_FINDINGS = 10
"""The most findings of summary.md."""
MILD = (result.NOT_MEASURED, result.NOT_CHECKED, result.UNSUPPORTED, result.STALE)
"""Statuses and verdicts that are no fault of a kernel."""
PLANNED = "as its kernel file says"
"""Start of the reason of a verdict that a probe's kernel file announces."""


class ReasonGroup(NamedTuple):
    """Cases that share a status (or a verdict) and a reason."""

    word: str
    stages: str
    reason: str
    cases: list[str]

    @property
    def mild(self) -> bool:
        """True if the cases have no fault, or one that their kernel files announce."""
        return self.word in MILD or self.reason.startswith(PLANNED)


def _judged(cases: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each case whose check ended without *correct*, with its verdict as the status."""
    checks = rows[rows["stage"] == "check"].drop_duplicates("case", keep="last").set_index("case")
    checks = checks.reindex(cases["case"]).assign(verdict=[*cases["verdict"]], stage="check")
    checks["reason"] = checks["reason"].fillna("")
    announced = [*(cases["verdict"] != verdict.unplanned_verdicts(cases))]
    planned = checks["reason"].map(lambda reason: f"{PLANNED}: {reason}" if reason else PLANNED)
    checks["reason"] = checks["reason"].mask(announced, planned)
    clean = (checks["verdict"] == result.NOT_CHECKED) & (checks["status"] == result.OK)
    judged = checks[checks["verdict"].map(verdict.wrong) | clean]
    return judged.assign(status=judged["verdict"]).reset_index()


def problems(cases: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each case and stage that is not ok, and for each check that is not *correct*.

    A probe that failed as its kernel file says is *not checked*. A result is *not measured* where a case was executed
    because this machine's GPU did not measure it, *disturbed* where other work on the machine changed its figures,
    *doubtful* where another measurement contradicts them. Columns: case, stage, status, reason (also without numbers).
    """
    rows = records[["case", "stage", "status", "reason"]].drop_duplicates().fillna({"reason": ""})
    planned = rows.drop(verdict.unplanned(cases, rows).index)
    rows = rows.drop(planned.index)
    unchecked = cases["case"][cases["verdict"] == result.NOT_CHECKED]
    planned = planned[(planned["stage"] == "check") & planned["case"].isin(unchecked)]
    why = planned["status"] + ": " + planned["reason"]
    planned = planned.assign(status=result.NOT_CHECKED, reason=why)
    judged = _judged(cases, rows)
    status, reason, ok = rows["status"], rows["reason"], rows["status"] == result.OK
    spoilt = ok & reason.str.startswith(result.SPOILT)
    instead = ok & reason.str.startswith(result.INSTEAD)
    parts = reason.str.split(": ", n=1)
    rows["status"] = status.mask(instead, result.NOT_MEASURED).mask(spoilt, parts.str[0])
    rows["reason"] = reason.mask(spoilt, parts.str[1])
    rows = pd.concat([planned, rows[rows["status"] != result.OK], judged[[*rows.columns]]])
    return rows.assign(pattern=rows["reason"].str.replace(r"\d[\d.,]*", "#", regex=True))


def troubles(cases: pd.DataFrame, problems: pd.DataFrame) -> list[ReasonGroup]:
    """Group the problems of these cases by status and reason, the worst first.
    A case is listed under each status other than ok, with its stages, and under its verdict where its check ended but
    is not *correct*. Reasons that differ only in numbers share a group, which has the first case's and says so."""
    order = {case: index for index, case in enumerate(cases["case"])}
    rows = problems[problems["case"].isin(order.keys())]
    listed = []
    for (word, _), part in rows.groupby(["status", "pattern"], sort=False):
        names = sorted(part["case"].unique(), key=order.__getitem__)
        reason = str(part["reason"][part["case"] == names[0]].iloc[0])
        reason += " (the numbers differ from case to case)" * (part["reason"].nunique() > 1)
        counts = part.groupby("stage")["case"].nunique()
        stages = [stage for stage in result.STAGES if stage in counts]
        if set(counts) != {len(names)}:
            stages = [f"{stage} {counts[stage]}" for stage in stages]
        listed.append(ReasonGroup(str(word), ", ".join(stages), reason, names))
    return sorted(listed, key=lambda group: _SEVERITY.index(group.word))


def verdict_counts(cases: pd.DataFrame, always: Container[str] = ()) -> list[tuple[str, int]]:
    """Return the number of cases by verdict, with 0 only for those in `always`."""
    counts = Counter(cases["verdict"])
    return [(word, counts[word]) for word in result.VERDICTS if word in always or word in counts]


def device_name(facts: Mapping[str, Any]) -> str:
    """Return the name of an environment's GPU, else of its CPU."""
    return str(facts.get("gpu") or facts.get("cpu") or "unknown machine")


def sources(
    records: pd.DataFrame, environments: Mapping[str, Mapping[str, Any]]
) -> list[dict[Any, Any]]:
    """Return source, count, environment and device of the values from each source and environment."""
    counts = figures.figures_of(records).groupby(["source", "environment"]).size()
    rows = counts.map(lambda count: plural(count, "value")).rename("count").reset_index()
    devices = [device_name(environments.get(name, {})) for name in rows["environment"]]
    listed: list[dict[Any, Any]] = rows.assign(device=devices).to_dict("records")
    return listed


@dataclass(frozen=True)
class Banner:
    """The source of the page's figures; kind: live, recorded or nothing; damaged: lines on skipped recorded files."""

    kind: str
    headline: str
    damaged: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        """The headline without its reason, for the top line of every page."""
        return self.headline.partition(" (")[0]


def banner(target: Mapping[str, Any], records: pd.DataFrame) -> Banner:
    """Return the banner; a machine without measurements must not seem to have any."""
    source = figures.figures_of(records)["source"].astype(str)
    recorded = target["recorded"] is not None and source.str.startswith("recorded:").any()
    here = source.isin(["counters", "samples", "events"]).any()
    executed = target["recorded"] is not None and (source == result.EXECUTED).any() and not here
    facts = {"target": target, "recorded": recorded, "here": here, "executed": executed}
    kind = "live" if here else "nothing"
    if not target["live"]:
        kind = "recorded" if recorded or executed else "nothing"
    return Banner(kind, filled(__file__, "summary", **facts), tuple(target.get("damaged", ())))


@dataclass(frozen=True)
class Highlight:
    """A sentence derived from the data, and the page that it comes from."""

    sentence: str
    title: str = ""
    address: str = ""


def markdown(
    banner: Banner,
    judged: verdict.Verdict,
    highlights: Sequence[Highlight],
    cases: pd.DataFrame,
    groups: Sequence[ReasonGroup],
) -> str:
    """Return the summary: source of the figures, verdict, cases, findings, and problems that can be acted on."""
    context = {
        "banner": banner, "judged": judged, "cases": len(cases),
        "counts": verdict_counts(cases, ALWAYS), "highlights": highlights[:MOST_FINDINGS],
        "groups": [group for group in groups if group.word != result.UNSUPPORTED],
    }  # fmt: skip
    return render("summary.md.j2", context)


def junit(cases: pd.DataFrame, judged: verdict.Verdict) -> str:
    """Return JUnit XML with a test for each case, figure that was not drawn, and file that was not read. A
    test fails on a problem of the verdict; unchecked, it is skipped, unless its kernel file expects that."""
    failed = {problem.case: problem.line for problem in judged.problems}
    ends = cases.reindex(columns=["ends", "finds"]).replace(result.OK, "")
    planned = ends.map(present).any(axis=1)
    columns = zip(cases["case"], cases["kernel"], cases["verdict"], planned, strict=True)
    tests = [
        (str(case), str(kernel), failed.get(str(case), ""), not (verdict.checked(word) or expected))
        for case, kernel, word, expected in columns
    ]
    tests += [(name, "figure", why, False) for name, why in judged.undrawn.items()]
    tests += [(name, "kernel file", why, False) for name, why in judged.unread.items()]
    failures = sum(bool(why) for _, _, why, _ in tests)
    skips = sum(skipped and not why for _, _, why, skipped in tests)
    return render("junit.xml.j2", {"tests": tests, "failures": failures, "skips": skips})
