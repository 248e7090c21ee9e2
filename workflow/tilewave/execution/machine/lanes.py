"""The most frequent instructions as operations on one vector of 32 lanes.

Nine in ten instructions of a matrix product are a few operations without carries, rounding modes or
flushed denormals. This module emits them as LLVM vector code, from register to register. All others
go through `handlers`. Both ways give the same bits (tests/execution/test_machine_lanes.py).
"""

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families import conversion, floating
from tilewave.execution.machine.families import integer as integer_ops
from tilewave.execution.machine.integer import combined, holds
from tilewave.execution.machine.vectors import (
    DOUBLE,
    FLOAT,
    I32,
    I64,
    Memory,
    Vector,
    either,
    splat,
    switched,
)

LANES = 32
ROW_BYTES = 4 * LANES
BITS = ir.VectorType(ir.IntType(1), LANES)

# ---- which operation a row is; 0: none of these
(
    SLOW, MOVE, SUM, PRODUCT_SUM, LUT, FFMA, FADD, FMUL, SHIFT_LEFT, SHIFT_RIGHT, SHIFT_RIGHT_SIGNED,
    CHOOSE, SHIFTED_SUM, COMPARE_SIGNED, COMPARE_UNSIGNED, DFMA, DADD, DMUL, WIDE_SIGNED,
    WIDE_UNSIGNED, WIDEN_HALF, PACK_HALVES, MOVE_PAIR,
) = range(23)  # fmt: skip


def _sources(rows: np.ndarray) -> np.ndarray:
    """Return a view of the sources' columns: (rows, 4, SOURCE_COLUMNS)."""
    return rows[:, c.SOURCES :].reshape(len(rows), 4, c.SOURCE_COLUMNS)


def fast_kinds(rows: np.ndarray) -> np.ndarray:
    """Classify each row as one of these operations, with all its modifiers; SLOW if none."""
    family, op, flags, sub = (rows[:, i] for i in (c.FAMILY, c.OP, c.FLAGS, c.SUB))
    sources, count, words = _sources(rows), rows[:, c.NSRC], rows[:, c.DST_WORDS]
    outputs = (rows[:, c.PD0] != 7) | (rows[:, c.PD1] != 7)
    uniform = (rows[:, c.PD0] > 7) | (rows[:, c.PD1] > 7)
    halves = sources[..., c.SWIZZLE]
    zero = (sources[..., c.KIND] == c.REGISTER) & (sources[..., c.INDEX] == 255)
    first, second, third = (sources[:, k] for k in range(3))

    def without(*names: int) -> np.ndarray:
        clear: np.ndarray = flags & sum(names) == 0
        return clear

    whole = ~np.any(halves.astype(bool) & (np.arange(4) < count[:, None]), axis=1)
    nearest = whole & ~outputs & (flags == 0) & (sub == c.NEAREST)
    compared = (
        (family == c.INTEGER) & whole & (op == integer_ops.COMPARE) & ~uniform & without(c.EXTENDED)
    )
    integer = (family == c.INTEGER) & whole & ~outputs
    carried = ~without(c.CARRY_IN)
    signed = ~without(c.SIGNED)
    summed = (op == integer_ops.ADD2) | (
        (op == integer_ops.ADD3) & without(~(c.NEG0 | c.NEG1 | c.NEG2))
    )
    # A sign also changes the upper word, which the fast way does not compute.
    turned = np.any((sources[..., c.XOR] != 0) & (sources[..., c.KIND] != c.VALUE_KIND), axis=1)
    wide = integer & (op == integer_ops.MUL_ADD_WIDE) & ~carried & ~turned
    shift = integer & (op == integer_ops.FUNNEL) & without(c.WRAP, c.UNSIGNED64)
    right = shift & (sub == 0) & ~without(c.HIGH)
    constant = (family == c.F16) & (op == floating.F_FMA) & without(~c.BF16) & (count == 3)
    constant &= zero[:, 0] & zero[:, 1] & (third[:, c.KIND] == c.VALUE_KIND) & (halves[:, 2] == 0)
    widened = (family == c.F16) & (op == floating.F_WIDEN) & (flags == 0)
    widened &= (
        zero[:, 0] & (first[:, c.XOR] != 0) & (second[:, c.XOR] == 0) & (second[:, c.AND] == -1)
    )
    widened &= np.isin(halves[:, 1], (c.LOW_TWICE, c.HIGH_TWICE)) & (
        second[:, c.KIND] == c.REGISTER
    )
    packed = (family == c.CONVERT) & whole & (op == conversion.C_PACK) & (flags == 0)
    candidates = {
        MOVE: (integer & (op == integer_ops.MOVE) & (words == 1)) | constant,
        MOVE_PAIR: integer & (op == integer_ops.MOVE) & (words == 2),
        SUM: integer & summed,
        PRODUCT_SUM: integer & (op == integer_ops.MUL_ADD) & ~carried,
        LUT: integer & (op == integer_ops.LUT3),
        CHOOSE: integer & (op == integer_ops.SELECT) & (words == 1),
        SHIFTED_SUM: integer & (op == integer_ops.SHIFT_ADD) & (flags == 0),
        SHIFT_LEFT: shift & (sub != 0) & without(c.HIGH),
        SHIFT_RIGHT: right & ~signed,
        SHIFT_RIGHT_SIGNED: right & signed,
        COMPARE_SIGNED: compared & signed,
        COMPARE_UNSIGNED: compared & ~signed,
        WIDE_SIGNED: wide & signed,
        WIDE_UNSIGNED: wide & ~signed,
        WIDEN_HALF: widened,
        PACK_HALVES: packed & (sub == (c.T_F16 | c.T_F32 << 8)),
    }
    for real, kinds in ((c.F32, (FFMA, FADD, FMUL)), (c.F64, (DFMA, DADD, DMUL))):
        for kind, name in zip(kinds, (floating.F_FMA, floating.F_ADD, floating.F_MUL)):
            candidates[kind] = nearest & (family == real) & (op == name)
    row_kinds = np.full(len(rows), SLOW, np.int32)
    for kind, chosen in candidates.items():
        row_kinds[chosen & (rows[:, c.DST_UNIFORM] == 0)] = kind
    return row_kinds


