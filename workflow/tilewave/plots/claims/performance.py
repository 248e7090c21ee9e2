"""The GPU performance notes: work, bytes, bounds and alignment."""

from __future__ import annotations

from tilewave.plots import base
from tilewave.plots.claims.asked import CUBLAS, F16, LARGE, mnk
from tilewave.plots.claims.facts import Facts, Function, divided
from tilewave.plots.claims.judging import Claim
from tilewave.theory import quantization, traffic
from tilewave.theory.data_sheets import DataSheet, data_sheet

DOCUMENT = "GPU performance notes"

SMALL, VECTOR = (8192, 8192, 128), (8192, 1, 8192)


def _intensity(shape: tuple[int, int, int]) -> Function:
    return lambda f: traffic.intensity(mnk(*shape), F16)


def _counted_intensity(shape: tuple[int, int, int]) -> Function:
    def counted(f: Facts) -> float | None:
        return divided(traffic.flops(mnk(*shape)), f.value(f.case(CUBLAS, *shape), "dram_bytes"))

    return counted


def _sheet(f: Facts) -> DataSheet | None:
    return data_sheet(str(f.environment.get("gpu", "")))


def _bound(shape: tuple[int, int, int], expected: str) -> Function:
    """Whether memory or arithmetic bounds a product, by its intensity and the data sheet's balance."""

    def predicted(f: Facts) -> bool | None:
        sheet = _sheet(f)
        if sheet is None:
            return None
        return sheet.machine.bound(traffic.intensity(mnk(*shape), F16)) == expected

    return predicted


def _nearer(shape: tuple[int, int, int], expected: str) -> Function:
    """The same by which of the data sheet's two rates the product comes nearer to."""

    def measured(f: Facts) -> bool | None:
        sheet, case = _sheet(f), f.case(CUBLAS, *shape)
        moved, duration = f.value(case, "dram_bytes"), f.value(case, "duration")
        speed = f.value(case, "tflops")
        if sheet is None or moved is None or duration is None or speed is None:
            return None
        rate = f.together(moved / (1e-6 * duration))
        if rate is None:
            return None
        memory = rate / sheet.machine.bandwidth
        math_share = 1e12 * speed / sheet.machine.flop_rate
        return (traffic.MEMORY if memory > math_share else traffic.MATH) == expected

    return measured


def _predicted_operations(f: Facts) -> float:
    """Operations over 2mnk of a product with an output a thread, at the measured shape."""
    return quantization.operations_ratio(mnk(4096, 4096, 4096), (1, 1, 1))


def _counted_flops(f: Facts) -> float | None:
    case = f.case("matmul_naive", 4096)
    return divided(f.value(case, base.COUNTED_FLOPS), traffic.flops(mnk(4096, 4096, 4096)))


def _megabytes(f: Facts) -> float | None:
    moved = f.value(f.case(CUBLAS, *LARGE), "dram_bytes")
    return None if moved is None else moved / 1e6


ALIGNED = {"m": 4096, "n": 4096, "k": 4096}


def _largest(step: int) -> int:
    """The largest size below 4096 that is a multiple of `step` and of no larger power of two."""
    return 4096 - step


def _gain(kind: str, better: int, worse: int, along: str = "n") -> Function:
    """TFLOP/s of cuBLAS where one dimension is a multiple of `better` over those of `worse`.

    along: the dimension, contiguous in one of the matrices at least; the others are 4096. Sizes
    differ by less than 2 % and take as many tiles.
    """

    def ratio(f: Facts) -> float | None:
        shapes = [ALIGNED | {along: _largest(step)} for step in (better, worse)]
        over, under = (f.case(f"cublas-type{kind}", **shape) for shape in shapes)
        return f.ratio("tflops", over, under)

    return ratio


def _tensor_any(f: Facts) -> bool | None:
    case = f.case(CUBLAS, **ALIGNED | {"n": _largest(1)})
    counted = f.value(case, base.COUNTED_TENSOR_FLOPS)
    return None if counted is None else counted > 0


