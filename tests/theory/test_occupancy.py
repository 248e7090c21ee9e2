"""Occupancy against values worked out by hand."""

import pytest

from tilewave.theory.occupancy import HOPPER, TURING, SmLimits, occupancy


@pytest.mark.parametrize(
    ("gpu", "given", "blocks", "fraction", "limiters"),
    [
        # 180 registers x 32 = 5760, given as 5888; a quarter of the file (16384) holds 2 warps.
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
def test_occupancy(gpu, given, blocks, fraction, limiters) -> None:
    found = occupancy(gpu, *given)
    assert (found.blocks, found.fraction, found.limiters) == (blocks, fraction, limiters)


def test_limits_are_named() -> None:
    assert occupancy(HOPPER, 32, 16, 4096).limits["shared memory"] == 45
    assert "registers" not in occupancy(HOPPER, 32, 0).limits


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
