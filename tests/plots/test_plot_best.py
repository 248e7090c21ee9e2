"""The figure of the races: winner, share of cuBLAS, runner-up."""

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

import synthetic
from study_builder import ENVIRONMENT
from tilewave.plots import best
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style


@pytest.fixture(scope="module")
def study() -> StudyData:
    return synthetic.make("best")


def by_shape(study: StudyData) -> dict[tuple[str, int, int, int], dict[str, object]]:
    rows = best.table(study).to_dict("records")
    return {(row["dtype"], row["m"], row["n"], row["k"]): row for row in rows}


def test_a_row_for_each_dtype_and_shape(study: StudyData) -> None:
    rows = by_shape(study)
    assert len(rows) == 10
    row = rows["f16_f32", 2304, 1920, 4096]
    assert row["best variant"] == "hgemm_mma-accumulatef32"
    assert row["runner-up"] == "hgemm_wmma_staged-raster1-accumulatef32"
    assert row["runner-up slower by (%)"] == pytest.approx(100 * 10 / 110)
    # 2 x 2304 x 1920 x 4096 operations in 110 us; cuBLAS at 700 TFLOP/s.
    assert row["TFLOP/s"] == pytest.approx(329.44, abs=0.01)
    assert row["% of cuBLAS"] == pytest.approx(100 * 329.44 / 700, abs=0.01)
    assert (row["candidates"], row["raced"], row["eliminated early"]) == (3, 3, 1)
    assert row["GPU time spent (ms)"] == 53.0
    assert row["status"] == "ok" and row["source"] == "recorded:NVIDIA H200"


def behind(study: StudyData, ratio: float, environment: str | None = None) -> StudyData:
    """Return the study with 128x128 tiles eliminated from the 4096^3 race at a high clock.
    They took 370 us, `ratio` times the time of 256x128 tiles at that moment. In the end these took 380 us."""
    case, leader = (
        f"{variant}@4096x4096x4096"
        for variant in ("hgemm_mma-accumulatef32", "hgemm_wmma_staged-raster1-accumulatef32")
    )
    study = synthetic.changed(study, {"value": 370.0}, case=case, metric=best.DURATION)
    if environment:
        study = synthetic.changed(study, {"environment": environment}, case=leader)
    row = study.records.query("case == @case and metric == @best.DURATION")
    row = row.assign(metric=best.BEHIND, value=ratio, text=leader)
    return replace(study, records=pd.concat([study.records, row], ignore_index=True))


def test_who_was_eliminated_at_a_high_clock_does_not_win(study: StudyData) -> None:
    row = by_shape(behind(study, 1.12))["f16_f32", 4096, 4096, 4096]
    assert row["best variant"] == "hgemm_wmma_staged-raster1-accumulatef32"
    assert row["duration (us)"] == 380.0
    assert row["runner-up slower by (%)"] == pytest.approx(12)


def test_no_time_is_formed_with_a_leader_of_another_environment(study: StudyData) -> None:
    case = "hgemm_mma-accumulatef32@4096x4096x4096"
    assert best.times(behind(study, 1.12, "here"))[case] == 370.0
    assert best.times(behind(study, 1.12))[case] == pytest.approx(1.12 * 380)


def test_nothing_measured_says_why(study: StudyData) -> None:
    row = by_shape(study)["f32", 2304, 1920, 4096]
    assert (row["status"], row["reason"]) == ("not measured", "no NVIDIA GPU here")
    assert pd.isna(row["best variant"])  # type: ignore[call-overload]


@pytest.mark.parametrize("change", [{"verdict": "wrong"}, {"environment": "here"}])
def test_no_wrong_or_foreign_variant_wins(study: StudyData, change: Any) -> None:
    study = synthetic.changed(study, change, case="hgemm_mma-accumulatef32@2304x1920x4096")
    row = by_shape(study)["f16_f32", 2304, 1920, 4096]
    assert row["best variant"] == "hgemm_wmma_staged-raster1-accumulatef32"
    assert row["environment"] == ENVIRONMENT


def test_a_dtype_has_a_row_with_a_dot_a_shape(study: StudyData) -> None:
    (ax,) = (fig := synthetic.draw(best, study, Style())).axes
    shares = best.table(study).dropna(subset="% of cuBLAS").groupby("dtype")["% of cuBLAS"]
    assert len(synthetic.labels(ax)) == len(shares)
    assert sum(len(dots.get_offsets()) for dots in ax.collections) == shares.size().sum()
    said = synthetic.said(fig)
    assert "eliminated early" in said and "no NVIDIA GPU here" in said
