"""The arrays of a running block, as compiled functions see them.

Compiled functions take one argument, ``m``: an int64 array with the address and the leading sizes
of every array of `state.State`. A named tuple would hold the same, but numba passes each of its
arrays as nine words: passing three hundred words took longer than an instruction.
"""

from collections.abc import Sequence

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

from tilewave.basics.jit import njit
from tilewave.execution.machine.codes import COLUMNS
from tilewave.execution.machine.state import FIELDS, REGISTERS, UNIFORMS, State

SIZES = 2  # leading sizes kept for each array
TABLE = len(State._fields) * (1 + SIZES)


@intrinsic
def fill(typingctx, array, value):
    """Set all items of a contiguous array to a value."""
    if array.layout != "C":
        return None

    def build(context, builder, signature, arguments):
        values = context.make_array(array)(context, builder, arguments[0])
        with cgutils.for_range(builder, values.nitems) as loop:
            builder.store(arguments[1], builder.gep(values.data, [loop.index]))
        return context.get_dummy_value()

    return types.none(array, array.dtype), build


def _column(name: str) -> int:
    return State._fields.index(name) * (1 + SIZES)


CODE_AT, REGISTERS_AT, UNIFORMS_AT = _column("code"), _column("registers"), _column("uniforms")


def _pointed(context, builder, kind, address, shape):
    """Build an array value: its type, its address, its shape as LLVM values and numbers."""
    word = ir.IntType(64)
    shape = [word(size) if isinstance(size, int) else size for size in shape]
    item = kind.dtype.bitwidth // 8
    strides = [word(item)]
    for size in reversed(shape[1:]):
        strides.insert(0, builder.mul(size, strides[0]))
    array = context.make_array(kind)(context, builder)
    data = builder.inttoptr(address, array.data.type)
    populate_array(array, data, shape, strides, item, None)
    return array._getvalue()


def _at_address(dtype):
    """Return a function of an address and a shape that gives the array there."""

    @intrinsic
    def array(typingctx, address, shape):
        kind = types.Array(dtype, len(shape), "C")

        def build(context, builder, signature, arguments):
            sizes = cgutils.unpack_tuple(builder, arguments[1])
            return _pointed(context, builder, kind, arguments[0], sizes)

        return kind(types.int64, types.UniTuple(types.int64, len(shape))), build

    return array


int32s, uint32s, int64s = map(_at_address, (types.int32, types.uint32, types.int64))


@intrinsic
def opened(typingctx, table):
    """Return the table at an address."""
    kind = types.Array(types.int64, 1, "C")

    def build(context, builder, signature, arguments):
        return _pointed(context, builder, kind, arguments[0], [TABLE])

    return kind(types.int64), build


@intrinsic
def peer(typingctx, m, rank):
    """Return the table of another block of the cluster."""
    kind = types.Array(types.int64, 1, "C")

    def build(context, builder, signature, arguments):
        data = context.make_array(kind)(context, builder, arguments[0]).data
        peers = builder.load(builder.gep(data, [ir.IntType(64)(_column("peers"))]))
        pointer = builder.gep(builder.inttoptr(peers, data.type), [arguments[1]])
        return _pointed(context, builder, kind, builder.load(pointer), [TABLE])

    return kind(m, types.int64), build


def _array(at, dtype, sizes):
    """Return a function of the table that gives an array whose address is there at ``at``."""
    kind = types.Array(from_dtype(np.dtype(dtype)), len(sizes), "C")

    @intrinsic
    def array(typingctx, m):
        def build(context, builder, signature, arguments):
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data

            def word(index):
                return builder.load(builder.gep(data, [ir.IntType(64)(at + index)]))

            shape = [
                size if isinstance(size, int) else word(1 + axis) for axis, size in enumerate(sizes)
            ]
            return _pointed(context, builder, kind, word(0), shape)

        return kind(m), build

    return array


def accessors(fields):
    """Return a function for each array of a state: `code(m)`, `registers(m)` and so on."""
    return {
        name: _array(at * (1 + SIZES), *field) for at, (name, field) in enumerate(fields.items())
    }


globals().update(accessors(FIELDS))


def table(state: Sequence[np.ndarray]) -> np.ndarray:
    """Return the addresses and sizes of a state's arrays; the state must outlive it."""
    m = np.zeros((len(state), 1 + SIZES), np.int64)
    for row, array in zip(m, state):
        row[0] = array.ctypes.data
        row[1 : 1 + min(SIZES, array.ndim)] = array.shape[:SIZES]
    return m.reshape(-1)


def tables(states: Sequence[State]) -> list[np.ndarray]:
    """Return linked tables of a cluster's blocks by rank; they must outlive its run."""
    addresses = [table(state) for state in states]
    for state in states:
        state.peers[:] = [table_.ctypes.data for table_ in addresses]
    return addresses


@njit
def registers_of(m, warp):
    return m[REGISTERS_AT] + warp * (REGISTERS * 32 * 4)


@njit
def uniforms_of(m, warp):
    """Return the address of a warp's uniform registers."""
    return m[UNIFORMS_AT] + warp * (UNIFORMS * 4)


@njit
def code_of(m, pc):
    return m[CODE_AT] + pc * (COLUMNS * 4)
