"""Mbarriers: counters in shared memory, at which threads and copies arrive, phase after phase.

The 64-bit word is opaque to a program (PTX ISA, "mbarrier"), but code of ptxas reveals its fields. It initialises one
for ``n`` arrivals with (2^20 - n) << 1 in the low word and (2^20 - n) << 11 in the high one. It tests a phase by bit 31
of the high word, and reads the pending count from bits 11 to 30. So arrivals count up to an overflow, which flips the
phase. The bytes awaited lie between these fields, 22 bits with a sign.

Here a copy lands at once and completes at its mbarrier at once. The order of accesses (`orders`)
still finds a reader that did not wait.
"""

from numpy import int32, int64, uint32

from tilewave.basics.bits import lowest_one
from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.copies import land
from tilewave.execution.machine.families import mbarrier as ops
from tilewave.execution.machine.orders import asynchronous_write, bring, learn, shift
from tilewave.execution.machine.races import BY_ATOMIC, CLOCK, writer
from tilewave.execution.machine.validity import address_lanes, fault, inside_block

COUNT = int64(0xFFFFF)  # 20 bits
BYTES = int64(0x3FFFFF)  # 22 bits
PARITY = uint32(1 << 31)


@njit
def block_of(m, warp, pc, lanes, address):
    """Return the table of the block that a shared address names, and whether that block exists."""
    rank = address >> int64(24)
    if rank == view.block_control(m)[s.RANK]:
        return m, True
    if rank < view.block_control(m)[s.BLOCKS]:
        return view.peer(m, rank), True
    fault(m, s.NO_BLOCK, pc, warp, lanes, address, 8, 1)
    return m, False


@njit
def number(m, warp, pc, where, offset):
    """Return the number of an mbarrier in its block; number a new one."""
    places, block_control = view.mbarriers(where), view.block_control(where)
    for index in range(block_control[s.MBARRIER_COUNT]):
        if places[index] == offset:
            return index
    if block_control[s.MBARRIER_COUNT] == s.MBARRIERS:
        fault(m, s.MANY_MBARRIERS, pc, warp, 1, offset, s.MBARRIERS, 1)
        return int64(0)
    index = block_control[s.MBARRIER_COUNT]
    places[index] = offset
    block_control[s.MBARRIER_COUNT] = index + 1
    return index


@njit
def met(m, warp, where, pc, lanes, offset):
    """Check a use of an mbarrier: it must be initialised, and in order before."""
    control = view.control(m)
    if not control[s.RACES]:
        return
    unit = offset >> control[s.GRAIN]
    entry = view.shadow(where)[unit]
    tick = entry >> CLOCK
    kind, who = int64(-1), int64(-1)
    if tick < uint32(control[s.FIRST_TICK]):
        kind = int64(s.UNINITIALISED)
    else:
        who = writer(where, entry)
        shifted = shift(m, where)
        same_warp = shifted == 0 and who == warp
        if not same_warp and view.clocks(m)[warp, shifted + who] < tick:
            kind = int64(s.RACE)
    if kind >= 0:
        fault(m, kind, pc, warp, lanes, offset, who, 0)


@njit
def initialise(m, warp, pc, lanes, offset, low, high):
    """Write an mbarrier's word."""
    control = view.control(m)
    at = offset >> 2
    view.shared(m)[at], view.shared(m)[at + 1] = low, high
    view.turned(m)[number(m, warp, pc, m, offset), 2] = 0
    entry = uint32(control[s.TICK]) << CLOCK | BY_ATOMIC | uint32(warp)
    for unit in range(offset >> control[s.GRAIN], ((offset + 7) >> control[s.GRAIN]) + 1):
        if control[s.RACES]:
            view.shadow(m)[unit] = entry


@njit
def fields(where, offset):
    """Return arrivals that a phase needs, arrivals pending, bytes pending, and the phase."""
    low, high = view.shared(where)[offset >> 2], view.shared(where)[(offset >> 2) + 1]
    needed = -int64(low >> uint32(1)) & COUNT
    pending = -int64(high >> uint32(11)) & COUNT
    awaited = int64(low >> uint32(21)) | int64(high & uint32(0x7FF)) << int64(11)
    if awaited > BYTES >> int64(1):
        awaited -= BYTES + 1
    return needed, pending, awaited, high & PARITY


@njit
def keep(where, offset, needed, pending, awaited, phase):
    """Store the fields of an mbarrier: the inverse of `fields`."""
    awaited &= BYTES
    low = uint32((-needed & COUNT) << int64(1)) | uint32(awaited << int64(21) & 0xFFFFFFFF)
    high = uint32(awaited >> int64(11)) | uint32((-pending & COUNT) << int64(11)) | phase
    view.shared(where)[offset >> 2] = low
    view.shared(where)[(offset >> 2) + 1] = high


