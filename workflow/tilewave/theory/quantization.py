"""Tile and wave quantization of a tiled matrix product.

A matrix product does its work in whole output tiles, and a GPU runs whole blocks. Both round up:

* *tile quantization*: the tiles at the right and lower edge cost as much as full ones;
* *wave quantization*: an SM left without a block in the last wave waits for the others.

Shapes are mappings with the keys ``m``, ``n`` (and ``k``); tiles are (rows, columns[, k step]) of
one thread block. Source of the terms: NVIDIA, "Matrix Multiplication Background User's Guide"
(dimension quantization effects); the formulas are arithmetic on counts.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


def _ceil(value: int, step: int) -> int:
    """``value / step`` rounded up; both positive."""
    if value < 1 or step < 1:
        raise ValueError(f"sizes must be positive, found {value} and {step}")
    return -(-value // step)


def tiles(shape: Mapping[str, int], tile: Sequence[int]) -> tuple[int, int]:
    """Tile rows and tile columns of C[m, n]. Their product is the number of tiles."""
    return _ceil(shape["m"], tile[0]), _ceil(shape["n"], tile[1])


def tile_count(shape: Mapping[str, int], tile: Sequence[int]) -> int:
    """Number of output tiles."""
    rows, columns = tiles(shape, tile)
    return rows * columns


def tile_efficiency(shape: Mapping[str, int], tile: Sequence[int]) -> float:
    """Elements of C over elements of all its tiles, in (0, 1]."""
    return shape["m"] * shape["n"] / (tile_count(shape, tile) * tile[0] * tile[1])


def last_column_useful(shape: Mapping[str, int], tile: Sequence[int]) -> float:
    """Useful share of the last tile column, in (0, 1]: 8 of 128 columns are 0.0625."""
    return (shape["n"] - (_ceil(shape["n"], tile[1]) - 1) * tile[1]) / tile[1]


def operations_ratio(shape: Mapping[str, int], tile: Sequence[int]) -> float:
    """Multiply-adds that whole tiles execute over the m n k that are asked for (>= 1).

    This is what the counted tensor operations over 2mnk should read for a kernel that fills the
    rest of a tile with zeros. A third element of ``tile`` is the k step, which is padded likewise;
    without it k is taken as it is.
    """
    k = shape["k"]
    padded_k = _ceil(k, tile[2]) * tile[2] if len(tile) > 2 else k
    return padded_k / k / tile_efficiency(shape, tile)


@dataclass(frozen=True)
class Waves:
    """How blocks fall into waves of ``capacity`` = SMs x blocks per SM.

    full: waves in which every place is taken. tail: blocks of the last, partly filled wave
    (0 where the blocks fill their waves). count: waves, the partly filled one included.
    fraction: blocks over capacity, ncu's ``launch__waves_per_multiprocessor``.
    efficiency: places used over places in all waves, in (0, 1].
    """

    blocks: int
    capacity: int

    @property
    def full(self) -> int:
        return self.blocks // self.capacity

    @property
    def tail(self) -> int:
        return self.blocks % self.capacity

    @property
    def count(self) -> int:
        return _ceil(self.blocks, self.capacity)

    @property
    def fraction(self) -> float:
        return self.blocks / self.capacity

    @property
    def efficiency(self) -> float:
        return self.blocks / (self.count * self.capacity)


def waves(blocks: int, sms: int, blocks_per_sm: int = 1) -> Waves:
    """Waves of ``blocks`` equal blocks on ``sms`` SMs that hold ``blocks_per_sm`` at a time.

    Raises ValueError where a number is not positive.
    """
    if min(blocks, sms, blocks_per_sm) < 1:
        raise ValueError(f"must be positive: {blocks} blocks, {sms} SMs, {blocks_per_sm} per SM")
    return Waves(blocks, sms * blocks_per_sm)


def cycles_active_ratio(blocks: int, sms: int) -> float:
    """Predicted ``sm__cycles_active`` average over maximum, in (0, 1].

    Blocks are dealt to SMs one after the other, so an SM gets floor or ceil of blocks / sms, and an
    SM is busy in proportion to the blocks it gets (equal blocks whose SM is limited by throughput;
    with one block per SM at a time this holds whatever limits it).
    """
    if min(blocks, sms) < 1:
        raise ValueError(f"must be positive: {blocks} blocks, {sms} SMs")
    return blocks / (sms * _ceil(blocks, sms))


def rounds_on_sms(blocks: int, sms: int) -> int:
    """Blocks on the busiest SM where they are dealt out evenly: ceil(blocks / sms).

    The number of waves on SMs that hold one block at a time. Where an SM holds several, it is the
    other limit of what a tail costs: blocks that share an SM's throughput take as long together as
    one after the other, and a wave of them that is half full costs half; blocks that wait on
    latency do not disturb each other, and every wave costs the same however full it is.
    """
    return waves(blocks, sms).count


def wave_weights(blocks: int, sms: int, blocks_per_sm: int) -> tuple[float, float]:
    """(waves of full SMs, waves of SMs with one block each) that ``blocks`` take one after another.

    Between the two limits of `rounds_on_sms`: a last wave with b of ``blocks_per_sm`` = o blocks on
    its busiest SM takes (b - 1) / (o - 1) of the way from the time of a wave with one block an SM
    to that of a whole one. With o = 1 the second number is 0.
    """
    found = waves(blocks, sms, blocks_per_sm)
    if not found.tail or blocks_per_sm == 1:
        return float(found.count), 0.0
    share = (rounds_on_sms(found.tail, sms) - 1) / (blocks_per_sm - 1)
    return found.full + share, 1.0 - share


def fitted_pair(
    durations: Sequence[float], weights: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """The two times, in the unit of the durations, whose weighted sums are nearest to the durations:
    least squares of the relative error. NaN where the sweep does not tell them apart."""
    rows = [
        (whole / duration, single / duration)
        for duration, (whole, single) in zip(durations, weights, strict=True)
        if not math.isnan(duration)
    ]
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    if not determinant > 1e-9 * aa * bb:
        return math.nan, math.nan
    return (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant


def fitted_time(durations: Iterable[float], counts: Iterable[float]) -> float:
    """The one number that a model of whole waves takes from a sweep: the median of duration over
    count, in the unit of the durations. NaN for an empty sweep."""
    each = [d / c for d, c in zip(durations, counts, strict=True) if not math.isnan(d)]
    return statistics.median(each) if each else math.nan


@dataclass(frozen=True)
class PredictionError:
    """How far a model is from a sweep, relative to the model (0.05 is 5 %).

    median: of the absolute errors. worst: the error largest in absolute value, with its sign.
    place: where that is, an index into the sweep; -1 for an empty one. count: points compared.
    """

    median: float
    worst: float
    place: int
    count: int


def prediction_error(errors: Sequence[float]) -> PredictionError:
    """Summary of the errors of a sweep (``measured / predicted - 1``); NaN are left out."""
    known = [(abs(error), place) for place, error in enumerate(errors) if not math.isnan(error)]
    if not known:
        return PredictionError(math.nan, math.nan, -1, 0)
    place = max(known)[1]
    return PredictionError(
        statistics.median(size for size, _ in known), errors[place], place, len(known)
    )


def tail_in_partial_column(
    shape: Mapping[str, int], tile: Sequence[int], sms: int, blocks_per_sm: int = 1
) -> bool:
    """Whether the last wave has no more blocks than a last tile column that is not full.

    Dealt column by column, all blocks of that wave then work on a tile that is partly empty and
    fetch less than others do, so the wave is cheaper than a whole one.
    """
    rows, columns = tiles(shape, tile)
    found = waves(rows * columns, sms, blocks_per_sm)
    partial = shape["n"] % tile[1] != 0
    return partial and found.full > 0 and 0 < (found.tail or found.capacity) <= rows