def prepare(rows: np.ndarray) -> None:
    """Fill the FAST column and put operands where the operations expect them, in place."""
    kinds, sources = fast_kinds(rows), _sources(rows)
    rows[:, c.FAST] = kinds
    quick = (kinds != SLOW)[:, None]
    # signs of IADD3 as its carries need them
    sums = kinds == SUM
    for slot, flag in enumerate((c.NEG0, c.NEG1, c.NEG2)):
        negated = sums & (rows[:, c.FLAGS] & flag != 0)
        sources[negated, slot, c.XOR], sources[negated, slot, c.ADD] = -1, 1
        sources[negated & (sources[:, slot, c.KIND] == c.VALUE_KIND), slot, c.VALUE] *= -1
    rows[sums, c.FLAGS] = 0
    # the source that is used goes first
    halves = kinds == WIDEN_HALF
    rows[halves, c.SUB] = np.where(sources[halves, 1, c.SWIZZLE] == c.HIGH_TWICE, 16, 0)
    sources[halves, 0] = sources[halves, 1]
    third = (kinds == SHIFT_RIGHT) | (kinds == SHIFT_RIGHT_SIGNED)
    third |= (kinds == MOVE) & (rows[:, c.FAMILY] == c.F16)
    sources[third, 0] = sources[third, 2]
    missing = quick & (np.arange(4) >= rows[:, c.NSRC, None])
    for column, value in ((c.KIND, c.REGISTER), (c.INDEX, 255), (c.AND, -1), (c.AND_HIGH, -1)):
        sources[missing, column] = value
    literal = quick & (sources[..., c.KIND] == c.VALUE_KIND)  # its modifiers are applied already
    for column, value in ((c.AND, -1), (c.AND_HIGH, -1), (c.XOR, 0), (c.XOR_HIGH, 0), (c.ADD, 0)):
        sources[literal, column] = value


def _everywhere(builder, word):
    return splat(builder, word, LANES)


def _row(builder, address):
    """Return the memory of a row of words."""
    return Memory(builder, builder.inttoptr(address, I32.as_pointer()))


def _lanes_on(builder, mask):
    """Return the bits of a lane mask."""
    return Vector(builder, builder.bitcast(mask, BITS))


def _operand(builder, address, single, keep, flip, more):
    """Return (value & keep ^ flip) + more; the value is a row of lanes, or one word for all lanes."""
    row, same = _row(builder, address), builder.icmp_unsigned("!=", single, I64(0))
    value = either(builder, same, lambda: row.everywhere(0, LANES), lambda: row.load(0, LANES))
    keep, flip, more = (_everywhere(builder, word) for word in (keep, flip, more))
    return ((value & keep) ^ flip) + more


def _is_nan(bits):
    return (bits & 0x7FFFFFFF).above(0x7F800000)


def _canonical(value):
    """Return the bits of floats, with 0x7fffffff for any NaN."""
    bits = value.bits_as(I32)
    return _is_nan(bits).select(0x7FFFFFFF, bits)


def _half(bits):
    """Return the bits of floats, rounded to f16."""
    return _is_nan(bits).select(0x7FFF, bits.bits_as(FLOAT).narrowed())


