"""Counter-based pseudo-random inputs: the same bits on the host (numpy) and on the device.

An element depends only on (seed, stream, index), so a buffer can be filled in any order and in
pieces. `gpu/support.cu` repeats the integer arithmetic below; a test compares the two.

Values are uniform and symmetric about zero in (-1, 1), standard deviation 1/sqrt(3). The 24 high
bits u of the hash give (2u + 1 - 2^24) / 2^24, which single precision holds exactly; f64 takes 28
more bits from a second hash, so that its low mantissa bits are random too (power, and with it the
clock, depends on them). f16 and bf16 round that to nearest even, tf32 to nearest with ties away
from zero (PTX ISA, cvt.rna.tf32), kept in f32 storage; e4m3 and e5m2 round to nearest even. i32 is u - 2^23; i8 is floor(255 u / 2^24)
- 127, uniform over the 255 numbers from -127 to 127: a sum of 2^16 products, doubled, fits in i32."""

import functools

import numpy as np
from numpy.typing import NDArray

from tilewave.theory.dtypes import DTYPES, mix

# Small enough that all steps stay in the cache: allocating memory takes longer than filling it.
_CHUNK = 1 << 14
_MOST_KEPT = 1 << 22
"""Most elements of an array that is kept for the next trial."""
FEW = 3
"""Elements of an array without a special one."""


def storage(dtype: str) -> np.dtype:
    """Return the numpy dtype that holds a buffer of `dtype` (bf16 and FP8 as their bits, tf32 as f32)."""
    try:
        return np.dtype(DTYPES[dtype].storage)
    except KeyError:
        raise ValueError(f"unknown dtype {dtype!r}; known: {', '.join(DTYPES)}") from None


UNIFORM, SPECIAL, DENORMAL, LARGE = KINDS = ("uniform", "special", "denormal", "large")
"""Kinds of inputs: as above; with a NaN and an infinity; times a power of two that makes them denormal, or large."""
ZERO = "zero"
"""A kind that only a formula asks for, because few operations divide by what may be zero then."""


def with_kind(
    kind: str,
    values: np.ndarray,
    dtype: str,
    exponent: int = 0,
    specials: tuple[float, float] = (np.nan, np.inf),
) -> np.ndarray:
    """Return uniform elements as another kind. exponent: the power of two; specials: two that are not finite."""
    row, numbers = DTYPES[dtype], to_float64(values, dtype)
    if row.write is None:
        raise ValueError(f"no elements are made of dtype {dtype!r}")
    if kind != SPECIAL:
        if kind == ZERO:  # but for a value that all elements begin with
            numbers[abs(numbers) <= 1] = 0
        return row.write(np.ldexp(numbers, exponent))
    if numbers.size > FEW:
        numbers[[numbers.size // 3, 2 * numbers.size // 3]] = np.nan if row.fp8 else specials
    return row.write(numbers)


def to_float64(values: np.ndarray, dtype: str) -> NDArray[np.float64]:
    """Return the numbers that a buffer of `dtype` holds."""
    return DTYPES[dtype].read(values)


def uniform(seed: int, stream: int, count: int, dtype: str, start: int = 0) -> np.ndarray:
    """Return elements start .. start+count-1 of a stream, in `storage(dtype)`. Raises ValueError for a dtype without any."""
    if count > _MOST_KEPT:
        return _uniform(seed, stream, count, dtype, start)
    return _kept(seed, stream, count, dtype, start).copy()


def _uniform(seed: int, stream: int, count: int, dtype: str, start: int) -> np.ndarray:
    out, convert = np.empty(count, storage(dtype)), DTYPES[dtype].from_bits
    if convert is None:
        raise ValueError(f"no elements are made of dtype {dtype!r}")
    number = np.array([(stream * 0x9E3779B9 + 0x7F4A7C15) & 0xFFFFFFFF], np.uint32)
    key = mix(mix(np.array([seed & 0xFFFFFFFF], np.uint32)) ^ number)
    for first in range(0, count, _CHUNK):
        last = min(first + _CHUNK, count)
        index = np.arange(start + first, start + last, dtype=np.uint64)
        words = index.astype(np.uint32)  # the low half
        if index[-1] >> np.uint64(32):
            words ^= (index >> np.uint64(32)).astype(np.uint32) * np.uint32(0x85EBCA6B)
        out[first:last] = convert(mix(mix(words) + key))
    return out


_kept = functools.lru_cache(maxsize=4)(_uniform)
"""Elements that several trials of a kernel share."""
