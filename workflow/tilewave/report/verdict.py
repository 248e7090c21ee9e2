"""Whether all cases are right, in a few lines; and the end of a strict run where they are not."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from tilewave.kernel import result
from tilewave.pipeline.project import Project
from tilewave.plots.base import present
from tilewave.report import undrawn
from tilewave.report.cells import plural

MOST = 20
"""Cases that are listed when a strict run fails."""


def checked(verdict: object) -> bool:
    """Whether a check, from whatever source, came to a verdict on the case."""
    return present(verdict) and verdict != result.NOT_CHECKED


def wrong(verdict: object) -> bool:
    """Whether that verdict is anything but *correct*: wrong, a race, an uninitialised read, ..."""
    return checked(verdict) and verdict != result.CORRECT


def _having(records: pd.DataFrame, statuses: Iterable[str]) -> pd.DataFrame:
    """One row for each case, stage, status and reason among these statuses."""
    rows = records[records["status"].isin(list(statuses))]
    return rows[["case", "stage", "status", "reason"]].drop_duplicates()


def _by_stage(rows: pd.DataFrame) -> str:
    """`12 (check 3, time 12)`: cases, and how many of them in each stage."""
    cases = rows["case"].nunique()
    parts = [
        f"{stage} {rows[rows['stage'] == stage]['case'].nunique()}"
        for stage in result.STAGES
        if (rows["stage"] == stage).any()
    ]
    return f"{cases} ({', '.join(parts)})" if parts else str(cases)


def _why_wrong(records: pd.DataFrame, case: str, verdict: str) -> str:
    """`case: wrong: max_error 3.2, tolerance 0.1` with the reason where the check gave one."""
    rows = records[(records["case"] == case) & records["stage"].isin(["check", "execute"])]
    told = [str(reason) for reason in rows["reason"].unique() if present(reason)]
    rows = rows[rows["stage"] == "check"]
    for name in ("max_error", "tolerance"):
        values = rows[rows["metric"] == name]["value"]
        told += [f"{name} {float(value):.3g}" for value in values[:1]]
    return f"{case}: {verdict}" + (f": {', '.join(told)}" if told else "")


class Problem(NamedTuple):
    """What a strict run does not accept: a case and a line about it."""

    case: str
    line: str


def _problems(cases: pd.DataFrame, records: pd.DataFrame, strict: Any) -> list[Problem]:
    """Each case that a strict run does not accept."""
    listed = [
        Problem(str(case), _why_wrong(records, str(case), str(verdict)))
        for case, verdict in zip(cases["case"], unplanned_verdicts(cases))
        if wrong(verdict)
    ]
    # A case that failed its check has the same status in the later stages: tell it once.
    unaccepted = (*result.FAILURES, *((result.STALE,) if strict == "release" else ()))
    rows = _having(records, unaccepted).drop_duplicates(["case", "status", "reason"])
    if strict == "release":
        spoilt = _having(records, [result.OK])
        spoilt = spoilt[spoilt["reason"].fillna("").str.startswith(result.SPOILT)]
        rows = pd.concat([rows, spoilt])
    for case, stage, status, reason in rows.itertuples(index=False, name=None):
        line = f"{case}: {stage}: {status}" + (f": {reason}" if present(reason) else "")
        listed.append(Problem(str(case), line))
    return listed


def unplanned(cases: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Records without those of a probe that ended badly on purpose, as its kernel file says."""
    if "ends" not in cases:
        return records
    ends = records["case"].map(cases.set_index("case")["ends"])
    return records[(records["status"] == result.OK) | (records["status"] != ends)]


def unplanned_verdicts(cases: pd.DataFrame) -> list[Any]:
    """The verdicts, with *not checked* for what a probe's kernel file says will be found."""
    if "finds" not in cases:
        return list(cases["verdict"])
    return [
        result.NOT_CHECKED if present(finds) and verdict == finds else verdict
        for verdict, finds in zip(cases["verdict"], cases["finds"])
    ]


def summary(cases: pd.DataFrame, records: pd.DataFrame) -> str:
    """Two lines: `checked N of M`, then the numbers of cases with each kind of trouble.

    Where verdicts come from a recording of the same code, or from executing it, the first line
    says how many do.
    """
    known = {case for case, verdict in zip(cases["case"], cases["verdict"]) if checked(verdict)}
    number = len(known)
    told = records[(records["stage"] == "check") & records["case"].isin(known)]
    source = told["source"].fillna("")
    shipped = told[source.str.startswith("recorded:")]["case"].nunique()
    executed = told[source == result.EXECUTED]["case"].nunique()
    rest = number - shipped - executed
    where = ""
    if executed:
        where = f": {executed} executed here, {rest} measured here, {shipped} as recorded"
    elif shipped:
        where = f": {rest} here, {shipped} as recorded"
    parts = [
        f"correct {int((cases['verdict'] == result.CORRECT).sum())}",
        f"wrong {sum(wrong(verdict) for verdict in unplanned_verdicts(cases))}",
        f"failed {_by_stage(_having(records, result.FAILURES))}",
        f"stale {_by_stage(_having(records, [result.STALE]))}",
        f"not measured {_by_stage(_having(records, [result.NOT_MEASURED]))}",
        f"unsupported {_having(records, [result.UNSUPPORTED])['case'].nunique()}",
    ]
    return f"checked {number} of {len(cases)}{where}\n{', '.join(parts)}\n"


