"""What each family of instructions does to a warp, as functions that are compiled when needed.

The interpreter's loop calls them through their addresses: a kernel pays for compiling the families
that it uses, and a change in one leaves the others as they are.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import int32, int64, uint32, uint64

from tilewave.machine import accesses
from tilewave.machine import codes as c
from tilewave.machine import state as s
from tilewave.machine import views as view
from tilewave.machine.bits import lowest_one
from tilewave.machine.bulk import bulk
from tilewave.machine.cluster import cluster
from tilewave.machine.compiling import Entry, njit
from tilewave.machine.conversion import convert
from tilewave.machine.dmma import dmma
from tilewave.machine.families import votes as ops
from tilewave.machine.floating import double, single
from tilewave.machine.halves import half
from tilewave.machine.hgmma import hgmma
from tilewave.machine.imma import imma
from tilewave.machine.integer import integer
from tilewave.machine.mbarrier import mbarrier
from tilewave.machine.special import special
from tilewave.machine.tensor import hmma

ALL = uint32(0xFFFFFFFF)
CLOCKLO, TIMERLO = (c.SPECIAL_REGISTERS.index(name) for name in ("SR_CLOCKLO", "SR_GLOBALTIMERLO"))
SIGNATURE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint32


@intrinsic
def call(typingctx, address, m, warp, pc, mask):
    """Call a handler by its address."""

    def build(context, builder, signature, arguments):
        address, m, warp, pc, mask = arguments
        word = ir.IntType(64)
        data = context.make_array(signature.args[1])(context, builder, m).data
        kind = ir.FunctionType(ir.VoidType(), [data.type, word, word, ir.IntType(32)])
        function = builder.inttoptr(address, kind.as_pointer())
        builder.call(function, [data, warp, pc, mask])
        return context.get_dummy_value()

    return types.none(types.int64, m, types.int64, types.int64, types.uint32), build


@njit
def fetch(row, at, R, U, low, high):
    """One source into two rows of the scratch: its word and, for 64 bits, the upper one."""
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
    if swizzle:
        for lane in range(32):
            value = low[lane]
            if swizzle == c.LOW_TWICE:
                value = (value & uint32(0xFFFF)) * uint32(0x10001)
            elif swizzle == c.HIGH_TWICE:
                value = (value >> uint32(16)) * uint32(0x10001)
            elif swizzle == c.SWAPPED:
                value = value >> uint32(16) | value << uint32(16)
            elif swizzle == c.LOW_HALF:
                value &= uint32(0xFFFF)
            elif swizzle == c.HIGH_HALF:
                value >>= uint32(16)
            elif swizzle == c.BYTE0:
                value &= uint32(0xFF)
            elif swizzle == c.BYTE1:
                value = (value >> uint32(8)) & uint32(0xFF)
            elif swizzle == c.BYTE2:
                value = (value >> uint32(16)) & uint32(0xFF)
            elif swizzle == c.BYTE3:
                value >>= uint32(24)
            low[lane] = value
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
    """A predicate input as a lane mask."""
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
    """Write a predicate: active lanes of a vector one, the whole of a uniform one."""
    if index == 7 or index == 15:
        return
    if index > 7:
        P[index] = ALL if value & mask else uint32(0)
    else:
        P[index] = (P[index] & ~mask) | (value & mask)


@njit
def _signs(words, straight):
    """Lanes whose word is negative; the others where ``straight`` is 0."""
    signs = uint32(0)
    for lane in range(32):
        signs |= (words[lane] >> uint32(31)) << uint32(lane)
    return signs ^ ~straight


@njit
def logic(m, warp, row, mask, T, p0, p1, p2):
    """Predicates among themselves, and votes of a warp; returns two predicates."""
    op, sub = row[c.OP], row[c.SUB]
    P = view.predicates(m)[warp]
    if op == ops.L_PLOP3:
        if row[c.FLAGS]:
            p0 = _signs(T[0], p0) if row[c.FLAGS] & c.NEG0 else p0
            p1 = _signs(T[1], p1) if row[c.FLAGS] & c.NEG1 else p1
            p2 = _signs(T[2], p2) if row[c.FLAGS] & c.NEG2 else p2
        first = uint32(0)
        second = uint32(0)
        for index in range(8):
            a = p0 if index & 4 else ~p0
            b = p1 if index & 2 else ~p1
            z = p2 if index & 1 else ~p2
            if (sub >> index) & 1:
                first |= a & b & z
            if (sub >> (8 + index)) & 1:
                second |= a & b & z
        return first, second
    if op == ops.L_P2R:
        bank = row[c.BANK]
        for lane in range(32):
            packed = uint32(0)
            for index in range(7):
                packed |= ((P[bank + index] >> uint32(lane)) & uint32(1)) << uint32(index)
            chosen = T[1, lane] << uint32(sub)
            T[8, lane] = (T[0, lane] & ~chosen) | ((packed << uint32(sub)) & chosen)
        return uint32(0), uint32(0)
    if op == ops.L_R2P:
        bank = row[c.BANK]
        for index in range(7):
            value = uint32(0)
            chosen = uint32(0)
            for lane in range(32):
                word = T[0, lane] >> uint32(sub)
                value |= ((word >> uint32(index)) & uint32(1)) << uint32(lane)
                chosen |= ((T[1, lane] >> uint32(index)) & uint32(1)) << uint32(lane)
            commit_predicate(P, int64(bank + index), uint32(value), uint32(mask & chosen))
        return uint32(0), uint32(0)
    if op == ops.L_VOTE:
        votes = p0 & mask
        for lane in range(32):
            T[8, lane] = votes
        if sub == 0:
            answer = votes == mask
        elif sub == 1:
            answer = votes != uint32(0)
        else:
            answer = votes == mask or votes == uint32(0)
        return (ALL if answer else uint32(0)), uint32(0)
    if op == ops.L_MATCH:
        same_all = True
        leader = lowest_one(mask)
        wide = row[c.SOURCES + c.WORDS] == 2
        for lane in range(32):
            equal = uint32(0)
            for other in range(32):
                same = T[0, lane] == T[0, other] and (not wide or T[4, lane] == T[4, other])
                if (mask >> uint32(other)) & uint32(1) and same:
                    equal |= uint32(1) << uint32(other)
            T[8, lane] = equal
            if (mask >> uint32(lane)) & uint32(1) and not (equal >> leader) & uint32(1):
                same_all = False
        if sub == 1:
            for lane in range(32):
                T[8, lane] = mask if same_all else uint32(0)
        return (ALL if same_all else uint32(0)), uint32(0)
    if op == ops.L_SCALAR:
        # R2UR that says which lanes have another value than the first: a loop serves them too.
        value, others = T[0, int64(lowest_one(mask))], uint32(0)
        for lane in range(32):
            others |= uint32(T[0, lane] != value) << uint32(lane)
            T[8, lane] = T[0, lane]
        if row[c.FLAGS] & c.BOOL_OR:  # in this register or in one before
            others |= P[row[c.PD0]]
        return others & mask, uint32(0)
    if op == ops.L_REDUX:
        first = T[0, int64(lowest_one(mask))]
        signed = row[c.FLAGS] & c.SIGNED
        total = int64(int32(first)) if signed else int64(first)
        for lane in range(int64(lowest_one(mask)) + 1, 32):
            if not (mask >> uint32(lane)) & uint32(1):
                continue
            value = int64(int32(T[0, lane])) if signed else int64(T[0, lane])
            if sub == 0:
                total += value
            elif sub == 1:
                total = min(total, value)
            elif sub == 2:
                total = max(total, value)
            elif sub == 3:
                total &= value
            elif sub == 4:
                total |= value
            else:
                total ^= value
        for lane in range(32):
            T[8, lane] = uint32(total)
    if op == ops.L_LEADER:
        leader = lowest_one(mask)
        for lane in range(32):
            T[8, lane] = leader
        return uint32(1) << leader, uint32(0)
    return uint32(0), uint32(0)


@njit
def exchange(op, sub, T):
    """SHFL and MOVM; returns the predicate of SHFL."""
    if op == ops.X_SHUFFLE:
        inside = uint32(0)
        for lane in range(32):
            value, bound = T[1, lane] & uint32(31), T[2, lane]
            clamp, segment = int64(bound & uint32(31)), int64((bound >> uint32(8)) & uint32(31))
            by = int64(value)
            highest = (lane & segment) | (clamp & ~segment & 31)
            if sub == 1:  # UP
                source = lane - by
                fine = source >= highest
            elif sub == 2:  # DOWN
                source = lane + by
                fine = source <= highest
            elif sub == 3:  # BFLY
                source = lane ^ by
                fine = source <= highest
            else:
                source = (lane & segment) | (by & ~segment & 31)
                fine = source <= highest
            T[8, lane] = T[0, source & 31 if fine else lane]
            inside |= uint32(fine) << uint32(lane)
        return inside
    # MOVM.16.MT88: the transpose of an 8 x 8 matrix of halves, a row in four lanes
    for lane in range(32):
        row, column = lane // 4, 2 * (lane % 4)
        first = T[0, column * 4 + row // 2] >> uint32(16 * (row & 1))
        second = T[0, (column + 1) * 4 + row // 2] >> uint32(16 * (row & 1))
        T[8, lane] = (first & uint32(0xFFFF)) | second << uint32(16)
    return uint32(0)


@njit
def special_register(m, warp, row, T):
    """S2R and CS2R."""
    which = row[c.SUB]
    if which == CLOCKLO or which == TIMERLO:
        now = uint64(view.control(m)[s.NOW])
        for lane in range(32):
            T[8, lane] = uint32(now)
            T[9, lane] = uint32(now >> uint64(32))
        return
    for lane in range(32):
        T[8, lane] = view.identity(m)[warp, which, lane]
        T[9, lane] = uint32(0)


@njit
def sources(m, warp, row):
    """All sources of an instruction into the scratch."""
    R, U, T = view.registers(m)[warp], view.uniforms(m)[warp], view.scratch(m)
    for slot in range(row[c.NSRC]):
        fetch(row, int64(c.SOURCES + slot * c.SOURCE_COLUMNS), R, U, T[slot], T[4 + slot])


@njit
def results(m, warp, row, mask, first, second):
    """The result rows and predicates of an instruction to where they belong."""
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


def _integer(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    T, P = view.scratch(m), view.predicates(m)[warp]
    p0, p1 = pin(row, int64(c.PIN0), P), pin(row, int64(c.PIN1), P)
    first, second = integer(row[c.OP], row[c.SUB], row[c.FLAGS], T, p0, p1)
    results(m, warp, row, mask, uint32(first), uint32(second))


def _f32(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    T = view.scratch(m)
    p0 = pin(row, int64(c.PIN0), view.predicates(m)[warp])
    first, second = single(row[c.OP], row[c.SUB], row[c.FLAGS], T, p0)
    results(m, warp, row, mask, uint32(first), uint32(second))


def _f64(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    T = view.scratch(m)
    p0 = pin(row, int64(c.PIN0), view.predicates(m)[warp])
    first, second = double(row[c.OP], row[c.SUB], row[c.FLAGS], T, p0)
    results(m, warp, row, mask, uint32(first), uint32(second))


def _f16(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    T = view.scratch(m)
    p0 = pin(row, int64(c.PIN0), view.predicates(m)[warp])
    first, second = half(row[c.OP], row[c.SUB], row[c.FLAGS], T, p0)
    results(m, warp, row, mask, uint32(first), uint32(second))


def _convert(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    convert(row[c.OP], row[c.SUB], row[c.FLAGS], view.scratch(m))
    results(m, warp, row, mask, uint32(0), uint32(0))


def _mufu(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    special(row[c.OP], row[c.FLAGS], view.scratch(m))
    results(m, warp, row, mask, uint32(0), uint32(0))


def _logic(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    T, P = view.scratch(m), view.predicates(m)[warp]
    p0, p1, p2 = pin(row, int64(c.PIN0), P), pin(row, int64(c.PIN1), P), pin(row, int64(c.PIN2), P)
    first, second = logic(m, warp, row, mask, T, p0, p1, p2)
    results(m, warp, row, mask, uint32(first), uint32(second))


def _lanes(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    first = exchange(row[c.OP], row[c.SUB], view.scratch(m))
    results(m, warp, row, mask, uint32(first), uint32(0))


def _special(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    special_register(m, warp, row, view.scratch(m))
    results(m, warp, row, mask, uint32(0), uint32(0))


def _hmma(table, warp, pc, mask):
    m = view.opened(table)
    row, R = view.code(m)[pc], view.registers(m)[warp]
    at = c.SOURCES + c.INDEX
    a, b, z = row[at], row[at + c.SOURCE_COLUMNS], row[at + 2 * c.SOURCE_COLUMNS]
    hmma(row[c.SUB], R, row[c.DST], a, b, z)


def _dmma(table, warp, pc, mask):
    m = view.opened(table)
    row, R = view.code(m)[pc], view.registers(m)[warp]
    at = c.SOURCES + c.INDEX
    a, b, z = row[at], row[at + c.SOURCE_COLUMNS], row[at + 2 * c.SOURCE_COLUMNS]
    dmma(row[c.SUB], R, row[c.DST], a, b, z)


def _imma(table, warp, pc, mask):
    m = view.opened(table)
    row, R = view.code(m)[pc], view.registers(m)[warp]
    at = c.SOURCES + c.INDEX
    a, b, z = row[at], row[at + c.SOURCE_COLUMNS], row[at + 2 * c.SOURCE_COLUMNS]
    imma(row[c.SUB], row[c.FLAGS], R, row[c.DST], a, b, z)


def _load(table, warp, pc, mask):
    accesses.load(view.opened(table), warp, pc, mask)


def _store(table, warp, pc, mask):
    accesses.store(view.opened(table), warp, pc, mask)


def _matrix(table, warp, pc, mask):
    accesses.matrix(view.opened(table), warp, pc, mask)


def _copy(table, warp, pc, mask):
    m = view.opened(table)
    accesses.copy(m, warp, pc, mask, pin(view.code(m)[pc], int64(c.PIN0), view.predicates(m)[warp]))


def _atomic(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    sources(m, warp, row)
    fine = accesses.atomic(m, warp, pc, mask, view.scratch(m))
    commit_predicate(view.predicates(m)[warp], int64(row[c.PD0]), uint32(fine), mask)


def _hgmma(table, warp, pc, mask):
    hgmma(view.opened(table), warp, pc, mask)


def _mbarrier(table, warp, pc, mask):
    mbarrier(view.opened(table), warp, pc, mask)


def _bulk(table, warp, pc, mask):
    bulk(view.opened(table), warp, pc, mask)


def _cluster(table, warp, pc, mask):
    cluster(view.opened(table), warp, pc, mask)


HANDLERS: dict[int, Callable[..., None]] = {
    c.INTEGER: _integer,
    c.F32: _f32,
    c.F64: _f64,
    c.F16: _f16,
    c.CONVERT: _convert,
    c.MUFU: _mufu,
    c.LOGIC: _logic,
    c.LANES: _lanes,
    c.SPECIAL: _special,
    c.HMMA: _hmma,
    c.DMMA: _dmma,
    c.IMMA: _imma,
    c.LOAD: _load,
    c.STORE: _store,
    c.ATOMIC: _atomic,
    c.MATRIX: _matrix,
    c.COPY: _copy,
    c.HGMMA: _hgmma,
    c.MBARRIER: _mbarrier,
    c.BULK: _bulk,
    c.CLUSTER: _cluster,
}


COMPILED = {
    family: Entry(function.__name__.strip("_"), function, SIGNATURE, None)
    for family, function in HANDLERS.items()
}


def compiled(family: int) -> Entry:
    """The handler of a family."""
    return COMPILED[family]


def units(families: Iterable[int]) -> list[str]:
    """What has to be compiled for these families."""
    return [COMPILED[family].unit for family in families if family in COMPILED]


def addresses(families: Iterable[int]) -> np.ndarray:
    """Addresses of the families' handlers, int64 (number of families,); 0 for the others."""
    found = np.zeros(c.CONTROL, np.int64)
    for family in families:
        if family in COMPILED:
            found[family] = COMPILED[family].address
    return found
