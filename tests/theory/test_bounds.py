"""Bounds of launches whose counts are planted, worked out by hand."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from samples import table
from tilewave.records.counters import demand
from tilewave.theory import bounds, data_sheets, opcodes
from tilewave.theory.bounds import Counts, bound, scaled
from tilewave.theory.data_sheets import SHORT, DataSheet

CASES = table("theory")

A100, B200, H200, L4, RTX_4090 = map(SHORT.__getitem__, ("a100", "b200", "h200", "l4", "rtx4090"))
SMS = H200.sms


@pytest.mark.parametrize(("counts", "pipe", "cycles"), CASES["launches that one pipe limits"])
def test_each_pipe_at_its_rate(counts: dict[str, Any], pipe: str, cycles: float) -> None:
    result = bound(Counts(**counts), H200, blocks=1)
    assert result.limiter == pipe and result.cycles == pytest.approx(cycles)
    assert result.microseconds == pytest.approx(cycles / 1980)
    assert sum(result.pipes.values()) == pytest.approx(cycles)


@pytest.mark.parametrize(("blocks", "each"), [(1, 1), (SMS, 1), (SMS + 1, 2), (2 * SMS, 2)])
def test_the_busiest_sm_has_whole_blocks(blocks: int, each: int) -> None:
    result = bound(Counts(instructions=400 * blocks), H200, blocks)
    assert result.cycles == pytest.approx(100 * each)


def test_dram_moves_what_l2_cannot_hold() -> None:
    fits = bound(Counts(instructions=4), H200, 1, H200.l2_bytes)
    assert fits.pipes[bounds.DRAM] == 0 and fits.limiter == bounds.ISSUE
    more = bound(Counts(instructions=4), H200, 1, H200.l2_bytes + 4.8e6)
    assert more.limiter == bounds.DRAM and more.microseconds == pytest.approx(1.0)


def test_no_block_and_unknown_products_are_errors() -> None:
    with pytest.raises(ValueError, match="positive"):
        bounds.busiest_share(0, SMS)
    with pytest.raises(KeyError):
        bound(Counts(tensor={"mma f4": 1}), H200, 1)
    with pytest.raises(KeyError):
        bound(Counts(), replace(H200, capability="7.0"), 1)


def test_launches_in_a_row_add_up_pipe_by_pipe() -> None:
    first = bound(Counts(instructions=400, f32=1280), H200, 1)
    second = bound(Counts(f32=128 * 95), H200, 1)
    both = bounds.in_turn([first, second])
    assert (first.limiter, second.limiter) == (bounds.ISSUE, bounds.FP32)
    assert both.limiter == bounds.FP32 and both.cycles == pytest.approx(10 + 95)
    assert both.microseconds == pytest.approx(105 / 1980)


def test_counts_are_linear_in_depth_and_tiles() -> None:
    def product(k: int, tiles: int) -> Counts:
        return Counts(
            instructions=tiles * (50 + 3 * k), wavefronts=tiles * 2 * k, accesses=tiles * (7 + k),
            tensor={"mma f16": tiles * 4096.0 * k},
        )  # fmt: skip

    counts = scaled(product(256, 2), product(512, 2), (4096 - 256) / 256, 512 / 2)
    assert counts == product(4096, 512)


@pytest.mark.parametrize(
    ("gpu", "kind", "tflops"),
    [
        (A100, "mma f16", 312), (A100, "mma tf32", 156), (A100, "mma f64", 19.5),
        (L4, "mma f16", 121), (L4, "mma tf32", 60),
        (RTX_4090, "mma f16 f16 sum", 330.3), (RTX_4090, "mma bf16", 165.2), (RTX_4090, "mma i8", 660.6),
        (B200, "mma f16", 2250),
    ],
)  # fmt: skip
def test_rates_are_what_data_sheets_print(gpu: DataSheet, kind: str, tflops: float) -> None:
    """Rates agree but for the clock: B200's data sheet uses less than the largest one."""
    rate = gpu.sms * bounds.tensor_rate(kind, gpu) * gpu.clock_mhz / 1e6
    assert tflops * 0.99 <= rate <= tflops * 1.07


def test_every_gpu_has_rates_and_a_name() -> None:
    for gpu in data_sheets.DATA_SHEETS:
        assert bound(Counts(f32=1), gpu, 1).limiter == bounds.FP32
        assert data_sheets.data_sheet(f"NVIDIA {gpu.name}") is gpu
    for name in ("GeForce RTX 4060 Ti", "H200 NVL"):
        assert data_sheets.data_sheet(f"NVIDIA {name}") is None


@pytest.mark.parametrize("opcode, unit, tensor", CASES["units of tensor instructions"])
def test_units_of_tensor_instructions(opcode: str, unit: Any, tensor: Any) -> None:
    units = opcodes.unit(opcode), opcodes.tensor(opcode)
    assert units == (unit and tuple(unit), tensor and tuple(tensor))


def _row(opcode: str, executed: int, sectors: int = -1, **columns: float) -> dict[str, Any]:
    moved = {"sectors_hardware": sectors, "requests_global": executed} if sectors >= 0 else {}
    return {"opcode": opcode, "executed": executed, **moved, **columns}


def test_demand_of_a_launch() -> None:
    rows = [
        _row("LDS.128", 10, wavefronts_shared=20, wavefronts_hardware=40),
        _row("HGMMA.64x64x16.F32", 2, wavefronts_shared=48),
        _row("LDGSTS.E.BYPASS.128", 4, 64, wavefronts_shared=16),
        _row("LDG.E.64", 3, 24),
        _row("LDG.E", 0, 0),
        _row("STG.E", 5, 5),
        _row("IADD3", 6),
        _row("MUFU.EX2", 7),
    ]
    values: Mapping[str, float] = {
        "smsp__inst_executed.sum": 37.0,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum": 30.0,
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum": 2.0,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": 88.0,
        "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": 5.0,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": 7.0,
        "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": 5.0,
    }
    counts = demand.of_launch(values, rows)
    assert counts == Counts(
        instructions=37, f32=32, alu=192, special=224, tensor={"wgmma f16": 2 * 32768.0},
        wavefronts=88,  # copies that bypass L1 take none
        accesses=4 + 6 + 5,  # requests, and one for each 128 bytes
        port=64 + 5,
    )  # fmt: skip
    # The hardware's counter takes precedence over attributed wavefronts.
    shared = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    assert demand.of_launch({**values, shared: 45.0}, rows).wavefronts == 45 + 48


def test_without_instructions_products_use_the_fastest_unit() -> None:
    counts = demand.of_launch({"sm__ops_path_tensor_src_fp16.sum": 4096.0}, [])
    assert counts.tensor == {"wgmma f16": 4096.0}
    assert bound(counts, A100, 1).cycles == pytest.approx(2)
