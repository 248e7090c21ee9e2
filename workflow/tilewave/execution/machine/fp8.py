"""Products of FP8 matrices in the tensor cores of Hopper (QGMMA).

Their summation is not documented. The model is that of P. Xie et al., "MMA-Sim" (arXiv 2511.10909, and its code), which
gives Hopper's bits; an H200 agrees (tests/support/opcodes/sm_90a/qgmma.cu). It is the rule of HMMA (see `tensor`) with
fewer places. Products are exact. They and C are aligned to their largest exponent, cut towards zero `PLACES` binary
places below it, and added exactly, all 32 of an instruction in one step. The sum is cut to `DIGITS` digits of mantissa
behind the point, or rounded to the nearest f16, so a register's lower bits are zeros. Parts of it were seen before: the
14 highest bits of each product by DeepSeek-AI, "DeepSeek-V3 Technical Report" (arXiv 2412.19437, section 3.5.2), sums
of 22 bits by J. Zhang et al., "SageAttention2" (arXiv 2411.10958).
"""

import functools
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numpy import int32, int64

from tilewave.basics.jit import njit
from tilewave.execution.machine.codes import T_E5M2, T_F16
from tilewave.execution.machine.fragments import ROWS, columns, emitted, local_words, part
from tilewave.execution.machine.tensor import (
    A_AT,
    A_EXPONENTS,
    B_AT,
    B_EXPONENTS,
    WORDS,
    add32,
    endless,
    exponents,
    extreme,
    read_sums,
    write_sums,
)
from tilewave.execution.machine.vectors import FLOAT, I32, splat

PLACES = 13
DIGITS = 13
DEPTH = 32
KEPT = -1 << (23 - DIGITS)  # the bits of an f32 that a sum has


@emitted(result=types.boolean)
def spread(builder, R, a, b, wide_a, wide_b, scratch):
    """Expand A and B to the scratch, as `tensor.spread` does.
    wide_a, wide_b: E5M2 if true, else E4M3. Returns whether an infinity or a NaN is among them.
    The order of k is that of the scratch of B: of each 16, bytes 0 and 1 of all words come first."""
    out, odd = part(builder, scratch, 0), []

    def choice(condition, true, false, kind=I32):
        chosen = builder.select(condition, ir.Constant(kind, true), ir.Constant(kind, false))
        return splat(builder, chosen)

    class Operand:
        """A side's type: f16 patterns with another exponent, or the upper bytes of f16."""

        def __init__(self, wide) -> None:
            self.shift = choice(wide, 1 << 8, 1 << 7)
            self.factor = choice(wide, 1.0, 256.0, FLOAT)
            self.least = choice(wide, 113, 121)
            self.nan = choice(wide, 256, 0x7F)  # a pattern that E5M2 does not have

        def put(self, at, exponents_at, byte):
            size = byte & 0x7F
            number = (size * self.shift).widened() * self.factor
            bits = size.compare("==", self.nan).select(0x7FC00000, number.bits_as(I32))
            bits = bits | (byte & 0x80) << 24
            out.store(at, bits)
            out.store(exponents_at, exponents(bits, self.least))
            odd.append(extreme(bits, T_F16))

    left, right = Operand(wide_a), Operand(wide_b)
    for pair in range(DEPTH // 16):
        words = columns(R.load(a, 2 * pair), R.load(a, 2 * pair + 1))
        halves = [R.load_half(b, pair, half) for half in range(2)]
        for byte in range(4):
            for t, word in enumerate(words):
                at = ROWS * (16 * pair + 8 * (byte >> 1) + 2 * t + (byte & 1))
                left.put(A_AT + at, A_EXPONENTS + at, (word >> 8 * byte) & 255)
            for half, word in enumerate(halves):
                at = 128 * pair + 32 * byte + 16 * half
                right.put(B_AT + at, B_EXPONENTS + at, (word >> 8 * byte) & 255)
    return functools.reduce(operator.or_, odd).any()


@njit
def fp8_product(sub, R, d, a, b, c):
    """Compute D = A B + C for m16n8k32.
    sub: type of A in bits 8 and on, of B in bits 20 and on, 1 << 16 if C and D are f32."""
    wide = (sub >> 16) & 1 != 0
    d, a, b, c = int64(d), int64(a), int64(b), int64(c)
    scratch: Any = local_words(WORDS)
    far = spread(R, a, b, (sub >> 8) & 255 == T_E5M2, (sub >> 20) & 255 == T_E5M2, scratch)
    read_sums(wide, R, c, scratch)
    add32(not far, int32(PLACES), wide, 0, int64(KEPT if wide else -1), scratch)
    if far:
        endless(R, c, T_F16, DEPTH, wide, scratch)
    write_sums(wide, R, d, scratch)
