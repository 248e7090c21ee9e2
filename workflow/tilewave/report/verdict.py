"""Whether all cases are right, in a few lines; and the end of a strict run where they are not."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave.plots.base import present
from tilewave.project import Project, read
from tilewave.records import model
from tilewave.report import baseline

MOST = 20
"""Cases that are listed when a strict run fails."""


def checked(verdict: object) -> bool:
    """Whether a check, from whatever source, came to a verdict on the case."""
    return present(verdict) and verdict != model.NOT_CHECKED


def wrong(verdict: object) -> bool:
    """Whether that verdict is anything but *correct*: wrong, a race, an uninitialised read, ..."""
    return checked(verdict) and verdict != model.CORRECT


def _having(records: pd.DataFrame, statuses: Iterable[str]) -> pd.DataFrame:
    """One row for each case, stage, status and reason among these statuses."""
    rows = records[records["status"].isin(list(statuses))]
    return rows[["case", "stage", "status", "reason"]].drop_duplicates()


def _by_stage(rows: pd.DataFrame) -> str:
    """`12 (check 3, time 12)`: cases, and how many of them in each stage."""
    cases = rows["case"].nunique()
    parts = [
        f"{stage} {rows[rows['stage'] == stage]['case'].nunique()}"
        for stage in model.STAGES
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


def _problems(cases: pd.DataFrame, records: pd.DataFrame, strict: Any) -> list[str]:
    """A line for each case that a strict run does not accept."""
    listed = [
        _why_wrong(records, str(case), str(verdict))
        for case, verdict in zip(cases["case"], unplanned_verdicts(cases))
        if wrong(verdict)
    ]
    # A case that failed its check has the same status in the later stages: tell it once.
    unaccepted = (*model.FAILURES, *((model.STALE,) if strict == "release" else ()))
    rows = _having(records, unaccepted).drop_duplicates(["case", "status", "reason"])
    for case, stage, status, reason in rows.itertuples(index=False, name=None):
        listed.append(f"{case}: {stage}: {status}" + (f": {reason}" if present(reason) else ""))
    return listed


def unplanned(cases: pd.DataFrame, records: pd.DataFrame) -> pd.DataFrame:
    """Records without those of a probe that ended badly on purpose, as its kernel file says."""
    if "ends" not in cases:
        return records
    ends = records["case"].map(cases.set_index("case")["ends"])
    return records[(records["status"] == model.OK) | (records["status"] != ends)]


def unplanned_verdicts(cases: pd.DataFrame) -> list[Any]:
    """The verdicts, with *not checked* for what a probe's kernel file says will be found."""
    if "finds" not in cases:
        return list(cases["verdict"])
    return [
        model.NOT_CHECKED if present(finds) and verdict == finds else verdict
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
    executed = told[source == model.EXECUTED]["case"].nunique()
    rest = number - shipped - executed
    where = ""
    if executed:
        where = f": {executed} executed here, {rest} measured here, {shipped} as recorded"
    elif shipped:
        where = f": {rest} here, {shipped} as recorded"
    parts = [
        f"correct {int((cases['verdict'] == model.CORRECT).sum())}",
        f"wrong {sum(wrong(verdict) for verdict in unplanned_verdicts(cases))}",
        f"failed {_by_stage(_having(records, model.FAILURES))}",
        f"stale {_by_stage(_having(records, [model.STALE]))}",
        f"not measured {_by_stage(_having(records, [model.NOT_MEASURED]))}",
        f"unsupported {_having(records, [model.UNSUPPORTED])['case'].nunique()}",
    ]
    return f"checked {number} of {len(cases)}{where}\n{', '.join(parts)}\n"


def _against_baseline(
    project: Project, records: pd.DataFrame, target_path: str | Path
) -> tuple[str, list[str]]:
    """A line about the shared-memory excess of the run, and one for each that differs."""
    path = project.baseline
    assert path is not None
    name = project.config.execute.baseline or ""
    if not path.is_file():
        return f"no baseline: {name} is missing ({baseline.UPDATE})", [f"{name} is missing"]
    arch = f"sm_{read(Path(str(target_path)))['arch']}"
    return baseline.compared(baseline.load(path), records, arch, name)


def judge(
    project: Project,
    cases_path: str | Path,
    records_path: str | Path,
    target_path: str | Path | None = None,
) -> str:
    """The summary of the run, also printed to stderr.

    Checked are the cases to which the check stage gave a verdict, from any source; M counts all
    cases. Unsupported and not measured cases never fail a run.

    target_path: of the target document, where the config names a baseline of shared-memory excess.

    Raises
    ------
    SystemExit: with code 1 where `strict` is set and a case is wrong or failed, or its excess is
        not the baseline's (`strict: release`: or a recorded figure is stale), after listing which
        and why.
    """
    cases = pd.read_parquet(str(cases_path))
    records = unplanned(cases, pd.read_parquet(str(records_path)))
    strict = project.config.strict
    text = summary(cases, records)
    problems = _problems(cases, records, strict) if strict else []
    if target_path is not None and getattr(project, "baseline", None) is not None:
        told, differing = _against_baseline(project, records, target_path)
        text += f"{told}\n"
        problems += differing if strict else []
    lines = [text.rstrip("\n")]
    if problems:
        said = "strict: release" if strict == "release" else "strict: true"
        lines.append(f"Error: the config says {said}, and these cases are not right:")
        lines += [f"  {problem}" for problem in problems[:MOST]]
        if len(problems) > MOST:
            lines.append(f"  and {len(problems) - MOST} more; the report lists all of them")
    print("\n".join(lines), file=sys.stderr, flush=True)
    if problems:
        raise SystemExit(1)
    return text