def _lut(builder, a, b, x, table):
    """Emit LOP3 as a multiplexer of eight masks."""
    bits = [builder.and_(builder.lshr(table, I32(index)), I32(1)) for index in range(8)]
    masks = [_everywhere(builder, builder.neg(bit)) for bit in bits]

    def chosen(choice, yes, no):
        return (choice & yes) | ((choice ^ 0xFFFFFFFF) & no)

    level = [chosen(x, masks[2 * k + 1], masks[2 * k]) for k in range(4)]
    level = [chosen(b, level[1], level[0]), chosen(b, level[3], level[2])]
    return chosen(a, level[1], level[0])


def _clamped(a, b, shift):
    """Emit a shift whose amount clamps at 32."""
    large = b.above(31)
    return large.select(0, shift(a, large.select(0, b)))


def _store(builder, address, words, on):
    """Store words to a row, in active lanes."""
    row = _row(builder, address)
    row.store(0, on.select(words, row.load(0, LANES)))


@intrinsic
def _vector(
    typingctx, op, a, a1, ak, ax, am, b, b1, bk, bx, bm, d, d1, dk, dx, dm, out, mask, sub, pin
):
    """Emit an operation: three sources (address, whether one word for all, masks), destination."""

    def build(context, builder, signature, arguments):
        op, *parts, out, mask, sub, pin = arguments
        a, b, x = (_operand(builder, *parts[at : at + 5]) for at in (0, 5, 10))

        def amount():
            return _everywhere(builder, sub)

        def real(*values):
            return [value.bits_as(FLOAT) for value in values]

        def shifted_signed():
            by = b.above(31).select(31, b)
            return Vector(builder, builder.ashr(a.value, by.value))

        make = {
            MOVE: lambda: a,
            SUM: lambda: a + b + x,
            PRODUCT_SUM: lambda: a * b + x,
            LUT: lambda: _lut(builder, a, b, x, sub),
            FFMA: lambda: _canonical(Vector.fused(*real(a, b, x))),
            FADD: lambda: _canonical(operator.add(*real(a, b))),
            FMUL: lambda: _canonical(operator.mul(*real(a, b))),
            SHIFT_LEFT: lambda: _clamped(a, b, operator.lshift),
            SHIFT_RIGHT: lambda: _clamped(a, b, operator.rshift),
            SHIFT_RIGHT_SIGNED: shifted_signed,
            CHOOSE: lambda: _lanes_on(builder, pin).select(a, b),
            SHIFTED_SUM: lambda: (a << amount()) + b,
            WIDEN_HALF: lambda: _canonical((a >> amount()).widened()),
            PACK_HALVES: lambda: (_half(a) << 16) | _half(b),
        }
        actions = {kind: lambda action=action: [action().value] for kind, action in make.items()}
        (result,) = switched(builder, op, actions)
        _store(builder, out, Vector(builder, result), _lanes_on(builder, mask))
        return context.get_dummy_value()

    long, word = types.int64, types.uint32
    operand = (long, long, word, word, word)
    return types.none(long, *operand * 3, long, word, word, word), build


@intrinsic
def _compared(typingctx, signed, a, a1, ak, ax, am, b, b1, bk, bx, bm):
    """Return lanes where a < b, and in the upper word those where a == b."""

    def build(context, builder, signature, arguments):
        signed, *parts = arguments
        a, b = _operand(builder, *parts[:5]), _operand(builder, *parts[5:])
        is_signed = builder.icmp_unsigned("!=", signed, I64(0))
        below = builder.select(is_signed, a.compare("<", b).value, b.above(a).value)
        less, same = (
            builder.zext(builder.bitcast(bits, I32), I64)
            for bits in (below, a.compare("==", b).value)
        )
        return builder.or_(less, builder.shl(same, I64(32)))

    long, word = types.int64, types.uint32
    operand = (long, long, word, word, word)
    return types.int64(long, *operand * 2), build


