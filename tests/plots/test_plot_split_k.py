"""The figure of split-K and stream-K: comparable kernels, prediction, and texts."""

import math
from dataclasses import replace

import pandas as pd
import pytest

import synthetic
from tilewave.plots import split_k
from tilewave.plots.style import Style
from tilewave.theory import splitting

STUDY = synthetic.make("split_k")
TAIL = (17024, 128, 4096)  # 133 tiles of 128x128


def row(frame: pd.DataFrame, shape: tuple[int, int, int], how: str) -> pd.Series:
    rows = frame[[(s, h) == (shape, how) for s, h in zip(frame["shape"], frame["how"])]]
    assert len(rows) == 1
    return rows.iloc[0]


def test_speed_up_is_over_the_same_tile_and_shape() -> None:
    frame = split_k.cells(STUDY)
    assert len(frame) == 7 * 5
    cell = row(frame, TAIL, "4")
    assert cell["plain"] == "hgemm_mma-tile_m128-tile_n128@17024x128x4096"
    assert cell["speed_up"] == pytest.approx(cell["plain_duration"] / cell["duration"])
    # Another tile has no data-parallel baseline here.
    cases = STUDY.cases.copy()
    cases.loc[cases["case"] == cell["case"], "tile_n"] = 64
    assert cell["case"] not in set(split_k.cells(replace(STUDY, cases=cases))["case"])


def test_prediction_counts_chunks_and_charges_the_workspace() -> None:
    assert split_k.bandwidth(STUDY) == 5.0
    cell = row(split_k.cells(STUDY), TAIL, "2")
    assert (cell["tiles"], cell["chunks"], cell["per_sm"]) == (133, 64, 2)
    # 266 blocks of 32 chunks: three rounds on SMs alone.
    reduction = (266 + 133) * 65536 / 5e6
    assert cell["reduction"] == pytest.approx(reduction)
    plain = cell["plain_duration"]
    assert cell["alone"] == pytest.approx(plain / (plain * 96 / 128 + reduction))
    assert cell["traffic"] == 399 * 65536
    without = replace(STUDY, records=STUDY.records[STUDY.records["metric"] != "bandwidth"])
    assert math.isnan(split_k.bandwidth(without))
    assert row(split_k.cells(without), TAIL, "2")["alone"] == pytest.approx(128 / 96)


def test_stream_k_is_dealt_out_over_the_blocks_that_were_launched() -> None:
    cell = row(split_k.cells(STUDY), TAIL, "stream")
    assert cell["traffic"] == splitting.traffic_bytes(splitting.stream_k(133, 64, 264), (128, 128))


def test_counted_bytes_are_those_over_the_data_parallel_kernel() -> None:
    cell = row(split_k.cells(STUDY), TAIL, "8")
    assert cell["l2"] == pytest.approx(1.03 * cell["traffic"])
    assert cell["dram"] == pytest.approx(0.2 * cell["traffic"])


def test_wrong_cases_and_other_environments_have_no_speed_up_and_bytes() -> None:
    frame = split_k.cells(STUDY)
    assert math.isnan(row(frame, (128, 128, 32768), "stream")["speed_up"])
    case = row(frame, TAIL, "8")["case"]
    other = split_k.cells(synthetic.changed(STUDY, synthetic.ELSEWHERE, case=case))
    assert math.isnan(row(other, TAIL, "8")["speed_up"])
    assert row(other, TAIL, "4")["speed_up"] > 0
    wrong = synthetic.changed(STUDY, {"verdict": "wrong"}, case=case)
    cell = row(split_k.cells(wrong), TAIL, "8")
    assert not cell["ranks"] and math.isnan(cell["l2"]) and math.isnan(cell["dram"])


def test_the_note_says_what_the_model_is_and_how_far_off() -> None:
    frame = split_k.cells(STUDY).dropna(subset=["speed_up"])
    off = (frame["speed_up"] / frame["alone"] - 1).abs()
    (note,) = split_k.notes(STUDY, split_k.cells(STUDY))
    assert "at 5 TB/s" in note and f"median {100 * off.median():.1f} %" in note


def test_a_study_without_splitting_kernels_says_so() -> None:
    study = synthetic.make("tile_size")
    assert split_k.cells(study).empty
    fig = synthetic.draw(split_k, study, Style(width_mm=86))
    assert "No speed-up to draw" in synthetic.said(fig)


def test_a_probe_that_is_wrong_or_from_elsewhere_charges_nothing() -> None:
    probe = STUDY.cases.loc[STUDY.cases["probe_case"] == "l2_read", "case"].iloc[0]
    for column, value in (("verdict", "wrong"), ("environment", "here")):
        changed = synthetic.changed(STUDY, {column: value}, case=probe)
        assert math.isnan(split_k.bandwidth(changed))
        assert split_k.cells(changed)["reduction"].isna().all()
        (note,) = split_k.notes(changed, split_k.cells(changed))
        assert "TB/s" not in note


def test_the_finding_is_the_largest_speed_up() -> None:
    most = split_k.cells(STUDY)["speed_up"].max()
    finding = split_k.takeaway(STUDY, split_k.table(STUDY))
    assert finding == f"Sharing tiles among blocks is up to {most:.1f} times as fast"
    nothing = synthetic.empty("tile_size")
    assert split_k.takeaway(nothing, split_k.table(nothing)) == ""


def test_a_product_has_the_best_of_each_kind() -> None:
    frame = split_k.cells(STUDY)
    drawn = split_k._drawn(frame)
    assert len(drawn) == 7 and drawn.max(axis=1).is_monotonic_decreasing
    of_tail = frame[[shape == TAIL for shape in frame["shape"]]]
    split = of_tail[of_tail["how"] != split_k.STREAM]["speed_up"].max()
    assert drawn.loc["17024×128×4096, 133 tiles of 128×128", "best split-K"] == split
