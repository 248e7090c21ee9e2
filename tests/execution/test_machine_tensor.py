"""Matrix instructions on registers: the PTX manual's fragments, and the rounding of an H200.

The layouts are stated here once more, lane by lane, as the manual has them (PTX ISA, "Matrix
Fragments for mma"), the sums with integers of any size.
"""

from fractions import Fraction

import numpy as np
import pytest

from opcodes import harness, manifest
from opcodes.inputs import generate_inputs
from tilewave.execution.machine import codes as c
from tilewave.execution.machine.dmma import dmma
from tilewave.execution.machine.families import tensor as ops
from tilewave.execution.machine.fp8 import fp8_product
from tilewave.execution.machine.imma import imma
from tilewave.execution.machine.tensor import hmma
from tilewave.theory import dtypes

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


@pytest.mark.parametrize(("kind", "depth", "wide"), FLOATS, ids=ids)
def test_float_fragments(kind, depth, wide):
    """One element of A (or B) times a B (or A) of distinct numbers: each lane's element is where
    the manual has it.
    """
    form = "f32" if wide else "f16"
    none = patterns(np.zeros((16, 8)), form)
    many = 1.0 + np.arange(16 * depth).reshape(16, depth)
    pairs = []
    for shape, first in (((16, depth), True), ((depth, 8), False)):
        for place in np.ndindex(shape):
            single = np.zeros(shape)
            single[place] = 2.0
            pairs.append((single, many[:8].T) if first else (many, single))
    for a, b in pairs:
        result = product(patterns(a, kind), patterns(b, kind), none, kind, wide)
        np.testing.assert_array_equal(numbers(result, form), a @ b)
    zeros = patterns(np.zeros((16, depth)), kind), patterns(np.zeros((depth, 8)), kind)
    sums = patterns(1.0 + np.arange(128).reshape(16, 8), form)
    np.testing.assert_array_equal(product(*zeros, sums, kind, wide), sums)