CLAIMS = [
    Claim(
        "flop_count", DOCUMENT, "2.1", "2 MNK operations",
        "A product takes 2 MNK floating-point operations",
        1, "times 2mnk", tolerance=0.001, basis="theory",
        predicted=_predicted_operations, measured=_counted_flops,
    ),
    Claim(
        "bytes_moved", DOCUMENT, "2.2", "Bytes moved at 8192³",
        "A product in FP16 moves 2 (MK + KN + MN) bytes",
        2 * 3 * 8192**2 / 1e6, "MB", told="at 8192³", tolerance=0.1,
        predicted=lambda f: traffic.compulsory_bytes(mnk(*LARGE), F16) / 1e6,
        measured=_megabytes,
    ),
    Claim(
        "balance_v100", DOCUMENT, "2.3", "Balance of a V100",
        "The machine balance of a V100 with 112 TFLOP/s and 900 GB/s is 124.4",
        124.4, "FLOP/byte", tolerance=0.01, basis="theory",
        predicted=lambda f: traffic.V100.balance,
    ),
    Claim(
        "balance_used", DOCUMENT, "2.3", "Balance that is compared with",
        "The balance that the examples are compared with, 112, is the V100's",
        112, "FLOP/byte", tolerance=0.01, basis="theory",
        predicted=lambda f: traffic.V100.balance,
    ),
    Claim(
        "intensity_small", DOCUMENT, "2.3", "Intensity, 8192×128×8192",
        "The product 8192 x 128 x 8192 has an arithmetic intensity of 128 / 2",
        64, "FLOP/byte", tolerance=0.1, basis="theory",
        predicted=_intensity(SMALL), measured=_counted_intensity(SMALL),
    ),
    Claim(
        "bound_small", DOCUMENT, "2.3", "8192×128×8192 memory-bound",
        "The product 8192 x 128 x 8192 is bound by memory",
        True,
        predicted=_bound(SMALL, traffic.MEMORY), measured=_nearer(SMALL, traffic.MEMORY),
    ),
    Claim(
        "intensity_large", DOCUMENT, "2.3", "Intensity, 8192³",
        "The product 8192 x 8192 x 8192 has an arithmetic intensity of 8192 / 2",
        4096, "FLOP/byte", tolerance=0.1, basis="theory",
        predicted=_intensity(LARGE), measured=_counted_intensity(LARGE),
    ),
    Claim(
        "bound_large", DOCUMENT, "2.3", "8192³ math-bound",
        "The product 8192 x 8192 x 8192 is bound by arithmetic",
        True,
        predicted=_bound(LARGE, traffic.MATH), measured=_nearer(LARGE, traffic.MATH),
    ),
    Claim(
        "intensity_vector", DOCUMENT, "2.3", "Intensity, matrix × vector",
        "A matrix-vector product has an arithmetic intensity below 1",
        1, "FLOP/byte", relation="at most", basis="theory",
        predicted=_intensity(VECTOR), measured=_counted_intensity(VECTOR),
    ),
    Claim(
        "bound_vector", DOCUMENT, "2.3", "Matrix × vector memory-bound",
        "A matrix-vector product is always bound by memory",
        True,
        predicted=_bound(VECTOR, traffic.MEMORY), measured=_nearer(VECTOR, traffic.MEMORY),
    ),
    Claim(
        "align_f16_gain", DOCUMENT, "3.2, table", "FP16 by 8",
        "FP16 sizes should be multiples of 8",
        1, "times, throughput over multiples of 1", relation="more than", tolerance=0.05,
        measured=_gain("f16_f32", 8, 1),
    ),
    Claim(
        "align_i8_gain", DOCUMENT, "3.2, table", "INT8 by 16",
        "INT8 sizes should be multiples of 16",
        1, "times, throughput over multiples of 4", relation="more than", tolerance=0.05,
        measured=_gain("i8-bcol", 16, 4, "k"),
    ),
    Claim(
        "align_tf32_gain", DOCUMENT, "3.2, table", "TF32 by 4",
        "TF32 sizes should be multiples of 4",
        1, "times, throughput over multiples of 1", relation="more than", tolerance=0.05,
        measured=_gain("tf32", 4, 1),
    ),
    Claim(
        "align_f64_gain", DOCUMENT, "3.2, table", "FP64 by 2",
        "FP64 sizes should be multiples of 2",
        1, "times, throughput over multiples of 1", relation="more than", tolerance=0.05,
        measured=_gain("f64", 2, 1),
    ),
    Claim(
        "align_f16_64", DOCUMENT, "3.2, table", "FP16 by 64",
        "On larger GPUs (A100) FP16 sizes should be multiples of 64",
        1, "times, throughput over multiples of 8", relation="more than", tolerance=0.05,
        measured=_gain("f16_f32", 64, 8),
    ),
    Claim(
        "align_second_best", DOCUMENT, "3.2", "FP16 by 4",
        "Multiples of a smaller power of two (4 elements, 8 bytes) still help",
        1, "times, throughput over multiples of 1", relation="more than", tolerance=0.05,
        measured=_gain("f16_f32", 4, 1),
    ),
    Claim(
        "align_contiguous_only", DOCUMENT, "3.2, alignment", "Odd number of rows",
        "Only the contiguous dimension has to be aligned, the number of rows has not (M = 4095)",
        1, "times, throughput over M = 4088", relation="at least", tolerance=0.05,
        measured=_gain("f16_f32", 1, 8, "m"),
    ),
    Claim(
        "tensor_any_alignment", DOCUMENT, "3.2, table", "Tensor cores at odd sizes",
        "Since cuBLAS 11 the tensor cores serve sizes of any alignment",
        True,
        measured=_tensor_any,
    ),
]  # fmt: skip
