"""Little's law on an SM, against values worked out by hand."""

from __future__ import annotations

import pytest

from tilewave.theory.latency import fma_per_cycle, lanes_of, nanoseconds, warps_to_hide


def test_one_chain_waits_for_its_latency() -> None:
    # 32 lanes do one multiply-add every 4 cycles.
    assert fma_per_cycle(1, 1, 4) == 8
    # Four warps, one a scheduler, do not slow each other down.
    assert fma_per_cycle(4, 1, 4) == 32
    assert fma_per_cycle(4, 2, 4) == 64


def test_enough_is_latency_times_rate() -> None:
    # 4 schedulers x 4 cycles = 16 independent warp instructions, from warps or from chains.
    for warps, ilp in ((16, 1), (8, 2), (4, 4), (4, 8), (64, 1)):
        assert fma_per_cycle(warps, ilp, 4) == 128
    assert fma_per_cycle(12, 1, 4) == 96
    assert warps_to_hide(4, 1) == 16
    assert warps_to_hide(4, 2) == 8
    # A scheduler without a warp issues nothing, however many chains the others have.
    assert warps_to_hide(4, 8) == 4


def test_lanes_by_compute_capability() -> None:
    assert [lanes_of(one) for one in ("7.5", "8.0", "8.6", "9.0", "")] == [16, 16, 32, 32, 32]
    assert fma_per_cycle(64, 1, 4, lanes=lanes_of("8.0")) == 64


def test_the_fullest_scheduler_decides() -> None:
    # Six warps take as long for three quarters of the work as eight for all of it.
    assert fma_per_cycle(6, 8, 4) == 0.75 * fma_per_cycle(8, 8, 4)
    # Six warps: two schedulers have two, and those need 2 x 8 cycles for a round of 8 chains, in
    # which 6 x 32 x 8 multiply-adds are done: 1536 / 16.
    assert fma_per_cycle(6, 8, 4) == 96
    # Five: 5 x 32 x 8 / 16. One warp more than four is slower than four.
    assert fma_per_cycle(5, 8, 4) == 80 < fma_per_cycle(4, 8, 4)
    # With one chain six warps still wait for the latency, so there the number alone counts.
    assert fma_per_cycle(6, 1, 4) == 48
    # 18 warps, one chain: 18 x 32 / 5.
    assert fma_per_cycle(18, 1, 4.06) == pytest.approx(115.2)


def test_half_as_many_lanes() -> None:
    # Compute capability 7.5: 16 lanes a scheduler, a warp instruction takes two cycles.
    assert fma_per_cycle(8, 1, 4, lanes=16) == 64
    assert fma_per_cycle(4, 1, 4, lanes=16) == 32
    assert warps_to_hide(4, 1, lanes=16) == 8


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
