"""What the size of a thread block's output tile trades: data reuse against parallelism.

A block that computes BM x BN outputs fetches BM + BN elements for every step of k, so a larger tile
fetches less in all; it also makes fewer blocks, and fewer of them may leave SMs idle. Tiles are
(rows, columns[, k step]), shapes have the keys ``m``, ``n``, ``k``.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from tilewave.theory import quantization
from tilewave.theory.traffic import loads_per_element

PRIORITY: tuple[tuple[tuple[int, int], ...], ...] = (
    ((256, 128), (128, 256)),
    ((128, 128),),
    ((256, 64), (64, 256)),
    ((128, 64), (64, 128)),
    ((64, 64),),
)
"""Tiles from the most to the least efficient, as NVIDIA's "Matrix Multiplication Background User's
Guide" (section on typical tile dimensions in cuBLAS) orders them; tiles of one group are alike."""


def priority(tile: Sequence[int]) -> int | None:
    """The tile's group in PRIORITY, 0 for the first; None for a tile that it does not name."""
    pair = (tile[0], tile[1])
    return next((place for place, group in enumerate(PRIORITY) if pair in group), None)


def intensity(tile: Sequence[int], element_bytes: float) -> float:
    """FLOP for every byte of A and B that a block fetches: 2 BM BN / (element_bytes (BM + BN)).

    Reads of C and the write of the result are left out: they do not grow with k.
    """
    return 2.0 * tile[0] * tile[1] / (element_bytes * (tile[0] + tile[1]))


def operand_bytes(shape: Mapping[str, int], tile: Sequence[int], element_bytes: float) -> float:
    """Bytes of A and B that all blocks fetch together, however often from which memory.

    Every tile column fetches all of A, every tile row all of B; the part of an edge tile that lies
    outside the matrices is not fetched.
    """
    of_a, of_b = loads_per_element(shape, tile)
    return element_bytes * shape["k"] * (shape["m"] * of_a + shape["n"] * of_b)


def parallel_efficiency(
    shape: Mapping[str, int], tile: Sequence[int], sms: int, blocks_per_sm: int = 1
) -> float:
    """Tile efficiency times wave efficiency, in (0, 1]: useful outputs over those for which all
    waves have room."""
    blocks = quantization.tile_count(shape, tile)
    waves = quantization.waves(blocks, sms, blocks_per_sm)
    return quantization.tile_efficiency(shape, tile) * waves.efficiency


def _ranks(values: Sequence[float]) -> list[float]:
    """Rank of each value, 1 for the smallest; equal values share the mean of their ranks."""
    ordered = sorted(values)
    return [ordered.index(value) + (ordered.count(value) + 1) / 2 for value in values]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rho, in [-1, 1]: Pearson's correlation of the ranks, ties at their mean rank.

    NaN for fewer than two pairs or where one side has a single value. Raises ValueError where the
    two differ in length.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}")
    try:
        return statistics.correlation(_ranks(first), _ranks(second))
    except statistics.StatisticsError:
        return math.nan
