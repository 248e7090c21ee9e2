"""Occupancy against values worked out by hand."""

from __future__ import annotations

import pytest

from tilewave.theory.occupancy import HOPPER, TURING, SmLimits, occupancy


def test_the_same_block_is_25_percent_on_turing_and_half_of_it_on_hopper() -> None:
    # 180 registers x 32 = 5760, given as 5888; a quarter of the file (16384) holds 2 warps.
    on_turing, on_hopper = occupancy(TURING, 128, 180), occupancy(HOPPER, 128, 180)
    assert (on_turing.blocks, on_turing.warps, on_turing.fraction) == (2, 8, 0.25)
    assert (on_hopper.blocks, on_hopper.warps, on_hopper.fraction) == (2, 8, 0.125)
    assert on_hopper.limiters == ("registers",)


def test_the_reserved_kilobyte_counts() -> None:
    # 4096 declared occupy 5120: 233472 / 5120 = 45.6, without the reserve it would be 57.
    found = occupancy(HOPPER, 32, 16, 4096)
    assert found.limits["shared memory"] == 45
    assert found.limiters == ("blocks",) and found.blocks == 32
    # Two blocks of 113 KB fit (114 KB each with the reserve), 128 bytes more do not.
    assert occupancy(HOPPER, 128, 32, 113 * 1024).blocks == 2
    assert occupancy(HOPPER, 128, 32, 113 * 1024 + 128).blocks == 1


def test_small_blocks_meet_the_block_slots() -> None:
    found = occupancy(HOPPER, 32, 0)
    assert (found.blocks, found.fraction) == (32, 0.5)
    assert "registers" not in found.limits


def test_full_occupancy() -> None:
    found = occupancy(HOPPER, 256, 32)
    assert (found.blocks, found.warps, found.fraction) == (8, 64, 1.0)


def test_what_does_not_fit_is_zero_blocks() -> None:
    assert occupancy(HOPPER, 128, 32, HOPPER.shared_per_block + 1).blocks == 0
    assert occupancy(HOPPER, 1024, 128).blocks == 0  # 131072 registers
    assert occupancy(HOPPER, 32, 256).blocks == 0
    with pytest.raises(ValueError):
        occupancy(HOPPER, 0, 32)


def test_limits_from_an_environment() -> None:
    facts = {
        "compute_capability": "9.0",
        "max_warps_per_sm": 64,
        "max_blocks_per_sm": 32,
        "registers_per_sm": 65536,
        "shared_per_sm": 233472,
        "shared_per_block_optin": 232448,
        "shared_reserved_per_block": 1024,
    }
    limits = SmLimits.from_environment(facts)
    assert occupancy(limits, 128, 180) == occupancy(HOPPER, 128, 180)
    assert SmLimits.from_environment({**facts, "compute_capability": "7.5"}).shared_unit == 256
    with pytest.raises(KeyError, match="shared_per_sm"):
        SmLimits.from_environment({k: v for k, v in facts.items() if k != "shared_per_sm"})


def test_twice_the_threads_with_fewer_registers() -> None:
    # 128 x 32 = 4096: a quarter of the file holds 4 warps, the file 16, two blocks of 8. On Turing
    # 2 x 32 KB fill the 64 KB; on Hopper 233472 / (32768 + 1024) = 6.9.
    on_turing, on_hopper = occupancy(TURING, 256, 128, 32768), occupancy(HOPPER, 256, 128, 32768)
    assert (on_turing.blocks, on_turing.warps, on_turing.fraction) == (2, 16, 0.5)
    assert on_turing.limiters == ("registers", "shared memory")
    assert (on_hopper.blocks, on_hopper.warps, on_hopper.fraction) == (2, 16, 0.25)
    assert on_hopper.limits["shared memory"] == 6 and on_hopper.limiters == ("registers",)


def test_where_the_steps_of_128_threads_are() -> None:
    # 16384 registers of a quarter over r x 32: 168 -> 5376 -> 3 warps; 169 -> 176 x 32 -> 2.
    assert occupancy(HOPPER, 128, 168).warps == 12
    assert occupancy(HOPPER, 128, 169).warps == occupancy(HOPPER, 128, 255).warps == 8
    # Blocks of 8 warps cannot use the third warp of each quarter.
    assert occupancy(HOPPER, 256, 168).warps == 8