@dataclass(frozen=True)
class Verdict:
    """What is said of a run. counts: the lines of `summary`; told: whether it passed
    and why not, but for the names of the kernels that are to blame; problems: what a strict run does
    not accept; undrawn, unread: studies without a figure and kernels whose files cannot be read, which no
    run accepts, with the reason."""

    counts: str
    told: str
    kernels: tuple[str, ...]
    problems: tuple[Problem, ...]
    undrawn: Mapping[str, str]
    unread: Mapping[str, str]

    @property
    def passed(self) -> bool:
        return not self.problems and not self.undrawn and not self.unread

    @property
    def sentence(self) -> str:
        """The verdict in one sentence: the command ends with it, the index begins with it."""
        return ", of ".join(filter(None, (self.told, ", ".join(self.kernels)))) + "."


def of(
    project: Project,
    cases: pd.DataFrame,
    records: pd.DataFrame,
    left_out: Mapping[str, str] | None = None,
) -> Verdict:
    """The verdict on a run's tables; left_out: the studies whose figures were not drawn, with the reason."""
    left_out = left_out or {}
    records = unplanned(cases, records)
    counts, problems = summary(cases, records), _problems(cases, records, project.config.strict)
    bad = {one.case for one in problems}
    mine = cases[cases["case"].isin(bad)]
    number = sum(map(checked, cases["verdict"]))
    unread = getattr(project, "left_out", {})
    faults = []
    if unread:
        were = "was" if len(unread) == 1 else "were"
        faults.append(f"{plural(len(unread), 'kernel file')} {were} left out ({', '.join(unread)})")
    if left_out:
        were = "was" if len(left_out) == 1 else "were"
        faults.append(f"{plural(len(left_out), 'figure')} {were} not drawn ({', '.join(left_out)})")
    if len(mine):
        faults.append(f"{plural(len(mine), 'case')} {'is' if len(mine) == 1 else 'are'} not right")
    if faults:
        told = f"Not passed: {', '.join(faults)}"
    elif number:
        told = f"Passed: {plural(number, 'case')} checked, none wrong and none failed"
    else:
        told = "Passed: nothing failed, but no case was checked"
    kernels = tuple(dict.fromkeys(str(name) for name in mine["kernel"] if present(name)))
    return Verdict(counts, told, kernels, tuple(problems), left_out, unread)


def judge(
    project: Project,
    cases_path: str | Path,
    records_path: str | Path,
    figures_path: str | Path | None = None,
) -> str:
    """The summary of the run and the verdict's sentence, also printed to stderr.

    Checked are the cases to which the check stage gave a verdict, from any source; M counts all
    cases. Unsupported and not measured cases never fail a run.

    figures_path: of the file that says that the figures were drawn. It is deleted where one of them could
        not be, so that the next run draws that one again.

    Raises
    ------
    SystemExit: with code 1 where a figure was not drawn or a kernel's file not read, and where `strict` is set and a case is wrong or failed
        (`strict: release`: or a recorded figure is stale), after listing which and why.
    """
    cases, records = (pd.read_parquet(str(path)) for path in (cases_path, records_path))
    left_out = {}
    if figures_path is not None:
        left_out = undrawn.found(project.reports, project.plan.studies)
    found, strict = of(project, cases, records, left_out), project.config.strict
    lines = [found.counts.rstrip("\n")]
    if left_out:
        Path(str(figures_path)).unlink(missing_ok=True)
        lines.append("Error: these studies have no figure; the next run tries again:")
        lines += [f"  {name}: {why}" for name, why in left_out.items()]
    if found.unread:
        lines.append("Error: these kernel files were left out:")
        lines += [f"  {why}" for why in found.unread.values()]
    if strict and found.problems:
        said = "strict: release" if strict == "release" else "strict: true"
        lines.append(f"Error: the config says {said}, and these cases are not right:")
        lines += [f"  {problem.line}" for problem in found.problems[:MOST]]
        if len(found.problems) > MOST:
            lines.append(f"  and {len(found.problems) - MOST} more; the report lists all of them")
    print("\n".join([*lines, found.sentence]), file=sys.stderr, flush=True)
    if left_out or found.unread or (strict and found.problems):
        raise SystemExit(1)
    return f"{found.counts}{found.sentence}\n"
