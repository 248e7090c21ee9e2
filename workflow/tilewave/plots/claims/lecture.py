"""The matrix multiplication lecture."""

from __future__ import annotations

from tilewave.plots.claims.asked import (
    NAIVE,
    latency,
    mnk,
    naive_loads,
    predicted_loads,
    shared_over_l1,
)
from tilewave.plots.claims.facts import Facts, Function, Value
from tilewave.plots.claims.judging import Claim
from tilewave.theory import traffic
from tilewave.theory.occupancy import TURING

DOCUMENT = "Matrix multiplication lecture"


def _loads_saved(f: Facts) -> float:
    shape = mnk(2048, 2048, 2048)
    return float(
        traffic.loads_per_element(shape)[0] / traffic.loads_per_element(shape, (32, 32))[0]
    )


def _requests_saved(f: Facts) -> float | None:
    return f.ratio(
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        f.case("matmul_naive", 2048), f.case("matmul_tiled-tile32", 2048),
    )  # fmt: skip


def _barriers(*names: str) -> Function:
    """Whether all these cases of the barrier probe ended and were right."""

    def all_well(f: Facts) -> bool | None:
        ended = [f.ended_well(f.probe("barrier_divergent", name)) for name in names]
        return None if None in ended else all(ended)

    return all_well


def _not(function: Function) -> Function:
    def opposite(f: Facts) -> Value | None:
        value = function(f)
        return None if value is None else not value

    return opposite


def _shared_kb(f: Facts) -> float | None:
    shared = f.fact("shared_per_sm")
    return None if shared is None else shared / 1024


CLAIMS = [
    Claim(
        "loads_a_lecture", DOCUMENT, "basic product", "Loads of A in the naive product",
        "The naive product loads each element of A N times",
        NAIVE["n"], "loads of an element", told="N times", tolerance=0.01, basis="theory",
        predicted=predicted_loads(0), measured=naive_loads(0),
    ),
    Claim(
        "loads_b_lecture", DOCUMENT, "basic product", "Loads of B in the naive product",
        "The naive product loads each element of B M times",
        NAIVE["m"], "loads of an element", told="M times", tolerance=0.01, basis="theory",
        predicted=predicted_loads(1), measured=naive_loads(1),
    ),
    Claim(
        "tiles_save_loads", DOCUMENT, "reuse through shared memory", "Tiles save loads",
        "Tiles in shared memory save loads from global memory",
        1, "times, requests", relation="more than",
        predicted=_loads_saved, measured=_requests_saved,
    ),
    Claim(
        "latency_register", DOCUMENT, "memory speeds", "Latency, register",
        "A register takes about 1 cycle",
        1, "cycles", tolerance=0.5,
        measured=latency("register"),
    ),
    Claim(
        "latency_shared", DOCUMENT, "memory speeds", "Latency, shared memory",
        "Shared memory takes about 5 cycles",
        5, "cycles", tolerance=0.5,
        measured=latency("shared"),
    ),
    Claim(
        "latency_constant", DOCUMENT, "memory speeds", "Latency, constant memory",
        "Constant memory takes about 5 cycles",
        5, "cycles", tolerance=0.5,
        measured=latency("constant"),
    ),
    Claim(
        "latency_global", DOCUMENT, "memory speeds", "Latency, global memory",
        "Global memory takes about 500 cycles",
        500, "cycles", tolerance=0.5,
        measured=latency("dram"),
    ),
    Claim(
        "shared_like_cache", DOCUMENT, "shared memory", "Shared memory as fast as L1",
        "Shared memory is read as fast as the L1 cache",
        1, "times, latency", tolerance=0.1,
        measured=shared_over_l1,
    ),
    Claim(
        "shared_small", DOCUMENT, "shared memory", "Tens of KB of shared memory",
        "An SM has only tens of KB of shared memory",
        100, "KB", relation="less than", basis="theory", place="on compute capability 7.5",
        predicted=lambda f: f.limits.shared / 1024, measured=_shared_kb,
        elsewhere=lambda f: TURING.shared / 1024,
    ),
    Claim(
        "barrier_reachable", DOCUMENT, "barriers, first slide",
        "Barrier for those who can reach it",
        "A barrier waits only for the threads of the block that can still reach it",
        True,
        measured=_barriers("one_warps_part", "one_lanes_part"),
    ),
    Claim(
        "barrier_each_side", DOCUMENT, "barriers, first slide",
        "Barrier in each side of a branch",
        "A barrier in each side of a branch synchronises the block",
        True, place="where the lanes of a warp take the same side",
        measured=_barriers("two_warps_all", "two_lanes_all"),
        elsewhere=_barriers("two_warps_all"),
    ),
    Claim(
        "barrier_everyone", DOCUMENT, "barriers, tiling slide", "Barrier for every thread",
        "No thread goes on before every thread of the block has reached the barrier",
        True,
        measured=_not(_barriers("one_warps_part", "one_lanes_part")),
    ),
]  # fmt: skip
