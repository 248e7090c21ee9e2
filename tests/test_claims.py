"""The claims: the rule of their verdicts, their closed forms, and what they read."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from matplotlib.text import Text

import synthetic
from tilewave import plots
from tilewave.cases import expand
from tilewave.config import check_folders, parse
from tilewave.kernels import find_kernels
from tilewave.plots import base, claims
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.claims.facts import Facts, Unknown, Value
from tilewave.plots.claims.judging import VERDICTS, Claim, Judged, agrees, judge, judge_all
from tilewave.plots.claims.vectorised import PATTERNS, pattern_wavefronts
from tilewave.project import ROOT
from tilewave.records import tables
from tilewave.records.recorded import Recorded
from tilewave.stages.resolving import resolve
from tilewave.theory import data_sheets

CLAIMS = {claim.id: claim for claim in claims.CLAIMS}
H200 = {
    "gpu": "NVIDIA H200", "compute_capability": "9.0", "sms": 132, "max_warps_per_sm": 64,
    "max_blocks_per_sm": 32, "registers_per_sm": 65536, "registers_per_block": 65536,
    "shared_per_sm": 233472, "shared_per_block_optin": 232448, "shared_reserved_per_block": 1024,
    "recorded": True,
}  # fmt: skip


def study(builder: synthetic.Builder | None = None) -> StudyData:
    """The builder's cases on an H200 whose limits are known; none without a builder."""
    made = (builder or synthetic.Builder("latency")).study()
    environments = {name: dict(facts) for name, facts in made.environments.items()}
    environments[synthetic.ENVIRONMENT] |= H200
    return dataclasses.replace(made, name="claims", environments=environments)


def claim(claimed: Value = 100.0, **more: Any) -> Claim:
    return Claim("one", "A document", "1", "Row", "A sentence", claimed, **more)


# --------------------------------------------------------------------------------------- verdicts


@pytest.mark.parametrize(
    ("relation", "good", "bad"),
    [
        ("equals", (90.0, 110.0), (89.0, 111.0)),
        ("at least", (90.0, 1e9), (89.0,)),
        ("at most", (110.0, 0.0), (111.0,)),
        ("more than", (111.0,), (110.0, 90.0)),
        ("less than", (89.0,), (90.0, 110.0)),
    ],
)
def test_relations(relation: str, good: tuple[float, ...], bad: tuple[float, ...]) -> None:
    one = claim(relation=relation, tolerance=0.1)
    assert all(agrees(value, one) for value in good)
    assert not any(agrees(value, one) for value in bad)
    assert not agrees(math.nan, one)


def test_a_claim_of_nothing_has_an_absolute_tolerance() -> None:
    assert agrees(0.9, claim(0.0, tolerance=1.0))
    assert not agrees(1.1, claim(0.0, tolerance=1.0))
    assert not agrees(0.1, claim(0.0))


def test_yes_and_no() -> None:
    assert agrees(True, claim(True)) and agrees(False, claim(False))
    assert not agrees(False, claim(True))
    assert not agrees(1.0, claim(True)), "a number answers no question"


@pytest.mark.parametrize(
    ("basis", "predicted", "measured", "elsewhere", "verdict", "by"),
    [
        ("measurement", 100.0, 100.0, None, "holds", "measurement"),
        ("measurement", 100.0, 50.0, None, "does not hold", "measurement"),
        ("measurement", 50.0, 50.0, 100.0, "holds elsewhere", "measurement"),
        ("measurement", 50.0, 50.0, 70.0, "does not hold", "measurement"),
        ("measurement", 100.0, None, 100.0, "not measured", ""),
        ("measurement", None, None, None, "not measured", ""),
        ("theory", 100.0, None, None, "holds", "theory"),
        ("theory", 50.0, None, 100.0, "holds elsewhere", "theory"),
        ("theory", 100.0, 50.0, None, "does not hold", "measurement"),
        ("theory", None, None, None, "not measured", ""),
        ("limit", 101.0, None, None, "theory only", "theory"),
        ("limit", 99.0, None, None, "does not hold", "theory"),
        ("limit", None, None, None, "not measured", ""),
    ],
)
def test_the_verdict_follows_from_the_values(
    basis: str, predicted: Any, measured: Any, elsewhere: Any, verdict: str, by: str
) -> None:
    assert judge(claim(basis=basis), predicted, measured, elsewhere) == (verdict, by)
    assert verdict in VERDICTS


