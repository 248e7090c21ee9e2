"""Occupancy, and Little's law on an SM, against values worked out by hand."""

import pytest

import samples
from tilewave.theory.latency import fma_per_cycle, lanes_of, warps_to_hide
from tilewave.theory.occupancy import HOPPER, TURING, SmLimits, occupancy

CASES = samples.table("theory")


@pytest.mark.parametrize("gpu, block, blocks, fraction, limiters", CASES["occupancy"])
def test_occupancy(gpu, block, blocks, fraction, limiters) -> None:
    result = occupancy({"TURING": TURING, "HOPPER": HOPPER}[gpu], *block)
    assert (result.blocks, result.fraction, [*result.limiters]) == (blocks, fraction, limiters)


def test_limits_are_named() -> None:
    assert occupancy(HOPPER, 32, 16, 4096).limits["shared memory"] == 45
    assert "registers" not in occupancy(HOPPER, 32, 0).limits


def test_a_block_that_does_not_fit_has_zero_blocks() -> None:
    assert occupancy(HOPPER, 128, 32, HOPPER.shared_per_block + 1).blocks == 0
    assert occupancy(HOPPER, 1024, 128).blocks == 0  # 131072 registers
    assert occupancy(HOPPER, 32, 256).blocks == 0
    with pytest.raises(ValueError):
        occupancy(HOPPER, 0, 32)


def test_limits_from_an_environment() -> None:
    facts = samples.HOPPER
    assert occupancy(SmLimits.from_environment(facts), 128, 180) == occupancy(HOPPER, 128, 180)
    assert SmLimits.from_environment({**facts, "compute_capability": "7.5"}).shared_unit == 256
    with pytest.raises(KeyError, match="shared_per_sm"):
        SmLimits.from_environment({k: v for k, v in facts.items() if k != "shared_per_sm"})


@pytest.mark.parametrize("warps, ilp, expected", CASES["multiply-adds of warps with chains"])
def test_the_fullest_scheduler_and_the_latency_decide(warps, ilp, expected) -> None:
    assert fma_per_cycle(warps, ilp, 4) == expected


def test_enough_is_latency_times_rate() -> None:
    # A scheduler without a warp issues nothing.
    assert [warps_to_hide(4, ilp) for ilp in (1, 2, 8)] == [16, 8, 4]
    assert warps_to_hide(4, 1, lanes=16) == 8
    # 18 warps, one chain: 18 x 32 / 5.
    assert fma_per_cycle(18, 1, 4.06) == pytest.approx(115.2)


def test_lanes_by_compute_capability() -> None:
    capabilities = ("7.5", "8.0", "8.6", "9.0", "")
    assert [*map(lanes_of, capabilities)] == [16, 16, 32, 32, 32]
    # Of 16 lanes a warp instruction takes two cycles.
    assert [fma_per_cycle(warps, 1, 4, lanes=16) for warps in (4, 8, 64)] == [32, 64, 64]


@pytest.mark.parametrize(
    ("warps", "ilp", "latency", "name"),
    [(0, 1, 4, "warps"), (1, 0, 4, "ilp"), (1, 1, 0, "latency"), (1, 1, float("nan"), "latency")],
)
def test_nothing_is_refused(warps: int, ilp: float, latency: float, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be positive"):
        fma_per_cycle(warps, ilp, latency)