def taken_apart(bits, kind):
    """Return significand (1 to 2, denormals below 1) and exponent; zero has none."""
    shapes = {"f16": (10, 15, 16), "bf16": (7, 127, 16), "e4m3": (3, 7, 8), "e5m2": (2, 15, 8)}
    mantissa, bias, width = shapes.get(kind, (23, 127, 32))
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

    With "outside" products leave the range of f32, also as denormals; f16 has no other case.
    """
    rng = np.random.default_rng(7)
    low, high = SPREADS[spread]
    if kind == "f16":
        low, high = max(low, -24), min(high, 15)
    form = "f32" if wide else "f16"
    a, b = drawn(rng, (16, depth), kind, low, high), drawn(rng, (depth, 8), kind, low, high)
    sums = drawn(rng, (16, 8), form, *((2 * low, 2 * high) if wide else (max(2 * low, -24), 15)))
    result = product(a, b, sums, kind, wide, ops.TWO_STEPS if old else 0)
    check_same(result, expected(a, b, sums, kind, wide, old), form)


INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(("kind", "depth", "wide"), FLOATS, ids=ids)
def test_infinities_and_nans(kind, depth, wide):
    form, nan = ("f32", 0x7FFFFFFF) if wide else ("f16", 0x7FFF)
    a, b, sums = np.ones((16, depth)), np.ones((depth, 8)), np.ones((16, 8))
    a[0, 1], a[1, 2], a[2, 3], b[0, 5], b[3, 2] = INF, -INF, NAN, INF, 0
    sums[5, 5], sums[6, 6], sums[7, 7] = -INF, INF, NAN
    result = product(patterns(a, kind), patterns(b, kind), patterns(sums, form), kind, wide)
    with np.errstate(invalid="ignore"):
        wanted = (a[:, :, None] * b[None]).sum(1) + sums
    assert (result[np.isnan(wanted)] == nan).all() and np.isnan(wanted).sum() > 8
    rest = ~np.isnan(wanted)
    np.testing.assert_array_equal(numbers(result, form)[rest], wanted[rest])


FP8 = {"e4m3": c.T_E4M3, "e5m2": c.T_E5M2}
PAIRS = [(a, b, wide) for a in FP8 for b in FP8 for wide in (True, False)]


def fp8_result(a, b, sums, kinds, wide):
    R = registers()
    put(R, A, a, lambda lane: a_places(lane, 32, 4))
    put(R, B, b, lambda lane: b_places(lane, 32, 4))
    put(R, C, sums, c_places)
    sub = 32 | FP8[kinds[0]] << 8 | FP8[kinds[1]] << 20 | (F32_SUM if wide else 0)
    fp8_product(sub, R, D, A, B, C)
    return take(R, D, np.zeros((16, 8), sums.dtype), c_places)


def fp8_expected(a, b, sums, kinds, wide):
    """Align and cut 13 places below the largest, and keep 13 digits of the sum."""
    out = sums.copy()
    for i, j in np.ndindex(16, 8):
        left, right = kinds
        pairs = [(taken_apart(a[i, k], left), taken_apart(b[k, j], right)) for k in range(32)]
        value = expected_sum(taken_apart(sums[i, j], "f32" if wide else "f16"), pairs, 13)
        out[i, j] = as_f32(value) & np.uint32(0xFFFFFC00) if wide else as_f16(value)
    return out


@pytest.mark.parametrize("sizes", [(-1, 1), (-9, 6)], ids=["like", "far"])
@pytest.mark.parametrize(("left", "right", "wide"), PAIRS)
def test_fp8(left, right, wide, sizes):
    rng = np.random.default_rng(8)
    kinds, form = (left, right), "f32" if wide else "f16"

    def operand(kind, shape):
        values = rng.normal(size=shape) * 2.0 ** rng.integers(*sizes, shape)
        return getattr(dtypes, kind.upper()).nearest(values)

    a, b = operand(left, (16, 32)), operand(right, (32, 8))
    sums = drawn(rng, (16, 8), form, 2 * sizes[0], 2 * sizes[1])
    result = fp8_result(a, b, sums, kinds, wide)
    check_same(result, fp8_expected(a, b, sums, kinds, wide), form)


def test_fp8_infinities_and_nans():
    a, b = np.full((16, 32), 0x3C, np.uint8), np.full((32, 8), 0x38, np.uint8)  # ones
    a[0, 1], a[1, 30], a[2, 3], b[31, 5], b[9, 6] = 0x7C, 0xFC, 0x7D, 0x7F, 0xFF
    sums = np.zeros((16, 8), np.uint32)
    sums[1, 0], sums[4, 4] = 0x7F800000, 0xFF800000
    result = fp8_result(a, b, sums, ("e5m2", "e4m3"), True)
    wanted = np.full((16, 8), 32.0)
    wanted[0], wanted[1], wanted[2], wanted[4, 4] = INF, -INF, NAN, -INF
    wanted[1, 0] = wanted[:, 5] = wanted[:, 6] = NAN
    np.testing.assert_array_equal(result.view(np.float32), wanted)
    assert (result[np.isnan(wanted)] == 0x7FFFFFFF).all()


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


def fma(x, y, z):
    return float(Fraction(x) * Fraction(y) + Fraction(z))


@pytest.mark.parametrize(("rows", "depth"), [(8, 4), (16, 4), (16, 8), (16, 16)])
def test_f64(rows, depth):
    rng = np.random.default_rng(3)
    a, b, sums = (rng.standard_normal(shape) for shape in ((rows, depth), (depth, 8), (rows, 8)))
    halves, R = rows // 8, registers()

    def of_a(lane):
        count = rows * depth // 32
        return [(lane // 4 + 8 * (i % halves), 4 * (i // halves) + lane % 4) for i in range(count)]

    def of_b(lane):
        return [(lane % 4 + 4 * i, lane // 4) for i in range(depth // 4)]

    def of_c(lane):
        return list(c_places(lane))[: 2 * halves]

    for first, matrix, places in ((A, a, of_a), (B, b, of_b), (C, sums, of_c)):
        put(R, first, matrix, places)
    dmma(depth | rows << 8, 0, R, D, A, B, C)
    result = take(R, D, np.zeros((rows, 8)), of_c)
    wanted = sums.copy()
    for i, j in np.ndindex(rows, 8):
        for k in range(depth):
            wanted[i, j] = fma(a[i, k], b[k, j], wanted[i, j])
    np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("saturating", [False, True])
@pytest.mark.parametrize("signs", range(4))
@pytest.mark.parametrize(("rows", "depth"), [(16, 32), (16, 16), (8, 16)])
def test_integers(rows, depth, signs, saturating):
    rng = np.random.default_rng(4)
    a = rng.integers(0, 256, (rows, depth)).astype(np.uint8)
    b = rng.integers(0, 256, (depth, 8)).astype(np.uint8)
    sums = rng.choice([0, 5, -(1 << 31), (1 << 31) - 1], (rows, 8)).astype(np.int32)
    R = registers()

    def rows_of(places):
        return lambda lane: [place for place in places(lane) if place[0] < rows]

    put(R, A, a, rows_of(lambda lane: a_places(lane, depth, 4)))
    put(R, B, b, lambda lane: b_places(lane, depth, 4))
    put(R, C, sums, rows_of(c_places))
    narrow = ops.IMMA_NARROW if rows == 8 else 0
    imma(depth | signs << 8 | narrow, c.SATURATE if saturating else 0, R, D, A, B, C)
    result = take(R, D, np.zeros((rows, 8), np.int32), rows_of(c_places))
    x = a.view(np.int8).astype(np.int64) if signs & 1 else a.astype(np.int64)
    y = b.view(np.int8).astype(np.int64) if signs & 2 else b.astype(np.int64)
    wanted = x @ y + sums
    if saturating:
        wanted = np.clip(wanted, -(1 << 31), (1 << 31) - 1)
    np.testing.assert_array_equal(result, wanted.astype(np.int32))
    assert not R[D + rows // 4 :].any()


@pytest.mark.parametrize("how", [ops.IMMA_AND, ops.IMMA_XOR])
@pytest.mark.parametrize("depth", [128, 256])
def test_bits(depth, how):
    rng = np.random.default_rng(5)
    words = depth // 32
    a = rng.integers(0, 1 << 32, (16, words)).astype(np.uint32)
    b = rng.integers(0, 1 << 32, (words, 8)).astype(np.uint32)
    sums = rng.integers(0, 1 << 32, (16, 8)).astype(np.uint32)
    R = registers()
    put(R, A, a, lambda lane: a_places(lane, words, 1))
    put(R, B, b, lambda lane: b_places(lane, words, 1))
    put(R, C, sums, c_places)
    imma(depth // 8 | how, 0, R, D, A, B, C)
    result = take(R, D, np.zeros((16, 8), np.uint32), c_places)
    x, y = a[:, :, None], b[None]
    met = np.bitwise_count(x & y if how == ops.IMMA_AND else x ^ y).sum(1).astype(np.uint32)
    np.testing.assert_array_equal(result, sums + met)


def test_recording_tells_rules_apart():
    """The recorded operands of `test_opcodes` give other results by the rule of Ampere."""
    name = "mma_f16_16816_f32_near"
    kernel = manifest.kernels()[name]
    R = registers()
    for first, words in zip((A, B, C), generate_inputs(kernel), strict=True):
        words = words.reshape(kernel.threads, -1)
        R[first : first + words.shape[1]] = words[:32].T
    hmma(code("f16", 16, True) | ops.TWO_STEPS, 0, R, D, A, B, C)
    wanted = harness.recorded()[1][name][:, :32]
    assert 0.4 < (R[D : D + 4] == wanted).mean() < 0.9
