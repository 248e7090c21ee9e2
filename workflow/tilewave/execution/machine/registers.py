"""Load operands of an instruction, and store its results. `integer` gives the layout of the scratch ``T``."""

import numpy as np
from numpy import int64, uint32

from tilewave.basics.bits import lowest_one
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import views as view

ALL = uint32(0xFFFFFFFF)
# The part of a source that is meant, by codes.WHOLE and on: shift, mask, factor.
PARTS = np.array(
    [(0, 0xFFFFFFFF, 1), (0, 0xFFFF, 0x10001), (16, 0xFFFF, 0x10001), (0, 0xFF, 1), (8, 0xFF, 1),
     (16, 0xFF, 1), (24, 0xFF, 1), (0, 0xFFFF, 1), (16, 0xFFFF, 1)], np.uint32,
)  # fmt: skip


@njit
def fetch(row, at, R, U, low, high):
    """Load one source into two rows of the scratch: its word and, for 64 bits, the upper one."""
    kind = row[at + c.KIND]
    words = row[at + c.WORDS]
    if kind == c.VALUE_KIND:
        value = uint32(row[at + c.VALUE])
        for lane in range(32):
            low[lane] = value
        if words == 2:
            value = uint32(row[at + c.VALUE_HIGH])
            for lane in range(32):
                high[lane] = value
    elif kind == c.REGISTER:
        index = row[at + c.INDEX]
        for lane in range(32):
            low[lane] = R[index, lane]
        if words == 2:
            for lane in range(32):
                high[lane] = R[index + 1, lane]
    else:
        value = U[row[at + c.INDEX]]
        for lane in range(32):
            low[lane] = value
        if words == 2:
            value = U[row[at + c.INDEX] + 1]
            for lane in range(32):
                high[lane] = value
    swizzle = row[at + c.SWIZZLE]
    if swizzle == c.SWAPPED:
        for lane in range(32):
            low[lane] = low[lane] >> uint32(16) | low[lane] << uint32(16)
    elif swizzle:
        part = PARTS[swizzle]
        for lane in range(32):
            low[lane] = ((low[lane] >> part[0]) & part[1]) * part[2]
    if kind == c.VALUE_KIND:
        return
    keep, flip = uint32(row[at + c.AND]), uint32(row[at + c.XOR])
    if keep != ALL or flip:
        for lane in range(32):
            low[lane] = (low[lane] & keep) ^ flip
    if words == 2:
        keep, flip = uint32(row[at + c.AND_HIGH]), uint32(row[at + c.XOR_HIGH])
        if keep != ALL or flip:
            for lane in range(32):
                high[lane] = (high[lane] & keep) ^ flip
    if row[at + c.ADD]:
        for lane in range(32):
            low[lane] += uint32(1)
            if words == 2 and low[lane] == uint32(0):
                high[lane] += uint32(1)


@njit
def pin(row, column, P):
    """Return an input predicate as a lane mask."""
    value = P[row[column]]
    return ~value if row[column + 1] else value


@njit
def commit(R, d, result, mask):
    """Write a result row to a register, active lanes only."""
    if d == 255:
        return
    if mask == ALL:
        for lane in range(32):
            R[d, lane] = result[lane]
        return
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            R[d, lane] = result[lane]


@njit
def commit_predicate(P, index, value, mask):
    """Write a predicate: active lanes of a vector predicate, all of a uniform one."""
    if index == 7 or index == 15:
        return
    if index > 7:
        P[index] = ALL if value & mask else uint32(0)
    else:
        P[index] = (P[index] & ~mask) | (value & mask)


@njit
def sources(m, warp, row):
    """Load all sources of an instruction into the scratch."""
    R, U, T = view.registers(m)[warp], view.uniforms(m)[warp], view.scratch(m)
    for slot in range(row[c.NSRC]):
        fetch(row, int64(c.SOURCES + slot * c.SOURCE_COLUMNS), R, U, T[slot], T[4 + slot])


@njit
def results(m, warp, row, mask, first, second):
    """Write result rows and predicates to their destinations."""
    R, U, P, T = (
        view.registers(m)[warp], view.uniforms(m)[warp], view.predicates(m)[warp], view.scratch(m)
    )  # fmt: skip
    d = row[c.DST]
    if row[c.DST_UNIFORM]:
        if d != 255:
            lane = int64(lowest_one(mask))
            U[d] = T[8, lane]
            if row[c.DST_WORDS] == 2:
                U[d + 1] = T[9, lane]
    else:
        commit(R, int64(d), T[8], mask)
        if row[c.DST_WORDS] == 2 and d != 255:
            commit(R, int64(d + 1), T[9], mask)
    commit_predicate(P, int64(row[c.PD0]), first, mask)
    commit_predicate(P, int64(row[c.PD1]), second, mask)
