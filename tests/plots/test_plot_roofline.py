"""The roofline figure: ceilings from records only, roofs by unit and dtype, bytes that no counter sees."""

from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.axes import Axes

import synthetic
import synthetic_studies
from study_builder import ENVIRONMENT
from synthetic_studies import LD, roofline_of_operations
from tilewave.plots import _ceilings, _panels, roofline
from tilewave.plots._ceilings import Ceilings, Peak
from tilewave.plots.base import StudyData
from tilewave.plots.style import Style, caption

STUDY = synthetic.make("roofline")
NAIVE = "matmul_naive@4096x4096x4096"
VENDOR = "cublas-typef16_f32@4096x4096x4096"


def texts(study: StudyData) -> str:
    return synthetic.said(synthetic.draw(roofline, study, Style()))


def rows(study: StudyData) -> pd.DataFrame:
    return roofline.table(study).set_index("case")


def without(study: StudyData, case: str) -> StudyData:
    return replace(study, records=study.records[study.records["case"] != case])


def probed(study: StudyData, where: str) -> StudyData:
    """Return the study with its ceilings from another environment."""
    records = study.records
    elsewhere = records["environment"].mask(records["case"].str.contains("ceilings_"), where)
    return replace(study, records=records.assign(environment=elsewhere))


def test_ceilings_are_the_probes_records() -> None:
    limits = _ceilings.ceilings(STUDY)
    assert limits.bandwidths == {"dram": 4.28, "l2": 7.4, "l1": 31.5}
    highest = limits.peaks[0]
    assert (highest.dtype, highest.unit, highest.tflops) == ("f16_f32", "wgmma", 820.0)
    assert "i8" not in {peak.dtype for peak in limits.peaks}, "no product here has that dtype"
    assert limits.absent == ("ceilings_wgmma f16_f16",)


def test_a_ceiling_without_a_record_is_skipped_and_listed() -> None:
    study = without(STUDY, "ceilings_memory-dram_copy@dram_copy")
    limits = _ceilings.ceilings(study)
    assert "dram" not in limits.bandwidths
    assert "ceilings_memory dram_copy" in limits.absent
    text = texts(study)
    assert "No ceiling was recorded for: " in text and "ceilings_memory dram_copy" in text
    for level in ("l2", "l1"):
        assert f"{limits.bandwidths[level]:.3g}" in text


def test_a_wrong_probe_is_no_ceiling() -> None:
    probe = {"case": "ceilings_math-fma_f32@fma_f32", "stage": "check"}
    wrong = synthetic.changed(STUDY, {"verdict": "wrong"}, **probe)
    limits = _ceilings.ceilings(wrong)
    assert not [peak for peak in limits.peaks if peak.dtype == "f32"]
    assert "ceilings_math fma_f32" in limits.absent


def test_intensity_and_rate_of_a_row() -> None:
    row = rows(STUDY).loc[NAIVE]
    flop, speed = 2 * 4096**3, 6.2
    dram = 3e8 + 1e10 / speed
    assert row["dram bytes"] == pytest.approx(dram)
    assert row["dram intensity (FLOP/byte)"] == pytest.approx(flop / dram)
    # bytes over (2mnk / rate), in TB/s
    assert row["dram rate (TB/s)"] == pytest.approx(dram / (flop / speed))
    assert row["l1 bytes"] == pytest.approx(32 * (flop / speed / 8 + 2e6))


def test_roofs_follow_dtype_and_unit() -> None:
    table = rows(STUDY)
    assert table.loc["cublas@4096x4096x4096", "lowest roof"] == "FP32 FMA"
    assert table.loc["cublas-typef64@4096x4096x4096", "lowest roof"] == "FP64 mma.sync"
    # It is faster than mma.sync can be: its roof is wgmma's.
    assert table.loc[VENDOR, "lowest roof"] == "FP16 (FP32 sum) wgmma"
    assert table.loc[VENDOR, "of the roof (%)"] == pytest.approx(100 * 685 / 820)


