"""Facts about the types of elements, one row each."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewave.basics.tables import table_beside

Words = NDArray[np.uint32]


def mix(x: Words) -> Words:
    """Return a bijection of 32-bit words with low bias (two multiply-xorshift rounds)."""
    x = x ^ (x >> np.uint32(16))
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return x


# ------------------------------------- elements from 32 random bits each (see `inputs`)


def _high(words: Words) -> NDArray[np.int64]:
    return (words >> np.uint32(8)).astype(np.int64)


def _double(words: Words) -> NDArray[np.float64]:
    more = (mix(words ^ np.uint32(0xA511E9B3)) >> np.uint32(4)).astype(np.int64)
    odd = 2 * ((_high(words) << 28) | more) + 1 - (1 << 52)
    return odd.astype(np.float64) * 2.0**-52


def _single(words: Words) -> NDArray[np.float32]:
    odd = 2 * (words >> np.uint32(8)).view(np.int32) + np.int32(1 - (1 << 24))
    return odd.astype(np.float32) * np.float32(2.0**-24)


# ------------------------------------- elements from numbers, rounded


def _to(storage: str) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: values.astype(storage)


def _of_f16(values: np.ndarray) -> NDArray[np.float32]:
    """Round to f16, in f32's storage."""
    return values.astype(np.float16).astype(np.float32)


def _to_tf32(values: np.ndarray) -> NDArray[np.float32]:
    """Round to 10 mantissa bits, ties away from zero (PTX ISA, cvt.rna.tf32.f32)."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def _to_bf16(values: np.ndarray) -> NDArray[np.uint16]:
    """Round to the nearest, ties to even, as 16-bit patterns."""
    bits = values.astype(np.float32).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + even) >> 16).astype(np.uint16)


def _of_bf16(patterns: np.ndarray) -> NDArray[np.float64]:
    return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


@dataclass(frozen=True)
class Fp8:
    """Numbers of 8 bits ("OCP 8-bit Floating Point Specification", 2023). digits: bits of the mantissa.
    endless: the largest exponent stands for infinities and NaNs; without, only all ones are a NaN."""

    digits: int
    endless: bool

    @property
    def bias(self) -> int:
        """Number that is subtracted from the stored exponent."""
        return (127 >> self.digits) // 2

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        size = np.arange(128)
        exponent, unit = size >> self.digits, 1 << self.digits
        steps = size % unit + unit * (exponent > 0)
        powers = np.maximum(exponent, 1) - self.bias - self.digits
        positive = np.ldexp(steps.astype(np.float64), powers)
        if self.endless:
            positive[-unit:] = np.nan
            positive[-unit] = np.inf
        positive[-1] = np.nan
        return np.concatenate([positive, -positive])

    def nearest(self, values: np.ndarray) -> NDArray[np.uint8]:
        """Return the patterns of the nearest numbers, ties to even. As with ``__NV_SATFINITE`` of
        cuda_fp8.hpp, larger values become the largest number, and NaN becomes 0x7F."""
        finite = self.numbers[:128][np.isfinite(self.numbers[:128])]
        size = np.minimum(np.abs(values), finite[-1])
        low = np.clip(np.searchsorted(finite, size, "right") - 1, 0, len(finite) - 2)
        above, below = finite[low + 1] - size, size - finite[low]
        patterns = low + ((below > above) | ((below == above) & (low % 2 == 1)))
        signed = patterns | np.where(np.signbit(values), 0x80, 0)
        return np.where(np.isnan(values), 0x7F, signed).astype(np.uint8)

    def from_bits(self, words: Words) -> NDArray[np.uint8]:
        return self.nearest(_single(words))

    def read(self, patterns: np.ndarray) -> NDArray[np.float64]:
        numbers: NDArray[np.float64] = self.numbers[patterns]
        return numbers


E4M3, E5M2 = Fp8(3, endless=False), Fp8(2, endless=True)
FP8 = {"e4m3": E4M3, "e5m2": E5M2}


@dataclass(frozen=True)
class Dtype:
    """A type of elements; fields that do not apply are None or empty.

    label: its name in figures. storage: NumPy's type of its elements (bf16 as its 16 bits, tf32 and f16in32 as f32).
    tensor_map: its CUtensorMapDataType. whole: it holds whole numbers. from_bits: elements from 32 random
    bits each. read: numbers from elements. write: elements from numbers, rounded.

    roundoff: the largest relative error of a rounding to nearest, half the spacing at 1. It is 0 for an
    accumulator of whole numbers, whose sums are exact if they fit. spacing: the smallest distance of two
    numbers near zero, for outputs that underflow.

    cuda: its cudaDataType (library_types.h). sums: accumulator -> the cublasComputeType_t of products of
    this type, without ``CUBLAS_``. sum_named: a product's label names the accumulator. scalar: the type of
    alpha and beta in a kernel with this accumulator. support: its number in gpu/support.cu. tensor_cores:
    every kernel multiplies this type on the tensor cores. result: the type of C in most products, if another.

    operations: the letter of ncu's counters of scalar operations, ``..._op_<letter>fma_pred_on``.
    tensor_source: the part of ncu's counter of tensor operations, ``..._tensor_src_<source>.sum``.
    """

    name: str
    label: str
    storage: str
    tensor_map: str
    whole: bool = False
    from_bits: Callable[[Words], np.ndarray] | None = None
    read: Callable[[np.ndarray], NDArray[np.float64]] = lambda values: values.astype(np.float64)
    write: Callable[[np.ndarray], np.ndarray] | None = None
    roundoff: float | None = None
    spacing: float | None = None
    cuda: int | None = None
    sums: Mapping[str, str] = field(default_factory=dict)
    sum_named: bool = False
    scalar: str = "f32"
    support: int | None = None
    tensor_cores: bool = False
    operations: str = ""
    tensor_source: str = ""
    result: str = ""

    @property
    def fp8(self) -> bool:
        """True if the tensor cores sum its products with FP8's precision."""
        return self.tensor_source == "fp8"

    @property
    def exponents(self) -> tuple[int, int]:
        """Exponents of the smallest normal number, and of one near the largest, of a floating-point type."""
        low = 1 - FP8[self.name].bias if self.name in FP8 else 0
        if self.roundoff and self.spacing:
            low = round(math.log2(self.spacing) - math.log2(self.roundoff)) - 1
        return low, 1 - low

    @property
    def size(self) -> int:
        return int(np.dtype(self.storage).itemsize)


