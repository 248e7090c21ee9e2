"""Products of integer and bit matrices in the tensor cores."""

import itertools
from typing import Any

from llvmlite import ir
from numpy import int32, int64

from tilewave.basics.jit import njit
from tilewave.execution.machine.codes import SATURATE
from tilewave.execution.machine.families.tensor import IMMA_AND, IMMA_NARROW, IMMA_XOR
from tilewave.execution.machine.fragments import ROWS, columns, emitted, lanes, local_words, part
from tilewave.execution.machine.vectors import FLOAT, I32, I64, either, loop, splat

# The scratch in words: bytes of A as f32 by k; those of B by four k, as its lanes hold it; the
# sums by columns. Of single bits, the words of A and B.
A_AT, B_AT, SUMS = 0, 512, 768
WORDS = 896


@emitted(*itertools.product((1, 2), (0, 1)))
def read(builder, count, single, R, a, b, c, signed_a, signed_b, narrow, scratch):
    """Load A, B and C to the scratch: ``pairs`` of A's registers; single: bits, not bytes.
    signed_a, signed_b: 128 for signed bytes, else 0. narrow: eight rows only, in one register instead of two."""
    out = part(builder, scratch, 0)

    def put(at, step, words, signed):
        if single:
            out.store(at, words)
            return
        sign = splat(builder, signed)
        for byte in range(4):
            value = (((words >> 8 * byte) & 255) ^ sign) - sign
            out.store(at + step * byte, value.as_float().bits_as(I32))

    def second(first, number):
        # With eight rows the others hold arbitrary values, which are not written.
        offset = ir.Constant(I64, number)
        register = builder.select(narrow, first, builder.add(first, offset))
        return R.load(register, 0)

    for pair in range(count):
        for t, words in enumerate(columns(R.load(a, 2 * pair), second(a, 2 * pair + 1))):
            k = 4 * pair + t
            put(A_AT + ROWS * (k if single else 4 * k), ROWS, words, signed_a)
        for half in range(2):
            at = B_AT + (32 if single else 128) * pair + 16 * half
            put(at, 32, R.load_half(b, pair, half), signed_b)
    for side in range(2):
        last = builder.select(narrow, ir.Constant(I64, side), ir.Constant(I64, side + 2))
        for t, words in enumerate(columns(R.load(c, side), R.load(builder.add(c, last), 0))):
            out.store(SUMS + ROWS * (2 * t + side), words)


@emitted((16,), (32,))
def add_bytes(builder, steps, saturating, scratch):
    """Add products of bytes to the sums. 32 of them and their sum are exact in f32."""
    factors, b_factors = part(builder, scratch, A_AT, FLOAT), part(builder, scratch, B_AT, FLOAT)
    sums = part(builder, scratch, SUMS)

    def column(j):
        lane = builder.mul(j, ir.Constant(I64, 4))

        def term(k):
            at = 128 * (k // 16) + 32 * (k % 4) + k // 4 % 4
            b_factor = b_factors.everywhere(builder.add(lane, ir.Constant(I64, at)))
            return factors.load(ROWS * k) * b_factor

        total = term(0)
        for k in range(1, steps):
            total = total + term(k)
        place = builder.mul(j, ir.Constant(I64, ROWS))
        before, more = sums.load(place), total.truncated()
        plain = before + more

        def limited():
            over = ((before ^ plain) & (more ^ plain)).compare("<", 0)
            end = before.compare("<", 0).select(-(1 << 31), plain * 0 + ((1 << 31) - 1))
            return over.select(end, plain)

        sums.store(place, either(builder, saturating, limited, lambda: plain))

    loop(builder, 8, column)


@emitted(*itertools.product((4, 8), (0, 1)))
def add_bits(builder, words, different, scratch):
    """Add to the sums the number of k where bits of A and B are both set, or differ."""
    a_words, b_words = part(builder, scratch, A_AT), part(builder, scratch, B_AT)
    sums = part(builder, scratch, SUMS)

    def column(j):
        lane, place = builder.mul(j, ir.Constant(I64, 4)), builder.mul(j, ir.Constant(I64, ROWS))
        total = sums.load(place)
        for k in range(words):
            x = a_words.load(ROWS * k)
            y = b_words.everywhere(builder.add(lane, ir.Constant(I64, 32 * (k // 4) + k % 4)))
            total = total + (x ^ y if different else x & y).ones()
        sums.store(place, total)

    loop(builder, 8, column)


@emitted((8,), (16,))
def write(builder, rows, R, d, scratch):
    halves = rows // 8
    sums = part(builder, scratch, SUMS)
    for side in range(2):
        vectors = [sums.load(ROWS * (2 * t + side)) for t in range(4)]
        for half in range(halves):
            R.store(d, 2 * half + side, lanes(vectors, half))


@njit
def imma(sub, flags, R, d, a, b, c):
    """Compute D = A B + C.
    sub: depth in bytes, in bits 8 and 9 whether those of A and B are signed, IMMA_AND or IMMA_XOR
    for single bits, IMMA_NARROW for eight rows."""
    depth, narrow = sub & 255, sub & IMMA_NARROW != 0
    scratch: Any = local_words(WORDS)
    d, a, b, c = int64(d), int64(a), int64(b), int64(c)
    signed_a = int32(128) if sub & 256 else int32(0)
    signed_b = int32(128) if sub & 512 else int32(0)
    single = sub & (IMMA_AND | IMMA_XOR) != 0
    read(depth // 16, single, R, a, b, c, signed_a, signed_b, narrow, scratch)
    if single:
        add_bits(depth // 4, sub & IMMA_XOR != 0, scratch)
    else:
        add_bytes(depth, flags & SATURATE != 0, scratch)
    if d != 255:
        write(8 if narrow else 16, R, d, scratch)
