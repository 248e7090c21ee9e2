"""The arrays of a running block, as compiled functions see them.

Compiled functions take one argument, ``m``: an int64 array with the address and the leading sizes of
every array of `tilewave.machine.state.State`. A named tuple would say the same, but numba passes
each of its arrays as nine words, and three hundred words a call took longer than the instruction.
"""
# mypy: disable-error-code="no-untyped-def,misc,no-untyped-call"

from __future__ import annotations

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from tilewave.machine.codes import COLUMNS, SPECIAL_REGISTERS
from tilewave.machine.state import COUNTS, QUEUE, REGISTERS, SLOTS, UNIFORMS, State

NAMES, KINDS = len(SPECIAL_REGISTERS), len(COUNTS)
SIZES = 2  # leading sizes kept for each array
TABLE = len(State._fields) * (1 + SIZES)


@intrinsic
def _uint32_at(typingctx, address):
    """The pointer of an address."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.uint32)(types.int64), build


@intrinsic
def _int32_at(typingctx, address):
    """The pointer of an address."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.int32)(types.int64), build


@intrinsic
def _int64_at(typingctx, address):
    """The pointer of an address."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.int64)(types.int64), build


@intrinsic
def _float32_at(typingctx, address):
    """The pointer of an address."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), build


@intrinsic
def _float64_at(typingctx, address):
    """The pointer of an address."""

    def build(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(types.int64), build


def table(state: State) -> np.ndarray:
    """The addresses and sizes of a state's arrays; the state must outlive it."""
    m = np.zeros((len(state), 1 + SIZES), np.int64)
    for row, array in zip(m, state):
        row[0] = array.ctypes.data
        row[1 : 1 + min(SIZES, array.ndim)] = array.shape[:SIZES]
    return m.reshape(-1)


@njit
def code(m):
    return carray(_int32_at(m[0]), (m[1], COLUMNS))


@njit
def registers(m):
    return carray(_uint32_at(m[3]), (m[4], REGISTERS, 32))


@njit
def uniforms(m):
    return carray(_uint32_at(m[6]), (m[7], UNIFORMS))


@njit
def predicates(m):
    return carray(_uint32_at(m[9]), (m[10], 16))


@njit
def converge(m):
    return carray(_uint32_at(m[12]), (m[13], 16, 32))


@njit
def groups(m):
    return carray(_int64_at(m[15]), (m[16], SLOTS, 4))


@njit
def live(m):
    return carray(_uint32_at(m[18]), (m[19],))


@njit
def scratch(m):
    return carray(_uint32_at(m[21]), (m[22], 32))


@njit
def addresses(m):
    return carray(_int64_at(m[24]), (m[25], 32))


@njit
def matrices(m):
    return carray(_float32_at(m[27]), (m[28], 16, 16))


@njit
def sums(m):
    return carray(_float64_at(m[30]), (m[31], 16, 8))


@njit
def shared(m):
    return carray(_uint32_at(m[33]), (m[34],))


@njit
def shadow(m):
    return carray(_uint32_at(m[36]), (m[37],))


@njit
def reads(m):
    return carray(_uint32_at(m[39]), (m[40], m[41]))


@njit
def last_read(m):
    return carray(_uint32_at(m[42]), (m[43],))


@njit
def known(m):
    return carray(_uint32_at(m[45]), (m[46], m[47]))


@njit
def arrived(m):
    return carray(_uint32_at(m[48]), (m[49], m[50]))


@njit
def clocks(m):
    return carray(_uint32_at(m[51]), (m[52], m[53]))


@njit
def expected(m):
    return carray(_int64_at(m[54]), (m[55], 2))


@njit
def results(m):
    return carray(_uint32_at(m[57]), (m[58], 2))


@njit
def local(m):
    return carray(_uint32_at(m[60]), (m[61], m[62]))


@njit
def queue(m):
    return carray(_uint32_at(m[63]), (m[64], m[65], 5, 32))


@njit
def queued(m):
    return carray(_int64_at(m[66]), (m[67], 4))


@njit
def stamps(m):
    return carray(_int64_at(m[69]), (m[70], QUEUE, 2))


@njit
def memory(m):
    return carray(_uint32_at(m[72]), (m[73],))


@njit
def ranges(m):
    return carray(_int64_at(m[75]), (m[76], 2))


@njit
def origin(m):
    return carray(_int64_at(m[78]), (m[79],))


@njit
def constants(m):
    return carray(_uint32_at(m[81]), (m[82], m[83]))


@njit
def identity(m):
    return carray(_uint32_at(m[84]), (m[85], NAMES, 32))


@njit
def counts(m):
    return carray(_int64_at(m[87]), (m[88], KINDS))


@njit
def patterns(m):
    return carray(_int64_at(m[90]), (m[91], 16))


@njit
def deltas(m):
    return carray(_int64_at(m[93]), (m[94], 2, 32))


@njit
def touched(m):
    return carray(_int32_at(m[96]), (m[97], m[98]))


@njit
def faults(m):
    return carray(_int64_at(m[99]), (m[100], 7))


@njit
def control(m):
    return carray(_int64_at(m[102]), (m[103],))


@njit
def zeros(m):
    return carray(_int64_at(m[105]), (32,))


@njit
def safe(m):
    return carray(_uint32_at(m[108]), (m[109],))


@njit
def handlers(m):
    return carray(_int64_at(m[111]), (m[112],))


@njit
def registers_of(m, warp):
    """Address of a warp's registers."""
    return m[3] + warp * (REGISTERS * 32 * 4)


@njit
def uniforms_of(m, warp):
    """Address of a warp's uniform registers."""
    return m[6] + warp * (UNIFORMS * 4)
