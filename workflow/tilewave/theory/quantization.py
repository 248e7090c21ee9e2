"""Tile and wave quantization of a tiled matrix product.

A matrix product computes whole output tiles, and a GPU runs whole blocks. Both round up:

* *tile quantization*: the tiles at the right and lower edge cost as much as full ones;
* *wave quantization*: an SM without a block in the last wave waits for the rest.

Shapes are mappings with the keys ``m``, ``n`` (and ``k``); tiles are (rows, columns[, k step]) of
one thread block. Source of the terms: NVIDIA, "Matrix Multiplication Background User's Guide"
(dimension quantization effects); the formulas are arithmetic on counts.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


def positive(**values: float) -> None:
    """Raise ValueError with the name of a value that is not positive."""
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, found {value}")


def _ceil(value: int, step: int) -> int:
    """Return ``value / step`` rounded up; both positive."""
    positive(size=value, step=step)
    return -(-value // step)


def tiles(shape: Mapping[str, int], tile: Sequence[int]) -> tuple[int, int]:
    """Return the tile rows and tile columns of C[m, n]. Their product is the number of tiles."""
    return _ceil(shape["m"], tile[0]), _ceil(shape["n"], tile[1])


def tile_count(shape: Mapping[str, int], tile: Sequence[int]) -> int:
    rows, columns = tiles(shape, tile)
    return rows * columns


def tile_efficiency(shape: Mapping[str, int], tile: Sequence[int]) -> float:
    """Return the elements of C over the elements of all its tiles, in (0, 1]."""
    return shape["m"] * shape["n"] / (tile_count(shape, tile) * tile[0] * tile[1])


def last_column_useful(shape: Mapping[str, int], tile: Sequence[int]) -> float:
    """Return the useful share of the last tile column, in (0, 1]: 8 of 128 columns are 0.0625."""
    return (shape["n"] - (_ceil(shape["n"], tile[1]) - 1) * tile[1]) / tile[1]


def operations_ratio(shape: Mapping[str, int], tile: Sequence[int]) -> float:
    """Return the multiply-adds of whole tiles over the m n k that are needed (>= 1); a tile's k step pads k.
    It predicts the tensor operations over 2mnk of a kernel that fills the rest of a tile with zeros."""
    k = shape["k"]
    padded_k = _ceil(k, tile[2]) * tile[2] if len(tile) > 2 else k
    return padded_k / k / tile_efficiency(shape, tile)


@dataclass(frozen=True)
class Waves:
    """Blocks in waves of ``capacity`` = SMs x blocks per SM.
    full: waves without an empty slot. tail: blocks of the last, partly filled wave. count: all waves. fraction:
    ncu's ``launch__waves_per_multiprocessor``. efficiency: used slots over slots of all waves, in (0, 1]."""

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
    """Return the waves of equal blocks on SMs that hold ``blocks_per_sm`` at a time. Raises ValueError."""
    positive(blocks=blocks, sms=sms, blocks_per_sm=blocks_per_sm)
    return Waves(blocks, sms * blocks_per_sm)


def cycles_active_ratio(blocks: int, sms: int) -> float:
    """Predict the average of ``sm__cycles_active`` over its maximum, in (0, 1]. An SM gets floor or ceil of
    blocks / sms, and is busy in proportion to its blocks. That holds for equal blocks whose throughput the SM
    limits and, with one block per SM at a time, for any limit."""
    return blocks / (sms * rounds_on_sms(blocks, sms))


def rounds_on_sms(blocks: int, sms: int) -> int:
    """Return the blocks on the busiest SM of an even distribution: ceil(blocks / sms).

    Where an SM holds several blocks, it is one limit of the tail's cost: blocks that share the SM's throughput take
    as long together as one by one. The number of waves is the other limit: blocks that wait on latency do not
    disturb each other.
    """
    return waves(blocks, sms).count


def fitted_time(durations: Iterable[float], counts: Iterable[float]) -> float:
    """Return the time of a wave: the median of duration over count. NaN for an empty sweep."""
    times = [d / c for d, c in zip(durations, counts, strict=True) if not math.isnan(d)]
    return statistics.median(times) if times else math.nan


@dataclass(frozen=True)
class PredictionError:
    """Errors of a model in a sweep, relative to the model (0.05 is 5 %). median: of the absolute errors.
    worst: the largest, with its sign. place: its index; -1 for an empty sweep."""

    median: float
    worst: float
    place: int
    count: int


def prediction_error(errors: Sequence[float]) -> PredictionError:
    """Summarise the errors of a sweep (``measured / predicted - 1``), without NaN."""
    sizes = [(abs(error), place) for place, error in enumerate(errors) if not math.isnan(error)]
    if not sizes:
        return PredictionError(math.nan, math.nan, -1, 0)
    place = max(sizes)[1]
    median = statistics.median(size for size, _ in sizes)
    return PredictionError(median, errors[place], place, len(sizes))