# ------------------------------------------------------------------------------------------ texts


def test_every_claim_is_judged_by_something() -> None:
    assert len(CLAIMS) == len(claims.CLAIMS), "two claims have one id"
    for name, one in CLAIMS.items():
        assert any((one.predicted, one.measured)), f"{name} is judged by nothing"
        if one.basis != "measurement":
            assert one.predicted is not None, name
        assert (one.elsewhere is not None) == bool(one.place), name


def test_documents_are_named_and_never_by_a_path() -> None:
    for one in CLAIMS.values():
        assert "/" not in one.document and not any(c.isdigit() for c in one.document)
        assert one.section and one.text and one.row


def test_claims_of_sizes_are_those_at_their_shape() -> None:
    assert CLAIMS["loads_a_lecture"].claimed == 136
    assert CLAIMS["loads_a_notes"].claimed == 96
    assert CLAIMS["loads_each_notes"].claimed == 264 * 136 * 96
    assert CLAIMS["shared_bytes"].claimed == 92160
    # 3 * 8192^2 elements of 2 bytes
    assert CLAIMS["bytes_moved"].claimed == pytest.approx(402.653184)


# ------------------------------------------------------------------------------------ predictions


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # 8192 * 128 * 8192 / (2 * 8192 * 128 + 8192^2) = 128 * 8192 / 8448
        ("intensity_small", 124.1212),
        ("intensity_large", 8192 / 3),  # 2730.7
        ("intensity_vector", 8192 / 8194),
        ("balance_v100", 124.444),
        ("balance_used", 124.444),
        ("bytes_moved", 402.653),
        ("tile_useful", 6.25),
        ("tiles_192", 4),
        ("wave_108", 108),
        ("wave_117", 117),
        ("wave_tail", 117),  # on 132 SMs the first wave has room for 132
        ("wave_position", 1792),  # nine tile rows, 14 columns of 128
        ("wave_longer", 2),
        ("wave_drop", 1800 / 1792 / 2),
        ("tile_drop", 136 / 128 / 2),
        ("occupancy_128x180", 12.5),
        ("warps_128x180", 8),
        ("warps_256x128", 16),
        ("loads_a_notes", 136),
        ("loads_b_notes", 264),
        ("tiles_save_loads", 32),
        ("two_outputs", 4 / 3),
        ("tile_best", 1),
        ("tile_worst", 1),
        ("tile_order", 100),
        ("fp64_no_conflicts", 0),
        ("fp64_no_conflicts_scalar", 25),
        ("padding_reads", 1),
        ("padding_copies", 3.75),
        ("access_same_address", 2),
        ("access_stores", 100 * 10 / 14),
        ("shared_small", 228),
        ("rate_4060", 60.456),  # 24 SMs, 1024 FLOP a clock, 2.46 GHz
    ],
)
def test_predictions(name: str, expected: float) -> None:
    predicted = CLAIMS[name].predicted
    assert predicted is not None
    assert predicted(Facts(study())) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("occupancy_128x180", 25),
        ("wave_tail", 9),
        ("wave_position", 1536),
        ("shared_small", 64),
        ("tensor_half_only", True),
    ],
)
def test_where_else_claims_hold(name: str, expected: Value) -> None:
    elsewhere = CLAIMS[name].elsewhere
    assert elsewhere is not None
    assert elsewhere(Facts(study())) == pytest.approx(expected)
    assert agrees(elsewhere(Facts(study())) or 0.0, CLAIMS[name])


@pytest.mark.parametrize(
    ("name", "expected"), [("bound_small", True), ("bound_large", True), ("bound_vector", True)]
)
def test_bounds_by_the_data_sheet(name: str, expected: bool) -> None:
    predicted = CLAIMS[name].predicted
    assert predicted is not None and predicted(Facts(study())) is expected


def test_bounds_need_a_data_sheet() -> None:
    made = study()
    made.environments[synthetic.ENVIRONMENT]["gpu"] = "NVIDIA Unheard-of"  # type: ignore[index]
    predicted = CLAIMS["bound_small"].predicted
    assert predicted is not None and predicted(Facts(made)) is None


