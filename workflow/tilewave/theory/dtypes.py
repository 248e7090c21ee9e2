"""The types of elements: one row each, and all that the project knows of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]


def mix(x: Words) -> Words:
    """A bijection of 32-bit words with low bias (two multiply-xorshift rounds)."""
    x = x ^ (x >> np.uint32(16))
    x = x * np.uint32(0x7FEB352D)
    x = x ^ (x >> np.uint32(15))
    x = x * np.uint32(0x846CA68B)
    return x ^ (x >> np.uint32(16))


# ------------------------------------- how an element is made of 32 random bits (see `inputs`)


def _high(words: Words) -> NDArray[np.int64]:
    return (words >> np.uint32(8)).astype(np.int64)


def _double(words: Words) -> NDArray[np.float64]:
    more = (mix(words ^ np.uint32(0xA511E9B3)) >> np.uint32(4)).astype(np.int64)
    odd = 2 * ((_high(words) << 28) | more) + 1 - (1 << 52)
    return odd.astype(np.float64) * 2.0**-52


def _single(words: Words) -> NDArray[np.float32]:
    return (2 * _high(words) + 1 - (1 << 24)).astype(np.float32) * np.float32(2.0**-24)


def _tf32(words: Words) -> NDArray[np.float32]:
    """To 10 mantissa bits, ties away from zero (PTX ISA, cvt.rna.tf32.f32)."""
    bits = _single(words).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def _bf16(words: Words) -> NDArray[np.uint16]:
    """To the nearest even, as 16-bit patterns."""
    bits = _single(words).view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    return ((bits + np.uint32(0x7FFF) + even) >> 16).astype(np.uint16)


def _from_bf16(values: np.ndarray) -> NDArray[np.float64]:
    wide: Words = values.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32).astype(np.float64)


@dataclass(frozen=True)
class Fp8:
    """Numbers of 8 bits as OCP has them ("OCP 8-bit Floating Point Specification", 2023).

    digits: of the mantissa. endless: whether the largest exponent stands for infinities and NaNs; where
    not, the pattern of all ones alone is a NaN, and nothing is infinite.
    """

    digits: int
    endless: bool

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """What the 256 patterns stand for."""
        size = np.arange(128)
        exponent, one = size >> self.digits, 1 << self.digits
        bias = (127 >> self.digits) // 2
        steps = size % one + one * (exponent > 0)
        made = np.ldexp(steps.astype(np.float64), np.maximum(exponent, 1) - bias - self.digits)
        if self.endless:
            made[-one:] = np.nan
            made[-one] = np.inf
        made[-1] = np.nan
        return np.concatenate([made, -made])

    def nearest(self, values: np.ndarray) -> NDArray[np.uint8]:
        """Patterns of the nearest numbers, ties to even; the largest one where a value is beyond, as
        ``__NV_SATFINITE`` of cuda_fp8.hpp has it, and 0x7F for a NaN."""
        finite = self.numbers[:128][np.isfinite(self.numbers[:128])]
        size = np.minimum(np.abs(values), finite[-1])
        low = np.clip(np.searchsorted(finite, size, "right") - 1, 0, len(finite) - 2)
        above, below = finite[low + 1] - size, size - finite[low]
        found = low + ((below > above) | ((below == above) & (low % 2 == 1)))
        found = np.where(np.isnan(values), 0x7F, found | np.where(np.signbit(values), 0x80, 0))
        return found.astype(np.uint8)


E4M3, E5M2 = Fp8(3, endless=False), Fp8(2, endless=True)


def _fp8(kind: Fp8) -> Callable[[Words], NDArray[np.uint8]]:
    return lambda words: kind.nearest(_single(words))


def _from_fp8(kind: Fp8) -> Callable[[np.ndarray], NDArray[np.float64]]:
    return lambda values: kind.numbers[values]


@dataclass(frozen=True)
class Dtype:
    """A type of elements. What it has no use for is None or empty.

    label: as figures name it. storage: NumPy's type that holds its elements (bf16 as its 16 bits,
    tf32 as f32). tensor_map: its CUtensorMapDataType. whole: it holds whole numbers. made: elements
    of 32 random bits each. read: the numbers that elements are.

    roundoff: the largest relative error of one rounding to nearest, half the spacing at 1; 0 where
    an accumulator holds whole numbers, so that a sum that fits is exact. spacing: the smallest
    distance of two numbers near zero, for outputs that underflow.

    cuda: its cudaDataType (library_types.h). sums: accumulator -> the cublasComputeType_t of products
    of this type, less ``CUBLAS_``; sum_named: whether a product's label tells the accumulator. scalar:
    the type in which a kernel with this accumulator takes alpha and beta. support: its number in
    gpu/support.cu. tensor_cores: its products go through the tensor cores in every kernel that takes
    it. result: the type of most products' C, where it is another one.

    operations: the letter of ncu's counters of scalar operations, ``..._op_<letter>fma_pred_on``.
    tensor_source: the words of ncu's counter of tensor operations, ``..._tensor_src_<words>.sum``.
    """

    name: str
    label: str
    storage: str
    tensor_map: str
    whole: bool = False
    made: Callable[[Words], np.ndarray] | None = None
    read: Callable[[np.ndarray], NDArray[np.float64]] = lambda values: values.astype(np.float64)
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
        """Whether the tensor cores sum its products as they do those of FP8."""
        return self.tensor_source == "fp8"

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return int(np.dtype(self.storage).itemsize)


DTYPES: Mapping[str, Dtype] = {
    one.name: one
    for one in (
        Dtype(
            "f64", "FP64", "float64", "FLOAT64", made=_double, roundoff=2.0**-53,
            spacing=2.0**-1074, cuda=1, sums={"f64": "COMPUTE_64F"}, scalar="f64", support=0,
            operations="d", tensor_source="fp64",
        ),
        Dtype(
            "f32", "FP32", "float32", "FLOAT32", made=_single, roundoff=2.0**-24, spacing=2.0**-149,
            cuda=0, sums={"f32": "COMPUTE_32F"}, support=1, operations="f",
        ),
        # An operand is rounded when it is made, so that a map of this type changes nothing.
        Dtype(
            "tf32", "TF32", "float32", "TFLOAT32", made=_tf32, roundoff=2.0**-11,
            spacing=2.0**-136, cuda=0, sums={"f32": "COMPUTE_32F_FAST_TF32"}, support=1,
            tensor_cores=True, tensor_source="tf32_dst_fp32",
        ),
        Dtype(
            "f16", "FP16", "float16", "FLOAT16", made=lambda words: _single(words).astype("float16"),
            roundoff=2.0**-11, spacing=2.0**-24, cuda=2,
            sums={"f32": "COMPUTE_32F", "f16": "COMPUTE_16F"}, sum_named=True, support=2,
            tensor_cores=True, operations="h", tensor_source="fp16",
        ),
        Dtype(
            "bf16", "BF16", "uint16", "BFLOAT16", made=_bf16, read=_from_bf16, roundoff=2.0**-8,
            spacing=2.0**-133, cuda=14, sums={"f32": "COMPUTE_32F"}, sum_named=True, support=3,
            tensor_cores=True, tensor_source="bf16_dst_fp32",
        ),
        Dtype(
            "i32", "INT32", "int32", "INT32", whole=True, roundoff=0.0, cuda=10, scalar="i32",
            made=lambda words: (_high(words) - (1 << 23)).astype("int32"), support=5,
        ),
        Dtype("u32", "UINT32", "uint32", "UINT32", whole=True, made=lambda words: words),
        Dtype(
            "i8", "INT8", "int8", "UINT8", whole=True, cuda=3, sums={"i32": "COMPUTE_32I"},
            made=lambda words: ((_high(words) * 255 >> 24) - 127).astype("int8"), support=4,
            tensor_source="int8", result="i32",
        ),
        Dtype("u8", "UINT8", "uint8", "UINT8", whole=True),
        *(
            Dtype(
                name, f"FP8 {name.upper()}", "uint8", "UINT8", made=_fp8(kind), read=_from_fp8(kind),
                cuda=cuda, sums={"f32": "COMPUTE_32F", "f22": "COMPUTE_32F"}, sum_named=True,
                support=support, tensor_cores=True, tensor_source="fp8", result="bf16",
            )
            for name, kind, cuda, support in (("e4m3", E4M3, 28, 6), ("e5m2", E5M2, 29, 7))
        ),
        # What Hopper sums FP8 in, of which a register's upper 22 bits are kept: 8 of exponent, 13 of
        # mantissa (`tilewave.execution.machine.fp8` says whose measurements those are). In "f32" sums of FP8 what
        # the tensor cores have added is added again in single precision, every 128 products.
        Dtype("f22", "FP22", "float32", "FLOAT32", roundoff=2.0**-14, spacing=2.0**-139, cuda=0),
    )
}  # fmt: skip
SIZES: Mapping[str, int] = {name: one.size for name, one in DTYPES.items()}
"""Bytes of one element."""


def product_sizes(label: str) -> tuple[int, int]:
    """Bytes of an element of A and B, and of C, of a product of this `product_label`."""
    operand = label.partition("_")[0]
    return SIZES[operand], SIZES[DTYPES[operand].result or operand]


def has_fp8(dtypes: Mapping[str, str]) -> bool:
    """Whether one of the arrays of a product (array -> dtype) holds FP8."""
    return any(DTYPES[one].fp8 for one in dtypes.values())


def product_label(operand: str, accumulate: str) -> str:
    """Label of a product's arithmetic: ``f32``, ``tf32``, ``f16_f32``, ``bf16_f32``, ..."""
    named = operand in DTYPES and DTYPES[operand].sum_named
    return f"{operand}_{accumulate}" if named else operand


def _heading(operand: Dtype, accumulate: Dtype) -> str:
    told = operand.sum_named or operand.storage != accumulate.storage
    return f"{operand.label}, {accumulate.label} accumulate" if told else operand.label


HEADINGS: Mapping[str, str] = {
    product_label(one.name, accumulate): _heading(one, DTYPES[accumulate])
    for one in DTYPES.values()
    for accumulate in one.sums
}
"""`product_label` -> how a figure's panel is headed."""


def scalar_type(accumulate: str | None) -> Any:
    """NumPy's type of a kernel's alpha and beta: float where nothing is accumulated."""
    known = DTYPES.get(accumulate or "")
    return np.dtype(DTYPES[known.scalar if known else "f32"].storage).type
