"""The figure of the races: winner, share of cuBLAS, the model's pick and its regret."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

import synthetic
from test_plots import texts_of
from tilewave.plots import _picks, base, best
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style, save
from tilewave.theory import calibration
from tilewave.theory.calibration import Case
from tilewave.theory.selection import Launch

H200 = {
    "registers_per_sm": 65536, "max_warps_per_sm": 64, "max_blocks_per_sm": 32,
    "shared_per_sm": 233472, "shared_per_block_optin": 232448, "shared_reserved_per_block": 1024,
}  # fmt: skip
# The model is fitted at the first, the third and the last.
SHAPES = [
    (256, 256, 256), (2304, 1920, 4096), (4096, 4096, 4096), (128, 4096, 4096), (512, 512, 8192)
]  # fmt: skip
# Variant: kernel, tile, microseconds at each of the shapes.
F16 = {
    "hgemm_mma-accumulatef32": ("hgemm_mma", (128, 128, 32), (8.0, 110.0, 400.0, 27.0, 60.0)),
    "hgemm_mma-tile_m64-tile_n64-accumulatef32": ("hgemm_mma", (64, 64, 32), (5.0, 130.0, 500.0, 30.0, 40.0)),
    "hgemm_wmma_staged-raster1-accumulatef32": (
        "hgemm_wmma_staged", (256, 128, 32), (9.0, 120.0, 380.0, 90.0, 110.0)
    ),
}  # fmt: skip
F32 = {"matmul_register": ("matmul_register", (64, 64, 16), (20.0, 1500.0, 6000.0, 300.0, 600.0))}


@pytest.fixture(scope="module")
def study() -> StudyData:
    """Three f16 variants and one of f32 at five shapes, and cuBLAS. 128x128 tiles: 1024 blocks at
    4096^3, two on an SM (256 threads of 128 registers)."""
    b = synthetic.Builder("ladder")
    for dtype, variants in (("f16_f32", F16), ("f32", F32)):
        for place, shape in enumerate(SHAPES):
            m, n, k = shape
            for variant, (kernel, tile, times) in variants.items():
                blocks = -(-m // tile[0]) * -(-n // tile[1])
                case = b.case(
                    variant, kernel, dtype, shape, tile_m=tile[0], tile_n=tile[1],
                    blocks=blocks, working_blocks=blocks, shared_bytes=49152.0 if tile[0] < 256 else 92160.0,
                )  # fmt: skip
                b.cases[-1]["tile_k"] = tile[2]
                if dtype == "f32" and place == 1:
                    b.add(case, "tune", status="not measured", reason="no NVIDIA GPU here")
                    continue
                b.add(case, "check", {"max_error": 0.0}, verdict="correct")
                _raced(b, case, times[place], times[place] > 1.1 * min(
                    t[2][place] for t in variants.values()
                ))  # fmt: skip
            vendor = b.case(f"cublas-type{dtype}", "cublas", dtype, shape)
            b.add(vendor, "check", {"max_error": 0.0}, verdict="correct")
            _raced(b, vendor, 2e-6 * m * n * k / (700.0 if dtype == "f16_f32" else 50.0), False)
    made = b.study()
    tile_k = pd.Series([one.get("tile_k") for one in b.cases])
    facts = {name: {**one, **H200} for name, one in made.environments.items()}
    question = "Which variant is the fastest at each shape, and would the model have picked it?"
    return replace(
        made, name="best", cases=made.cases.assign(tile_k=tile_k), environments=facts,
        question=question,
    )  # fmt: skip


def _raced(b: synthetic.Builder, case: str, us: float, out: bool) -> None:
    figures = {
        "tune_duration": us, "tune_spread": 0.01 * us, "tune_tflops": 1.0,
        "tune_rounds": 0.0 if out else 5.0, "tune_eliminated": float(out),
        "tune_spent": 3.0 if out else 25.0, "tune_full_cost": 22.0,
    }  # fmt: skip
    b.add(case, "tune", figures, verdict="correct")


def by_shape(study: StudyData) -> dict[tuple[str, int, int, int], dict[str, object]]:
    rows = best.table(study).to_dict("records")
    return {(row["dtype"], row["m"], row["n"], row["k"]): row for row in rows}


def test_a_row_for_each_dtype_and_shape(study: StudyData) -> None:
    found = by_shape(study)
    assert len(found) == 10
    row = found["f16_f32", 2304, 1920, 4096]
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
    """The study in which 128x128 tiles were out of the 4096^3 race at a high clock, at 370 us, `ratio`
    times what 256x128 tiles took at that moment; in the end these took 380 us."""
    case, leader = (
        f"{variant}@4096x4096x4096"
        for variant in ("hgemm_mma-accumulatef32", "hgemm_wmma_staged-raster1-accumulatef32")
    )
    records = study.records.copy()
    mine = (records["case"] == case) & (records["metric"] == _picks.DURATIONS["tune"])
    records.loc[mine, "value"] = 370.0
    row = records[mine].assign(metric=_picks.BEHIND, value=ratio, text=leader)
    if environment:
        records.loc[records["case"] == leader, "environment"] = environment
    return replace(study, records=pd.concat([records, row], ignore_index=True))


def test_who_was_eliminated_at_a_high_clock_does_not_win(study: StudyData) -> None:
    row = by_shape(behind(study, 1.12))["f16_f32", 4096, 4096, 4096]
    assert row["best variant"] == "hgemm_wmma_staged-raster1-accumulatef32"
    assert row["duration (us)"] == 380.0
    assert row["runner-up slower by (%)"] == pytest.approx(12)


def test_no_time_is_formed_with_a_leader_of_another_environment(study: StudyData) -> None:
    elsewhere = behind(study, 1.12, "here")
    case = "hgemm_mma-accumulatef32@4096x4096x4096"
    assert _picks.times(elsewhere, "tune")[case] == 370.0
    assert _picks.times(behind(study, 1.12), "tune")[case] == pytest.approx(1.12 * 380)


def test_the_models_pick_and_its_regret(study: StudyData) -> None:
    """From three shapes the costs of each variant, from these its time at a fourth."""
    row = by_shape(study)["f16_f32", 128, 4096, 4096]
    predicted = {}
    for variant, (_, tile, times) in F16.items():
        # 256 threads of 128 registers: two blocks an SM.
        known = [
            Case((m, n, k), Launch(tile, -(-m // tile[0]) * -(-n // tile[1]), 2), us)
            for (m, n, k), us in zip(SHAPES, times)
        ]
        costs = calibration.costs(calibration.at(known), synthetic.SMS)
        assert costs is not None
        predicted[variant] = costs.duration(known[3].shape, known[3].launch, synthetic.SMS)
    pick = min(predicted, key=lambda name: predicted[name])
    assert row["the model's pick"] == pick == "hgemm_mma-tile_m64-tile_n64-accumulatef32"
    assert row["pick predicted (us)"] == pytest.approx(predicted[pick])
    assert row["pick measured (us)"] == 30.0
    assert row["regret of the pick (%)"] == pytest.approx(100 * 3 / 27)
    assert row["model fitted here"] is False


def test_the_other_rules(study: StudyData) -> None:
    """Worked out by hand for 2304x1920x4096 on 132 SMs, steps along k cancel.

    128x128, two blocks an SM: 270 blocks are 2 waves of 264, at 4096^3 1024 blocks are 4: 400 / 2.
    64x64, two (48 KiB would allow four, registers two): 1080 blocks are 5 waves, at 4096^3 4096
    are 16: 500 x 5 / 16 = 156. 256x128, two: 135 blocks 1 wave, at 4096^3 512 are 2: 380 / 2.
    """
    row = by_shape(study)["f16_f32", 2304, 1920, 4096]
    assert row["regret by whole waves (%)"] == pytest.approx(100 * 20 / 110)
    assert row["regret of the best at the largest (%)"] == pytest.approx(100 * 10 / 110)
    groups = _picks.groups(study, ["tune"])
    (group,) = [one for one in groups if one.dtype == "f16_f32" and one.shape["m"] == 2304]
    assert list(group.predicted[_picks.WAVES].values()) == pytest.approx([200.0, 156.25, 190.0])
    assert _picks.groups(study, ["time"]) == []


def test_where_the_model_is_fitted_it_predicts_nothing(study: StudyData) -> None:
    row = by_shape(study)["f16_f32", 4096, 4096, 4096]
    assert row["model fitted here"] is True
    assert all(pd.isna(row[name]) for name in row if name.startswith("regret"))


def test_nothing_measured_says_why(study: StudyData) -> None:
    row = by_shape(study)["f32", 2304, 1920, 4096]
    assert (row["status"], row["reason"]) == ("not measured", "no NVIDIA GPU here")
    assert pd.isna(row["best variant"])  # type: ignore[call-overload]


def test_a_wrong_variant_never_wins(study: StudyData) -> None:
    winner = "hgemm_mma-accumulatef32@2304x1920x4096"
    records = study.records.copy()
    records.loc[records["case"] == winner, "verdict"] = "wrong"
    row = by_shape(replace(study, records=records))["f16_f32", 2304, 1920, 4096]
    assert row["best variant"] == "hgemm_wmma_staged-raster1-accumulatef32"


def test_no_ratio_between_environments(study: StudyData) -> None:
    """The one figure from elsewhere is left out, although it is the fastest."""
    winner = "hgemm_mma-accumulatef32@2304x1920x4096"
    records = study.records.copy()
    records.loc[records["case"] == winner, "environment"] = "here"
    row = by_shape(replace(study, records=records))["f16_f32", 2304, 1920, 4096]
    assert row["best variant"] == "hgemm_wmma_staged-raster1-accumulatef32"
    assert row["environment"] == synthetic.ENVIRONMENT


def test_without_the_facts_of_the_gpu_there_is_no_pick(study: StudyData) -> None:
    row = by_shape(replace(study, environments=synthetic.ENVIRONMENTS))["f16_f32", 256, 256, 256]
    assert row["best variant"] == "hgemm_mma-tile_m64-tile_n64-accumulatef32"
    assert row["the model's pick"] == ""


@pytest.mark.parametrize("width", [178.0, 86.0])
def test_texts_stay_inside_and_apart(study: StudyData, width: float) -> None:
    fig = synthetic.draw(best, study, Style(width_mm=width))
    found = texts_of(fig)
    for text, box in found:
        assert box.x0 >= -1 and box.x1 <= fig.bbox.x1 + 1, f"{text!r} leaves the figure"
    for (one, a), (other, b) in itertools.combinations(found, 2):
        wide = min(a.x1, b.x1) - max(a.x0, b.x0)
        high = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert not (wide > 1.5 and high > 2.5), f"{one!r} and {other!r} overlap"


def test_what_the_figure_says(study: StudyData) -> None:
    said = " ".join(text for text, _ in texts_of(synthetic.draw(best, study, Style())))
    for words in ("90 %: hgemm_mma tile_m64 tile_n64", "the same", "fitted here", "at worst",
                  "eliminated early", "TFLOP/s", "no NVIDIA GPU here"):  # fmt: skip
        assert words in said


def test_the_finding(study: StudyData) -> None:
    table = best.table(study)
    # 256^3 in 5 us are 6.7 of 700 TFLOP/s; of three picks where the model is not fitted one is not the best.
    assert best.takeaway(study, table) == (
        "The best variant passes cuBLAS at 0 of 9 shapes, at worst it has 1 % (FP16 (FP32 sum), 256³); "
        "the model's pick has 100 % of its speed in the median"
    )
    assert best._kept(table, "regret of the pick (%)").min() == pytest.approx(100 * 27 / 30)
    nothing = synthetic.empty("ladder")
    assert best.takeaway(nothing, best.table(nothing)) == ""


def test_same_tables_same_bytes(study: StudyData, tmp_path: Path) -> None:
    for name in "ab":
        save(synthetic.draw(best, study, Style()), tmp_path / f"{name}.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_nothing_at_all() -> None:
    nothing = synthetic.empty("ladder")
    assert isinstance(synthetic.draw(best, nothing, Style()), Figure)
    found = best.table(nothing)
    assert set(found["status"]) == {"not measured"}
    bare = replace(nothing, cases=nothing.cases.iloc[:0])
    assert isinstance(synthetic.draw(best, bare, Style()), Figure)
    assert best.table(bare).empty
    assert base.case_order(bare) == []