def test_a_slow_kernel_stands_under_the_roof_of_the_instruction_that_it_has() -> None:
    slow = synthetic.changed(STUDY, {"value": 300.0}, case=VENDOR, metric="tflops")
    assert rows(slow).loc[VENDOR, "lowest roof"] == "FP16 (FP32 sum) mma.sync"
    for opcode, roof in (("HGMMA.64x256x16.F32", "wgmma"), ("HMMA.16816.F32", "mma.sync")):
        row = {"case": VENDOR, "opcode": opcode, "executed": 1.0, "stage": "counters"}
        counted = pd.concat([STUDY.instructions, pd.DataFrame([row])])
        lowest = rows(replace(slow, instructions=counted)).loc[VENDOR, "lowest roof"]
        assert lowest == f"FP16 (FP32 sum) {roof}"


def test_without_counted_instructions_the_table_is_the_same() -> None:
    bare = replace(STUDY, instructions=pd.DataFrame(columns=["case", "key"]))
    pd.testing.assert_frame_equal(roofline.table(bare), roofline.table(STUDY))


def test_promoted_sums_of_fp8_stand_under_the_instruction_that_makes_them() -> None:
    peaks = (Peak("e4m3_f22", "wgmma", 1800.0), Peak("f16_f32", "wgmma", 900.0))
    (lent,) = Ceilings({}, peaks, ()).of("e4m3_f32")
    assert (lent.tflops, lent.label) == (1800.0, "FP8 E4M3 (FP32 sum) wgmma")
    assert Ceilings({}, peaks, ()).of("f16_f32") == [peaks[1]]


def test_a_kernel_bound_by_l1_says_so() -> None:
    loads = {"case": NAIVE, "metric": LD.format("sectors")}
    row = rows(synthetic.changed(STUDY, {"value": 4e9}, **loads)).loc[NAIVE]
    assert row["bound by"] == "l1" and row["lowest roof"] == "l1 bandwidth"
    want = 31.5 * 2 * 4096**3 / (32 * (4e9 + 2e6))
    assert row["lowest roof (TFLOP/s)"] == pytest.approx(want)


def test_copies_that_bypass_l1_take_nothing_of_its_roof() -> None:
    """The page of hgemm_wmma_staged said that no pipe is full; the roofline said 95 % of L1."""
    copy = {"case": NAIVE, "stage": "counters", "executed": 1e6, "wavefronts_shared": 3e6}
    loads = synthetic.changed(
        STUDY, {"value": 4e9}, case=NAIVE, metric=synthetic_studies.LD.format("sectors")
    )
    records = loads.records
    waves = records[(records["case"] == NAIVE) & (records["metric"] == "dram_bytes")]
    waves = waves.assign(metric="wavefronts_shared", value=5e6)
    study = replace(loads, records=pd.concat([records, waves], ignore_index=True))
    wanted = {
        "LDGSTS.E.128": 32 * (4e9 + 2e6) + 128 * 5e6,
        "LDGSTS.E.BYPASS.128": 32 * 2e6 + 128 * 2e6,
    }
    for opcode, expected in wanted.items():
        counted = pd.DataFrame([copy | {"opcode": opcode, "sectors_global": 4e9}])
        row = rows(replace(study, instructions=counted)).loc[NAIVE]
        assert row["l1 bytes"] == pytest.approx(expected)


def test_bulk_copies_are_taken_from_l2_and_noted() -> None:
    row = rows(STUDY).loc[VENDOR]
    flop, speed = 2 * 4096**3, 685.0
    sectors = flop / speed / 8 / 4
    loads = flop / speed / 8 / 99
    assert row["l2 bytes"] == pytest.approx(32 * sectors)
    waves = loads / 9 + loads / 90
    bulk = 32 * (sectors - loads - 2e6)
    assert row["l1 bytes"] == pytest.approx(32 * (loads + 2e6) + 128 * waves + bulk)
    notes = texts(replace(STUDY, options={"dtypes": ["f16_f32"]}))
    assert "bulk copies (TMA) are taken from L2's count" in notes


def test_no_ratio_between_environments() -> None:
    mixed = synthetic.changed(STUDY, {"environment": "here"}, case=NAIVE, stage="counters")
    row = rows(mixed).loc[NAIVE]
    assert row["dram intensity (FLOP/byte)"] > 0, "its coordinates stand for themselves"
    assert pd.isna(row["of the roof (%)"]) and pd.isna(row["lowest roof (TFLOP/s)"])
    limits = _ceilings.ceilings(probed(STUDY, "here"))
    assert not limits.bandwidths and not limits.peaks


