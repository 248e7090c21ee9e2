"""The figure of correctness: its title, its folded rows, and endings that are no failure."""

from collections import Counter
from dataclasses import replace

import pandas as pd

import synthetic
from tilewave.plots import correctness
from tilewave.plots.base import StudyData


def ended(study: StudyData, case: str, ends: str) -> StudyData:
    """Return the study with a case that timed out, and whose kernel file says that it ends so."""
    about = [ends if name == case else "ok" for name in study.cases["case"]]
    timed_out = {"status": "timed out", "verdict": None, "value": None}
    study = synthetic.changed(study, timed_out, case=case)
    return replace(study, cases=study.cases.assign(ends=about))


def panels(study: StudyData) -> dict[str, pd.DataFrame]:
    return correctness._panels(study, correctness.table(study))


def test_all_cases_may_be_right() -> None:
    study = synthetic.make("correctness")
    right = study.records[~study.records["status"].eq("invalid access")]
    right = right[right["verdict"] != "wrong"]
    cases = study.cases[study.cases["case"].isin(right["case"])]
    finding = synthetic.finding("correctness", replace(study, records=right, cases=cases))
    assert finding == "All 160 checked cases are right"


def test_what_is_right_everywhere_shares_a_row() -> None:
    study = synthetic.make("correctness")
    cells = panels(study)["matmul"]
    assert "cublas" in cells.index and len(cells) == 8, "a few that are right keep their rows"
    assert cells.at["matmul_two_outputs", "130³"] == Counter({"wrong": 1})
    others = panels(study)["others"]
    assert "vector add" not in panels(study)
    assert others.at["vector add", "all shapes"] == Counter({"correct": 3})
    records = study.records.assign(status="ok", verdict="correct", reason="")
    cells = panels(replace(study, records=records))["matmul"]
    (row,) = cells.index
    assert row.endswith("kernels, all right") and cells.at[row, "16³"].keys() == {"correct"}


def test_an_ending_that_the_file_announces_is_no_failure() -> None:
    case = "barrier_divergent-fragmenttwo@two_lanes_all"
    study = synthetic.make("correctness")
    for ends, expected in (("timed out", correctness.EXPECTED), ("ok", "timed out")):
        table = correctness.table(ended(study, case, ends))
        shown = correctness.shown(table)[table["case"] == case]
        assert list(shown) == [expected]
        assert list(table[table["case"] == case]["outcome"]) == ["timed out"]


def test_outcomes_of_a_cell_begin_with_the_worst() -> None:
    counts = Counter({"unsupported": 1, "correct": 9, "wrong": 1})
    assert correctness._cell_text(counts) == "W1 +9 u1"
    assert correctness._cell_text(Counter(correct=1)) == "+"
    assert correctness._code(counts) == 0
