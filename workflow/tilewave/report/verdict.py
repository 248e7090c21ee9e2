"""The verdict on a run in a few lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from tilewave.basics.columns import filled
from tilewave.kernel import result
from tilewave.pipeline.project import Project
from tilewave.plots.base import present
from tilewave.report.cells import plural

UNCHECKED = "nothing failed, but no case was checked"


def checked(verdict: object) -> bool:
    """Return whether a check from any source gave a verdict."""
    return present(verdict) and verdict != result.NOT_CHECKED


def wrong(verdict: object) -> bool:
    """Return whether a check gave another verdict than *correct*: wrong, race, ..."""
    return checked(verdict) and verdict != result.CORRECT


def _count(records: pd.DataFrame, *statuses: str, stages: bool = True) -> str:
    """Return the number of cases with these statuses, in total and by stage: `12 (check 3, time 12)`."""
    rows = records[records["status"].isin(statuses)]
    by_stage = rows.groupby("stage")["case"].nunique()
    parts = [f"{stage} {by_stage[stage]}" for stage in result.STAGES if stage in by_stage]
    return f"{rows['case'].nunique()}" + (f" ({', '.join(parts)})" if parts and stages else "")


def _why_wrong(records: pd.DataFrame, case: str, verdict: str) -> str:
    """Return `case: wrong: max_error 3.2, tolerance 0.1`, with the check's reason if any."""
    rows = records[(records["case"] == case) & records["stage"].isin(["check", "execute"])]
    details = [str(reason) for reason in rows["reason"].unique() if present(reason)]
    rows = rows[rows["stage"] == "check"]
    for name in ("max_error", "tolerance"):
        values = rows[rows["metric"] == name]["value"]
        details += [f"{name} {float(value):.3g}" for value in values[:1]]
    return f"{case}: {verdict}" + (f": {', '.join(details)}" if details else "")


class Problem(NamedTuple):
    """A case that a strict run does not accept, and a line about it."""

    case: str
    line: str


def _problems(cases: pd.DataFrame, records: pd.DataFrame, strict: Any) -> list[Problem]:
    """Return each problem that a strict run does not accept."""
    verdicts = zip(map(str, cases["case"]), unplanned_verdicts(cases))
    bad = [(case, str(verdict)) for case, verdict in verdicts if wrong(verdict)]
    listed = [Problem(case, _why_wrong(records, case, verdict)) for case, verdict in bad]
    # A case that failed its check has the same status in later stages: list it once.
    unaccepted = records["status"].isin(result.FAILURES)
    if strict == "release":
        spoilt = records["reason"].fillna("").str.startswith(result.SPOILT)
        spoilt &= records["status"] == result.OK
        unaccepted |= spoilt | (records["status"] == result.STALE)
    for row in records[unaccepted].drop_duplicates(["case", "status", "reason"]).itertuples():
        reason = f": {row.reason}" if present(row.reason) else ""
        listed.append(Problem(str(row.case), f"{row.case}: {row.stage}: {row.status}{reason}"))
    return listed


def unplanned(cases: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Return the records without probes that failed as their kernel files expect."""
    if "ends" not in cases:
        return records
    ends = records["case"].map(cases.set_index("case")["ends"])
    return records[(records["status"] == result.OK) | (records["status"] != ends)]


def unplanned_verdicts(cases: pd.DataFrame) -> list[Any]:
    """Return the verdicts, with *not checked* where a probe's kernel file expects the verdict."""
    if "finds" not in cases:
        return list(cases["verdict"])
    return [
        result.NOT_CHECKED if present(finds) and verdict == finds else verdict
        for verdict, finds in zip(cases["verdict"], cases["finds"])
    ]


def summary(cases: pd.DataFrame, records: pd.DataFrame) -> str:
    """Return two lines: `checked N of M`, and the number of cases by kind of problem.
    The first line counts verdicts from a recording or from execution, if there are any."""
    checked_cases = set(cases["case"][cases["verdict"].map(checked)])
    number = len(checked_cases)
    checks = records[(records["stage"] == "check") & records["case"].isin(checked_cases)]
    source = checks["source"].fillna("")
    shipped = checks[source.str.startswith("recorded:")]["case"].nunique()
    executed = checks[source == result.EXECUTED]["case"].nunique()
    verdicts = {
        "correct": int((cases["verdict"] == result.CORRECT).sum()),
        "wrong": sum(map(wrong, unplanned_verdicts(cases))),
        "failed": _count(records, *result.FAILURES),
        "stale": _count(records, result.STALE),
        "not measured": _count(records, result.NOT_MEASURED),
        "unsupported": _count(records, result.UNSUPPORTED, stages=False),
    }
    facts = {"executed": executed, "shipped": shipped, "checked": number, "cases": len(cases)}
    return filled(__file__, "verdict", verdicts=verdicts, **facts) + "\n"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a run.

    counts: the lines of `summary`; outcome: whether it passed or why not, without the names of kernels;
    problems: what a strict run does not accept; undrawn: reasons by study without a figure; unread: reasons by kernel
    whose file cannot be read; interrupted: number of cases that the next run measures. No run accepts the last three.
    """

    counts: str
    outcome: str
    kernels: tuple[str, ...]
    problems: tuple[Problem, ...]
    undrawn: Mapping[str, str]
    unread: Mapping[str, str]
    interrupted: int = 0

    @property
    def passed(self) -> bool:
        return not (self.problems or self.undrawn or self.unread or self.interrupted)

    @property
    def sentence(self) -> str:
        """The verdict in one sentence, at the end of the command's output and the top of the index."""
        return ", in ".join(filter(None, (self.outcome, ", ".join(self.kernels)))) + "."

    @property
    def document(self) -> dict[str, Any]:
        """What the end of a run prints (`report.ending`)."""
        names = ("counts", "sentence", "undrawn", "unread", "interrupted")
        lines = [problem.line for problem in self.problems]
        return {"problems": lines} | {name: getattr(self, name) for name in names}


def of(
    project: Project,
    cases: pd.DataFrame,
    records: pd.DataFrame,
    undrawn_studies: Mapping[str, str] = {},
) -> Verdict:
    """Return the verdict on a run's tables; undrawn_studies: reasons by study without a figure."""
    records = unplanned(cases, records)
    counts, problems = summary(cases, records), _problems(cases, records, project.config.strict)
    bad = {problem.case for problem in problems}
    bad_cases = cases[cases["case"].isin(bad)]
    number = sum(map(checked, cases["verdict"]))
    unread = getattr(project, "left_out", {})
    interrupted = records[records["metric"] == result.INTERRUPTED]["case"].nunique()
    facts = {
        "unread": unread, "undrawn": undrawn_studies, "interrupted": interrupted, "bad": len(bad_cases),
        "number": number, "unchecked": UNCHECKED, "plural": plural, "verdicts": None,
    }  # fmt: skip
    outcome = filled(__file__, "verdict", **facts)
    kernels = tuple(dict.fromkeys(str(name) for name in bad_cases["kernel"] if present(name)))
    return Verdict(counts, outcome, kernels, tuple(problems), undrawn_studies, unread, interrupted)