_FUNCTIONS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "f64": {"from_bits": _double, "write": _to("float64")},
    "f32": {"from_bits": _single, "write": _to("float32")},
    "tf32": {"from_bits": lambda words: _to_tf32(_single(words)), "write": _to_tf32},
    "f16in32": {"from_bits": lambda words: _of_f16(_single(words)), "write": _of_f16},
    "f16": {"from_bits": lambda words: _single(words).astype("float16"), "write": _to("float16")},
    "bf16": {"read": _of_bf16, "write": _to_bf16, "from_bits": lambda w: _to_bf16(_single(w))},
    "i32": {"from_bits": lambda words: (_high(words) - (1 << 23)).astype("int32")},
    "u32": {"from_bits": lambda words: words},
    "i64": {"from_bits": _to("int64")},
    "i8": {"from_bits": lambda words: ((_high(words) * 255 >> 24) - 127).astype("int8")},
}
DTYPES: dict[str, Dtype] = {}
for _name, _facts in table_beside(__file__).items():
    _numbers = {key: float.fromhex(_facts[key]) for key in _facts.keys() & {"roundoff", "spacing"}}
    DTYPES[_name] = Dtype(_name, **_facts | _numbers | _FUNCTIONS.get(_name, {}))
for _name, _kind in FP8.items():
    _row = replace(DTYPES[_name], from_bits=_kind.from_bits)
    DTYPES[_name] = replace(_row, read=_kind.read, write=_kind.nearest)
SIZES: Mapping[str, int] = {name: dtype.size for name, dtype in DTYPES.items()}
"""Bytes of one element."""


def product_sizes(label: str) -> tuple[int, int]:
    """Return the bytes of an element of A and B, and of C, for a product of this `product_label`."""
    operand = label.partition("_")[0]
    return SIZES[operand], SIZES[DTYPES[operand].result or operand]


def has_fp8(dtypes: Mapping[str, str]) -> bool:
    """Return whether an array of a product (array -> dtype) holds FP8."""
    return any(DTYPES[dtype].fp8 for dtype in dtypes.values())


def product_label(operand: str, accumulate: str) -> str:
    """Return the label of a product's arithmetic: ``f32``, ``tf32``, ``f16_f32``, ``bf16_f32``, ..."""
    named = operand in DTYPES and DTYPES[operand].sum_named
    return f"{operand}_{accumulate}" if named else operand


HEADINGS: Mapping[str, str] = {
    product_label(dtype.name, accumulate): f"{dtype.label}, {DTYPES[accumulate].label} accumulate"
    if dtype.sum_named or dtype.storage != DTYPES[accumulate].storage
    else dtype.label
    for dtype in DTYPES.values()
    for accumulate in dtype.sums
}
"""Headings of figures' panels by `product_label`."""


def scalar_type(accumulate: str | None) -> Any:
    """Return NumPy's type of a kernel's alpha and beta; float without an accumulator."""
    dtype = DTYPES.get(accumulate or "")
    return np.dtype(DTYPES[dtype.scalar if dtype else "f32"].storage).type
