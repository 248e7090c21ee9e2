"""C[m, n] = alpha A[m, k] B[k, n] + beta C, in place. Products run with (alpha, beta) = (1, 0), C poisoned
before, and, where kernels take them, with (0.75, -0.5), or (2, -1) where sums are whole numbers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from tilewave.kernel.expressions import Sizes
from tilewave.kernel.inputs import DENORMAL, KINDS, LARGE, SPECIAL, to_float64, uniform
from tilewave.kernel.job import Job
from tilewave.kernel.launches import leaves
from tilewave.kernel.operations.base import Arrays, Operand, Operation, Product, Work
from tilewave.kernel.tolerance import Judgement, Tolerance, compare
from tilewave.theory.dtypes import DTYPES, SIZES

ALPHA, BETA = 0.75, -0.5  # exact in every floating-point dtype
WHOLE_ALPHA, WHOLE_BETA = 2.0, -1.0  # where the accumulator holds whole numbers
MORE = (-1.5, 1.0), (3.0, 0.0), (0.0, 0.5)
MORE_WHOLE = (-2.0, 1.0), (3.0, 0.0), (0.0, 2.0)
VECTORS, ROWS = 2, 8  # random vectors of a large product, and rows that are then compared
SIGNS = 15  # their stream
MOST = 400  # a power of two whose square is no infinite float64
ROOM = 4  # binary places between an element of typical size and the largest, times alpha

TENSOR_STEP = 16  # products a tensor core adds before it rounds to an f16 accumulator
PROMOTED = 128  # products of FP8 that it adds, at most, before their sum is added in f32
TRUNCATED_STEP = 8  # products it adds before it cuts off an f32 accumulator (the least seen)
# Allowed error of an element in standard deviations: C has up to 10^8 elements, and those with large
# partial sums err more than the rest, so the tail is longer than a Gaussian's (simulated chains of 256
# and 4096 steps reach 8 in 10^5 elements and gain 2 a decade). NORM_FACTOR: that of the whole output.
ELEMENT_SIGMAS = 16.0
NORM_FACTOR = 4.0


def exact(dtype: str) -> bool:
    """Return whether an accumulator or output of the dtype holds whole numbers: a sum that fits is exact."""
    return dtype in DTYPES and DTYPES[dtype].roundoff == 0


def _precision(dtype: str) -> tuple[float, float]:
    """Return unit roundoff and the spacing near zero. Raises KeyError for a dtype without them."""
    row = DTYPES[dtype]
    if not row.roundoff or row.spacing is None:
        raise KeyError(dtype)
    return row.roundoff, row.spacing


def may_use_tensor_cores(dtypes: Mapping[str, str]) -> bool:
    """Return whether tensor cores round products of these dtypes otherwise than FMA units."""
    dtype = DTYPES.get(dtypes.get("a", ""))
    return dtype is not None and dtype.tensor_cores


def _sum_error(dtypes: Mapping[str, str], k: int, tensor_cores: bool) -> float:
    """Return the expected error of an element's sum of k products, one standard deviation."""
    accumulate = dtypes.get("accumulate", dtypes["a"])
    u, _ = _precision(accumulate)
    if tensor_cores and DTYPES[dtypes["a"]].fp8:
        u, _ = _precision("f22")
        return 2 * u * math.sqrt(k * (k if accumulate == "f22" else min(k, PROMOTED)) / 6) / 3
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
    """Return the tolerance of a product with inner size k, from dtypes ``a``, ``c`` and ``accumulate``.

    tensor_cores: whether the code has their instructions; None if unknown: then dtypes that they can
    multiply count as multiplied there.

    Reasoning. Inputs are uniform in [-1, 1) and already rounded to their dtype. So products are exact
    in the accumulator's format or nearly so, with mean 0 and standard deviation 1/3; after j of them the partial
    sum has sqrt(j) / 3. Errors come from adding:

    * *Rounding to nearest* (FMA units, whatever the accumulator; tensor cores with an f64 one): a step's error is
      uniform in +-u |partial sum|, that is u / sqrt(3) of it, with a random sign. Errors add in squares:
      u / sqrt(3) * sqrt(sum over steps of j) / 3 = u / sqrt(3) * k / (3 sqrt(2)). Double precision counts twice: its
      reference makes the same error.
    * *Tensor cores with an f16 accumulator* round once every 16 products (a chain that is rounded so gives 99.98 % of
      a real kernel's elements bit by bit), so there are k / 16 steps.
    * *Tensor cores with an f32 accumulator* cut off instead of rounding: a step may lose 2u of the partial sum,
      always towards 0, so errors add up without squares. The mean partial sum on the way is 2/3 of the last one:
      2u * k/8 * 2/3 * sqrt(k) / 3 for steps of 8 products.
    * *Tensor cores with FP8 inputs* cut off each product, too, 13 binary places below the larger of the largest
      product and the partial sum, of which a step may lose 2u, u = 2^-14. A product's sign is random, and so is that
      of its loss: uniform from 0 to 2u of the partial sum, a third of its square on average. Errors add in squares:
      2u / sqrt(3) * sqrt(sum over products of j) / 3 = 2u * k / (3 sqrt(6)). (An upper bound: few of a product's
      eight digits are cut off. Executed kernels have 0.4 of it at k = 8192.) Where sums are promoted to f32
      (accumulator f32, not f22) every 128 products at the latest, no partial sum has more: 2u * sqrt(128 k) / (3
      sqrt(6)).
    * *Whole numbers* lose nothing: 2^16 products of inputs up to 127 stay below 2^31, doubled by alpha too, and the
      double-precision reference is exact below 2^53. The tolerance is 0.

    An element gets 16 of these standard deviations, the Frobenius norm 4 (it averages over all elements). alpha,
    beta C and the store round three more times in the accumulator's format and once in C's; an f16 C can underflow
    by one smallest spacing. At k = 4096 the absolute part is 5.5e-4 (f32), 2.0e-12 (f64), 1.4e-2 (f16 inputs, f32
    sum) and 1.3 (f16 sum), beside elements of standard deviation 21. A 16-deep step forgotten everywhere is off by
    6 % in the Frobenius norm, which allows 2 % there (f16 sum).

    The size of a typical element is that of inputs with variance 1/3 (whole numbers have a larger one,
    and no tolerance that it could enter).

    Raises KeyError for a dtype without a known precision."""
    accumulate, out = dtypes.get("accumulate", dtypes["a"]), dtypes.get("c", dtypes["a"])
    deviation = math.sqrt(k) / 3
    if exact(accumulate) and exact(out):
        return Tolerance(deviation=abs(alpha) * deviation)
    (u, _), (u_out, spacing) = _precision(accumulate), _precision(out)
    error = _sum_error(dtypes, k, may_use_tensor_cores(dtypes) and tensor_cores is not False)
    # |alpha sum| and |beta C| may cancel, so their rounding is bounded by their own size as well.
    size = 4 * abs(alpha) * deviation + abs(beta)
    absolute = ELEMENT_SIGMAS * abs(alpha) * error + 4 * u * size + spacing
    relative_out = u_out + 3 * u
    frobenius = NORM_FACTOR * (error / deviation + relative_out)
    return Tolerance(absolute, relative_out, frobenius, abs(alpha) * deviation)


