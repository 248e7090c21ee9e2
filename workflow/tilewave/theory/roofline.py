"""The roofline at each level of the memory: bytes that cross it, and the lowest roof over a kernel.

`tilewave.theory.traffic` has the model under one pair of ceilings (`Machine`: balance, attainable,
bound). Here are the levels above device memory (Ilic, Pratas and Sousa, "Cache-aware Roofline Model",
IEEE CAL 13(1), 2014) and the choice among several ceilings.

Units: FLOP, byte, FLOP/byte; rates in TFLOP/s and TB/s, whose quotient is FLOP/byte too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewave.theory.traffic import MATH, SECTOR_BYTES, Machine

WAVEFRONT_BYTES = 128
"""What one wavefront of shared memory carries at best: 32 banks of 4 bytes."""


def l2_bytes(sectors: float) -> float:
    """Bytes between the SMs and the L2, of so many sectors that the SMs ask for or write."""
    return SECTOR_BYTES * sectors


def l1_bytes(global_sectors: float, shared_wavefronts: float, l2: float = 0) -> float:
    """Bytes through the data pipe that L1 and shared memory have in common.

    global_sectors: of global loads and stores. shared_wavefronts: of shared loads and stores,
    asynchronous copies and wgmma operands. A wavefront with bank conflicts carries less than its 128
    bytes, but it takes the pipe as long as a full one, so it counts as one. l2: bytes that the SM
    exchanged with L2; what of them no global load or store asked for came or went as bulk copies (TMA),
    which have no counter of their own, and passed shared memory at least once.
    """
    bulk = max(0.0, l2 - SECTOR_BYTES * global_sectors)
    return SECTOR_BYTES * global_sectors + WAVEFRONT_BYTES * shared_wavefronts + bulk


@dataclass(frozen=True)
class Roof:
    """The lowest roof over a kernel: its height in TFLOP/s and what it is made of: a level of the
    memory by its name, or ``math``."""

    tflops: float
    bound: str


def lowest_roof(
    peak: float | None, bandwidths: Mapping[str, float], intensities: Mapping[str, float]
) -> Roof | None:
    """The least of the arithmetic peak and of intensity x bandwidth at each level.

    peak: TFLOP/s, None where it is not known. bandwidths, intensities: level -> TB/s, FLOP/byte; a
    level that lacks one of them bounds nothing. None where nothing bounds.
    """
    roofs = [] if peak is None else [Roof(peak, MATH)]
    for level, bandwidth in bandwidths.items():
        if level in intensities:
            over = Machine(math.inf, bandwidth).attainable(intensities[level])
            roofs.append(Roof(over, level))
    return min(roofs, key=lambda roof: roof.tflops, default=None)
