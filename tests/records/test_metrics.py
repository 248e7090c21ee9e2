"""Metric sets, derived values, and the tile in a vendor kernel's name."""

import math
import re

import pytest

from samples import table
from tilewave.records.counters import catalogue, figures, instructions
from tilewave.records.counters.kernel_names import tile_of

CASES = table("records")

OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
SCALAR = {OP.format(op): 0.0 for op in "ffma fadd fmul dfma dadd dmul hfma hadd hmul".split()}
TENSOR = "sm__ops_path_tensor_src_{}.sum"
FP16, INT8, FP8 = (TENSOR.format(name) for name in ("fp16", "int8", "fp8"))
SIDES = ("store", "load")


def named(entries: list[dict]) -> dict[str, float]:
    return {entry["metric"]: entry["value"] for entry in entries}


def test_sets_are_nested_and_have_no_name_twice() -> None:
    assert set(catalogue.SETS) == {
        "flops", "cycles", "basic", "traffic", "memory", "paths", "quantization", "limits", "full",
    }  # fmt: skip
    for name in catalogue.SETS:
        names = catalogue.names(name)
        assert len(names) == len(set(names))
        # Warp states are a separate set: they would double the passes of `full`.
        assert name == "limits" or set(names) <= set(catalogue.names("full"))
        for metric in names:
            assert re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*", metric)
    assert catalogue.merged(["quantization"])[1] == []
    assert catalogue.merged({"memory", "basic"}) == catalogue.merged(["basic", "memory"])
    traffic, memory = (catalogue.merged([name])[0] for name in ("traffic", "memory"))
    assert memory == [*traffic, *catalogue.INSTRUCTION_METRICS]
    assert catalogue.of_launches(memory) == traffic == catalogue.names("memory")
    assert catalogue.of_instructions(memory) and not catalogue.of_instructions(traffic)
    assert not any("sass" in metric for metric in catalogue.names("quantization"))


def test_every_metric_has_a_unit() -> None:
    assert all(row.unit for row in [*catalogue.METRICS.values(), *figures.DERIVED.values()])
    assert not set(catalogue.METRICS) & set(figures.DERIVED)


def test_flops_of_fma_units_and_tensor_cores() -> None:
    derived = named(figures.derived({**SCALAR, OP.format("dfma"): 64.0, FP16: 0.0}))
    assert derived["counted_flops_f64"] == 128 == derived["counted_flops"]
    assert derived["counted_tensor_flops"] == 0
    derived = named(figures.derived({**SCALAR, OP.format("hmul"): 10.0, FP16: 2.0}, "f16"))
    assert (derived["counted_tensor_flops"], derived["counted_flops"]) == (2, 12)
    # An absent part does not count as zero.
    values = {name: value for name, value in SCALAR.items() if "ffma" not in name}
    derived = named(figures.derived({**values, FP16: 1.0}))
    assert "counted_flops_f32" not in derived and "counted_flops" not in derived
    assert derived["counted_flops_f64"] == 0


APART = {TENSOR.format("fp16_dst_fp16"): 3.0, TENSOR.format("fp16_dst_fp32"): 4.0}


@pytest.mark.parametrize(
    ("values", "dtype", "flops"),
    [
        ({}, "", None),
        ({FP16: 1.0}, "bf16", None),
        ({FP16: 1.0}, "f16", 1.0),
        *(({FP16: 0.0}, dtype, None) for dtype in ("i8", "e4m3")),
        ({FP16: 0.0, INT8: 2.0}, "i8", 2.0),
        *(({FP16: 0.0, FP8: 2.0}, dtype, 2.0) for dtype in ("e4m3", "e5m2")),
        (APART, "", 7.0),  # by the type of the sum
        ({**APART, FP16: 7.0}, "", 7.0),
    ],
)
def test_operations_of_tensor_cores(values, dtype, flops) -> None:
    assert figures.tensor_flops(values, dtype) == flops
    assert catalogue.METRICS[INT8].optional


def test_operations_on_fp8_are_counted_for_fp8_products() -> None:
    for name in catalogue.SETS:
        plain, fp8 = (catalogue.merged([name], is_fp8)[0] for is_fp8 in (False, True))
        more = set() if name in ("limits", "cycles") else {TENSOR.format("fp8")}
        assert set(fp8) - set(plain) == more
        assert [metric for metric in fp8 if metric not in more] == plain


def test_ratio_bytes_and_short_names() -> None:
    values = {"sm__cycles_active.avg": 75.0, "sm__cycles_active.max": 100.0}
    values |= {"dram__bytes_read.sum": 3.0, "dram__bytes_write.sum": 4.0}
    derived = named(figures.derived(values | {"lts__t_sector_hit_rate.pct": 88.0}))
    assert derived == {"cycles_active_ratio": 0.75, "dram_bytes": 7.0, "l2_hit_rate": 88.0}