class Matmul(Operation):
    """The product of two matrices."""

    dimensions: ClassVar[tuple[str, ...]] = ("m", "n", "k")
    operands: ClassVar = {
        "a": Operand(("m", "k"), stream=0),
        "b": Operand(("k", "n"), stream=1),
        "c": Operand(("m", "n"), stream=2, written=True),
    }
    scalars = ("alpha", "beta")
    needs_dtypes = ("a", "b", "c", "accumulate")
    laid_out = True
    tiles = ("m", "n", "k")
    vendor = "cublaslt"
    kinds = KINDS[1:]

    def runs(self, job: Job) -> list[tuple[float, float]]:
        integers = exact(job.dtypes.get("accumulate", ""))
        second = (WHOLE_ALPHA, WHOLE_BETA) if integers else (ALPHA, BETA)
        return self._taken(job, [(1.0, 0.0), second])

    def more_runs(self, job: Job) -> list[tuple[float, float]]:
        integers = exact(job.dtypes.get("accumulate", ""))
        return self._taken(job, [(1.0, 0.0), *(MORE_WHOLE if integers else MORE)])[1:]

    def _taken(self, job: Job, runs: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
        """Return the different runs of a kernel: 1 for alpha, and 0 or 1 for beta, where it takes none."""
        names = [name for step in job.steps for name in leaves(step.arguments)] or self.scalars
        if job.provider != "nvrtc":
            names = self.scalars
        has_alpha, has_beta = "alpha" in names, "beta" in names
        fixed = float(job.reads_c == "adds")
        taken = [(alpha if has_alpha else 1.0, beta if has_beta else fixed) for alpha, beta in runs]
        return list(dict.fromkeys(taken))

    def exponents(self, job: Job, kind: str) -> dict[str, int] | None:
        """Return powers of two that leave products and C in range; C's is that of the product."""
        names = {**job.dtypes, "accumulate": job.dtypes.get("accumulate", job.dtypes["a"])}
        limits = {name: DTYPES[names[name]].exponents for name in ("a", "b", "c", "accumulate")}
        (low, high), (_, high_b) = limits["a"], limits["b"]
        if kind == LARGE:
            room = min(MOST, *(limits[name][1] for name in ("c", "accumulate")))
            room -= ROOM + math.ceil(math.log2(job.shape["k"]) / 2)  # an element has some sqrt(k)
            a = b = min(high - 1, high_b - 1, room // 2)
        elif kind == DENORMAL:
            a, b = low, min(high_b - 1, -low)
        else:
            a = b = 0
        possible = a + b >= 0 and (kind != LARGE or a > 0)
        possible = possible and not (kind == SPECIAL and job.reads_c)  # 0 times a NaN of C
        return {"a": a, "b": b, "c": a + b} if possible else None

    def bound_of_kind(self, job: Job, name: str, kind: str, bound: Tolerance) -> Tolerance:
        """Return the tolerance of a product that is larger by a power of two: all roundings are relative."""
        return bound.scaled(2.0 ** (self.exponents(job, kind) or {"c": 0})["c"])

    def streamed(self, job: Job, name: str) -> int | None:
        wide = name in ("a", "b") and self.dtype(job, name) == "i32"
        return None if wide else super().streamed(job, name)

    def inputs(self, job: Job) -> dict[str, np.ndarray]:
        """Return the inputs; factors of 32 bits have the range of i8, so that their sums fit."""
        values = super().inputs(job)
        wide = {name for name in ("a", "b") if self.dtype(job, name) == "i32"}
        return {name: array >> 16 if name in wide else array for name, array in values.items()}

    def given(self, job: Job, name: str, beta: float = 0.0) -> bool:
        return beta != 0 or bool(job.reads_c) or not self.arrays(job)[name].written

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        """Return the product; C is read only where beta is not 0."""
        a, b = (self.wide(job, name, given[name]) for name in ("a", "b"))
        product = alpha * (a @ b)
        return {"c": product + beta * self.wide(job, "c", given["c"]) if beta else product}

    def judge_large(
        self, job: Job, outputs: Arrays, given: Arrays, alpha: float = 1.0, beta: float = 0.0
    ) -> Judgement:
        """Judge a product with random signs r (Freivalds): C r = alpha A (B r) + beta C r costs m n + n k + m k.
        Rows that differ, and the last row, are compared element by element. The errors of a row's n elements have
        random signs, so `ELEMENT_SIGMAS` of their sum are sqrt(n) times an element's."""
        if type(self).reference is not Matmul.reference:
            return self.judge(job, outputs, given, alpha, beta)
        memory = self.without_padding(job, "c", outputs["c"])
        arrays = {**given, "c": memory}
        a, b, got = (self.wide(job, name, arrays[name]) for name in "abc")
        n = job.shape["n"]
        drawn = to_float64(uniform(job.seed, SIGNS, VECTORS * n, "f32"), "f32")
        signs = np.sign(drawn).reshape(n, VECTORS)
        before = self.wide(job, "c", given["c"]) if beta else np.zeros((1, n))
        output = self.output(job, "c", alpha, beta)
        bound, want = output.bound, got.copy()
        element = bound.absolute + bound.relative_out * ELEMENT_SIGMAS * bound.deviation
        difference = np.abs(got @ signs - alpha * (a @ (b @ signs)) - beta * (before @ signs))
        rows = np.flatnonzero(~np.all(difference <= math.sqrt(n) * element, axis=1))[:ROWS]
        for row in {*rows.tolist(), len(got) - 1}:
            want[row] = alpha * (a[row] @ b) + (beta * before[row] if beta else 0.0)
        return compare(output, memory, want.ravel(order=self.order(job, "c")), job.dtypes["c"])

    def allowed_dtypes(self, name: str, dtypes: Mapping[str, str]) -> tuple[str, ...]:
        """Return dtypes with known rounding for C and the accumulator: both or neither hold whole numbers."""
        if name not in ("c", "accumulate"):
            return tuple(DTYPES)
        integers = name == "c" and exact(dtypes["accumulate"])
        rows = [row for row in DTYPES.values() if row.roundoff is not None]
        if name == "c":
            rows = [row for row in rows if row.from_bits and exact(row.name) == integers]
        return tuple(row.name for row in rows)

    def products(self, job: Job) -> Sequence[Product]:
        return (Product(job.shape),)

    def tolerance(self, job: Job, name: str, alpha: float = 1.0, beta: float = 0.0) -> Tolerance:
        return tolerance(job.dtypes, job.shape["k"], alpha, beta, job.tensor_cores)

    def work(self, shape: Sizes, dtypes: Mapping[str, str], beta: float = 0) -> Work:
        """Return 2 m n k operations; A and B are read once, C is written once and read where beta is not 0."""
        m, n, k = shape["m"], shape["n"], shape["k"]
        a, b, c = (SIZES[dtypes[name]] for name in ("a", "b", "c"))
        return Work(2 * m * n * k, m * k * a + k * n * b + (2 if beta else 1) * m * n * c)
