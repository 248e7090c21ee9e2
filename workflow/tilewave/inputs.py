"""Counter-based pseudo-random inputs: the same bits on the host (numpy) and on the device.

An element depends on nothing but (seed, stream, index), so a buffer can be filled in any order and
in pieces. `gpu/support.cu` repeats the integer arithmetic below; a test compares the two.

Values are uniform and symmetric about zero in (-1, 1), standard deviation 1/sqrt(3). The 24 high
bits u of the hash give (2u + 1 - 2^24) / 2^24, which single precision holds exactly; f64 takes 28
more bits from a second hash, so that its low mantissa bits are random too (power, and with it the
clock, depends on them). f16 and bf16 round that to nearest even, tf32 to nearest with ties away
from zero (PTX ISA, cvt.rna.tf32), kept in f32 storage. i32 is u - 2^23; i8 is floor(255 u / 2^24)
- 127, uniform over the 255 numbers from -127 to 127, so that a sum of 2^16 products, doubled, still
fits in i32.
"""

import numpy as np
from numpy.typing import NDArray

_STORAGE: dict[str, np.dtype] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "tf32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(np.uint16),
    "i32": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "i8": np.dtype(np.int8),
}
_CHUNK = 1 << 21


def storage(dtype: str) -> np.dtype:
    """The numpy dtype that holds a buffer of `dtype` (bf16 as its 16 bits, tf32 as f32)."""
    try:
        return _STORAGE[dtype]
    except KeyError:
        raise ValueError(f"unknown dtype {dtype!r}; known: {', '.join(_STORAGE)}") from None


def size_of(dtype: str) -> int:
    """Bytes of one element."""
    return storage(dtype).itemsize


def _mix(x: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """A bijection of 32-bit words with low bias (two multiply-xorshift rounds)."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


def _words(seed: int, stream: int, index: NDArray[np.uint64]) -> NDArray[np.uint32]:
    low = (index & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    high = (index >> np.uint64(32)).astype(np.uint32)
    number = np.array([(stream * 0x9E3779B9 + 0x7F4A7C15) & 0xFFFFFFFF], np.uint32)
    key = _mix(_mix(np.array([seed & 0xFFFFFFFF], np.uint32)) ^ number)
    return _mix(_mix(low ^ high * np.uint32(0x85EBCA6B)) + key)


def to_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Round finite f32 to bf16 (nearest even), as 16-bit patterns."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> 16).astype(
        np.uint16
    )


def to_tf32(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round finite f32 to 10 mantissa bits, ties away from zero (cvt.rna.tf32.f32)."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def to_float64(values: np.ndarray, dtype: str) -> NDArray[np.float64]:
    """The numbers that a buffer of `dtype` holds."""
    if dtype == "bf16":
        wide: NDArray[np.uint32] = values.astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    return values.astype(np.float64)


def _values(words: NDArray[np.uint32], dtype: str) -> np.ndarray:
    high = (words >> np.uint32(8)).astype(np.int64)
    if dtype == "i32":
        return (high - (1 << 23)).astype(np.int32)
    if dtype == "u32":
        return words
    if dtype == "i8":
        return ((high * 255 >> 24) - 127).astype(np.int8)
    if dtype == "f64":
        more = (_mix(words ^ np.uint32(0xA511E9B3)) >> np.uint32(4)).astype(np.int64)
        odd = 2 * ((high << 28) | more) + 1 - (1 << 52)
        return odd.astype(np.float64) * 2.0**-52
    single = (2 * high + 1 - (1 << 24)).astype(np.float32) * np.float32(2.0**-24)
    if dtype == "tf32":
        return to_tf32(single)
    if dtype == "f16":
        return single.astype(np.float16)
    if dtype == "bf16":
        return to_bf16(single)
    return single


def uniform(seed: int, stream: int, count: int, dtype: str, start: int = 0) -> np.ndarray:
    """Elements start .. start+count-1 of a stream, in `storage(dtype)`, one dimension.

    Raises ValueError for an unknown dtype.
    """
    out = np.empty(count, storage(dtype))
    for first in range(0, count, _CHUNK):
        last = min(first + _CHUNK, count)
        index = np.arange(start + first, start + last, dtype=np.uint64)
        out[first:last] = _values(_words(seed, stream, index), dtype)
    return out