def test_what_is_no_number_is_not_usable() -> None:
    assert not any(map(catalogue.usable, (math.nan, math.inf, None, "text", True)))


def test_several_kernels_of_a_case_combine() -> None:
    assert catalogue.combined("dram__bytes_read.sum", [1, 2]) == 3
    assert catalogue.combined("launch__registers_per_thread", [32, 16]) == 32
    assert catalogue.combined("lts__t_sector_hit_rate.pct", [50, 60]) == 60
    assert catalogue.combined("something__else.avg", [1, 5]) == 5


def row(address: int, opcode: str, counted: int, ideal: int, executed: int = 1) -> dict:
    counts = {"wavefronts_shared": counted, "wavefronts_shared_ideal": ideal}
    excess = {"wavefronts_shared_excess": counted - ideal, "executed": executed}
    return {"address": address, "opcode": opcode, **counts, **excess}


def test_totals_are_of_the_kinds_that_touch_shared_memory() -> None:
    plain = [row(32, "STS.U16", 0, 0), {"address": 48, "opcode": "LDG.E"}]
    rows = [row(0, "LDSM.16.M88.4", 40, 40), row(16, "LDGSTS.E.BYPASS.128", 58, 15), *plain]
    derived = named(instructions.instruction_totals(rows))
    assert derived["wavefronts_shared"] == 98 and "wavefronts_shared_STS" not in derived
    assert [derived[f"wavefronts_shared_excess_{kind}"] for kind in ("LDSM", "LDGSTS")] == [0, 43]
    assert instructions.instruction_totals(plain[1:]) == []


def test_the_probe_instruction_alone_is_counted() -> None:
    rows = [row(0, "STS", 4, 1), row(16, "STS.64", 2, 2), row(32, "LDS.64", 9, 1, executed=0)]
    values = {figures.DERIVED["shared_wavefronts_store"].counter: 6.0}
    derived = instructions.probe_figures("STS.64", rows, values)
    assert named(derived) == {"wavefronts_by_instruction": 2, "ideal_by_instruction": 2}
    derived = instructions.probe_figures("STS", rows, values)
    assert named(derived) == {"wavefronts_by_instruction": 4, "ideal_by_instruction": 1}
    assert not instructions.probe_figures("LDS", rows, values)
    assert not instructions.probe_figures("STS.64", [*rows, row(64, "STS.64", 1, 1)], values)


def test_the_hardware_counts_a_probe_that_is_alone_on_its_side() -> None:
    """Loads and stores have separate counters; an instruction that was not executed does not count."""
    rows = [row(16, "STS.64", 2, 2), row(32, "LDS.64", 9, 1), row(48, "STS", 7, 7, executed=0)]
    names = [f"{what}_{side}" for what in ("shared_wavefronts", "bank_conflicts") for side in SIDES]
    values = dict(zip((figures.DERIVED[name].counter for name in names), (3.0, 5.0, 8.0, 1.0)))
    cases = (("STS.64", 3, 8, 2, 2), ("LDS", 5, 1, 9, 1))
    for opcode, wavefronts, conflicts, attributed, ideal in cases:
        derived = instructions.probe_figures(opcode, rows, values)
        by_instruction = {"wavefronts_by_instruction": attributed, "ideal_by_instruction": ideal}
        totals = {"wavefronts": wavefronts, "bank_conflicts": conflicts}
        assert named(derived) == by_instruction | totals
        alone = named(instructions.probe_figures(opcode, rows, {}))
        assert not {"wavefronts", "bank_conflicts"} & alone.keys()


XMMA = "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x64x32_stage4_warpsize2x2x1_tensor16x8x16"


@pytest.mark.parametrize("name, tile", CASES["tiles in names of kernels"])
def test_the_pair_of_the_tile_is_read_and_turned(name: str, tile: tuple[int, int]) -> None:
    assert tile_of(name) == tuple(tile)


@pytest.mark.parametrize("name", CASES["names without a tile"])
def test_names_without_a_tile(name: str) -> None:
    assert tile_of(name) is None


def test_the_first_of_several_names_that_tells_a_tile() -> None:
    product = "nvjet_hsh_64x128_64x8_1x1_h_bz_splitK_TNT"
    reduction = "void cublasLt::splitKreduce_kernel<32, 16, int>(Params)"
    assert tile_of(f"{product}; {reduction}") == (128, 64)
    assert tile_of(f"memset; {product}") == (128, 64)
    assert tile_of(f"{product}; {XMMA}") == (128, 64)
