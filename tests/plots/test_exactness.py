"""Predicted beside measured counters: equal, different, and with a known cause."""

import re
from dataclasses import replace

import pandas as pd
import pytest

import synthetic
from tilewave.execution import counters
from tilewave.plots import exactness
from tilewave.plots.style import Style

CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
COPIES = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"


@pytest.fixture(scope="module")
def compared() -> pd.DataFrame:
    return exactness.comparisons(synthetic.make("exactness")).set_index(["case", "counter"])


def test_equal_different_and_not_measured(compared: pd.DataFrame) -> None:
    same = compared.loc["matmul_tiled@129x67x53", "smsp__inst_executed.sum"]
    assert (same["equal"], same["relative difference"], same["cause"]) == ("yes", 0.0, "")
    other = compared.loc["hgemm_wmma_staged@256x256x256", COPIES]
    assert other["equal"] == "no" and other["cause"] == "not known"
    assert other["relative difference"] == pytest.approx(-1 / 3)
    gone = compared.loc["matmul_naive@256x256x256", "smsp__inst_executed.sum"]
    assert gone["equal"] == "" and pd.isna(gone["measured"])


def test_a_cause_is_named_where_it_applies(compared: pd.DataFrame) -> None:
    row = compared.loc["hgemm_wmma_staged@129x67x53", CONFLICTS]
    assert row["relative difference"] == pytest.approx(-0.02, abs=1e-3)
    assert "arbitration" in row["cause"]
    (cause,) = [c for c in exactness.causes() if re.fullmatch(c.counter, CONFLICTS)]
    measured = {CONFLICTS: 120.0, WAVEFRONTS: 10_000.0}
    assert cause.explains(CONFLICTS, {"LDS"}, 0.0, measured), "a share of the wavefronts"
    assert not cause.explains(CONFLICTS, {"LDS"}, 121.0, measured), "the hardware counts no less"
    assert not cause.explains(
        CONFLICTS, {"LDS"}, 0.0, measured | {CONFLICTS: 1000.0}
    )  # over at_most
    assert not cause.explains(CONFLICTS, {"LDG"}, 0.0, measured)
    assert not cause.explains(COPIES, {"LDS"}, 0.0, measured | {COPIES: 1.0})


def test_a_counter_that_varies_may_lie_on_either_side() -> None:
    counter = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
    (cause,) = [entry for entry in exactness.causes() if re.fullmatch(entry.counter, counter)]
    assert cause.measured == "either"
    for measured in (2532.0, 2762.0):
        assert cause.explains(counter, {"STG.E.128"}, 2640.0, {counter: measured})
        assert not cause.explains(counter, {"STG.E.64", "LDS.128"}, 2640.0, {counter: measured})
    assert not cause.explains(counter, {"STG.E.128"}, 2640.0, {counter: 2400.0})


def test_every_instruction_is_compared(compared: pd.DataFrame) -> None:
    name = f"{exactness.EACH}shared wavefronts"
    assert compared.loc["matmul_tiled@129x67x53", name]["equal"] == "yes"
    row = compared.loc["matmul_tiled@256x256x256", name]
    assert (row["predicted"], row["measured"], row["equal"]) == (1.0, 0.0, "no")
    assert row["relative difference"] > 0


def test_an_execution_is_not_compared_with_itself() -> None:
    study = synthetic.make("exactness")
    records = study.records.assign(source="executed", environment="here")
    rows = exactness.comparisons(replace(study, records=records))
    rows = rows[~rows["counter"].str.startswith(exactness.EACH)]
    assert set(rows["equal"]) == {""} and len(rows)


def test_what_is_executed_has_a_row() -> None:
    counts = {name: [1, 1] for name in ("executed", "threads_executed", "threads_on")}
    launch = {"grid": [1, 1, 1], "block": [32, 1, 1]}
    figures = counters.values(["HMMA.16816.F32", "FFMA"], counts, arch=86, **launch)
    unknown = (counters.SUMS.keys() | figures.keys()) - set(exactness.COUNTERS)
    assert [n for n in unknown if not n.startswith("launch__") and "hgmma" not in n] == []


def test_bars_add_up_to_the_counters_of_the_finding() -> None:
    study = synthetic.make("exactness")
    fig = synthetic.draw(exactness, study, Style())
    (ax,), parts = fig.axes, {text.get_text() for text in fig.legends[0].get_texts()}
    assert parts == {"exact", f"differs, {exactness.UNEXPLAINED}", "differs, lost arbitration"}
    rows = dict(zip(synthetic.labels(ax), synthetic.labels(ax.child_axes[0]), strict=True))
    differ = [[int(n) for n in text.split(" of ")] for text in rows.values()]
    assert list(map(sum, zip(*differ))) == [12, 115] and len(rows) <= 12
    assert rows["shared copies: wavefronts"] == "4 of 8" and "other counters" in list(rows)[-1]
    text = synthetic.said(synthetic.draw(exactness, study, Style(width_mm=85.0)))
    assert "Lost arbitration: the hardware's counter" in text
    assert "Differences without a known cause: " in text


def test_all_may_be_equal() -> None:
    study = synthetic.make("exactness")
    table = exactness.table(study)
    assert "100 %" in exactness.takeaway(study, table[table["equal"] != "no"])
    fig = synthetic.draw(exactness, synthetic.empty("exactness"), Style())
    assert "executed counters" in synthetic.said(fig)
