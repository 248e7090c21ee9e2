"""The arrays of a running block, as compiled functions see them.

Compiled functions take one argument, ``m``: an int64 array with the address and the leading sizes of
every array of `tilewave.machine.state.State`. A named tuple would say the same, but numba passes
each of its arrays as nine words, and three hundred words a call took longer than the instruction.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from tilewave.machine.codes import COLUMNS, SPECIAL_REGISTERS
from tilewave.machine.compiling import njit
from tilewave.machine.state import (
    COUNTS,
    GROUPS_KEPT,
    PRINT_ARGUMENTS,
    QUEUE,
    REGISTERS,
    SLOTS,
    UNIFORMS,
    State,
)

NAMES, KINDS = len(SPECIAL_REGISTERS), len(COUNTS)
SIZES = 2  # leading sizes kept for each array
TABLE = len(State._fields) * (1 + SIZES)


@intrinsic
def fill(typingctx, array, value):
    """Make all items of a contiguous array the same."""
    if array.layout != "C":
        return None

    def build(context, builder, signature, arguments):
        made = context.make_array(array)(context, builder, arguments[0])
        with cgutils.for_range(builder, made.nitems) as loop:
            builder.store(arguments[1], builder.gep(made.data, [loop.index]))
        return context.get_dummy_value()

    return types.none(array, array.dtype), build


def _place(name: str) -> int:
    return State._fields.index(name) * (1 + SIZES)


CODE_AT, REGISTERS_AT, UNIFORMS_AT = _place("code"), _place("registers"), _place("uniforms")


def _pointed(context, builder, kind, address, shape):
    """An array value: of this type, at an address, its shape as words and numbers."""
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
    """A function of an address and a shape that gives the array there."""

    @intrinsic
    def array(typingctx, address, shape):
        kind = types.Array(dtype, len(shape), "C")

        def build(context, builder, signature, arguments):
            sizes = cgutils.unpack_tuple(builder, arguments[1])
            return _pointed(context, builder, kind, arguments[0], sizes)

        return kind(types.int64, types.UniTuple(types.int64, len(shape))), build

    return array


uint8s, uint32s, int64s = map(_at_address, (types.uint8, types.uint32, types.int64))


@intrinsic
def opened(typingctx, table):
    """The table at an address."""
    kind = types.Array(types.int64, 1, "C")

    def build(context, builder, signature, arguments):
        return _pointed(context, builder, kind, arguments[0], [TABLE])

    return kind(types.int64), build


@intrinsic
def peer(typingctx, m, rank):
    """The table of another block of the cluster."""
    kind = types.Array(types.int64, 1, "C")

    def build(context, builder, signature, arguments):
        words = context.make_array(kind)(context, builder, arguments[0]).data
        peers = builder.load(builder.gep(words, [ir.IntType(64)(_place("peers"))]))
        place = builder.gep(builder.inttoptr(peers, words.type), [arguments[1]])
        return _pointed(context, builder, kind, builder.load(place), [TABLE])

    return kind(m, types.int64), build


def _array(name, dtype, *inner, leading=1, first=0):
    """A function of the table that gives an array of the state.

    Its leading sizes, from the ``first`` on, are in the table; ``inner`` are the same everywhere.
    """
    at = _place(name)
    kind = types.Array(dtype, leading + len(inner), "C")

    @intrinsic
    def array(typingctx, m):
        def build(context, builder, signature, arguments):
            words = context.make_array(signature.args[0])(context, builder, arguments[0]).data

            def word(index):
                return builder.load(builder.gep(words, [ir.IntType(64)(at + index)]))

            sizes = [word(1 + first + index) for index in range(leading)]
            return _pointed(context, builder, kind, word(0), [*sizes, *inner])

        return kind(m), build

    return array


code = _array("code", types.int32, COLUMNS)
registers = _array("registers", types.uint32, REGISTERS, 32)
uniforms = _array("uniforms", types.uint32, UNIFORMS)
predicates = _array("predicates", types.uint32, 16)
converge = _array("converge", types.uint32, 16, 32)
groups = _array("groups", types.int64, SLOTS, 4)
live = _array("live", types.uint32)
scratch = _array("scratch", types.uint32, 32)
addresses = _array("addresses", types.int64, 32)
shared = _array("shared", types.uint32)
shadow = _array("shadow", types.uint32)
reads = _array("reads", types.uint32, leading=2)
last_read = _array("last_read", types.uint32)
known = _array("known", types.uint32, leading=2)
arrived = _array("arrived", types.uint32, leading=2)
clocks = _array("clocks", types.uint32, leading=2)
expected = _array("expected", types.int64, 2)
results = _array("results", types.uint32)
local = _array("local", types.uint32, leading=2)
queue = _array("queue", types.uint32, 5, 32, leading=2)
queued = _array("queued", types.int64, 3)
stamps = _array("stamps", types.int64, QUEUE, 2)
memory = _array("memory", types.uint32)
ranges = _array("ranges", types.int64, 2)
origin = _array("origin", types.int64)
constants = _array("constants", types.uint32, leading=2)
identity = _array("identity", types.uint32, NAMES, 32)
counts = _array("counts", types.int64, KINDS)
patterns = _array("patterns", types.int64, 16)
deltas = _array("deltas", types.int64, 2, 32)
touched = _array("touched", types.int32, leading=2)
faults = _array("faults", types.int64, 7)
control = _array("control", types.int64)
zeros = _array("zeros", types.int64, 32, leading=0)
resume = _array("resume", types.uint32, 32)
safe = _array("safe", types.uint32)
handlers = _array("handlers", types.int64)
own = _array("own", types.int64)
mbarriers = _array("mbarriers", types.int64)
phases = _array("phases", types.uint32, leading=2)
outstanding = _array("outstanding", types.int64, 2, 1 + GROUPS_KEPT)
meetings = _array("meetings", types.int64, 2)
gathered = _array("gathered", types.uint32, first=1)
quota = _array("quota", types.int64)
prints = _array("prints", types.int64, 1 + PRINT_ARGUMENTS)


def table(state: State) -> np.ndarray:
    """The addresses and sizes of a state's arrays; the state must outlive it."""
    m = np.zeros((len(state), 1 + SIZES), np.int64)
    for row, array in zip(m, state):
        row[0] = array.ctypes.data
        row[1 : 1 + min(SIZES, array.ndim)] = array.shape[:SIZES]
    return m.reshape(-1)


def tables(states: Sequence[State]) -> list[np.ndarray]:
    """The tables of a cluster's blocks by rank, which know each other; they must outlive its run."""
    made = [table(one) for one in states]
    for one in states:
        one.peers[:] = [other.ctypes.data for other in made]
    return made


@njit
def registers_of(m, warp):
    """Address of a warp's registers."""
    return m[REGISTERS_AT] + warp * (REGISTERS * 32 * 4)


@njit
def uniforms_of(m, warp):
    """Address of a warp's uniform registers."""
    return m[UNIFORMS_AT] + warp * (UNIFORMS * 4)


@njit
def code_of(m, pc):
    """Address of a row."""
    return m[CODE_AT] + pc * (COLUMNS * 4)