def test_data_sheets_are_found_by_the_drivers_name() -> None:
    assert data_sheets.data_sheet("NVIDIA H200") is data_sheets.H200
    assert data_sheets.data_sheet("NVIDIA GeForce RTX 4060") is data_sheets.RTX_4060
    assert data_sheets.data_sheet("NVIDIA GeForce RTX 4060 Ti") is None
    assert data_sheets.data_sheet("NVIDIA H200 NVL") is None


def test_the_articles_patterns() -> None:
    """The article's eleven figures, and what a store costs by the rule that it does not give."""
    loads = [pattern_wavefronts(PATTERNS[name], "load") for name in PATTERNS]
    assert loads == [1, 1, 4, 1, 2, 1, 2, 2, 2, 1, 2, 4, 4, 4]
    stores = [pattern_wavefronts(PATTERNS[name], "store") for name in PATTERNS]
    assert stores == [1, 1, 4, 1, 2, 2, 2, 2, 2, 2, 4, 4, 8, 4]
    assert [CLAIMS[f"access_{name}"].claimed for name in PATTERNS] == loads


# ----------------------------------------------------------------------------------- measurements


def measured(builder: synthetic.Builder, name: str) -> Judged:
    found = judge_all(study(builder), [CLAIMS[name]])
    return found[0]


def timed(
    builder: synthetic.Builder, variant: str, shape: tuple[int, int, int], **more: Any
) -> str:
    """A case with a check that is correct and figures of stage `time`."""
    kernel = variant.partition("-")[0]
    environment = more.pop("environment", synthetic.ENVIRONMENT)
    verdict = more.pop("verdict", "correct")
    case = builder.case(variant, kernel, "f16_f16", shape)
    builder.add(case, "check", {"max_error": 0.0}, verdict=verdict, environment=environment)
    builder.add(case, "time", more, environment=environment)
    return case


CUBE = (4096, 4096, 4096)


def test_a_speedup_decides() -> None:
    b = synthetic.Builder("latency")
    timed(b, "matmul_two_outputs", CUBE, tflops=16.0)
    timed(b, "matmul_tiled-tile32", CUBE, tflops=10.0)
    found = measured(b, "two_outputs")
    assert (found.verdict, found.measured, found.ratio) == ("does not hold", 1.6, 1.6)
    assert found.read == (
        "tflops of matmul_two_outputs@4096x4096x4096",
        "tflops of matmul_tiled-tile32@4096x4096x4096",
    )
    assert found.source == "recorded:NVIDIA H200"


def test_a_wrong_case_measures_nothing() -> None:
    b = synthetic.Builder("latency")
    timed(b, "matmul_two_outputs", CUBE, tflops=16.0, verdict="wrong")
    timed(b, "matmul_tiled-tile32", CUBE, tflops=10.0)
    found = measured(b, "two_outputs")
    assert (found.verdict, found.measured) == ("not measured", None)
    assert "wrong" in found.missing


def test_times_of_two_environments_make_no_ratio() -> None:
    b = synthetic.Builder("latency")
    timed(b, "matmul_two_outputs", CUBE, tflops=16.0)
    timed(b, "matmul_tiled-tile32", CUBE, tflops=10.0, environment="here")
    found = measured(b, "two_outputs")
    assert (found.verdict, found.measured) == ("not measured", None)
    assert "several environments" in found.missing


def counted(
    builder: synthetic.Builder, variant: str, kind: str, environment: str = "", **figures: float
) -> None:
    """A case with a check that is correct and figures of stage `counters`."""
    environment = environment or synthetic.ENVIRONMENT
    case = builder.case(variant, variant.partition("-")[0], kind, CUBE)
    builder.add(case, "check", {"max_error": 0.0}, verdict="correct", environment=environment)
    builder.add(case, "counters", figures, environment=environment)


def test_counts_of_two_environments_make_no_ratio() -> None:
    for environment, expected in (("", 1.5), ("here", None)):
        b = synthetic.Builder("latency")
        counted(b, "hgemm_wmma_staged-copyca", "f16_f16", **{"dram__bytes_read.sum": 3e8})
        counted(b, "hgemm_wmma_staged", "f16_f16", environment, **{"dram__bytes_read.sum": 2e8})
        found = measured(b, "ca_evicts")
        assert found.measured == expected
    assert found.verdict == "not measured" and "several environments" in found.missing