@njit
def change(m, warp, where, pc, lanes, offset, arrivals, more, drops):
    """Arrive at an mbarrier, and change the bytes that it waits for (negative: bytes have come)."""
    needed, pending, awaited, phase = fields(where, offset)
    if arrivals > pending:
        fault(m, s.TOO_MANY_ARRIVALS, pc, warp, lanes, offset, needed, 1)
        return
    pending -= arrivals
    awaited += more
    if drops:
        needed -= arrivals
    if pending or awaited:
        keep(where, offset, needed, pending, awaited, phase)
        return
    keep(where, offset, needed, needed, int64(0), phase ^ PARITY)
    index = number(m, warp, pc, where, offset)
    brought, finished = view.phases(where)[index], view.phases(where)[s.MBARRIERS + index]
    for actor in range(len(brought)):
        finished[actor] = max(finished[actor], brought[actor])
    view.turned(where)[index, 0] += 1
    for other in range(view.control(where)[s.WARPS]):
        groups = view.groups(where)[other]
        for slot in range(s.SLOTS):
            if groups[slot, 2] == s.AT_MBARRIER and groups[slot, 3] == offset:
                groups[slot, 2] = s.READY


@njit
def landed(m, warp, where, pc, offset, size):
    """Complete a copy of ``size`` bytes, issued by a warp, at an mbarrier."""
    index = number(m, warp, pc, where, offset)
    control = view.control(m)
    actor = 3 * control[s.WARPS] + index
    view.phases(where)[index, actor] = uint32(control[s.TICK])
    control[s.TICK] += 1
    change(m, warp, where, pc, uint32(1), offset, int64(0), -int64(size), False)


@njit
def stored(m, warp, pc, row, mask, addresses):
    """Execute STAS: store to a block's shared memory and complete at an mbarrier of that block."""
    R, source, width = view.registers(m)[warp], row[c.SOURCES + c.INDEX], int64(row[c.WIDTH])
    control = view.control(m)
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        lanes, address = uint32(1) << uint32(lane), addresses[lane] & int64(0xFFFFFFFF)
        telling = (addresses[lane] >> int64(32)) & int64(0xFFFFFFFF)
        where, exists = block_of(m, warp, pc, lanes, address)
        offset = address & int64(0xFFFFFF)
        if not exists or not inside_block(m, warp, pc, lanes, offset, width, width):
            return
        if telling >> int64(24) != address >> int64(24):
            fault(m, s.NO_BLOCK, pc, warp, lanes, telling, 8, 1)
            return
        telling &= int64(0xFFFFFF)
        if not inside_block(m, warp, pc, lanes, telling, int64(8), int64(8)):
            return
        met(m, warp, where, pc, lanes, telling)
        index = number(m, warp, pc, where, telling)
        asynchronous_write(m, warp, where, pc, offset, width, index)
        for word in range(width >> int64(2)):
            value = uint32(0) if source == 255 else R[source + word, lane]
            view.shared(where)[(offset >> int64(2)) + word] = value
        view.phases(where)[index, 3 * control[s.WARPS] + index] = uint32(control[s.TICK])
        change(m, warp, where, pc, lanes, telling, int64(0), -width, False)
    control[s.TICK] += 1


@njit
def plain(m, warp, pc, row, mask, addresses):
    """Arrive at an mbarrier of sm_80, once for each lane.

    Its word has no field of awaited bytes. The low half counts the arrivals of a phase, the high one,
    below the phase bit, those pending; both count up to an overflow (30 and 31 bits). Code initialises
    and tests it with ordinary stores and loads, and changes its counts with ordinary atomics.
    """
    R, d = view.registers(m)[warp], row[c.DST]
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        lanes, offset = uint32(1) << uint32(lane), addresses[lane]
        if not inside_block(m, warp, pc, lanes, offset, int64(8), int64(8)):
            return
        if not view.shadow(m)[offset >> view.control(m)[s.GRAIN]] & BY_ATOMIC:
            met(m, warp, m, pc, lanes, offset)
        low, high = view.shared(m)[offset >> 2], view.shared(m)[(offset >> 2) + 1]
        if d != 255:
            R[d, lane], R[d + 1, lane] = low, high
        index = number(m, warp, pc, m, offset)
        brought, finished = view.phases(m)[index], view.phases(m)[s.MBARRIERS + index]
        bring(m, warp, m, brought)
        pending = (-int64(high) & int64(0x7FFFFFFF)) - int64(1)
        if pending <= 0:
            high ^= PARITY
            pending = -int64(low) & int64(0x3FFFFFFF)
            for actor in range(len(brought)):
                finished[actor] = max(finished[actor], brought[actor])
        word = uint32(-pending & int64(0x7FFFFFFF)) | (high & PARITY)
        view.shared(m)[(offset >> 2) + 1] = word
    # The warp's later accesses are not covered by this arrival.
    view.control(m)[s.TICK] += 1


