"""The verdict: its counts, its lines, and when a strict run fails."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from tilewave.kernel import result
from tilewave.pipeline.tables import CASE_COLUMNS, RECORD_COLUMNS
from tilewave.report import ending, verdict

Row = tuple[str, str, str, str]
OK = ("good", "check", "ok", "")
BAD = ("bad", "check", "ok", "")
STALE = ("old", "check", "stale", "recorded for other code")
CRASHED = [("crash", stage, "invalid access", "illegal address") for stage in ("check", "time")]
HARMLESS = [("odd", "check", "unsupported", "n = 3"), ("far", "check", "not measured", "no GPU")]


def tables(folder: Path, rows: list[Row], **verdicts: str) -> tuple[str, str]:
    """Write the tables of cases and records with these rows, and return their paths."""
    names = list(dict.fromkeys(row[0] for row in rows))
    cases = [{"case": name, "verdict": verdicts.get(name, result.NOT_CHECKED)} for name in names]
    records: list[dict[str, Any]] = []
    for row in rows:
        base = dict.fromkeys(RECORD_COLUMNS) | dict(zip(("case", "stage", "status", "reason"), row))
        figures = {"": float("nan")} if row[2] != "ok" else {"max_error": 3.2, "tolerance": 0.1}
        records += [base | {"metric": name, "value": value} for name, value in figures.items()]
    pd.DataFrame(cases, columns=CASE_COLUMNS).to_parquet(folder / "cases.parquet")
    pd.DataFrame(records, columns=RECORD_COLUMNS).to_parquet(folder / "records.parquet")
    return str(folder / "cases.parquet"), str(folder / "records.parquet")


def judge(strict: Any, *paths: str) -> str:
    project: Any = SimpleNamespace(config=SimpleNamespace(strict=strict))
    judged = verdict.of(project, *map(pd.read_parquet, paths))
    return ending.announce({**judged.document, "strict": strict}, "figures.txt")


def test_summary_counts_cases_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [OK, BAD, STALE, *CRASHED, *HARMLESS]
    text = judge(False, *tables(tmp_path, rows, good="correct", bad="wrong"))
    first, second, last = text.splitlines()
    assert (first, last) == ("checked 2 of 6", "Not passed: 2 cases are wrong or failed.")
    assert second.startswith("correct 1, wrong 1, failed 1 (check 1, time 1), stale 1 (check 1), ")
    assert second.endswith("not measured 1 (check 1), unsupported 1")
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("strict", [True, "release"])
def test_nothing_checked_is_said_and_does_not_fail(tmp_path: Path, strict: Any) -> None:
    assert judge(strict, *tables(tmp_path, HARMLESS)).splitlines()[0] == "checked 0 of 2"


@pytest.mark.parametrize(
    ("rows", "verdicts", "line"),
    [
        ([OK, BAD], {"bad": "race"}, "bad: race: max_error 3.2, tolerance 0.1"),
        ([OK, *CRASHED], {}, "crash: check: invalid access: illegal address"),
        ([OK, ("x", "check", "failed to compile", "k.cu:3: error")], {}, "k.cu:3: error"),
        ([OK, ("x", "time", "timed out", "killed")], {}, "x: time: timed out: killed"),
    ],
)
def test_strict_fails_and_says_why(tmp_path, capsys, rows, verdicts, line) -> None:
    paths = tables(tmp_path, rows, good="correct", **verdicts)
    judge(False, *paths)
    with pytest.raises(SystemExit) as ended:
        judge(True, *paths)
    assert ended.value.code == 1
    assert sum(line in printed for printed in capsys.readouterr().err.splitlines()) == 1


def test_stale_fails_a_release_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = tables(tmp_path, [OK, STALE], good="correct")
    judge(True, *paths)
    with pytest.raises(SystemExit):
        judge("release", *paths)
    assert "old: check: stale: recorded for other code" in capsys.readouterr().err


def test_an_interrupted_case_fails_every_run(tmp_path, capsys) -> None:
    paths = tables(
        tmp_path,
        [OK, ("lost", "time", "not measured", "the worker was ended by SIGKILL")],
        good="correct",
    )
    records = pd.read_parquet(paths[1])
    records.loc[records["case"] == "lost", "metric"] = result.INTERRUPTED
    records.to_parquet(paths[1])
    with pytest.raises(SystemExit):
        judge(False, *paths)
    assert "Not passed: 1 case was interrupted (the next run" in capsys.readouterr().err


def test_at_most_twenty_cases_are_listed(tmp_path, capsys) -> None:
    rows = [(f"case{i}", "check", "timed out", "killed") for i in range(25)]
    with pytest.raises(SystemExit):
        judge(True, *tables(tmp_path, rows))
    text = capsys.readouterr().err
    assert text.count("timed out") == ending.MOST
    assert "and 5 more" in text
