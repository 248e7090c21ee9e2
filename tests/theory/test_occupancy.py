"""Occupancy, and Little's law on an SM, against values worked out by hand."""

import pytest

import samples
from tilewave.theory.latency import fma_per_cycle, lanes_of, warps_to_hide
from tilewave.theory.occupancy import HOPPER, TURING, SmLimits, occupancy


@pytest.mark.parametrize(
    ("gpu", "block", "blocks", "fraction", "limiters"),
    [
        # 180 registers x 32 = 5760, rounded up to 5888; a quarter of the file (16384) holds 2 warps.
        (TURING, (128, 180), 2, 0.25, ("registers",)),
        (HOPPER, (128, 180), 2, 0.125, ("registers",)),
        # 128 x 32 = 4096: a quarter of the file holds 4 warps, the file 16, two blocks of 8. On Turing
        # 2 x 32 KB fill the 64 KB; on Hopper 233472 / (32768 + 1024) = 6.9.
        (TURING, (256, 128, 32768), 2, 0.5, ("registers", "shared memory")),
        (HOPPER, (256, 128, 32768), 2, 0.25, ("registers",)),
        # 16384 registers of a quarter over r x 32: 168 -> 5376 -> 3 warps; 169 -> 176 x 32 -> 2.
        (HOPPER, (128, 168), 3, 12 / 64, ("registers",)),
        (HOPPER, (128, 169), 2, 8 / 64, ("registers",)),
        (HOPPER, (256, 168), 1, 8 / 64, ("registers",)),  # not the third warp of each quarter
        (HOPPER, (256, 32), 8, 1.0, ("warps", "registers")),
        (HOPPER, (32, 0), 32, 0.5, ("blocks",)),
        # 4096 declared occupy 5120: 233472 / 5120 = 45.6, without the reserve it would be 57.
        (HOPPER, (32, 16, 4096), 32, 0.5, ("blocks",)),
        # Two blocks of 113 KB fit (114 KB each with the reserve), 128 bytes more do not.
        (HOPPER, (128, 32, 113 * 1024), 2, 8 / 64, ("shared memory",)),
        (HOPPER, (128, 32, 113 * 1024 + 128), 1, 4 / 64, ("shared memory",)),
    ],
)
def test_occupancy(gpu, block, blocks, fraction, limiters) -> None:
    result = occupancy(gpu, *block)
    assert (result.blocks, result.fraction, result.limiters) == (blocks, fraction, limiters)


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
    limits = SmLimits.from_environment(facts)
    assert occupancy(limits, 128, 180) == occupancy(HOPPER, 128, 180)
    assert SmLimits.from_environment({**facts, "compute_capability": "7.5"}).shared_unit == 256
    with pytest.raises(KeyError, match="shared_per_sm"):
        SmLimits.from_environment({k: v for k, v in facts.items() if k != "shared_per_sm"})


@pytest.mark.parametrize(
    ("warps", "ilp", "expected"),
    [
        (1, 1, 8),  # 32 lanes do one multiply-add every 4 cycles
        (4, 1, 32),  # four warps, one a scheduler, do not slow each other down
        (4, 2, 64),
        # 4 schedulers x 4 cycles = 16 independent warp instructions, from warps or from chains.
        *((warps, ilp, 128) for warps, ilp in ((16, 1), (8, 2), (4, 4), (4, 8), (64, 1), (8, 8))),
        (12, 1, 96),
        # Six warps: two schedulers have two, and those need 2 x 8 cycles for a round of 8 chains, in
        # which 6 x 32 x 8 multiply-adds are done: 1536 / 16. Five: one more than four is slower.
        (6, 8, 96),
        (5, 8, 80),
        (6, 1, 48),  # with one chain they still wait for the latency: only their number counts
    ],
)
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
