"""Products of f16, bf16 and tf32 matrices in the tensor cores.

HMMA's summation is not documented. One rule fits every bit of an H200's 16,384 sums of each of 16 kinds (shape, types,
operands alike or far apart, infinities and NaNs). Products are exact. They and C are aligned to the largest exponent
among them: of a product the sum of its factors' exponents, not normalised; of a denormal the least of its format; zeros
do not count. They are cut 25 binary places below it towards zero, and added exactly. The sum is cut to f32, or rounded
to the nearest f16. One step adds all k of an instruction.

Other architectures follow P. Xie et al., "MMA-Sim" (arXiv 2511.10909, and its code), whose rule for Hopper is the same;
they were not measured here. Blackwell does as Hopper. Ampere and Ada cut after 24 places. In the larger shape of each
type they add the two halves of the depth one after the other, and round the first half's sum as a result. M. Fasi et
al., "Numerical behavior of NVIDIA tensor cores" (PeerJ CS 7:e330, 2021) found such sums first.

Two points are guesses, which no operand tested: the sign of a sum of zeros (always plus here), and
denormal f32 and bf16 next to nothing larger.
"""

import functools
import itertools
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numpy import float32, float64, int32, int64, uint32

from tilewave.basics.bits import as_f32, bits_f32, widen_f16
from tilewave.basics.jit import njit
from tilewave.execution.machine.codes import T_BF16, T_F16, T_TF32
from tilewave.execution.machine.families.tensor import TWO_STEPS
from tilewave.execution.machine.fragments import ROWS, columns, emitted, lanes, local_words, part
from tilewave.execution.machine.vectors import DOUBLE, FLOAT, I32, I64, either, loop, splat

NAN32 = uint32(0x7FFFFFFF)
LARGEST = 3.4028236692093846e38  # 2^128, just above the largest f32
TOGETHER = 2  # columns that read A once

# The scratch of an instruction, in words: A by k, its rows contiguous; B by pairs of k, as
# its lanes hold it; their exponents; the sums by columns.
A_AT, A_EXPONENTS, B_AT, B_EXPONENTS, SUMS = 0, 512, 1024, 1280, 1536
WORDS = 1664
ALL = int64(-1)  # keeps all bits of a sum
ZERO = -20000  # the exponent of zero: below all others


def floats(words, kind):
    """Convert words to two vectors of floats, the low halves first; to one for tf32."""
    if kind == T_TF32:  # the lower 13 bits are ignored
        return [(words & 0xFFFFE000).bits_as(FLOAT)]
    if kind == T_BF16:
        return [(words << 16).bits_as(FLOAT), (words & 0xFFFF0000).bits_as(FLOAT)]
    return [(words & 0xFFFF).widened(), (words >> 16).widened()]


def exponents(bits, least):
    """Return exponents as the tensor cores see them; denormals have the format's least."""
    zero = (bits << 1).compare("==", 0)
    return zero.select(ZERO, ((bits >> 23) & 255).at_least(least) - 127)


def extreme(bits, kind):
    """Flag numbers outside 2^-50 to 2^50 but not zeros; infinities and NaNs count."""
    if kind == T_F16:  # only infinities and NaNs
        return (bits & 0x7FFFFFFF).above(0x477FFFFF)
    zero = (bits << 1).compare("==", 0)
    return zero.select(0, (((bits >> 23) & 255) - 77).above(100))


def significands(bits, exponent):
    """Return numbers without their exponents: from 1 to 2, denormals below 1."""
    unit = (bits & 0x80000000) | 0x3F800000
    small = (bits | unit).bits_as(FLOAT) - unit.bits_as(FLOAT)
    denormal = ((bits >> 23) & 255).compare("==", 0)
    return denormal.select(small, (bits - (exponent << 23)).bits_as(FLOAT))


