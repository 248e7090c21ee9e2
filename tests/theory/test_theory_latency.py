"""Little's law on an SM, against values worked out by hand."""

import pytest

from tilewave.theory.latency import fma_per_cycle, lanes_of, nanoseconds, warps_to_hide


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
        (6, 1, 48),  # with one chain they still wait for the latency: the number alone counts
    ],
)
def test_the_fullest_scheduler_and_the_latency_decide(warps, ilp, expected) -> None:
    assert fma_per_cycle(warps, ilp, 4) == expected


def test_enough_is_latency_times_rate() -> None:
    # A scheduler without a warp issues nothing, however many chains the others have.
    assert [warps_to_hide(4, ilp) for ilp in (1, 2, 8)] == [16, 8, 4]
    assert warps_to_hide(4, 1, lanes=16) == 8
    # 18 warps, one chain: 18 x 32 / 5.
    assert fma_per_cycle(18, 1, 4.06) == pytest.approx(115.2)


def test_lanes_by_compute_capability() -> None:
    assert [lanes_of(one) for one in ("7.5", "8.0", "8.6", "9.0", "")] == [16, 16, 32, 32, 32]
    # Of 16 lanes a warp instruction takes two cycles.
    assert [fma_per_cycle(warps, 1, 4, lanes=16) for warps in (4, 8, 64)] == [32, 64, 64]


def test_cycles_to_time() -> None:
    assert nanoseconds(990, 1980) == 500


@pytest.mark.parametrize(
    ("warps", "ilp", "latency", "name"),
    [(0, 1, 4, "warps"), (1, 0, 4, "ilp"), (1, 1, 0, "latency"), (1, 1, float("nan"), "latency")],
)
def test_nothing_is_refused(warps: int, ilp: float, latency: float, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be positive"):
        fma_per_cycle(warps, ilp, latency)
    with pytest.raises(ValueError, match="clock_mhz"):
        nanoseconds(1, 0)
