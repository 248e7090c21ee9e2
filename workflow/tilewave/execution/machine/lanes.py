"""The most frequent instructions as operations on one vector of 32 lanes.

Nine in ten instructions of a matrix product are a few operations without carries, rounding modes or
flushed denormals. This module emits them as LLVM vector code, from register to register. All others
go through `handlers`. Both ways give the same bits (tests/execution/test_machine_lanes.py).
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

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

LANES = 32
ROW_BYTES = 4 * LANES
WORD, LONG, BIT = ir.IntType(32), ir.IntType(64), ir.IntType(1)
WORDS, LONGS = ir.VectorType(WORD, LANES), ir.VectorType(LONG, LANES)
FLOATS, DOUBLES = ir.VectorType(ir.FloatType(), LANES), ir.VectorType(ir.DoubleType(), LANES)
HALVES = ir.VectorType(ir.HalfType(), LANES)
BITS = ir.VectorType(BIT, LANES)

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


def _splat(builder, scalar, kind=WORDS):
    at = ir.Constant(WORD, 0)
    vector = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, at)
    return builder.shuffle_vector(
        vector, ir.Constant(kind, ir.Undefined), ir.Constant(WORDS, [0] * LANES)
    )


def _constant(value, kind=WORDS):
    return ir.Constant(kind, [value] * LANES)


def _load(builder, address, kind=WORDS):
    loaded = builder.load(builder.inttoptr(address, kind.as_pointer()))
    loaded.align = 4
    return loaded


def _operand(builder, address, single, keep, flip, more):
    """Return (value & keep ^ flip) + more; the value is a row of lanes, or one word for all lanes."""
    with builder.if_else(builder.icmp_unsigned("!=", single, ir.Constant(LONG, 0))) as (same, each):
        with same:
            word = builder.load(builder.inttoptr(address, WORD.as_pointer()))
            spread = _splat(builder, word)
            from_same = builder.block
        with each:
            row = _load(builder, address)
            from_each = builder.block
    value = builder.phi(WORDS)
    value.add_incoming(spread, from_same)
    value.add_incoming(row, from_each)
    value = builder.xor(builder.and_(value, _splat(builder, keep)), _splat(builder, flip))
    return builder.add(value, _splat(builder, more))


def _fma(builder, kind, a, b, x):
    name = "llvm.fma.v32f64" if kind is DOUBLES else "llvm.fma.v32f32"
    module = builder.module
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(kind, [kind] * 3), name)
    return builder.call(function, [a, b, x])


def _is_nan(builder, bits):
    size = builder.and_(bits, _constant(0x7FFFFFFF))
    return builder.icmp_unsigned(">", size, _constant(0x7F800000))


def _canonical(builder, bits):
    """Replace any NaN by 0x7fffffff."""
    return builder.select(_is_nan(builder, bits), _constant(0x7FFFFFFF), bits)


def _lut(builder, a, b, x, table):
    """Emit LOP3 as a multiplexer of eight masks."""
    masks = []
    for index in range(8):
        bit = builder.and_(builder.lshr(table, ir.Constant(WORD, index)), ir.Constant(WORD, 1))
        masks.append(_splat(builder, builder.neg(bit)))
    ones = _constant(0xFFFFFFFF)

    def either(choice, yes, no):
        return builder.or_(builder.and_(choice, yes), builder.and_(builder.xor(choice, ones), no))

    level = [either(x, masks[2 * k + 1], masks[2 * k]) for k in range(4)]
    level = [either(b, level[1], level[0]), either(b, level[3], level[2])]
    return either(a, level[1], level[0])


def _shift(builder, how, value, amount):
    """Emit a shift whose amount clamps at 32."""
    large = builder.icmp_unsigned(">", amount, _constant(31))
    inside = builder.select(large, _constant(0 if how != "ashr" else 31), amount)
    shifted = getattr(builder, how)(value, inside)
    return shifted if how == "ashr" else builder.select(large, _constant(0), shifted)


def _chosen(builder, op, make, *kinds):
    """Emit a switch over ``op``: the values of the action with that number, of these kinds."""
    end, unknown = builder.append_basic_block("end"), builder.append_basic_block("other")
    switch = builder.switch(builder.trunc(op, WORD), unknown)
    results = []
    for number, action in make.items():
        block = builder.append_basic_block(f"op{number}")
        switch.add_case(ir.Constant(WORD, number), block)
        builder.position_at_end(block)
        results.append((action(), builder.block))
        builder.branch(end)
    builder.position_at_end(unknown)
    builder.unreachable()
    builder.position_at_end(end)
    chosen = [builder.phi(kind) for kind in kinds]
    for values, block in results:
        for phi, value in zip(chosen, values):
            phi.add_incoming(value, block)
    return chosen


def _store(builder, address, words, on):
    """Store words to a row, in active lanes."""
    place = builder.inttoptr(address, WORDS.as_pointer())
    before = builder.load(place)
    before.align = 4
    builder.store(builder.select(on, words, before), place).align = 4


@intrinsic
def _vector(
    typingctx, op, a, a1, ak, ax, am, b, b1, bk, bx, bm, d, d1, dk, dx, dm, out, mask, sub, pin
):
    """Emit an operation: three sources (address, whether one word for all, masks), destination."""

    def build(context, builder, signature, arguments):
        names = "op a a1 ak ax am b b1 bk bx bm d d1 dk dx dm out mask sub pin".split()
        v = dict(zip(names, arguments))
        a, b, x = (
            _operand(builder, v[n], v[n + "1"], v[n + "k"], v[n + "x"], v[n + "m"]) for n in "abd"
        )
        table = v["sub"]

        def real(value):
            return builder.bitcast(value, FLOATS)

        def bits(value):
            return _canonical(builder, builder.bitcast(value, WORDS))

        def half_bits():
            shifted = builder.lshr(a, _splat(builder, table))
            low = builder.trunc(shifted, ir.VectorType(ir.IntType(16), LANES))
            return bits(builder.fpext(builder.bitcast(low, HALVES), FLOATS))

        def packed():
            parts = []
            for value in (a, b):
                nan = _is_nan(builder, value)
                half = builder.fptrunc(real(value), HALVES)
                word = builder.bitcast(half, ir.VectorType(ir.IntType(16), LANES))
                word = builder.zext(word, WORDS)
                parts.append(builder.select(nan, _constant(0x7FFF), word))
            return builder.or_(builder.shl(parts[0], _constant(16)), parts[1])

        make = {
            MOVE: lambda: a,
            SUM: lambda: builder.add(builder.add(a, b), x),
            PRODUCT_SUM: lambda: builder.add(builder.mul(a, b), x),
            LUT: lambda: _lut(builder, a, b, x, table),
            FFMA: lambda: bits(_fma(builder, FLOATS, real(a), real(b), real(x))),
            FADD: lambda: bits(builder.fadd(real(a), real(b))),
            FMUL: lambda: bits(builder.fmul(real(a), real(b))),
            SHIFT_LEFT: lambda: _shift(builder, "shl", a, b),
            SHIFT_RIGHT: lambda: _shift(builder, "lshr", a, b),
            SHIFT_RIGHT_SIGNED: lambda: _shift(builder, "ashr", a, b),
            CHOOSE: lambda: builder.select(builder.bitcast(v["pin"], BITS), a, b),
            SHIFTED_SUM: lambda: builder.add(builder.shl(a, _splat(builder, table)), b),
            WIDEN_HALF: half_bits,
            PACK_HALVES: packed,
        }
        make = {kind: lambda action=action: (action(),) for kind, action in make.items()}
        (result,) = _chosen(builder, v["op"], make, WORDS)
        _store(builder, v["out"], result, builder.bitcast(v["mask"], BITS))
        return context.get_dummy_value()

    long, word = types.int64, types.uint32
    operand = (long, long, word, word, word)
    return types.none(long, *operand * 3, long, word, word, word), build


@intrinsic
def _compared(typingctx, signed, a, a1, ak, ax, am, b, b1, bk, bx, bm):
    """Return lanes where a < b, and in the upper word those where a == b."""

    def build(context, builder, signature, arguments):
        v = arguments
        a, b = _operand(builder, *v[1:6]), _operand(builder, *v[6:11])
        below = builder.select(
            builder.icmp_unsigned("!=", v[0], ir.Constant(LONG, 0)),
            builder.icmp_signed("<", a, b),
            builder.icmp_unsigned("<", a, b),
        )
        less, same = (
            builder.zext(builder.bitcast(value, WORD), LONG)
            for value in (below, builder.icmp_unsigned("==", a, b))
        )
        return builder.or_(less, builder.shl(same, ir.Constant(LONG, 32)))

    long, word = types.int64, types.uint32
    operand = (long, long, word, word, word)
    return types.int64(long, *operand * 2), build


@intrinsic
def _paired(typingctx, op, a, a1, ak, ax, b, b1, bk, bx, d, d1, dk, dx, out, mask):
    """Emit f64 arithmetic and 32 x 32 -> 64 bits: (value & keep ^ flip) on the upper words."""

    def build(context, builder, signature, arguments):
        names = "op a a1 ak ax b b1 bk bx d d1 dk dx out mask".split()
        v = dict(zip(names, arguments))
        zero, ones = ir.Constant(WORD, 0), ir.Constant(WORD, 0xFFFFFFFF)

        def halves(n):
            single = builder.icmp_unsigned("!=", v[n + "1"], ir.Constant(LONG, 0))
            step = builder.select(single, ir.Constant(LONG, 4), ir.Constant(LONG, ROW_BYTES))
            low = _operand(builder, v[n], v[n + "1"], ones, zero, zero)
            above = builder.add(v[n], step)
            return low, _operand(builder, above, v[n + "1"], v[n + "k"], v[n + "x"], zero)

        def joined(pair):
            low, high = (builder.zext(value, LONGS) for value in pair)
            return builder.or_(low, builder.shl(high, _constant(32, LONGS)))

        (a0, a1), (b0, b1), (x0, x1) = halves("a"), halves("b"), halves("d")
        third = joined((x0, x1))

        def real(pair):
            return builder.bitcast(joined(pair), DOUBLES)

        none = ir.Constant(WORD, 0)

        def bits(value):
            nan = builder.bitcast(builder.fcmp_unordered("uno", value, value), WORD)
            return builder.bitcast(value, LONGS), nan

        def whole(value):
            return value, none

        make = {
            DFMA: lambda: bits(
                _fma(builder, DOUBLES, real((a0, a1)), real((b0, b1)), real((x0, x1)))
            ),
            DADD: lambda: bits(builder.fadd(real((a0, a1)), real((b0, b1)))),
            DMUL: lambda: bits(builder.fmul(real((a0, a1)), real((b0, b1)))),
            WIDE_SIGNED: lambda: whole(
                builder.add(builder.mul(builder.sext(a0, LONGS), builder.sext(b0, LONGS)), third)
            ),
            WIDE_UNSIGNED: lambda: whole(
                builder.add(builder.mul(builder.zext(a0, LONGS), builder.zext(b0, LONGS)), third)
            ),
            MOVE_PAIR: lambda: whole(joined((a0, a1))),
        }
        result, nans = _chosen(builder, v["op"], make, LONGS, WORD)
        nans = builder.and_(nans, v["mask"])
        parts = (
            builder.trunc(result, WORDS),
            builder.trunc(builder.lshr(result, _constant(32, LONGS)), WORDS),
        )
        on = builder.bitcast(v["mask"], BITS)
        # The general way selects the NaN of the result from those of the sources.
        with builder.if_then(builder.icmp_unsigned("==", nans, none)):
            for number, part in enumerate(parts):
                _store(
                    builder, builder.add(v["out"], ir.Constant(LONG, ROW_BYTES * number)), part, on
                )
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

    address, registers, uniforms: of the row and of the warp's files; P: the warp's predicates.
    """
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
