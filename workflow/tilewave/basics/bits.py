"""Bit casts and instructions that numba lacks, one LLVM operation each: loops over lanes stay vector code."""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

HALF = ir.HalfType()
I16, I32, I64 = ir.IntType(16), ir.IntType(32), ir.IntType(64)
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()
NO = ir.Constant(ir.IntType(1), 0)


def _unary(result, operand, build):
    """Make a function of one operand from the code that ``build`` emits."""

    @intrinsic
    def operation(typingctx, value):
        def built(context, builder, signature, arguments):
            return build(builder, arguments[0])

        return result(operand), built

    return operation


def _fused(kind):
    """Make the function a * b + c with one rounding."""

    @intrinsic
    def operation(typingctx, a, b, c):
        def build(context, builder, signature, arguments):
            return builder.fma(*arguments)

        return kind(kind, kind, kind), build

    return operation


def _widened(builder, bits):
    return builder.fpext(builder.bitcast(builder.trunc(bits, I16), HALF), FLOAT)


def _narrowed(builder, value):
    return builder.zext(builder.bitcast(builder.fptrunc(value, HALF), I16), I32)


# Patterns and the numbers that they stand for.
as_f32 = _unary(types.float32, types.uint32, lambda builder, bits: builder.bitcast(bits, FLOAT))
bits_f32 = _unary(types.uint32, types.float32, lambda builder, value: builder.bitcast(value, I32))
as_f64 = _unary(types.float64, types.uint64, lambda builder, bits: builder.bitcast(bits, DOUBLE))
bits_f64 = _unary(types.uint64, types.float64, lambda builder, value: builder.bitcast(value, I64))
# f16 as patterns in the low 16 bits of a word: as f32, and the one nearest to an f32, ties to even.
widen_f16 = _unary(types.float32, types.uint32, _widened)
narrow_f16 = _unary(types.uint32, types.float32, _narrowed)
fma_f32, fma_f64 = _fused(types.float32), _fused(types.float64)
# Number of bits set; index of the lowest one, and zeros above the highest one, 32 where there is none.
count_ones = _unary(types.uint32, types.uint32, lambda builder, bits: builder.ctpop(bits))
lowest_one = _unary(types.uint32, types.uint32, lambda builder, bits: builder.cttz(bits, NO))
leading_zeros = _unary(types.uint32, types.uint32, lambda builder, bits: builder.ctlz(bits, NO))


@intrinsic
def put(typingctx, words, byte, value):
    """Store a uint8 or uint16 at a byte offset of an array of words, and touch nothing beside it."""

    def build(context, builder, signature, arguments):
        data = context.make_array(words)(context, builder, arguments[0]).data
        address = builder.gep(builder.bitcast(data, ir.IntType(8).as_pointer()), [arguments[1]])
        builder.store(arguments[2], builder.bitcast(address, arguments[2].type.as_pointer()))
        return context.get_dummy_value()

    return types.none(words, types.int64, value), build


def _on_stack(dtype, count):
    """Make a function that returns an array on the stack, valid while its caller runs."""
    kind = types.Array(dtype, 1, "C")

    @intrinsic
    def array(typingctx):
        def build(context, builder, signature, arguments):
            array_value = context.make_array(kind)(context, builder)
            size = dtype.bitwidth // 8
            item = array_value.data.type.pointee
            room = cgutils.alloca_once(builder, ir.ArrayType(item, count))
            data = builder.bitcast(room, array_value.data.type)
            populate_array(array_value, data, [I64(count)], [I64(size)], size, None)
            return array_value._getvalue()

        return kind(), build

    return array


int64_lanes, uint32_lanes = _on_stack(types.int64, 32), _on_stack(types.uint32, 32)
int64_places = _on_stack(types.int64, 64)
