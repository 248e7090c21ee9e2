"""The figure of tile sizes: winners, predictions, and values that cannot be compared."""

import math

import pytest

import synthetic
from tilewave.plots import tile_size
from tilewave.plots.base import StudyData

STUDY = synthetic.make("tile_size")
LARGE = (8192, 8192, 8192)


def at(study: StudyData, shape: tuple[int, int, int], tile: tuple[int, int]) -> dict[str, float]:
    frame = tile_size.cells(study)
    rows = frame[[(s, t) == (shape, tile) for s, t in zip(frame["shape"], frame["tile"])]]
    assert len(rows) == 1
    return rows.iloc[0].to_dict()


def test_share_is_of_the_best_tile_that_is_correct() -> None:
    frame = tile_size.cells(STUDY)
    best = tile_size.winners(frame, "share")
    assert best[LARGE] == (256, 128) and best[(512, 512, 16384)] == (64, 64)
    top = frame[[s == LARGE for s in frame["shape"]]].set_index("tile")
    share = top.loc[[(128, 128)], "tflops"].iloc[0] / top.loc[[(256, 128)], "tflops"].iloc[0]
    assert at(STUDY, LARGE, (128, 128))["share"] == pytest.approx(share)
    wrong = at(STUDY, (1024, 1024, 1024), (128, 64))
    assert not wrong["ranks"] and math.isnan(wrong["share"]) and wrong["tflops"] > 0


def test_efficiencies_and_bytes_are_those_of_the_closed_forms() -> None:
    # 512 x 512: 32 tiles of 128x64, three to an SM.
    cell = at(STUDY, (512, 512, 512), (128, 64))
    assert cell["alone"] == pytest.approx(32 / 132)
    assert cell["per_sm"] == 3
    assert cell["model_bytes"] == 2 * 512 * (512 * 8 + 512 * 4) + 2 * 512 * 512
    assert cell["l2_bytes"] / cell["model_bytes"] == pytest.approx(1.02)


def test_a_number_for_each_tile_predicts_the_rest() -> None:
    cell = at(STUDY, LARGE, (64, 64))
    assert cell["predicted_alone"] == pytest.approx(cell["share"]), "at its own shape as measured"
    # 16 tiles of 64x64, 2 of 256x128: eight times the SMs work.
    large = {t: at(STUDY, LARGE, t) for t in ((64, 64), (256, 128))}
    full = {tile: row["tflops"] / row["alone"] for tile, row in large.items()}
    small = at(STUDY, (256, 256, 256), (256, 128))["predicted_alone"]
    assert small == pytest.approx(full[256, 128] / full[64, 64] / 8)
    frame = tile_size.cells(STUDY)
    valid = frame["tflops"].where(frame["ranks"])
    assert tile_size.reference_shape(frame.assign(valid=valid)) == LARGE


def test_tiles_of_different_environments_are_not_compared() -> None:
    other = "hgemm_mma-tile_m256-tile_n128@8192x8192x8192"
    study = synthetic.changed(STUDY, synthetic.ELSEWHERE, case=other)
    frame = tile_size.cells(study).set_index("case")
    assert math.isnan(frame.loc[other, "share"])
    rest = frame[[s == LARGE for s in frame["shape"]]].drop(other)
    assert rest["share"].notna().all() and rest["share"].max() == 1.0


def test_notes_say_what_is_predicted() -> None:
    notes = " ".join(tile_size.notes(STUDY, tile_size.cells(STUDY)))
    assert "throughput at 8192×8192×8192" in notes and "median 1.02" in notes


def test_the_finding_is_what_picking_keeps() -> None:
    frame = tile_size.cells(STUDY)
    best = frame[[shape != LARGE for shape in frame["shape"]]].dropna(subset=["predicted_alone"])
    kept = [
        group.loc[group["predicted_alone"].idxmax(), "share"]
        for _, group in best.dropna(subset=["share"]).groupby("shape", sort=False)
    ]
    finding = tile_size.takeaway(STUDY, tile_size.table(STUDY))
    assert f"keeps at least {100 * min(kept):.0f} % of the best" in finding and len(kept) == 8
