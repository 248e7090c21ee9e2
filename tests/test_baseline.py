"""The committed baseline of shared-memory excess: what a difference says, and how it is accepted."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from tilewave.errors import UserError
from tilewave.records import model
from tilewave.records.tables import CASE_COLUMNS, RECORD_COLUMNS
from tilewave.report import baseline, verdict

NAME = "config/smoke_baseline.csv"
COLUMNS = "case,arch,wavefronts,ideal,excess"


def records(**excess: int | None) -> pd.DataFrame:
    """Records of executed cases with this excess over an ideal of 100; None: no shared memory."""
    plain, rows = {"stage": "execute", "status": "ok", "reason": "", "source": "executed"}, []
    for case, more in excess.items():
        figures = {"smsp__inst_executed.sum": 7.0}
        if more is not None:
            parts = {"": 100.0 + more, "_ideal": 100.0, "_excess": float(more)}
            figures |= {f"wavefronts_shared{end}": value for end, value in parts.items()}
        base = {"case": case, **plain}
        rows += [base | {"metric": name, "value": value} for name, value in figures.items()]
    return pd.DataFrame(rows, columns=RECORD_COLUMNS)


def row(case: str, excess: int, arch: str = "sm_90") -> baseline.Row:
    return baseline.Row(case, arch, 100 + excess, 100, excess)


def expected(*rows: baseline.Row) -> dict[tuple[str, str], baseline.Row]:
    return {(one.case, one.arch): one for one in rows}


def test_the_run_s_rows_come_from_executions_alone() -> None:
    table = records(a=3, b=None)
    measured = table[table["case"] == "a"].assign(case="c", stage="counters")
    found = baseline.found(pd.concat([table, measured]), "sm_90")
    assert found == {"a": row("a", 3), "b": baseline.Row("b", "sm_90", 0, 0, 0)}


def test_a_difference_names_case_found_and_allowed() -> None:
    known = expected(*(row(case, 3) for case in ("same", "more", "less")))
    told, wrong = baseline.compared(known, records(same=3, more=9, less=0), "sm_90", NAME)
    assert told == f"shared-memory excess: 1 of 3 as in {NAME}"
    assert wrong[0].startswith(
        "more: shared-memory excess: found 9 wavefronts beyond an ideal of 100, "
    )
    assert "allowed 3" in wrong[0] and "make baseline" in wrong[0]
    assert wrong[1].startswith("less: shared-memory excess: found 0 ")


def test_a_new_kernel_and_another_architecture_need_no_row() -> None:
    known, made = expected(row("other", 3)), records(new=9, other=9)
    told, wrong = baseline.compared(known, made, "sm_86", NAME)
    assert wrong == [] and f"0 of 0 as in {NAME}; no row for new and 1 more " in told


def test_a_case_that_was_not_executed_is_no_success() -> None:
    table = records(a=3, b=0, new=1)
    table.loc[table["case"] != "a", ["status", "reason"]] = ["not measured", "the worker ended"]
    told, wrong = baseline.compared(expected(row("a", 3), row("b", 0)), table, "sm_90", NAME)
    assert told == f"shared-memory excess: 1 of 2 as in {NAME}"
    assert wrong == ["b: not compared with the baseline: not measured: the worker ended"]


def project(path: Path | None, strict: bool = True, only: str = "") -> Any:
    executed = SimpleNamespace(baseline=path and str(path))
    config = SimpleNamespace(strict=strict, only=only, execute=executed)
    return SimpleNamespace(config=config, baseline=path, where="smoke.yaml")


def files(folder: Path, arch: int = 90, **excess: int | None) -> tuple[str, str, str]:
    rows = [{"case": name, "verdict": model.CORRECT} for name in excess]
    cases = pd.DataFrame(rows, columns=CASE_COLUMNS)
    cases.to_parquet(folder / "cases.parquet")
    records(**excess).to_parquet(folder / "records.parquet")
    (folder / "target.json").write_text(json.dumps({"arch": arch}))
    return tuple(str(folder / name) for name in ("cases.parquet", "records.parquet", "target.json"))  # type: ignore[return-value]


def test_writing_reading_and_judging(tmp_path: Path) -> None:
    path = tmp_path / "baseline.csv"
    cases, table, target = files(tmp_path, a=3, b=None)
    told = baseline.write(project(path), target, table)
    assert told == f"{path}: 2 cases, 2 new or changed, 0 removed"
    assert path.read_text() == f"{COLUMNS}\na,sm_90,103,100,3\nb,sm_90,0,0,0\n"
    text = verdict.judge(project(path), cases, table, target)
    assert f"shared-memory excess: 2 of 2 as in {path}" in text
    _, table, _ = files(tmp_path, a=4, b=None)
    with pytest.raises(SystemExit):
        verdict.judge(project(path), cases, table, target)
    lax = verdict.judge(project(path, strict=False), cases, table, target)
    assert f"shared-memory excess: 1 of 2 as in {path}" in lax
    gone = project(tmp_path / "none.csv", strict=False)
    assert "is missing" in verdict.judge(gone, cases, table, target)
    with pytest.raises(SystemExit):
        verdict.judge(project(tmp_path / "none.csv"), cases, table, target)


def test_other_architectures_and_what_was_left_out_stay(tmp_path: Path) -> None:
    path = tmp_path / "baseline.csv"
    _, table, target = files(tmp_path, 86, a=1)
    baseline.write(project(path), target, table)
    _, table, target = files(tmp_path, 90, a=3, b=0)
    baseline.write(project(path), target, table)
    assert set(baseline.load(path)) == {("a", "sm_86"), ("a", "sm_90"), ("b", "sm_90")}
    _, table, target = files(tmp_path, 90, a=3)
    baseline.write(project(path, only="a"), target, table)
    assert ("b", "sm_90") in baseline.load(path)
    told = baseline.write(project(path), target, table)
    assert told.endswith("0 new or changed, 1 removed")
    assert set(baseline.load(path)) == {("a", "sm_86"), ("a", "sm_90")}


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    _, table, target = files(tmp_path, a=1)
    with pytest.raises(UserError, match=r"smoke\.yaml: execute\.baseline"):
        baseline.write(project(None), target, table)
    path = tmp_path / "baseline.csv"
    path.write_text("case,excess\na,1\n")
    with pytest.raises(UserError, match=r"line 1: found .*; allowed: case, arch"):
        baseline.load(path)
    path.write_text(f"{COLUMNS}\na,sm_90,1,1,none\n")
    with pytest.raises(UserError, match="line 2"):
        baseline.load(path)
