"""Bit casts and instructions that numba does not offer by themselves.

Each is one LLVM operation, so that loops over lanes still become vector code.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

HALF = ir.HalfType()
I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()


@intrinsic
def as_f32(typingctx, bits):
    """The f32 whose pattern a uint32 is."""

    def build(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], FLOAT)

    return types.float32(types.uint32), build


@intrinsic
def bits_f32(typingctx, value):
    """The pattern of an f32."""

    def build(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], I32)

    return types.uint32(types.float32), build


@intrinsic
def as_f64(typingctx, bits):
    """The f64 whose pattern a uint64 is."""

    def build(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], DOUBLE)

    return types.float64(types.uint64), build


@intrinsic
def bits_f64(typingctx, value):
    """The pattern of an f64."""

    def build(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], I64)

    return types.uint64(types.float64), build


@intrinsic
def widen_f16(typingctx, bits):
    """f32 of the f16 whose pattern the low 16 bits of a uint32 are."""

    def build(context, builder, signature, arguments):
        low = builder.trunc(arguments[0], I16)
        return builder.fpext(builder.bitcast(low, HALF), FLOAT)

    return types.float32(types.uint32), build


@intrinsic
def narrow_f16(typingctx, value):
    """Pattern of the f16 nearest to an f32, ties to even, in the low 16 bits of a uint32."""

    def build(context, builder, signature, arguments):
        half = builder.fptrunc(arguments[0], HALF)
        return builder.zext(builder.bitcast(half, I16), I32)

    return types.uint32(types.float32), build


@intrinsic
def fma_f32(typingctx, a, b, c):
    """a * b + c with one rounding."""

    def build(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float32(types.float32, types.float32, types.float32), build


@intrinsic
def fma_f64(typingctx, a, b, c):
    """a * b + c with one rounding."""

    def build(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float64(types.float64, types.float64, types.float64), build


@intrinsic
def count_ones(typingctx, bits):
    """Number of bits set."""

    def build(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint32(types.uint32), build


@intrinsic
def lowest_one(typingctx, bits):
    """Index of the lowest bit set, 32 where there is none."""

    def build(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint32(types.uint32), build


@intrinsic
def leading_zeros(typingctx, bits):
    """Zeros above the highest bit set, 32 where there is none."""

    def build(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint32(types.uint32), build


@intrinsic
def put(typingctx, words, byte, value):
    """Store a uint8 or uint16 at a byte offset of an array of words, and touch nothing beside it."""

    def build(context, builder, signature, arguments):
        data = context.make_array(words)(context, builder, arguments[0]).data
        place = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [arguments[1]])
        builder.store(arguments[2], builder.bitcast(place, arguments[2].type.as_pointer()))
        return context.get_dummy_value()

    return types.none(words, types.int64, value), build


def _on_stack(dtype, count):
    """A function that gives an array on the stack, for as long as its caller runs."""
    kind = types.Array(dtype, 1, "C")

    @intrinsic
    def array(typingctx):
        def build(context, builder, signature, arguments):
            made = context.make_array(kind)(context, builder)
            size = dtype.bitwidth // 8
            item = made.data.type.pointee
            room = cgutils.alloca_once(builder, ir.ArrayType(item, count))
            data = builder.bitcast(room, made.data.type)
            populate_array(made, data, [I64(count)], [I64(size)], size, None)
            return made._getvalue()

        return kind(), build

    return array


int64_lanes, uint32_lanes = _on_stack(types.int64, 32), _on_stack(types.uint32, 32)
int64_places = _on_stack(types.int64, 64)
