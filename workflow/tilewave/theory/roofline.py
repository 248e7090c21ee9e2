"""The roofline at each level of the memory: bytes that cross it, and the lowest roof over a kernel.

`tilewave.theory.traffic` has the model with one pair of ceilings (`Machine`: balance, attainable, bound). This
module adds the levels above device memory (Ilic, Pratas and Sousa, "Cache-aware Roofline Model", IEEE CAL
13(1), 2014) and the choice among several ceilings.

Units: FLOP, byte, FLOP/byte; rates in TFLOP/s and TB/s, whose quotient is FLOP/byte too.
"""

from collections.abc import Mapping

from tilewave.theory.traffic import MATH, SECTOR_BYTES

WAVEFRONT_BYTES = 128
"""The most bytes of a wavefront of shared memory: 32 banks of 4 bytes."""


def l2_bytes(sectors: float) -> float:
    """Return the bytes of the sectors that the SMs request from the L2 or write to it."""
    return SECTOR_BYTES * sectors


def l1_bytes(
    global_sectors: float, shared_wavefronts: float, l2: float = 0, bypassing: float = 0
) -> float:
    """Return the bytes through the data pipe that L1 and shared memory have in common.

    global_sectors: of global loads and stores; bypassing: those of copies that bypass L1 (``cp.async.cg``).
    shared_wavefronts: of shared loads and stores, asynchronous copies through L1 and wgmma operands. A wavefront with bank conflicts carries fewer than 128 bytes, but it occupies
    the pipe as long as a full one, so it counts as one. l2: bytes between the SM and the L2. Those that no
    global load or store requested are bulk copies (TMA), which have no counter and pass shared memory at
    least once.
    """
    bulk = max(0.0, l2 - SECTOR_BYTES * global_sectors)
    passing = global_sectors - bypassing
    return SECTOR_BYTES * passing + WAVEFRONT_BYTES * shared_wavefronts + bulk


def lowest_roof(
    peak: float | None, bandwidths: Mapping[str, float], intensities: Mapping[str, float]
) -> tuple[float, str] | None:
    """Return the lowest roof (TFLOP/s) and its cause, a level of the memory or ``math``; None if there is no
    bound. peak: TFLOP/s. bandwidths, intensities: TB/s and FLOP/byte by level, which needs both."""
    roofs = [] if peak is None else [(peak, MATH)]
    levels = (level for level in bandwidths if level in intensities)
    roofs += [(intensities[level] * bandwidths[level], level) for level in levels]
    return min(roofs, key=lambda roof: roof[0], default=None)