def test_another_card_of_the_kind_lends_its_roofs_but_no_ratio() -> None:
    facts = STUDY.environments[ENVIRONMENT]
    mixed = replace(probed(STUDY, "twin"), environments={**STUDY.environments, "twin": facts})
    assert _ceilings.ceilings(mixed) == _ceilings.ceilings(STUDY)
    assert rows(mixed)["of the roof (%)"].isna().all()


def test_names_keep_their_distance() -> None:
    assert _panels.apart([3.0, 2.9, 1.0], 0.5, 0.0, 4.0) == pytest.approx([3.2, 2.7, 1.0])
    assert _panels.apart([0.3, 0.2], 0.5, 0.0, 4.0) == [0.5, 0.0]
    assert _panels.apart([], 0.5, 0.0, 4.0) == []


def test_other_operations_stand_under_the_same_roofs() -> None:
    softmax = rows(roofline_of_operations()).loc["softmax_online@8192x8192"]
    assert softmax["dram intensity (FLOP/byte)"] == pytest.approx(5 / 8)
    assert (softmax["bound by"], softmax["lowest roof"]) == ("dram", "dram bandwidth")
    assert softmax["lowest roof (TFLOP/s)"] == pytest.approx(4.28 * 5 / 8)
    assert (softmax["rows"], softmax["columns"]) == (8192, 8192) and pd.isna(softmax["m"])


def test_without_flops_no_roof_and_no_panel() -> None:
    study = roofline_of_operations()
    row = rows(study).loc["transpose_swizzled@8192x8192"]
    assert row["dram rate (TB/s)"] == pytest.approx(8e-6 * (1 << 26) / 150)
    assert pd.isna(row["dram intensity (FLOP/byte)"]) and pd.isna(row["of the roof (%)"])
    assert "of its roofline bound" in synthetic.finding("roofline", study)
    for style in (Style(), Style(width_mm=86)):
        fig = synthetic.draw(roofline, study, style)
        assert [ax.get_title(loc="left") for ax in fig.axes] == ["FP32"]
        assert "transpose_swizzled" not in "".join(text.get_text() for text in fig.axes[0].texts)
    assert "softmax 8192×8192, matmul 4096³" in " ".join(caption(fig))


def test_a_point_stands_at_intensities_alone() -> None:
    """A mark at the bytes of a level would stand far outside the panel."""
    for ax in synthetic.draw(roofline, STUDY, Style()).axes:
        right = ax.get_xlim()[1]
        assert all(x <= right for points in ax.collections for x, _ in points.get_offsets())


def panel_names(ax: Axes) -> set[str]:
    """Return the names in a panel, without the shares behind them."""
    return {text.get_text().partition(":")[0].strip() for text in ax.texts}


def test_roofs_are_named_on_their_lines() -> None:
    fig = synthetic.draw(roofline, replace(STUDY, options={"dtypes": ["f32", "f16_f32"]}), Style())
    shown = {ax.get_title(loc="left"): panel_names(ax) for ax in fig.axes}
    assert list(shown) == ["FP32, 4096³", "FP16 (FP32 sum), 4096³"]
    ceilings = {"FMA 60.4 TFLOP/s", "DRAM 4.28 TB/s", "L2 7.40 TB/s"}
    assert ceilings | {"cuBLAS", "matmul_tiled"} <= shown["FP32, 4096³"]
    assert "wgmma 820 TFLOP/s" in shown["FP16 (FP32 sum), 4096³"]
    assert any(": 60 % of " in text.get_text() for text in fig.axes[0].texts), "the finding's share"
    assert "matmul_two_outputs" not in shown["FP32, 4096³"], "it is wrong"


def test_the_named_rungs_and_cublas_are_drawn() -> None:
    options = {"dtypes": ["f32"], "variants": ["matmul_tiled"]}
    options |= {"names": {"matmul_tiled": "shared tiles"}}
    chosen = replace(STUDY, options=options)
    pd.testing.assert_frame_equal(roofline.table(chosen), roofline.table(STUDY))
    (ax,) = synthetic.draw(roofline, chosen, Style()).axes
    names = panel_names(ax)
    assert {"shared tiles", "cuBLAS"} < names and "matmul_naive" not in names
    tiled = STUDY.cases["variant"] == "matmul_tiled"
    elsewhere = STUDY.cases.assign(m=STUDY.cases["m"].mask(tiled, 64))
    (ax,) = synthetic.draw(roofline, replace(chosen, cases=elsewhere), Style()).axes
    assert "shared tiles" not in panel_names(ax), "its shape is not the common one"