def test_without_a_gpu_nothing_is_said_of_its_waves() -> None:
    b = synthetic.Builder("claims")
    b.case("matmul_naive", "matmul_naive", "f32", CUBE)
    nowhere = dataclasses.replace(b.study(), target={}, environments={})
    table = claims.table(nowhere).set_index("claim")
    assert len(table) == len(CLAIMS)
    for name in ("wave_tail", "wave_drop", "wave_longer", "tile_drop"):
        row = table.loc[CLAIMS[name].text]
        assert (row["predicted"], row["verdict"]) == ("", "not measured")
    synthetic.draw(claims, nowhere, look.Style())


@pytest.mark.parametrize("sms", [8, 400])
def test_a_gpu_whose_waves_do_not_end_in_the_sweep(sms: int) -> None:
    data = study()
    facts = Facts(dataclasses.replace(data, target={**data.target, "sms": sms}))
    asked = CLAIMS["wave_position"].predicted
    assert asked is not None
    with pytest.raises(Unknown, match=f"{sms} SMs"):
        asked(facts)


def test_half_precision_alone_says_nothing_of_other_types() -> None:
    b = synthetic.Builder("claims")
    counted(b, "cublas-typef16_f32", "f16_f32", counted_tensor_flops=2.0 * 4096**3)
    assert measured(b, "tensor_half_only").measured is None
    counted(b, "cublas-typef64", "f64", counted_tensor_flops=0.0)
    assert measured(b, "tensor_half_only").measured is True


def test_what_is_missing_is_named() -> None:
    b = synthetic.Builder("latency")
    found = measured(b, "two_outputs")
    assert found.verdict == "not measured"
    assert "matmul_two_outputs at 4096×4096×4096 is no case" in found.missing
    timed(b, "matmul_two_outputs", CUBE, duration=1.0)
    timed(b, "matmul_tiled-tile32", CUBE, tflops=10.0)
    assert "no tflops of matmul_two_outputs" in measured(b, "two_outputs").missing