@njit
def mbarrier(m, warp, pc, mask):
    """Execute SYNCS, ARRIVES and STAS."""
    row = view.code(m)[pc]
    op = row[c.OP]
    R, U = view.registers(m)[warp], view.uniforms(m)[warp]
    addresses = view.addresses(m)[0]
    address_lanes(m, warp, row, int64(c.A_REG), int64(1), addresses)
    source = row[c.SOURCES + c.INDEX]
    if op == ops.B_CHECK:
        checked(m, warp, pc, row, mask, addresses)
        return
    if op == ops.B_STORE:
        stored(m, warp, pc, row, mask, addresses)
        return
    if op == ops.B_INIT or op == ops.B_INVALIDATE:
        first = int64(lowest_one(mask))
        offset = addresses[first] & int64(0xFFFFFF)
        lanes = uint32(1) << uint32(first)
        if inside_block(m, warp, pc, lanes, offset, int64(8), int64(8)) and op == ops.B_INIT:
            initialise(m, warp, pc, lanes, offset, U[source], U[source + 1])
        return
    if op == ops.B_COPIES or op == ops.B_PLAIN_COPIES:
        # Earlier cp.async of the thread: here all copies of its warp land now, then it arrives.
        land(m, int64(warp), int64(-1))
    if op == ops.B_PLAIN_ARRIVE or op == ops.B_PLAIN_COPIES:
        plain(m, warp, pc, row, mask, addresses)
        return
    how, d = row[c.SUB], row[c.DST]
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        lanes = uint32(1) << uint32(lane)
        address = addresses[lane]
        where, exists = block_of(m, warp, pc, lanes, address)
        offset = address & int64(0xFFFFFF)
        if not exists or not inside_block(m, warp, pc, lanes, offset, int64(8), int64(8)):
            return
        met(m, warp, where, pc, lanes, offset)
        operand = int64(int32(R[source, lane]))
        arrivals, more = int64(0), int64(0)
        if how & ops.ONE_ARRIVAL:
            arrivals = int64(1)
        elif how & ops.SOME_ARRIVALS:
            arrivals = operand
        if how & ops.MORE_BYTES:
            more = operand
        elif how & ops.FEWER_BYTES:
            more = -operand
        elif how & ops.ONE_BYTE_MORE:
            more = int64(1)
        elif how & ops.ONE_BYTE_FEWER:
            more -= int64(1)
        if d != 255:
            R[d, lane] = view.shared(where)[offset >> 2]
            R[d + 1, lane] = view.shared(where)[(offset >> 2) + 1]
        if arrivals:
            index = number(m, warp, pc, where, offset)
            bring(m, warp, where, view.phases(where)[index])
            rank, control = view.block_control(m)[s.RANK], view.control(m)
            last = view.arrivals(where)[index, rank * control[s.WARPS] + warp]
            last[0], last[1] = control[s.TICK], view.turned(where)[index, 0]
            last[2], last[3] = pc, lane
        change(m, warp, where, pc, lanes, offset, arrivals, more, how & ops.DROPS != 0)
    # The warp's later accesses are not covered by this arrival.
    view.control(m)[s.TICK] += 1


@njit
def checked(m, warp, pc, row, mask, addresses):
    """Test whether a phase is over. A try waits if it is not, and all lanes test the same phase."""
    R, P = view.registers(m)[warp], view.predicates(m)[warp]
    source = row[c.SOURCES + c.INDEX]
    first = int64(lowest_one(mask))
    over, alike, learnt = uint32(0), True, False
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        lanes = uint32(1) << uint32(lane)
        offset = addresses[lane] & int64(0xFFFFFF)
        if addresses[lane] >> int64(24) != view.block_control(m)[s.RANK]:
            fault(m, s.NO_BLOCK, pc, warp, lanes, addresses[lane], 8, 1)
            return
        alike = alike and addresses[lane] == addresses[first]
        if not alike or lane == first:
            if not inside_block(m, warp, pc, lanes, offset, int64(8), int64(8)):
                return
            met(m, warp, m, pc, lanes, offset)
        if (view.shared(m)[(offset >> 2) + 1] ^ R[source, lane]) & PARITY:
            over |= lanes
            if not learnt or not alike:
                learnt = True
                index = number(m, warp, pc, m, offset)
                learn(m, warp, view.phases(m)[s.MBARRIERS + index])
                view.turned(m)[index, 1] = view.turned(m)[index, 0]
    control = view.control(m)
    if over != mask:
        if row[c.SUB] and alike and not over:
            control[s.PARKED] = s.AT_MBARRIER
            control[s.PARKED_FOR] = addresses[first] & int64(0xFFFFFF)
            return
        control[s.PARKED] = s.TURN_OVER
    p = row[c.PD0]
    if p != 7:
        P[p] = (P[p] & ~mask) | over
