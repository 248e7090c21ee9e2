"""Matrix instructions on registers: the PTX manual's fragments, and the rounding of an H200.
The layouts are stated here once more, lane by lane, as the manual has them (PTX ISA, "Matrix
Fragments for mma"), the sums with integers of any size. `test_opcodes` has what an H200 gave."""

from fractions import Fraction

import numpy as np
import pytest

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.dmma import dmma
from tilewave.execution.machine.families import tensor as ops
from tilewave.execution.machine.imma import imma
from tilewave.execution.machine.tensor import hmma

A, B, C, D, NOTHING = 0, 16, 32, 48, 255
F32_SUM = 1 << 16
KINDS = {"f16": c.T_F16, "bf16": c.T_BF16, "tf32": c.T_TF32}
FLOATS = [
    ("f16", 16, True), ("f16", 16, False), ("f16", 8, True), ("f16", 8, False),
    ("bf16", 16, True), ("bf16", 8, True), ("tf32", 8, True), ("tf32", 4, True),
]  # fmt: skip
ids = ["-".join(map(str, row)) for row in FLOATS]


def code(kind, depth, wide):
    return depth | KINDS[kind] << 8 | (F32_SUM if wide else 0)


def registers():
    return np.zeros((304, 32), np.uint32)


def a_places(lane, depth, each):
    """Return (row, k) of a lane's elements of A (16 rows), `each` of them to a register."""
    g, t = lane // 4, lane % 4
    for i in range(16 * depth // 32):
        register = i // each
        yield g + 8 * (register % 2), each * t + i % each + 4 * each * (register // 2)


def b_places(lane, depth, each):
    """Return (k, column) of a lane's elements of B."""
    g, t = lane // 4, lane % 4
    for i in range(8 * depth // 32):
        yield each * t + i % each + 4 * each * (i // each), g


def c_places(lane):
    """Return (row, column) of a lane's elements of C and D."""
    g, t = lane // 4, lane % 4
    for i in range(4):
        yield g + 8 * (i // 2), 2 * t + i % 2


def put(R, first, matrix, places):
    """Put a matrix of unsigned patterns into registers; places: those of a lane."""
    for lane in range(32):
        words = np.array([matrix[place] for place in places(lane)], matrix.dtype).view(np.uint32)
        R[first : first + len(words), lane] = words


def take(R, first, matrix, places):
    """Take a matrix out of registers, into `matrix`."""
    for lane in range(32):
        spots = list(places(lane))
        count = len(spots) * matrix.itemsize // 4
        words = np.ascontiguousarray(R[first : first + count, lane]).view(matrix.dtype)
        for place, value in zip(spots, words, strict=True):
            matrix[place] = value
    return matrix


def patterns(values, kind):
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16)
    bits = values.astype(np.float32).view(np.uint32)
    return (bits >> np.uint32(16)).astype(np.uint16) if kind == "bf16" else bits


def numbers(bits, kind):
    """Convert patterns to float64; the low 13 bits of tf32 are ignored."""
    if bits.dtype == np.uint16 and kind == "f16":
        return bits.view(np.float16).astype(np.float64)
    if kind == "bf16" and bits.dtype == np.uint16:
        bits = bits.astype(np.uint32) << np.uint32(16)
    if kind == "tf32":
        bits = bits & np.uint32(0xFFFFE000)
    return bits.view(np.float32).astype(np.float64)


def product(a, b, sums, kind, wide, flags=0, d=D):
    """Execute one HMMA and return D; all matrices are patterns."""
    depth, each = a.shape[1], 1 if kind == "tf32" else 2
    R = registers()
    put(R, A, a, lambda lane: a_places(lane, depth, each))
    put(R, B, b, lambda lane: b_places(lane, depth, each))
    put(R, C, sums, c_places)
    hmma(code(kind, depth, wide) | flags, 0, R, d, A, B, C)
    return take(R, d, np.zeros((16, 8), sums.dtype), c_places)


def taken_apart(bits, kind):
    """Return significand (1 to 2, denormals below 1) and exponent; zero has none."""
    mantissa, bias, width = {"f16": (10, 15, 16), "bf16": (7, 127, 16)}.get(kind, (23, 127, 32))
    if kind == "tf32":
        bits = bits & np.uint32(0xFFFFE000)
    whole = int(bits)
    sign = -1 if whole >> (width - 1) else 1
    field = (whole >> mantissa) & (2 * bias + 1)
    part = whole & ((1 << mantissa) - 1)
    if field:
        part |= 1 << mantissa
    return sign * Fraction(part, 1 << mantissa), (max(field, 1) - bias if part else None)


def expected_sum(before, pairs, places):
    """Align products and the old sum to the largest exponent, cut them and add them."""
    terms = [(x * y, None if None in (m, n) else m + n) for (x, m), (y, n) in pairs]
    terms = [(part, exponent) for part, exponent in (before, *terms) if exponent is not None]
    if not terms:
        return Fraction(0)
    unit = Fraction(2) ** (max(exponent for _, exponent in terms) - places)
    return unit * sum(int(part * Fraction(2) ** exponent / unit) for part, exponent in terms)


def as_f16(value):
    with np.errstate(over="ignore"):
        return np.float16(float(value)).view(np.uint16)  # 36 bits and fewer: exact in f64


def as_f32(value):
    """Round towards zero; 2^128 and more is infinite."""
    size = abs(value)
    if size >= Fraction(2) ** 128:
        return np.float32(-np.inf if value < 0 else np.inf).view(np.uint32)
    near = np.float32(float(size))
    if not np.isfinite(near) or Fraction(float(near)) > size:
        near = np.nextafter(near, np.float32(0))
    return (-near if value < 0 else near).view(np.uint32)


def expected(a, b, sums, kind, wide, old=False):
    depth = a.shape[1]
    halves = old and depth == (8 if kind == "tf32" else 16)
    out = sums.copy()
    rounded, form = (as_f32, "f32") if wide else (as_f16, "f16")
    for i, j in np.ndindex(16, 8):
        for part in np.split(np.arange(depth), 2 if halves else 1):
            if not np.isfinite(numbers(out[i, j], form)):
                break  # the first half's sum was too large
            pairs = [(taken_apart(a[i, k], kind), taken_apart(b[k, j], kind)) for k in part]
            total = expected_sum(taken_apart(out[i, j], form), pairs, 24 if old else 25)
            out[i, j] = rounded(total)
    return out


def drawn(rng, shape, kind, low, high):
    values = rng.uniform(1, 2, shape) * 2.0 ** rng.integers(low, high, shape)
    values[rng.random(shape) < 0.1] = 0
    return patterns(values * rng.choice([-1, 1], shape), kind)


def check_same(result, wanted, form):
    """Compare bits, except the sign of a zero."""
    same = (result == wanted) | ((numbers(result, form) == 0) & (numbers(wanted, form) == 0))
    assert same.all(), np.argwhere(~same)[:4]


SPREADS = {"like": (-2, 2), "far": (-12, 12), "tiny": (-24, -13), "outside": (-110, 30)}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("old", [False, True], ids=["one-step", "two-steps"])
@pytest.mark.parametrize(("kind", "depth", "wide"), FLOATS, ids=ids)
def test_rounding_rule(kind, depth, wide, old, spread):
    """The results equal sums of integers.
    With "outside" products leave the range of f32, also as denormals; f16 has no other case."""
    rng = np.random.default_rng(7)
    low, high = SPREADS[spread]
    if kind == "f16":
        low, high = max(low, -24), min(high, 15)
    form = "f32" if wide else "f16"
    a, b = drawn(rng, (16, depth), kind, low, high), drawn(rng, (depth, 8), kind, low, high)
    sums = drawn(rng, (16, 8), form, *((2 * low, 2 * high) if wide else (max(2 * low, -24), 15)))
    result = product(a, b, sums, kind, wide, ops.TWO_STEPS if old else 0)
    check_same(result, expected(a, b, sums, kind, wide, old), form)


def test_limits():
    """Overflow, denormal sums and a sum of zeros; a C without products stays unchanged."""
    sums = np.zeros((16, 8), np.uint32)
    sums[0], sums[1], sums[2] = 0x7F7FFFFF, 0x00000001, 0x80000000

    def of(a, b, kind, sums, wide=True):
        a, b = (np.full(shape, value) for shape, value in (((16, 8), a), ((8, 8), b)))
        return product(patterns(a, kind), patterns(b, kind), sums, kind, wide)

    result = of(0.0, 1.0, "tf32", sums)
    np.testing.assert_array_equal(result[:2], sums[:2])
    assert not result[2:].any()
    np.testing.assert_array_equal(of(2.0**-100, 2.0**-135, "bf16", sums)[:2], sums[:2])
    assert (of(2.0**120, 2.0**120, "bf16", sums) == 0x7F800000).all()
    assert (of(128.0, -64.0, "f16", np.zeros((16, 8), np.uint16), False) == 0xFC00).all()


def test_destination_may_be_c_or_nothing():
    ones, sums = patterns(np.ones((16, 16)), "f16"), patterns(np.ones((16, 8)), "f32")
    result = product(ones, ones[:, :8].copy(), sums, "f16", True, d=C)
    np.testing.assert_array_equal(numbers(result, "f32"), 17)
    R = registers()
    R[A : C + 4] = 0x3C003C00
    hmma(code("f16", 16, True), 0, R, NOTHING, A, B, C)
    dmma(16 | 16 << 8, 0, R, NOTHING, A, B, C)
    imma(32, 0, R, NOTHING, A, B, C)
    assert not R[255:].any()
    hmma(code("f16", 16, True), 0, R, D, A, B, 255)
    assert (R[D : D + 4].view(np.float32) == 16).all()
