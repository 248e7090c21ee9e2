"""C[m, n] = alpha A[m, k] B[k, n] + beta C, in place.

The comparison with the reference runs on the device; the formula of its tolerance stands here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tilewave.dtypes import DTYPES
from tilewave.operations._common import Work, element_bytes

DIMENSIONS = ("m", "n", "k")
OPERANDS = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}
"""Rows and columns of each matrix."""

TENSOR_STEP = 16  # products a tensor core adds before it rounds to an f16 accumulator
TRUNCATED_STEP = 8  # products it adds before it cuts off an f32 accumulator (the least seen)
# How many standard deviations an element may be off: C has up to 10^8 elements, and those with
# large partial sums err more than the rest, so the tail is longer than a Gaussian's (simulated
# chains of 256 and 4096 steps reach 8 in 10^5 elements and gain 2 a decade). And how much more than
# expected the whole may be.
ELEMENT_SIGMAS = 16.0
NORM_FACTOR = 4.0


def work(shape: Mapping[str, int], dtypes: Mapping[str, str], beta: float = 0) -> Work:
    """2 m n k operations; A and B read once, C written once and read where beta is not 0."""
    m, n, k = shape["m"], shape["n"], shape["k"]
    c_passes = 2 if beta else 1
    moved = (
        m * k * element_bytes(dtypes, "a")
        + k * n * element_bytes(dtypes, "b")
        + c_passes * m * n * element_bytes(dtypes, "c")
    )
    return Work(2 * m * n * k, moved)


@dataclass(frozen=True)
class Tolerance:
    """How far a product may be from its double-precision reference.

    Element: not (|found - reference| <= absolute + relative_out |reference|) is wrong.
    Whole: not (||found - reference|| <= frobenius ||reference||) is wrong (Frobenius norms).
    """

    absolute: float
    relative_out: float
    frobenius: float


def exact(dtype: str) -> bool:
    """Whether an accumulator or output of the dtype holds whole numbers: a sum that fits is exact."""
    return dtype in DTYPES and DTYPES[dtype].roundoff == 0


def _precision(dtype: str) -> tuple[float, float]:
    """Unit roundoff, and the spacing near zero. Raises KeyError for a dtype without them."""
    row = DTYPES[dtype]
    if not row.roundoff or row.spacing is None:
        raise KeyError(dtype)
    return row.roundoff, row.spacing


def may_use_tensor_cores(dtypes: Mapping[str, str]) -> bool:
    """Whether products of these dtypes are rounded otherwise on tensor cores than on FMA units."""
    return DTYPES[dtypes["a"]].tensor_cores


def _sum_error(dtypes: Mapping[str, str], k: int, tensor_cores: bool) -> float:
    """Expected error of an element's sum of k products, one standard deviation."""
    accumulate = dtypes.get("accumulate", dtypes["a"])
    u, _ = _precision(accumulate)
    if tensor_cores and accumulate == "f32":
        steps = math.ceil(k / TRUNCATED_STEP)
        return 2 * u * steps * (2 / 3) * math.sqrt(k) / 3
    steps = math.ceil(k / TENSOR_STEP) if tensor_cores else k
    reference_error = 2.0 if accumulate == "f64" else 1.0
    return reference_error * u / math.sqrt(3) * math.sqrt(steps * (k + 1) / 2) / 3


def tolerance(
    dtypes: Mapping[str, str],
    k: int,
    alpha: float = 1.0,
    beta: float = 0.0,
    tensor_cores: bool | None = None,
) -> Tolerance:
    """Tolerance of a product with inner size k, from dtypes ``a``, ``c`` and ``accumulate``.

    tensor_cores: whether the code has their instructions; None where it is not known, and dtypes
    that they can multiply are taken for multiplied there.

    Reasoning. Inputs are uniform in [-1, 1) and already rounded to their dtype, so products are
    exact in the accumulator's format or nearly so, have mean 0 and standard deviation 1/3, and
    after j of them the partial sum has sqrt(j) / 3. What is lost is lost in adding:

    * *Rounding to nearest* (FMA units, whatever the accumulator; tensor cores with an f64 one): a
      step's error is uniform in +-u |partial sum|, that is u / sqrt(3) of it, with a random sign.
      Errors add in squares: u / sqrt(3) * sqrt(sum over steps of j) / 3 = u / sqrt(3) * k /
      (3 sqrt(2)).
      Double precision counts twice: its reference makes the same error.
    * *Tensor cores with an f16 accumulator* round once every 16 products (a chain that is rounded
      so gives 99.98 % of a real kernel's elements bit by bit), so there are k / 16 steps.
    * *Tensor cores with an f32 accumulator* cut off instead of rounding: a step may lose 2u of the
      partial sum, always towards 0, so errors add up without squares. The mean partial sum on the
      way is 2/3 of the last one: 2u * k/8 * 2/3 * sqrt(k) / 3 for steps of 8 products.
    * *Whole numbers* lose nothing: 2^16 products of inputs up to 127 stay below 2^31, doubled by
      alpha too, and the double-precision reference is exact below 2^53. Nothing is tolerated.

    An element gets 16 of these standard deviations, the Frobenius norm 4 (it averages over all
    elements). alpha, beta C and the store round three more times in the accumulator's format and
    once in C's; an f16 C can underflow by one smallest spacing. At k = 4096 the absolute part is
    5.5e-4 (f32), 2.0e-12 (f64), 1.4e-2 (f16 inputs, f32 sum) and 1.3 (f16 sum), beside elements
    of standard deviation 21. A 16-deep step forgotten everywhere is off by 6 % in the Frobenius
    norm, which allows 2 % there (f16 sum).

    Raises KeyError for a dtype without a known precision.
    """
    accumulate, out = dtypes.get("accumulate", dtypes["a"]), dtypes.get("c", dtypes["a"])
    if exact(accumulate) and exact(out):
        return Tolerance(0.0, 0.0, 0.0)
    (u, _), (u_out, spacing) = _precision(accumulate), _precision(out)
    deviation = math.sqrt(k) / 3
    error = _sum_error(dtypes, k, may_use_tensor_cores(dtypes) and tensor_cores is not False)
    # |alpha sum| and |beta C| may cancel, so their rounding is bounded by their own size as well.
    size = 4 * abs(alpha) * deviation + abs(beta)
    absolute = ELEMENT_SIGMAS * abs(alpha) * error + 4 * u * size + spacing
    relative_out = u_out + 3 * u
    frobenius = NORM_FACTOR * (error / deviation + relative_out)
    return Tolerance(absolute, relative_out, frobenius)
