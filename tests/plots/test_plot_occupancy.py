"""The figure of occupancy: answers of driver and ncu, differences, and cases that do not rank."""

from dataclasses import replace

import pytest

import synthetic
from tilewave.plots import base, occupancy
from tilewave.plots.base import StudyData
from tilewave.plots.occupancy import OccupancyRow
from tilewave.plots.style import Style
from tilewave.theory.occupancy import HOPPER
from tilewave.theory.occupancy import occupancy as closed_form

STUDY = synthetic.make("occupancy")


def by_variant(study: StudyData) -> dict[str, OccupancyRow]:
    return {row.variant: row for row in occupancy.rows(study)}


def row(**answers: object) -> OccupancyRow:
    """Return a block of 256 threads and 128 registers with 32 KB: 2 blocks, 25 %."""
    expected = closed_form(HOPPER, 256, 128, 32768)
    figures = (expected, 2, 25.0, 24.0, {"registers": 2})
    base_row = OccupancyRow("a@1", "a", "a", 256, 128, 32768, *figures)
    return replace(base_row, **answers)  # type: ignore[arg-type]


def test_answers_that_agree_are_no_difference() -> None:
    assert row().differences == []
    assert row(driver=None, theoretical=None, limits={}).differences == []
    # Achieved occupancy is no limit.
    assert row(achieved=3.0).differences == []


def test_every_different_answer_is_listed() -> None:
    assert row(driver=3).differences == ["driver: 3 blocks, closed form: 2"]
    assert row(theoretical=37.5).differences == ["ncu: 37.5 %, closed form: 25 %"]
    assert row(theoretical=float("nan")).differences
    assert row(limits={"registers": 3, "warps": 8, "blocks": 16}).differences == [
        "ncu: registers allow 3 blocks, closed form: 2",
        "ncu: blocks allow 16 blocks, closed form: 32",
    ]


def test_ncu_may_divide_a_smaller_carve_out_of_shared_memory() -> None:
    # The closed form: 233472 / 33792 = 6 blocks; two of them fit for other reasons.
    assert row(limits={"shared memory": 2}).differences == []
    assert row(limits={"shared memory": 6}).differences == []
    assert row(limits={"shared memory": 7}).differences
    assert row(limits={"shared memory": 1}).differences, "then one block would fit, not two"


def test_rows_from_the_compiled_kernel_or_from_ncu() -> None:
    by_name = by_variant(STUDY)
    assert (by_name["cublas"].threads, by_name["cublas"].registers) == (256, 202)
    assert by_name["cublas"].closed_form.warps == 8 and by_name["cublas"].differences == []
    assert by_name["matmul_double_buffered"].closed_form.warps == 16
    assert by_name["matmul_disputed"].differences == ["driver: 7 blocks, closed form: 8"]
    assert by_name["matmul_unmeasured"].closed_form.warps == 20, "the closed form needs no GPU"
    bare = synthetic.empty("occupancy")
    assert "cublas" not in by_variant(bare), "no source and no launch: nothing is known"


def test_a_disagreement_is_listed_in_the_figure() -> None:
    notes = occupancy._checks(occupancy.table(STUDY), 32)
    assert notes[0].startswith("Driver and ncu give the closed form's occupancy in 27 of 28 cases")
    assert notes[1].startswith("matmul_disputed@2048x2048x2048: driver: 7 blocks")
    _, answered = occupancy._agreed(occupancy.rows(STUDY))
    nine = synthetic.changed(STUDY, {"value": 9.0}, metric=occupancy.DRIVER)
    notes = occupancy._checks(occupancy.table(nine), 32)
    assert sum("driver: 9 blocks" in note for note in notes) == 3
    assert f"The table has {answered - 1 - 3} more such cases." in notes
    table = occupancy.table(STUDY).set_index("case")
    assert table.at["matmul_disputed@2048x2048x2048", "differences"]


def test_chains_have_model_and_measurement() -> None:
    frame = occupancy.chains(STUDY, occupancy.register_latency(STUDY))
    assert len(frame) == 20
    full = frame[(frame["ilp"] == 1) & (frame["warps"] == 64)].iloc[0]
    assert full["model"] == 128 and full["measured"] == pytest.approx(126.72)
    assert list(frame[~frame["ranks"]]["warps"]) == [1], "the wrong case does not rank"
    notes = " ".join(occupancy._checks(occupancy.table(STUDY), 32))
    assert "off by 1.0 % (median), 1.0 % (worst)" in notes


def test_without_the_measured_latency_there_is_no_model() -> None:
    study = replace(STUDY, records=STUDY.records[STUDY.records["metric"] != "latency"])
    assert occupancy.register_latency(study) is None
    frame = occupancy.chains(study, occupancy.register_latency(study))
    assert frame["model"].isna().all() and frame["measured"].notna().any()
    bare, full = (synthetic.draw(occupancy, data, Style()).axes[0] for data in (study, STUDY))
    assert len(bare.lines) < len(full.lines), "no model"
    assert list(full.lines[0].get_xdata()) == list(range(1, 65)), "the model is a sawtooth"


def test_the_examples_stand_in_the_table() -> None:
    table = occupancy.table(STUDY).set_index("case")
    percent = table["occupancy (%, closed form)"]
    assert percent["article: 128 threads of 180 registers on Turing"] == 25
    assert percent["article: 128 threads of 180 registers on this GPU"] == 12.5
    assert percent["article: 256 threads of 128 registers on Turing"] == 50
    warps = table["warps on an SM (closed form)"]
    assert warps["article: 256 threads of 128 registers on this GPU"] == 16


def test_products_of_a_cpu_are_left_out() -> None:
    providers = STUDY.cases["variant"].map({"matmul_unmeasured": "cpu"}).fillna("nvrtc")
    kept = occupancy._on_gpu(replace(STUDY, cases=STUDY.cases.assign(provider=providers)))
    assert "matmul_unmeasured@2048x2048x2048" not in base.case_order(kept)
    assert len(kept.cases) == len(STUDY.cases) - 1


def test_without_the_probe_each_variant_has_its_occupancy() -> None:
    products = STUDY.cases[STUDY.cases["operation"] != "probe"]
    study = replace(STUDY, cases=products)
    ax = synthetic.draw(occupancy, study, Style()).axes[0]
    rows = by_variant(study)
    least = min(rows.values(), key=lambda row: row.closed_form.warps)
    assert len(synthetic.labels(ax)) == min(12, len(rows)) and ax.get_xlabel() == "occupancy (%)"
    assert rows[synthetic.labels(ax)[0]].closed_form.warps == least.closed_form.warps
    assert synthetic.finding("occupancy", study) == ""