def sweep(duration: Any, sizes: range = range(1408, 2177, 8), m: int = 2304) -> synthetic.Builder:
    """The swept kernel at M = 2304 on 132 SMs, with a duration for each n."""
    b = synthetic.Builder("latency")
    for n in sizes:
        tiles = -(-m // 256) * -(-n // 128)
        case = timed(
            b, "hgemm_wmma_staged-raster1", (m, n, 4096), duration=duration(n),
            tflops=2e-6 * m * n * 4096 / duration(n),
        )  # fmt: skip
        b.add(
            case, "counters",
            {
                "launch__grid_size": tiles, "launch__waves_per_multiprocessor": tiles / 132,
                "counted_tensor_flops": 2.0 * tiles * 256 * 128 * 4096,
            },
        )  # fmt: skip
    return b


def test_the_end_of_a_wave_is_where_the_duration_rises_most() -> None:
    b = sweep(lambda n: 90.0 + n / 1000 if n <= 1792 else 170.0)
    assert measured(b, "wave_position").measured == 1792
    assert measured(b, "wave_position").verdict == "holds elsewhere"
    assert measured(b, "wave_tail").measured == 117
    assert measured(b, "wave_tail").verdict == "holds elsewhere"
    assert measured(b, "wave_117").verdict == "holds"
    assert measured(b, "wave_drop").verdict == "holds"
    # On 108 SMs it would be after 1536, and the claim would be right here.
    there = sweep(lambda n: 90.0 if n <= 1536 else 170.0)
    assert measured(there, "wave_position").verdict == "holds"
    assert measured(sweep(lambda n: 90.0), "wave_drop").verdict == "does not hold"


def test_tiles_of_the_sweep() -> None:
    b = sweep(lambda n: 90.0 if n <= 128 else 180.0, range(128, 265, 8), 27648)
    assert measured(b, "tile_useful").measured == 6.25
    assert measured(b, "tile_operations").measured == 1
    assert measured(b, "tile_duration").verdict == "holds"
    assert measured(b, "tile_drop").measured == pytest.approx(0.53125)
    uneven = sweep(lambda n: 90.0 if n <= 128 else n, range(128, 265, 8), 27648)
    assert measured(uneven, "tile_duration").measured == pytest.approx(256 / 136)
    assert measured(uneven, "tile_duration").verdict == "does not hold"


def test_loads_of_the_naive_product() -> None:
    """253,440 requests at 264x136x96: 1,320 warps, 96 steps, one load of A and one of B."""
    b = synthetic.Builder("latency")
    case = timed(b, "matmul_naive", (264, 136, 96), duration=1.0)
    b.add(case, "counters", {"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 253440.0})
    assert measured(b, "loads_a_lecture").measured == pytest.approx(136)
    assert measured(b, "loads_b_lecture").measured == pytest.approx(264)
    assert measured(b, "loads_a_lecture").verdict == "holds"
    assert measured(b, "loads_a_notes").verdict == "does not hold"


def test_a_barrier_that_hangs() -> None:
    b = synthetic.Builder("latency")
    for name, ends in (("two_warps_all", True), ("two_lanes_all", False)):
        case = b.case("barrier_divergent-fragmenttwo", "barrier_divergent", "", probe=name)
        if ends:
            b.add(case, "check", {"wrong_elements": 0.0}, verdict="correct")
        else:
            b.add(case, "check", status="timed out", reason="no result within 2 s")
    found = measured(b, "barrier_each_side")
    assert (found.measured, found.elsewhere, found.verdict) == (False, True, "holds elsewhere")
    none = synthetic.Builder("latency")
    case = none.case("barrier_divergent", "barrier_divergent", "", probe="one_warps_part")
    none.add(case, "check", status="not measured", reason="no GPU")
    found = measured(none, "barrier_reachable")
    assert (found.verdict, found.missing) == ("not measured", f"{case} was not run (no GPU)")


def test_tiles_of_a_kernel_in_order() -> None:
    def speeds(of: dict[tuple[int, int], float], m: int) -> synthetic.Builder:
        b = synthetic.Builder("latency")
        for (high, wide), speed in of.items():
            variant = f"hgemm_mma-tile_m{high}-tile_n{wide}"
            case = timed(b, variant, (m, m, m), tflops=speed)
            row = next(r for r in b.cases if r["case"] == case)
            row |= {"tile_m": high, "tile_n": wide}
        return b

    falling = {(256, 128): 600.0, (128, 256): 500.0, (128, 128): 550.0, (256, 64): 450.0,
               (64, 256): 460.0, (128, 64): 400.0, (64, 64): 300.0}  # fmt: skip
    for name in ("tile_best", "tile_worst", "tile_order"):
        assert measured(speeds(falling, 8192), name).verdict == "holds", name
    turned = falling | {(128, 128): 700.0}
    assert measured(speeds(turned, 8192), "tile_best").measured == pytest.approx(600 / 700)
    assert measured(speeds(turned, 8192), "tile_order").measured == pytest.approx(90)
    assert measured(speeds(turned, 8192), "tile_worst").verdict == "holds"
    assert measured(speeds(turned, 512), "tile_small").verdict == "does not hold"
    del turned[256, 64], turned[64, 256]
    found = measured(speeds(turned, 8192), "tile_best")
    assert found.verdict == "not measured" and "5 tiles" in found.missing


def test_cublas_names_tell_whether_k_is_split() -> None:
    for names, verdict in (
        ("sm90_gemm_tilesize64x64x32; cublasLt::splitKreduce_kernel", "does not hold"),
        ("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT", "holds"),
    ):
        b = synthetic.Builder("latency")
        timed(b, "cublas-typef16_f32", (256, 256, 16384), duration=1.0)
        case = b.cases[-1]["case"]
        b.add(case, "counters", {"kernel_name": math.nan})
        made = study(b)
        made.records["text"] = ["" if m != "kernel_name" else names for m in made.records["metric"]]
        found = judge_all(made, [CLAIMS["split_k_off"]])[0]
        assert found.verdict == verdict, names


def test_the_tiles_that_cublas_takes() -> None:
    b = synthetic.Builder("latency")
    for shape, tile in (
        ((8192, 8192, 8192), (128, 256)), ((27648, 128, 4096), (256, 128)),
        ((27648, 136, 4096), (192, 72)), ((256, 256, 16384), (64, 64)),
    ):  # fmt: skip
        swept = "cublas-typef16_f16-bcol"
        variant = swept if shape[0] == 27648 else "cublas-typef16_f32"
        case = timed(b, variant, shape, duration=1.0)
        b.add(case, "counters", {"cublas_tile_m": tile[0], "cublas_tile_n": tile[1]})
    assert measured(b, "cublas_large_tile").verdict == "holds"
    assert measured(b, "cublas_tiles").measured == 4
    assert measured(b, "cublas_small_tile").measured == pytest.approx(192 * 72 / 256 / 128)
    assert measured(b, "cublas_small_tile").verdict == "holds"


def test_alignment_is_one_dimension_against_itself() -> None:
    b = synthetic.Builder("latency")
    for n, tflops in ((4095, 300.0), (4092, 310.0), (4088, 600.0), (4032, 610.0)):
        timed(b, "cublas-typef16_f32", (4096, n, 4096), tflops=tflops)
    for m, tflops in ((4095, 590.0), (4088, 600.0)):
        timed(b, "cublas-typef16_f32", (m, 4096, 4096), tflops=tflops)
    assert measured(b, "align_f16_gain").measured == 2
    assert measured(b, "align_f16_gain").verdict == "holds"
    assert measured(b, "align_f16_64").verdict == "does not hold"
    assert measured(b, "align_second_best").verdict == "does not hold"
    assert measured(b, "align_contiguous_only").verdict == "holds"


def test_bound_by_the_nearer_of_two_ceilings() -> None:
    """8192 x 1 x 8192 in 40 us: 134 MB are 70 % of 4.8 TB/s, 134 MFLOP next to nothing."""
    b = synthetic.Builder("latency")
    case = timed(b, "cublas-typef16_f32", (8192, 1, 8192), duration=40.0, tflops=3.4)
    b.add(case, "counters", {"dram_bytes": 134.3e6})
    assert measured(b, "bound_vector").measured is True
    assert measured(b, "intensity_vector").measured == pytest.approx(2 * 8192**2 / 134.3e6)
    case = timed(b, "cublas-typef16_f32", (8192, 8192, 8192), duration=1600.0, tflops=687.0)
    b.add(case, "counters", {"dram_bytes": 1.2e9})
    assert measured(b, "bound_large").measured is True
    assert measured(b, "bytes_moved").verdict == "does not hold"


# ---------------------------------------------------------------------------- tables and figures


def recorded_study() -> StudyData:
    """The study of the shipped config with the figures recorded on an H200, stale or not."""
    folder = ROOT / "resources" / "recorded" / "nvidia_h200"
    if not folder.is_dir():
        pytest.skip("no figures of an NVIDIA H200")
    where = "config/config.yaml"
    config = parse(yaml.safe_load((ROOT / where).read_text()), where)
    plan = expand(config, find_kernels(check_folders(config, where, ROOT)), where)
    recorded = Recorded(folder)
    environment = recorded.environments[recorded.main_environment]
    target = {"device": {"sms": environment["sms"], "arch": 90}, "arch": 90}
    wanted = set(plan.studies["claims"])
    results = [made for made in recorded.results() if made["case"] in wanted]
    verdicts = tables.verdicts(made for made in results if made["stage"] == "check")
    resolved = [resolve(one, target) for case, one in plan.requests.items() if case in wanted]
    none: dict[str, Any] = {one.case.variant.id: {} for one in resolved}
    cases = tables.cases_table(resolved, none, "sm_90", verdicts)
    records = tables.records_table(cases, results, verdicts)
    return StudyData(
        name="claims", title="Claims", question="Which claims hold?", options={},
        cases=cases[cases["case"].isin(wanted)].reset_index(drop=True),
        records=records, instructions=pd.DataFrame(), environments=recorded.environments,
        target={"label": environment["gpu"], "live": False, "sms": environment["sms"],
                "environment": recorded.main_environment},
    )  # fmt: skip


@pytest.fixture(scope="module")
def recorded() -> StudyData:
    return recorded_study()


def test_every_claim_is_judged_from_recorded_figures(recorded: StudyData) -> None:
    found = {one.claim.id: one for one in claims.judged(recorded)}
    assert set(found) == set(CLAIMS)
    for one in found.values():
        assert one.verdict in VERDICTS
        for value in (one.predicted, one.measured, one.elsewhere):
            assert value is None or isinstance(value, (bool, int, float))
        assert (one.measured is None) == bool(one.missing), one.claim.id
        assert bool(one.source) == (one.measured is not None), one.claim.id
    # What code and launch alone decide is the same on every run.
    assert found["padding_copies"].measured == found["padding_copies"].predicted == 3.75
    assert all(found[f"access_{name}"].verdict == "holds" for name in PATTERNS)
    assert found["occupancy_128x180"].verdict == "holds elsewhere"
    assert found["loads_a_notes"].verdict == "does not hold"
    assert found["rate_4060"].verdict == "theory only"


def test_the_table_has_a_row_for_each_claim(recorded: StudyData) -> None:
    table = claims.table(recorded)
    assert list(table["claim"]) == [one.text for one in CLAIMS.values()]
    assert {"where it stands", "claimed", "predicted", "measured", "verdict"} <= set(table)
    assert set(table["verdict"]) <= set(VERDICTS)
    row = table[table["claim"] == CLAIMS["intensity_large"].text].iloc[0]
    assert (row["claimed"], row["predicted"], row["verdict"]) == ("4096", "2731", "does not hold")
    found = row["measured"] if pd.notna(row["measured"]) else row["predicted"]
    assert row["deviation (%)"] == pytest.approx(100 * (float(found) / 4096 - 1), abs=0.1)


def test_nothing_measured() -> None:
    b = synthetic.Builder("claims")
    b.case("matmul_naive", "matmul_naive", "f32", CUBE)
    table = claims.table(study(b))
    assert len(table) == len(CLAIMS)
    by_text = dict(zip(table["claim"], table["verdict"], strict=True))
    for one in CLAIMS.values():
        if one.basis == "measurement" and one.id != "shared_small":
            assert by_text[one.text] == "not measured", one.id


@pytest.mark.parametrize("width", [86.0, 178.0])
def test_figures(recorded: StudyData, width: float, tmp_path: Path) -> None:
    style = look.Style(width_mm=width)
    for name, data in (("recorded", recorded), ("invented", synthetic.make("claims"))):
        figure = synthetic.draw(claims, data, style)
        path = tmp_path / f"{name}.svg"
        look.save(figure, path, style)
        texts = [text.get_text() for ax in figure.axes for text in ax.findobj(Text)]
        assert path.stat().st_size and all(
            label in texts for label in {one.document for one in CLAIMS.values()}
        )
        assert len(figure.axes) == (1 if width < 120 else 2)
        assert figure.get_figwidth() * 25.4 == pytest.approx(width)


def test_takeaway_counts_the_verdicts(recorded: StudyData) -> None:
    table = claims.table(recorded)
    counts = table["verdict"].value_counts()
    told = claims.takeaway(recorded, table)
    assert told.startswith(f"{counts['holds']} of {len(CLAIMS)} claims hold on NVIDIA H200, ")
    assert f", {counts['does not hold']} do not hold" in told
    bare = synthetic.empty("claims")
    nothing = [dataclasses.replace(one, verdict="not measured") for one in claims.judged(bare)]
    for judged in ([], nothing):
        assert claims.takeaway(bare, base.with_derived(table.copy(), judged)) == ""


def test_a_narrow_figure_shows_what_does_not_hold(recorded: StudyData) -> None:
    judged = claims.judged(recorded)
    rows = [row for row in claims._rows(judged, narrow=True) if not isinstance(row, str)]
    told = {one.verdict for row in rows for one in row if len(row) == 1}
    assert told == {"does not hold", "holds elsewhere"}
    documents = [row for row in claims._rows(judged, narrow=True) if isinstance(row, str)]
    assert set(claims._held(judged)) == set(documents)


def test_some_documents_only(recorded: StudyData) -> None:
    name = CLAIMS["access_stores"].document
    some = dataclasses.replace(recorded, options={"documents": name})
    assert set(claims.table(some)["document"]) == {name}
    none = dataclasses.replace(recorded, options={"documents": ["No such document"]})
    assert claims.table(none).empty
    assert synthetic.draw(claims, none, look.Style()).axes


def test_the_page_never_folds_this_table() -> None:
    assert plots.table_stays_open("claims")
    assert not plots.table_stays_open("ladder")


def test_a_function_that_finds_nothing_is_no_value() -> None:
    one = claim(1.0, predicted=lambda f: math.nan, measured=lambda f: None)
    found = judge_all(study(), [one])[0]
    assert (found.predicted, found.measured, found.verdict) == (None, None, "not measured")
