"""Asynchronous copies of a warp (LDGSTS): read at once, written to shared memory when waited for."""

from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import validity, written
from tilewave.execution.machine import views as view
from tilewave.execution.machine.patterns import count_copy
from tilewave.execution.machine.races import CLOCK, FLYING, note_writes
from tilewave.execution.machine.registers import pin

ALL = uint32(0xFFFFFFFF)


@njit
def reading_lanes(m, warp, row, mask):
    """Return the lanes of a copy that read; the others write zeros."""
    reading = uint32(mask)
    if row[c.FLAGS] & c.ZERO_FILL:
        reading &= pin(row, int64(c.PIN0), view.predicates(m)[warp])
    return reading


@njit
def copy(m, warp, pc, mask):
    """LDGSTS: read now, but write to shared memory only when the warp waits for it.
    Lanes that its predicate turns off write zeros. The shadow finds accesses to the destination before that wait."""
    row = view.code(m)[pc]
    width = int64(row[c.WIDTH])
    to, origin = view.addresses(m)[0], view.addresses(m)[1]
    validity.address_lanes(m, warp, row, int64(c.A_REG), int64(2), to)
    validity.address_lanes(m, warp, row, int64(c.G_REG), int64(0), origin)
    reading = reading_lanes(m, warp, row, mask)
    zeros = view.zeros(m)
    for lane in range(32):
        zeros[lane] = 0
    if row[c.FLAGS] & c.HIGH:
        for lane in range(32):
            zeros[lane] = origin[lane] & (width - 1)
            origin[lane] -= zeros[lane]
    if not validity.aligned(m, warp, pc, mask, to, width):
        return
    end = view.control(m)[s.SHARED_END]
    if not validity.inside_shared(m, warp, pc, mask, to, width, end):
        return
    if reading:
        full_lanes = reading
        for lane in range(32):
            bit = reading & uint32(1) << uint32(lane)
            if bit and zeros[lane]:  # bytes that zeros replace need not exist
                full_lanes &= ~bit
                if not validity.inside_global(m, warp, pc, bit, origin, width - zeros[lane]):
                    return
        if not validity.inside_global(m, warp, pc, full_lanes, origin, width):
            return
        if not validity.aligned(m, warp, pc, reading, origin, width):
            return
        if len(view.written(m)) > 1:
            written.note_global(m, warp, pc, full_lanes, origin, width, True, False)
    lane = validity.first_lane(mask)
    memo = row[c.MEMO] + ((to[lane] >> 6) & 1) + 2 * ((origin[lane] >> 6) & 1)
    count_copy(m, pc, memo, mask, reading, to, origin, width, row[c.FLAGS] & c.BYPASS != 0)
    base = to[validity.first_lane(mask)] & ~int64(3)
    note_writes(m, warp, pc, int64(memo), mask, to, width, base, FLYING)
    first, following = view.queued(m)[warp, 0], view.queued(m)[warp, 1]
    if following - first >= s.QUEUE:
        validity.fault(m, s.QUEUE_FULL, pc, warp, mask, -1, s.QUEUE, 1)
        return
    slot = following % s.QUEUE
    view.stamps(m)[warp, slot, 0] = view.queued(m)[warp, 2]
    view.stamps(m)[warp, slot, 1] = width
    entry = view.queue(m)[warp, slot]
    start = view.origin(m)[0]
    for lane in range(32):
        entry[0, lane] = ALL
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        entry[0, lane] = uint32(to[lane])
        read = (reading >> uint32(lane)) & uint32(1)
        at = (origin[lane] - start) >> 2
        for part in range(width // 4):
            entry[1 + part, lane] = view.memory(m)[at + part] if read else uint32(0)
        for byte in range(width - zeros[lane], width):
            entry[1 + (byte >> 2), lane] &= ~(uint32(0xFF) << uint32(8 * (byte & 3)))
    view.queued(m)[warp, 1] = following + 1


@njit
def land(m, warp, pending):
    """Write the copies of all but the latest ``pending`` committed groups."""
    limit = view.queued(m)[warp, 2] - pending
    grain = view.control(m)[s.GRAIN]
    entry_mark = uint32(view.control(m)[s.TICK]) << CLOCK | uint32(warp)
    while view.queued(m)[warp, 0] < view.queued(m)[warp, 1]:
        slot = view.queued(m)[warp, 0] % s.QUEUE
        if view.stamps(m)[warp, slot, 0] >= limit:
            return
        width = view.stamps(m)[warp, slot, 1]
        entry = view.queue(m)[warp, slot]
        for lane in range(32):
            if entry[0, lane] == ALL:
                continue
            at = int64(entry[0, lane])
            view.unfenced(m)[warp] |= uint32(1) << uint32(lane)
            for part in range(width // 4):
                view.shared(m)[(at >> 2) + part] = entry[1 + part, lane]
            if view.control(m)[s.RACES]:
                for unit in range(at >> grain, ((at + width - 1) >> grain) + 1):
                    view.shadow(m)[unit] = entry_mark
        view.queued(m)[warp, 0] += 1
