"""Products of f64 matrices in the tensor cores: one fused multiply-add after the other along k.
An H200 gave the same bits for all recorded operands."""

from typing import Any

from llvmlite import ir
from numpy import int64, uint32, uint64

from tilewave.basics.bits import as_f64
from tilewave.basics.jit import njit
from tilewave.execution.machine.codes import ZERO
from tilewave.execution.machine.families.floating import F_FMA
from tilewave.execution.machine.families.tensor import DMMA_CUT
from tilewave.execution.machine.floating import directed64
from tilewave.execution.machine.fragments import emitted, local_words, part
from tilewave.execution.machine.integer import joined
from tilewave.execution.machine.vectors import DOUBLE, I32, I64, loop

GROUP = 8  # rows of a register, and columns
# The scratch in doubles: A by row groups and k; B by groups of four k, as its lanes hold it; the
# sums by row groups and columns.
A_AT, B_AT, SUMS = 0, 256, 384
WORDS = 1024


def doubles(low, high, lanes):
    """Join two registers of these lanes to doubles."""
    words = low.shuffled([x for lane in lanes for x in (lane, 32 + lane)], high)
    return words.pairs_as(DOUBLE)


def quad(low, high):
    """Return four vectors of eight doubles: the t-th lanes of the quads."""
    return [doubles(low, high, [4 * g + t for g in range(GROUP)]) for t in range(4)]


SHAPES = (1, 4), (2, 4), (2, 8), (2, 16)  # groups of rows, and depth


@emitted(*SHAPES)
def read(builder, halves, depth, R, a, b, c, scratch):
    """Load A, B and C to the scratch."""
    steps = depth // 4
    out = part(builder, scratch, 0, DOUBLE)

    def pair(first, number):
        return R.load(first, 2 * number), R.load(first, 2 * number + 1)

    for step in range(steps):
        low, high = pair(b, step)
        out.store(B_AT + 32 * step, doubles(low, high, range(32)))
    for group in range(halves):
        for step in range(steps):
            for t, vector in enumerate(quad(*pair(a, halves * step + group))):
                out.store(A_AT + GROUP * (16 * group + 4 * step + t), vector)
        for side in range(2):
            for t, vector in enumerate(quad(*pair(c, 2 * group + side))):
                out.store(SUMS + GROUP * (8 * group + 2 * t + side), vector)


@emitted(*SHAPES)
def add(builder, halves, steps, scratch):
    """Add the products to the sums, each rounded to the nearest."""
    memory = part(builder, scratch, 0, DOUBLE)

    def column(j):
        lane = builder.mul(j, ir.Constant(I64, 4))
        factors = [
            memory.everywhere(
                builder.add(lane, ir.Constant(I64, B_AT + 32 * (k // 4) + k % 4)), GROUP
            )
            for k in range(steps)
        ]
        for group in range(halves):
            offset = builder.mul(j, ir.Constant(I64, GROUP))
            offset = builder.add(offset, ir.Constant(I64, SUMS + 64 * group))
            total = memory.load(offset, GROUP)
            for k, factor in enumerate(factors):
                total = memory.load(A_AT + GROUP * (16 * group + k), GROUP).fused(factor, total)
            memory.store(offset, total)

    loop(builder, 8, column)


@emitted((1,), (2,))
def write(builder, halves, R, d, scratch):
    memory = part(builder, scratch, 0, I32)
    order = [16 * t + 2 * g for g in range(GROUP) for t in range(4)]
    for group in range(halves):
        for side in range(2):
            first, second, third, fourth = (
                memory.load(2 * (SUMS + GROUP * (8 * group + 2 * t + side))) for t in range(4)
            )
            left = first.shuffled(range(32), second)
            right = third.shuffled(range(32), fourth)
            for word in range(2):
                vector = left.shuffled([x + word for x in order], right)
                R.store(d, 4 * group + 2 * side + word, vector)


@njit
def double(words, at):
    """Read a double of the scratch."""
    return as_f64(joined(words[2 * at + 1], words[2 * at]))


@njit
def add_cut(groups, depth, words):
    """Add the products to the sums, each rounded towards zero."""
    for group in range(groups):
        for column in range(8):
            for row in range(GROUP):
                offset = SUMS + GROUP * (8 * group + column) + row
                bits = joined(words[2 * offset + 1], words[2 * offset])
                for k in range(depth):
                    x = double(words, A_AT + GROUP * (16 * group + k) + row)
                    y = double(words, B_AT + 32 * (k // 4) + 4 * column + k % 4)
                    bits = directed64(F_FMA, ZERO, x, y, as_f64(bits))
                words[2 * offset] = uint32(bits)
                words[2 * offset + 1] = uint32(bits >> uint64(32))


@njit
def dmma(sub, flags, R, d, a, b, c):
    """Compute D = A B + C. sub: depth, rows in bits 8 and on, DMMA_CUT to round towards zero."""
    depth, groups = sub & 255, ((sub >> 8) & 255) // GROUP
    scratch: Any = local_words(WORDS)
    d, a, b, c = int64(d), int64(a), int64(b), int64(c)
    read(groups, depth, R, a, b, c, scratch)
    if sub & DMMA_CUT:
        add_cut(groups, depth, scratch)
    else:
        add(groups, depth, scratch)
    if d != 255:
        write(groups, R, d, scratch)
