"""The arrays of a running block, as compiled functions see them.

Compiled functions take one argument, ``m``: an int64 array with the address and the leading sizes of
every array of `tilewave.machine.state.State`. A named tuple would say the same, but numba passes
each of its arrays as nine words, and three hundred words a call took longer than the instruction.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic

from tilewave.machine.codes import COLUMNS, SPECIAL_REGISTERS
from tilewave.machine.state import COUNTS, GROUPS_KEPT, QUEUE, REGISTERS, SLOTS, UNIFORMS, State

NAMES, KINDS = len(SPECIAL_REGISTERS), len(COUNTS)
SIZES = 2  # leading sizes kept for each array
TABLE = len(State._fields) * (1 + SIZES)


def _place(name: str) -> int:
    return State._fields.index(name) * (1 + SIZES)


CODE_AT = _place("code")
REGISTERS_AT = _place("registers")
UNIFORMS_AT = _place("uniforms")
PREDICATES_AT = _place("predicates")
CONVERGE_AT = _place("converge")
GROUPS_AT = _place("groups")
LIVE_AT = _place("live")
SCRATCH_AT = _place("scratch")
ADDRESSES_AT = _place("addresses")
SHARED_AT = _place("shared")
SHADOW_AT = _place("shadow")
READS_AT = _place("reads")
LAST_READ_AT = _place("last_read")
KNOWN_AT = _place("known")
ARRIVED_AT = _place("arrived")
CLOCKS_AT = _place("clocks")
EXPECTED_AT = _place("expected")
RESULTS_AT = _place("results")
LOCAL_AT = _place("local")
QUEUE_AT = _place("queue")
QUEUED_AT = _place("queued")
STAMPS_AT = _place("stamps")
MEMORY_AT = _place("memory")
RANGES_AT = _place("ranges")
ORIGIN_AT = _place("origin")
CONSTANTS_AT = _place("constants")
IDENTITY_AT = _place("identity")
COUNTS_AT = _place("counts")
PATTERNS_AT = _place("patterns")
DELTAS_AT = _place("deltas")
TOUCHED_AT = _place("touched")
FAULTS_AT = _place("faults")
CONTROL_AT = _place("control")
ZEROS_AT = _place("zeros")
RESUME_AT = _place("resume")
SAFE_AT = _place("safe")
HANDLERS_AT = _place("handlers")
OWN_AT = _place("own")
PEERS_AT = _place("peers")
MBARRIERS_AT = _place("mbarriers")
PHASES_AT = _place("phases")
OUTSTANDING_AT = _place("outstanding")
MEETINGS_AT = _place("meetings")
GATHERED_AT = _place("gathered")
QUOTA_AT = _place("quota")


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


def table(state: State) -> np.ndarray:
    """The addresses and sizes of a state's arrays; the state must outlive it."""
    m = np.zeros((len(state), 1 + SIZES), np.int64)
    for row, array in zip(m, state):
        row[0] = array.ctypes.data
        row[1 : 1 + min(SIZES, array.ndim)] = array.shape[:SIZES]
    return m.reshape(-1)


@njit
def code(m):
    return carray(_int32_at(m[CODE_AT]), (m[CODE_AT + 1], COLUMNS))


@njit
def registers(m):
    return carray(_uint32_at(m[REGISTERS_AT]), (m[REGISTERS_AT + 1], REGISTERS, 32))


@njit
def uniforms(m):
    return carray(_uint32_at(m[UNIFORMS_AT]), (m[UNIFORMS_AT + 1], UNIFORMS))


@njit
def predicates(m):
    return carray(_uint32_at(m[PREDICATES_AT]), (m[PREDICATES_AT + 1], 16))


@njit
def converge(m):
    return carray(_uint32_at(m[CONVERGE_AT]), (m[CONVERGE_AT + 1], 16, 32))


@njit
def groups(m):
    return carray(_int64_at(m[GROUPS_AT]), (m[GROUPS_AT + 1], SLOTS, 4))


@njit
def live(m):
    return carray(_uint32_at(m[LIVE_AT]), (m[LIVE_AT + 1],))


@njit
def scratch(m):
    return carray(_uint32_at(m[SCRATCH_AT]), (m[SCRATCH_AT + 1], 32))


@njit
def addresses(m):
    return carray(_int64_at(m[ADDRESSES_AT]), (m[ADDRESSES_AT + 1], 32))


@njit
def shared(m):
    return carray(_uint32_at(m[SHARED_AT]), (m[SHARED_AT + 1],))


@njit
def shadow(m):
    return carray(_uint32_at(m[SHADOW_AT]), (m[SHADOW_AT + 1],))


@njit
def reads(m):
    return carray(_uint32_at(m[READS_AT]), (m[READS_AT + 1], m[READS_AT + 2]))


