"""The trade-off of a thread block's output tile: data reuse against parallelism.
A block of BM x BN outputs loads BM + BN elements for every step of k. So larger tiles load less in all, but they give
fewer blocks, which may leave SMs idle. Tiles are (rows, columns[, k step]), shapes have the keys ``m``, ``n``, ``k``."""

from collections.abc import Mapping, Sequence

from tilewave.basics.tables import table_beside
from tilewave.theory import quantization
from tilewave.theory.traffic import loads_per_element

PRIORITY: Sequence[Sequence[Sequence[int]]] = table_beside(__file__)
"""Groups of equally efficient tiles, the best first."""


def priority(tile: Sequence[int]) -> int | None:
    """Return the index of the tile's group in PRIORITY, or None."""
    pair = [tile[0], tile[1]]
    return next((index for index, group in enumerate(PRIORITY) if pair in group), None)


def intensity(tile: Sequence[int], element_bytes: float) -> float:
    """Return the FLOP per byte of A and B that a block loads: 2 BM BN / (element_bytes (BM + BN)).
    Reads and writes of C are ignored because they do not grow with k."""
    return 2.0 * tile[0] * tile[1] / (element_bytes * (tile[0] + tile[1]))


def operand_bytes(shape: Mapping[str, int], tile: Sequence[int], element_bytes: float) -> float:
    """Return the bytes of A and B that all blocks load together, without parts of edge tiles outside the matrices."""
    of_a, of_b = loads_per_element(shape, tile)
    return element_bytes * shape["k"] * (shape["m"] * of_a + shape["n"] * of_b)


def parallel_efficiency(
    shape: Mapping[str, int], tile: Sequence[int], sms: int, blocks_per_sm: int = 1
) -> float:
    """Return tile efficiency times wave efficiency, in (0, 1]: useful outputs over the waves' room."""
    waves = quantization.waves(quantization.tile_count(shape, tile), sms, blocks_per_sm)
    return quantization.tile_efficiency(shape, tile) * waves.efficiency
