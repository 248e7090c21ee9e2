"""The matrix multiplication notes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tilewave.plots import base
from tilewave.plots.claims.asked import NAIVE, latency, naive_loads, predicted_loads, speedup
from tilewave.plots.claims.facts import Facts, Function, divided
from tilewave.plots.claims.judging import Claim
from tilewave.plots.claims.warp import LANES, rules
from tilewave.theory import occupancy
from tilewave.theory.data_sheets import TENSOR_INPUTS
from tilewave.theory.occupancy import TURING, SmLimits

DOCUMENT = "Matrix multiplication notes"

F64 = 8  # bytes


def _fp64_conflicts(width: int) -> float:
    """Percent of the load wavefronts of a 16 x 16 tile of doubles that are conflicts.

    width: bytes of a lane's read of A (a row, one element or two at a time); B is read 8 bytes at a
    time. A warp covers two rows of the tile.
    """
    memory, everyone = rules(), np.ones(32, bool)
    row = LANES // 16 * 16 * F64
    a = memory.shared_wavefronts(row, everyone, width, "load")
    b = memory.shared_wavefronts(LANES % 16 * F64, everyone, F64, "load")
    reads = width // F64  # of B for each of A
    return float(100 * (a[1] + reads * b[1]) / (a[0] + reads * b[0]))


def _conflicts(f: Facts, variant: str) -> float | None:
    case = f.case(variant, 256)
    share = divided(
        f.value(case, "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"),
        f.value(case, "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    )
    return None if share is None else 100 * share


def _reads_of_two_outputs(f: Facts) -> float:
    """Multiply-adds for each element read from shared memory, two outputs a thread over one."""

    def for_each_read(outputs: int) -> float:
        return outputs / (outputs + 1)  # one of B, and one of A for each output

    return for_each_read(2) / for_each_read(1)


def _probe_ratio(metric: str, kernel: str, over: str, under: str) -> Function:
    return lambda f: f.ratio(metric, f.probe(kernel, over), f.probe(kernel, under))


def _only_half(inputs: frozenset[str]) -> bool:
    return inputs == {"f16"}


def _tensor_inputs(f: Facts) -> bool | None:
    known = TENSOR_INPUTS.get(str(f.environment.get("compute_capability", "")))
    return None if known is None else _only_half(known)


def _tensor_inputs_measured(f: Facts) -> bool | None:
    """Whether FP16 is the only type whose product cuBLAS computes on tensor cores."""
    counted: dict[str, bool] = {}  # by type, whether any operation was one of tensor cores
    for row in f.cases:
        if row["kernel"] == base.BASELINE and row["m"] == row["n"] == row["k"] == 4096:
            value, kind = f.value(str(row["case"]), base.COUNTED_TENSOR_FLOPS), str(row["dtype"])
            if value is not None:
                kind = kind.split("_")[0]
                counted[kind] = counted.get(kind, False) or value > 0
    used = frozenset(kind for kind, tensor in counted.items() if tensor)
    # FP16 by itself says nothing of the others.
    return _only_half(used) if used and len(counted) > 1 else None


def _warps(threads: int, registers: int, shared: int = 0) -> Callable[[SmLimits], float]:
    return lambda limits: float(occupancy.occupancy(limits, threads, registers, shared).warps)


def _percent(threads: int, registers: int) -> Callable[[SmLimits], float]:
    return lambda limits: 100 * occupancy.occupancy(limits, threads, registers).fraction


def _driver_warps(f: Facts) -> float | None:
    """Warps on an SM that the driver answers for the probe `tile_threads` with 128 threads."""
    blocks = f.value(f.probe("tile_threads", "threads_128"), "driver_blocks_per_sm")
    return None if blocks is None else blocks * 128 / occupancy.WARP


def _driver_percent(f: Facts) -> float | None:
    warps = _driver_warps(f)
    return None if warps is None else 100 * warps / f.limits.max_warps


def _double_buffered_warps(f: Facts) -> float | None:
    """Warps of a kernel with 256 threads of 128 registers and 32 KB: the limit that ncu tells."""
    case = f.case("matmul_double_buffered", 2048)
    threads, registers = (
        f.value(case, "launch__block_size"), f.value(case, "launch__registers_per_thread"),
    )  # fmt: skip
    share = f.value(case, "sm__maximum_warps_per_active_cycle_pct")
    if share is None or (threads, registers) != (256, 128):
        return None
    return share / 100 * f.limits.max_warps


CLAIMS = [
    Claim(
        "fp64_no_conflicts", DOCUMENT, "example and answers", "FP64 tiles, conflicts",
        "A product of doubles in 16 x 16 shared tiles reads without bank conflicts (as compiled)",
        0, "% of load wavefronts", tolerance=1, basis="theory",
        predicted=lambda f: _fp64_conflicts(16),
        measured=lambda f: _conflicts(f, "matmul_tiled-realf64"),
    ),
    Claim(
        "fp64_no_conflicts_scalar", DOCUMENT, "answers", "FP64 tiles, 64-bit reads",
        "The same, where each lane's read of A stays 64 bits wide, as the source is written",
        0, "% of load wavefronts", tolerance=1, basis="theory",
        predicted=lambda f: _fp64_conflicts(8),
        measured=lambda f: _conflicts(f, "matmul_tiled-realf64-scalar_a1"),
    ),
    Claim(
        "loads_a_notes", DOCUMENT, "naive product", "Loads of A in the naive product",
        "The naive product loads A K times",
        NAIVE["k"], "loads of an element", told="K times", tolerance=0.01, basis="theory",
        predicted=predicted_loads(0), measured=naive_loads(0),
    ),
    Claim(
        "loads_b_notes", DOCUMENT, "naive product", "Loads of B in the naive product",
        "The naive product loads B M times",
        NAIVE["m"], "loads of an element", told="M times", tolerance=0.01, basis="theory",
        predicted=predicted_loads(1), measured=naive_loads(1),
    ),
    Claim(
        "loads_each_notes", DOCUMENT, "naive product", "Loads of each element",
        "Without coalescing every element is loaded M N K times",
        math.prod(NAIVE.values()), "loads of an element of A", told="MNK times", tolerance=0.01,
        basis="theory",
        predicted=predicted_loads(0), measured=naive_loads(0),
    ),
    Claim(
        "latency_hundreds", DOCUMENT, "naive product", "Global latency in hundreds",
        "An access to global memory takes hundreds of cycles",
        100, "cycles", relation="at least",
        measured=latency("dram"),
    ),
    Claim(
        "two_outputs", DOCUMENT, "registers", "Two outputs a thread gain little",
        "Two outputs a thread (instruction-level parallelism of 2) hardly raise the multiply-adds per access",
        1, "times, throughput", relation="at most", tolerance=0.1,
        predicted=_reads_of_two_outputs,
        measured=speedup("matmul_two_outputs", "matmul_tiled-tile32"),
    ),
    Claim(
        "wide_loads", DOCUMENT, "registers", "Register tiles gain much",
        "4 x 4 outputs a thread and vector loads raise the speed clearly",
        1, "times, throughput", relation="more than", tolerance=0.1,
        measured=speedup("matmul_register", "matmul_two_outputs"),
    ),
    Claim(
        "warps_128x180", DOCUMENT, "tiling strategy", "Warps, 128 threads of 180 registers",
        "128 threads of 180 registers leave 8 active warps on an SM",
        8, "warps", basis="theory",
        predicted=lambda f: _warps(128, 180)(f.limits),
        measured=_driver_warps,
    ),
    Claim(
        "occupancy_128x180", DOCUMENT, "tiling strategy", "Occupancy of the same",
        "These are an occupancy of 25 %",
        25, "%", tolerance=0.01, basis="theory",
        place="on an SM of 32 warps (compute capability 7.5)",
        predicted=lambda f: _percent(128, 180)(f.limits), measured=_driver_percent,
        elsewhere=lambda f: _percent(128, 180)(TURING),
    ),
    Claim(
        "warps_256x128", DOCUMENT, "tiling strategy", "Warps, 256 threads of 128 registers",
        "256 threads of 128 registers and 32 KB of shared memory give 16 active warps",
        16, "warps", basis="theory",
        predicted=lambda f: _warps(256, 128, 32768)(f.limits), measured=_double_buffered_warps,
    ),
    Claim(
        "threads_256", DOCUMENT, "tiling strategy", "256 threads better than 128",
        "For a tile of 128 x 128, 256 threads are the better choice than 128",
        1, "times, throughput", relation="more than", tolerance=0.02,
        measured=_probe_ratio("tflops", "tile_threads", "threads_256", "threads_128"),
    ),
    Claim(
        "double_buffer", DOCUMENT, "tiling strategy", "Double buffering gains",
        "Double buffering in shared memory and registers raises the efficiency of the register tiles",
        1, "times, throughput", relation="more than", tolerance=0.02,
        measured=speedup("matmul_double_buffered", "matmul_register"),
    ),
    Claim(
        "tensor_half_only", DOCUMENT, "tensor cores", "Tensor cores take FP16 only",
        "Tensor cores multiply half precision only",
        True, place="on compute capability 7.0",
        predicted=_tensor_inputs, measured=_tensor_inputs_measured,
        elsewhere=lambda f: _only_half(TENSOR_INPUTS["7.0"]),
    ),
]  # fmt: skip