@njit
def last_read(m):
    return carray(_uint32_at(m[LAST_READ_AT]), (m[LAST_READ_AT + 1],))


@njit
def known(m):
    return carray(_uint32_at(m[KNOWN_AT]), (m[KNOWN_AT + 1], m[KNOWN_AT + 2]))


@njit
def arrived(m):
    return carray(_uint32_at(m[ARRIVED_AT]), (m[ARRIVED_AT + 1], m[ARRIVED_AT + 2]))


@njit
def clocks(m):
    return carray(_uint32_at(m[CLOCKS_AT]), (m[CLOCKS_AT + 1], m[CLOCKS_AT + 2]))


@njit
def expected(m):
    return carray(_int64_at(m[EXPECTED_AT]), (m[EXPECTED_AT + 1], 2))


@njit
def results(m):
    return carray(_uint32_at(m[RESULTS_AT]), (m[RESULTS_AT + 1],))


@njit
def local(m):
    return carray(_uint32_at(m[LOCAL_AT]), (m[LOCAL_AT + 1], m[LOCAL_AT + 2]))


@njit
def queue(m):
    return carray(_uint32_at(m[QUEUE_AT]), (m[QUEUE_AT + 1], m[QUEUE_AT + 2], 5, 32))


@njit
def queued(m):
    return carray(_int64_at(m[QUEUED_AT]), (m[QUEUED_AT + 1], 3))


@njit
def stamps(m):
    return carray(_int64_at(m[STAMPS_AT]), (m[STAMPS_AT + 1], QUEUE, 2))


@njit
def memory(m):
    return carray(_uint32_at(m[MEMORY_AT]), (m[MEMORY_AT + 1],))


@njit
def ranges(m):
    return carray(_int64_at(m[RANGES_AT]), (m[RANGES_AT + 1], 2))


@njit
def origin(m):
    return carray(_int64_at(m[ORIGIN_AT]), (m[ORIGIN_AT + 1],))


@njit
def constants(m):
    return carray(_uint32_at(m[CONSTANTS_AT]), (m[CONSTANTS_AT + 1], m[CONSTANTS_AT + 2]))


@njit
def identity(m):
    return carray(_uint32_at(m[IDENTITY_AT]), (m[IDENTITY_AT + 1], NAMES, 32))


@njit
def counts(m):
    return carray(_int64_at(m[COUNTS_AT]), (m[COUNTS_AT + 1], KINDS))


@njit
def patterns(m):
    return carray(_int64_at(m[PATTERNS_AT]), (m[PATTERNS_AT + 1], 16))


@njit
def deltas(m):
    return carray(_int64_at(m[DELTAS_AT]), (m[DELTAS_AT + 1], 2, 32))


@njit
def touched(m):
    return carray(_int32_at(m[TOUCHED_AT]), (m[TOUCHED_AT + 1], m[TOUCHED_AT + 2]))


@njit
def faults(m):
    return carray(_int64_at(m[FAULTS_AT]), (m[FAULTS_AT + 1], 7))


@njit
def control(m):
    return carray(_int64_at(m[CONTROL_AT]), (m[CONTROL_AT + 1],))


@njit
def zeros(m):
    return carray(_int64_at(m[ZEROS_AT]), (32,))


@njit
def resume(m):
    return carray(_uint32_at(m[RESUME_AT]), (m[RESUME_AT + 1], 32))


@njit
def safe(m):
    return carray(_uint32_at(m[SAFE_AT]), (m[SAFE_AT + 1],))


@njit
def handlers(m):
    return carray(_int64_at(m[HANDLERS_AT]), (m[HANDLERS_AT + 1],))


@njit
def own(m):
    return carray(_int64_at(m[OWN_AT]), (m[OWN_AT + 1],))


@njit
def peer(m, rank):
    """The table of another block of the cluster."""
    peers = carray(_int64_at(m[PEERS_AT]), (m[PEERS_AT + 1],))
    return carray(_int64_at(peers[rank]), (TABLE,))


@njit
def mbarriers(m):
    return carray(_int64_at(m[MBARRIERS_AT]), (m[MBARRIERS_AT + 1],))


@njit
def phases(m):
    return carray(_uint32_at(m[PHASES_AT]), (m[PHASES_AT + 1], m[PHASES_AT + 2]))


@njit
def outstanding(m):
    return carray(_int64_at(m[OUTSTANDING_AT]), (m[OUTSTANDING_AT + 1], 2, 1 + GROUPS_KEPT))


@njit
def meetings(m):
    return carray(_int64_at(m[MEETINGS_AT]), (m[MEETINGS_AT + 1], 2))


@njit
def gathered(m):
    return carray(_uint32_at(m[GATHERED_AT]), (m[GATHERED_AT + 2],))


@njit
def quota(m):
    return carray(_int64_at(m[QUOTA_AT]), (m[QUOTA_AT + 1],))


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