@emitted(
    (T_TF32, 8), (T_TF32, 4), (T_BF16, 16), (T_BF16, 8), (T_F16, 16), (T_F16, 8),
    result=types.boolean,
)  # fmt: skip
def spread(builder, kind, steps, R, a, b, scratch):
    """Expand A and B to the scratch; return whether any number is `extreme`.
    Any order of k is right if A and B share it: tf32 words of the first register pair are at even
    places, those of the second at odd ones."""
    least = 113 if kind == T_F16 else 1
    out, odd = part(builder, scratch, 0), []

    def put(at, exponents_at, values):
        bits = values.bits_as(I32)
        out.store(at, bits)
        out.store(exponents_at, exponents(bits, least))
        odd.append(extreme(bits, kind))

    wide = kind == T_TF32
    for pair in range(steps // (4 if wide else 8)):
        for t, words in enumerate(columns(R.load(a, 2 * pair), R.load(a, 2 * pair + 1))):
            k = 2 * t + pair if wide else 8 * pair + 2 * t
            for side, values in enumerate(floats(words, kind)):
                at = ROWS * (k + side)
                put(A_AT + at, A_EXPONENTS + at, values)
        for half in range(2):
            for side, values in enumerate(floats(R.load_half(b, pair, half), kind)):
                at = (32 if wide else 64) * pair + 32 * side + 16 * half
                put(B_AT + at, B_EXPONENTS + at, values)
    return functools.reduce(operator.or_, odd).any()


@emitted((0,), (1,))
def read_sums(builder, wide, R, c, scratch):
    """Load C to the scratch, as patterns of f32."""
    out = part(builder, scratch, SUMS)
    if wide:
        for side in range(2):
            for t, words in enumerate(columns(R.load(c, side), R.load(c, side + 2))):
                out.store(ROWS * (2 * t + side), words)
    else:
        for t, words in enumerate(columns(R.load(c, 0), R.load(c, 1))):
            for side, values in enumerate(floats(words, T_F16)):
                out.store(ROWS * (2 * t + side), values.bits_as(I32))


@emitted((0,), (1,))
def write_sums(builder, wide, R, d, scratch):
    sums = part(builder, scratch, SUMS)
    column = [sums.load(ROWS * j) for j in range(8)]
    if not wide:
        half = [total.bits_as(FLOAT).narrowed() for total in column]
        column = [half[j] | half[j + 1] << 16 for j in range(0, 8, 2)]
    for side in range(2 if wide else 1):
        words = column[side::2] if wide else column
        for rows in range(2):
            R.store(d, 2 * rows + side if wide else rows, lanes(words, rows))


def cut_to_f32(value, normal):
    """Round doubles to f32 patterns towards zero; overflow gives infinity. normal: no result is denormal in f32."""
    if normal:
        return (value.bits_as(I64) & 0xFFFFFFFFE0000000).bits_as(DOUBLE).as_float().bits_as(I32)
    near = value.as_float()
    magnitude = value.absolute()
    above = near.absolute().as_double().compare(">", magnitude)
    above = above & magnitude.compare("<", LARGEST)
    return near.bits_as(I32) + above.as_mask()


def nearest_f16(value):
    """Round doubles to the nearest f16, as patterns of f32."""
    bits = value.bits_as(I64)
    # Bits below f32's last place only decide ties, so one sticky bit replaces them.
    rest = (bits & 0x1FFFFFFF).compare("==", 0)
    kept = bits & 0xFFFFFFFFE0000000
    single = rest.select(kept, kept | 0x20000000).bits_as(DOUBLE).as_float()
    return single.narrowed().widened().bits_as(I32)


@emitted(*itertools.product((4, 8, 16, 32), (0, 1)))
def fused_sums(builder, count, moderate, places, wide, skipped, kept, scratch):
    """Add ``count`` products to the sums in one step, keeping ``places`` digits after the point.
    moderate: no factor is `extreme`, so products and aligned parts fit f32. skipped: the depth to skip, 8 of f16 or
    bf16, or 1 of tf32, of which then every second one counts. kept: a mask of the bits that a result has."""
    order = (0, 2, 4, 6) if count == 4 else range(count)
    together = TOGETHER if moderate else 1
    mask = splat(builder, builder.trunc(kept, I32))
    factors, powers = part(builder, scratch, A_AT, FLOAT), part(builder, scratch, A_EXPONENTS)
    b_factors, b_powers = (part(builder, scratch, B_AT, FLOAT), part(builder, scratch, B_EXPONENTS))
    sums = part(builder, scratch, SUMS)
    first_a = builder.mul(skipped, ir.Constant(I64, ROWS))
    first_b = builder.mul(skipped, ir.Constant(I64, 8 if count > 4 else 32))
    least = builder.select(wide, ir.Constant(I32, 1), ir.Constant(I32, 113))

    def a_at(k):
        return builder.add(first_a, ir.Constant(I64, ROWS * k))

    class Column:
        """A column of the sums during the addition."""

        def __init__(self, j) -> None:
            self.first = builder.add(first_b, builder.mul(j, ir.Constant(I64, 4)))
            self.offset = builder.mul(j, ir.Constant(I64, ROWS))
            self.before = sums.load(self.offset)
            self.exponent = exponents(self.before, splat(builder, least))
            self.most = self.exponent.at_least(-900)
            self.total: Any = None  # until the first term
            self.power: dict[int, Any] = {}

        def b_at(self, k):
            at = ir.Constant(I64, 64 * (k >> 3) + 32 * (k & 1) + (k >> 1 & 3))
            return builder.add(self.first, at)

        def compare(self, k, power):
            self.power[k] = power + b_powers.everywhere(self.b_at(k))
            self.most = self.most.at_least(self.power[k])

        def settle(self):
            # The f32 exponent of the last place kept: dividing by it makes that place 1.
            self.base = self.most - splat(builder, builder.add(places, ir.Constant(I32, 127)))
            # Without a product any base is right, because nothing is cut.
            self.scale = ((self.base.at_least(-252) * -1) << 23).bits_as(FLOAT)

        def aligned(self, significand, exponent):
            factor = ((exponent - self.base).at_least(1) << 23).bits_as(FLOAT)
            return (significand * factor).truncated()

        def add(self, k, x, power):
            y = b_factors.everywhere(self.b_at(k))
            if moderate:
                term = (x * y * self.scale).truncated()
            else:
                x = significands(x.bits_as(I32), power)
                y = significands(y.bits_as(I32), b_powers.everywhere(self.b_at(k)))
                term = self.aligned(x * y, self.power[k])
            self.total = term if self.total is None else self.total + term

        def finish(self):
            last = self.aligned(significands(self.before, self.exponent), self.exponent)
            unit = ((self.base + (127 + 1023)).as_int64() << 52).bits_as(DOUBLE)
            value = (self.total.as_double() + last.as_double()) * unit
            rounded = mask & either(
                builder, wide, lambda: cut_to_f32(value, moderate), lambda: nearest_f16(value)
            )
            # Infinities and NaNs of C stay.
            size = self.before & 0x7FFFFFFF
            stays = size.above(0x7F800000).select(0x7FFFFFFF, self.before)
            sums.store(self.offset, size.above(0x7F7FFFFF).select(stays, rounded))

    def several(i):
        first = builder.mul(i, ir.Constant(I64, together))
        chosen = [Column(builder.add(first, ir.Constant(I64, n))) for n in range(together)]
        for k in order:
            power = powers.load(a_at(k))
            for column in chosen:
                column.compare(k, power)
        for column in chosen:
            column.settle()
        for k in order:
            x, power = factors.load(a_at(k)), powers.load(a_at(k))
            for column in chosen:
                column.add(k, x, power)
        for column in chosen:
            column.finish()

    loop(builder, 8 // together, several)


def _adding(steps):
    """Return a function that adds ``steps`` products to the sums, see `fused_sums`."""

    @njit
    def add(moderate, places, wide, skipped, kept, scratch):
        fused_sums(steps, moderate, places, wide, skipped, kept, scratch)

    return add


add4, add8, add16, add32 = (_adding(steps) for steps in (4, 8, 16, 32))


@njit
def endless(R, c, kind, depth, wide, S):
    """Compute the sums in which an infinity or a NaN of A or B takes part."""
    step = 2 if kind == T_TF32 and depth == 4 else 1
    rows, columns = uint32(0), uint32(0)
    top = uint32(0x7F800000)
    for k in range(0, depth * step, step):
        for row in range(ROWS):
            rows |= uint32(S[A_AT + ROWS * k + row] & top == top) << uint32(row)
        for column in range(8):
            y = S[B_AT + 64 * (k >> 3) + 32 * (k & 1) + (k >> 1 & 3) + 4 * column]
            columns |= uint32(y & top == top) << uint32(column)
    for row in range(ROWS):
        for column in range(8):
            if not ((rows >> uint32(row)) | (columns >> uint32(column))) & uint32(1):
                continue
            word = R[c + (row >> 3), 4 * (row & 7) + (column >> 1)] >> uint32(16 * (column & 1))
            total = float64(widen_f16(word & uint32(0xFFFF)))
            if wide:
                word = R[c + 2 * (row >> 3) + (column & 1), 4 * (row & 7) + (column >> 1)]
                total = float64(as_f32(word))
            for k in range(0, depth * step, step):
                x = S[A_AT + ROWS * k + row]
                y = S[B_AT + 64 * (k >> 3) + 32 * (k & 1) + (k >> 1 & 3) + 4 * column]
                total += float64(as_f32(x)) * float64(as_f32(y))
            bits = bits_f32(float32(total)) if total == total else NAN32
            S[SUMS + ROWS * column + row] = bits


@njit
def hmma(sub, flags, R, d, a, b, c):
    """Compute D = A B + C for m16n8.
    sub: depth, type of A and B in bits 8 and on, 1 << 16 if C and D are f32, TWO_STEPS for the sums of Ampere and Ada."""
    depth, kind, wide, old = sub & 255, (sub >> 8) & 255, (sub >> 16) & 1 != 0, sub & TWO_STEPS != 0
    scratch: Any = local_words(WORDS)
    d, a, b, c = int64(d), int64(a), int64(b), int64(c)
    far = spread(kind, depth, R, a, b, scratch)
    read_sums(wide, R, c, scratch)
    places = int32(24) if old else int32(25)
    if kind == T_TF32 and (old or depth == 4):
        add4(not far, places, wide, 0, ALL, scratch)
        if depth == 8:
            add4(not far, places, wide, 1, ALL, scratch)
    elif depth == 16 and not old:
        add16(not far, places, wide, 0, ALL, scratch)
    else:
        add8(not far, places, wide, 0, ALL, scratch)
        if depth == 16:
            add8(not far, places, wide, 8, ALL, scratch)
    if far:
        endless(R, c, kind, depth, wide, scratch)
    if d != 255:
        write_sums(wide, R, d, scratch)
