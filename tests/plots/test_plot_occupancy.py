"""The figure of occupancy: answers of driver and ncu, differences, and cases that do not rank."""

import math
from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import pytest

import synthetic
from tilewave.plots import base, occupancy
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style
from tilewave.theory.occupancy import HOPPER
from tilewave.theory.occupancy import occupancy as closed_form

STUDY = synthetic.make("occupancy")


WARPS = "warps on an SM (closed form)"


def by_variant(study: StudyData) -> pd.DataFrame:
    """Return the table's rows with an answer of the closed form, by variant."""
    rows = synthetic.table("occupancy", study)
    return rows.dropna(subset=["variant", WARPS]).drop_duplicates("variant").set_index("variant")


def differences(
    driver: float = 2, theoretical: float = 25.0, limits: Mapping[str, float] = {"registers": 2}
) -> list[str]:
    """Return the differences of a block of 256 threads and 128 registers with 32 KB: 2 blocks, 25 %."""
    expected = closed_form(HOPPER, 256, 128, 32768)
    return occupancy.differences(expected, driver, theoretical, limits)


def test_answers_that_agree_are_no_difference() -> None:
    assert differences() == []
    assert differences(math.nan, math.nan, {"registers": math.nan}) == []


def test_every_different_answer_is_listed() -> None:
    assert differences(driver=3) == ["driver: 3 blocks, closed form: 2"]
    assert differences(theoretical=37.5) == ["ncu: 37.5 %, closed form: 25 %"]
    assert differences(limits={"registers": 3, "warps": 8, "blocks": 16}) == [
        "ncu: registers allow 3 blocks, closed form: 2",
        "ncu: blocks allow 16 blocks, closed form: 32",
    ]


def test_ncu_may_divide_a_smaller_carve_out_of_shared_memory() -> None:
    # The closed form: 233472 / 33792 = 6 blocks; two of them fit for other reasons.
    assert differences(limits={"shared memory": 2}) == []
    assert differences(limits={"shared memory": 6}) == []
    assert differences(limits={"shared memory": 7})
    assert differences(limits={"shared memory": 1}), "then one block would fit, not two"


def test_rows_from_the_compiled_kernel_or_from_ncu() -> None:
    rows = by_variant(STUDY)
    assert list(rows.loc["cublas", ["threads of a block", "registers of a thread"]]) == [256, 202]
    assert rows[WARPS]["cublas"] == 8 and rows["differences"]["cublas"] == ""
    assert rows[WARPS]["matmul_double_buffered"] == 16
    assert rows["differences"]["matmul_disputed"] == "driver: 7 blocks, closed form: 8"
    assert rows[WARPS]["matmul_unmeasured"] == 20, "the closed form needs no GPU"
    bare = synthetic.empty("occupancy")
    assert "cublas" not in by_variant(bare).index, "no source and no launch: nothing is known"


def test_a_disagreement_is_listed_in_the_figure() -> None:
    notes = occupancy._checks(occupancy.table(STUDY))
    assert notes[0].startswith("Driver and ncu give the closed form's occupancy in 27 of 28 cases")
    assert notes[1].startswith("matmul_disputed@2048x2048x2048: driver: 7 blocks")
    nine = synthetic.changed(STUDY, {"value": 9.0}, metric=occupancy.DRIVER)
    notes = occupancy._checks(occupancy.table(nine))
    assert sum("driver: 9 blocks" in note for note in notes) == 3
    assert "The table has 24 more such cases." in notes
    table = occupancy.table(STUDY).set_index("case")
    assert table.at["matmul_disputed@2048x2048x2048", "differences"]


def test_chains_have_model_and_measurement() -> None:
    frame = occupancy.chains(STUDY, occupancy.register_latency(STUDY))
    assert len(frame) == 20
    full = frame[(frame["ilp"] == 1) & (frame["warps"] == 64)].iloc[0]
    assert full["model"] == 128 and full["measured"] == pytest.approx(126.72)
    assert list(frame[~frame["ranks"]]["warps"]) == [1], "the wrong case does not rank"
    notes = " ".join(occupancy._checks(occupancy.table(STUDY)))
    assert "off by 1.0 % (median), 1.0 % (worst)" in notes


def test_without_the_measured_latency_there_is_no_model() -> None:
    study = replace(STUDY, records=STUDY.records[STUDY.records["metric"] != "latency"])
    assert occupancy.register_latency(study) is None
    frame = occupancy.chains(study, occupancy.register_latency(study))
    assert frame["model"].isna().all() and frame["measured"].notna().any()
    bare, full = (synthetic.draw(occupancy, data, Style()).axes[0] for data in (study, STUDY))
    assert len(bare.lines) < len(full.lines), "no model"
    assert list(full.lines[0].get_xdata()) == list(range(1, 65)), "the model is a sawtooth"


def test_products_of_a_cpu_are_left_out() -> None:
    providers = STUDY.cases["variant"].map({"matmul_unmeasured": "cpu"}).fillna("nvrtc")
    kept = occupancy._on_gpu(replace(STUDY, cases=STUDY.cases.assign(provider=providers)))
    assert "matmul_unmeasured@2048x2048x2048" not in base.case_order(kept)
    assert len(kept.cases) == len(STUDY.cases) - 1


def test_without_the_probe_each_variant_has_its_occupancy() -> None:
    study = replace(STUDY, cases=STUDY.cases[STUDY.cases["operation"] != "probe"])
    ax = synthetic.draw(occupancy, study, Style()).axes[0]
    rows = by_variant(study)
    assert len(synthetic.labels(ax)) == min(12, len(rows)) and ax.get_xlabel() == "occupancy (%)"
    assert rows[WARPS][synthetic.labels(ax)[0]] == rows[WARPS].min()
    assert synthetic.finding("occupancy", study) == ""