@intrinsic
def _paired(typingctx, op, a, a1, ak, ax, b, b1, bk, bx, d, d1, dk, dx, out, mask):
    """Emit f64 arithmetic and 32 x 32 -> 64 bits: (value & keep ^ flip) on the upper words."""

    def build(context, builder, signature, arguments):
        op, *parts, out, mask = arguments
        none = I32(0)

        def halves(address, single, keep, flip):
            step = builder.icmp_unsigned("!=", single, I64(0))
            above = builder.add(address, builder.select(step, I64(4), I64(ROW_BYTES)))
            low = _operand(builder, address, single, I32(0xFFFFFFFF), none, none)
            return low, _operand(builder, above, single, keep, flip, none)

        def joined(low, high):
            return low.cast("zext", I64) | high.cast("zext", I64) << 32

        a, b, x = (halves(*parts[at : at + 4]) for at in (0, 4, 8))

        def real(*pairs):
            return [joined(*pair).bits_as(DOUBLE) for pair in pairs]

        def bits(value):
            nan = builder.bitcast(builder.fcmp_unordered("uno", value.value, value.value), I32)
            return value.bits_as(I64).value, nan

        def product_sum(how):
            return (a[0].cast(how, I64) * b[0].cast(how, I64) + joined(*x)).value, none

        make = {
            DFMA: lambda: bits(Vector.fused(*real(a, b, x))),
            DADD: lambda: bits(operator.add(*real(a, b))),
            DMUL: lambda: bits(operator.mul(*real(a, b))),
            WIDE_SIGNED: lambda: product_sum("sext"),
            WIDE_UNSIGNED: lambda: product_sum("zext"),
            MOVE_PAIR: lambda: (joined(*a).value, none),
        }
        result, nans = switched(builder, op, make)
        words, nans = Vector(builder, result), builder.and_(nans, mask)
        # The general way selects the NaN of the result from those of the sources.
        with builder.if_then(builder.icmp_unsigned("==", nans, none)):
            for number in range(2):
                place, part = builder.add(out, I64(ROW_BYTES * number)), words >> 32 * number
                _store(builder, place, part.cast("trunc", I32), _lanes_on(builder, mask))
        return nans

    long, word = types.int64, types.uint32
    operand = (long, long, word, word)
    return word(long, *operand * 3, long, word), build


@njit
def _where(row, at, address, registers, uniforms):
    """Return the address of a source, and whether it is one word for all lanes."""
    kind = row[at + c.KIND]
    if kind == c.REGISTER:
        return registers + int64(row[at + c.INDEX]) * ROW_BYTES, int64(0)
    if kind == c.UNIFORM:
        return uniforms + int64(row[at + c.INDEX]) * 4, int64(1)
    return address + (at + c.VALUE) * 4, int64(1)


@njit
def fast(kind, row, address, registers, uniforms, P, mask):
    """Execute a row whose FAST column is ``kind``; return False if it needs the general way.
    address, registers, uniforms: of the row and of the warp's files; P: the warp's predicates."""
    second, third = int64(c.SOURCES + c.SOURCE_COLUMNS), int64(c.SOURCES + 2 * c.SOURCE_COLUMNS)
    first = int64(c.SOURCES)
    a, a1 = _where(row, first, address, registers, uniforms)
    b, b1 = _where(row, second, address, registers, uniforms)
    pin = P[row[c.PIN0]]
    if row[c.PIN0_NOT]:
        pin = ~pin
    pin = uint32(pin)
    ak, ax, am = uint32(row[first + c.AND]), uint32(row[first + c.XOR]), uint32(row[first + c.ADD])
    bk, bx, bm = (
        uint32(row[second + c.AND]),
        uint32(row[second + c.XOR]),
        uint32(row[second + c.ADD]),
    )
    if kind == COMPARE_SIGNED or kind == COMPARE_UNSIGNED:
        both = _compared(int64(kind == COMPARE_SIGNED), a, a1, ak, ax, am, b, b1, bk, bx, bm)
        holding = uint32(holds(row[c.SUB], uint32(both), uint32(both >> int64(32))))
        holding, opposite = combined(row[c.FLAGS], holding, uint32(~holding), pin)
        if row[c.PD0] != 7:
            P[row[c.PD0]] = (P[row[c.PD0]] & ~mask) | (holding & mask)
        if row[c.PD1] != 7:
            P[row[c.PD1]] = (P[row[c.PD1]] & ~mask) | (opposite & mask)
        return True
    d, d1 = _where(row, third, address, registers, uniforms)
    target = int64(row[c.DST])
    if target == 255:
        return True
    out = registers + target * ROW_BYTES
    if kind >= DFMA and kind != WIDEN_HALF and kind != PACK_HALVES:
        nans = _paired(
            int64(kind), a, a1, uint32(row[first + c.AND_HIGH]), uint32(row[first + c.XOR_HIGH]),
            b, b1, uint32(row[second + c.AND_HIGH]), uint32(row[second + c.XOR_HIGH]),
            d, d1, uint32(row[third + c.AND_HIGH]), uint32(row[third + c.XOR_HIGH]), out, mask,
        )  # fmt: skip
        return nans == uint32(0)
    dk, dx, dm = uint32(row[third + c.AND]), uint32(row[third + c.XOR]), uint32(row[third + c.ADD])
    _vector(
        int64(kind), a, a1, ak, ax, am, b, b1, bk, bx, bm, d, d1, dk, dx, dm, out, mask,
        uint32(row[c.SUB]), pin,
    )  # fmt: skip
    return True
