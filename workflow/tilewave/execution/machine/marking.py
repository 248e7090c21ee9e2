"""Reads and writes of global memory, and whether they are ordered.

As in `capturing`, another function replaces a family's handler and notes what it did. Only writes of
read-only buffers are noted. A store that changes nothing is no write.

Inside a block (or a cluster) clocks order accesses, as in shared memory (`orders`). Otherwise strong
accesses do: atomics, volatile ones and those with a scope. One that writes an address after a fence of its
block shows all that was done before that fence, by any block, to the blocks that read the address with a
strong access later. So an order may be assumed that is none, but no order is missed.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy import int64, uint32, uint64

from tilewave.basics.jit import njit
from tilewave.execution.machine import bulk
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.compiling import Entry
from tilewave.execution.machine.copies import reading_lanes
from tilewave.execution.machine.families import copies as ops
from tilewave.execution.machine.families import memory
from tilewave.execution.machine.handlers import SIGNATURE, call, replaced
from tilewave.execution.machine.integer import joined
from tilewave.execution.machine.maps import ADDRESS, WORDS
from tilewave.execution.machine.state import State
from tilewave.execution.machine.validity import address_lanes, collision

FAMILIES = (c.LOAD, c.STORE, c.COPY, c.BULK, c.ATOMIC)
# Entries after the addresses of the handlers: addresses of the marks, of their instructions and of `places`, the
# number of marks, bytes of a mark as a power of two, whether a conflict is a fault.
MARKS, ROWS, PLACES, COUNT, GRAIN, FAULTING = (2 * c.CONTROL + place for place in range(6))
# Marks of a piece: its last writer; its last reader, another warp of that block that read before, and the last
# reader of another block; the last plain store, if atomics have followed it; the time up to which a strong read shows
# what was done.
WRITER, READER, OTHER, EARLIER, STORED, SHOWN = range(6)
# A mark: number of the block + 1, rank in the cluster, warp, kind, time (ticks since the launch began).
BLOCK, WARP, KIND, TIME = 41, 32, 29, int64((1 << 29) - 1)
# Kinds of accesses. PUBLISHED: a weak store after a fence, which may be a flag, or where the last writer is an atomic of
# the same block, as at the end of a lock. SUM: an atomic that adds. SWAP: any other atomic; loops of compare-and-swap
# also use weak reads. KEPT: a weak store that changed nothing, which races with atomics only.
WEAK, PUBLISHED, STRONG, SUM, SWAP, KEPT = range(6)
FLAG = 8  # bytes of the widest flag: a wider strong access, such as `__stcg` of four floats, moves data
SUMS = (memory.A_ADD, memory.A_INC, memory.A_DEC)
# Accesses. KEEP: a store that changes nothing takes over what another block has written. LOOK: only ask. COMPARE: ask
# and take a fingerprint.
READ, WRITE, KEEP, LOOK, COMPARE = range(5)


@njit
def _unordered(m, warp, entry, kind):
    """Return whether an earlier access races with one of this kind, if either writes."""
    before = (entry >> KIND) & 7
    low, high = min(before, kind), max(before, kind)
    if kind < SUM if before == KEPT else low >= PUBLISHED and high >= STRONG:
        return False
    block, time = view.block_control(view.peer(m, int64(0))), entry & TIME
    if time <= block[s.LEARNED]:
        return False
    if (entry >> BLOCK) != block[s.NUMBER] + 1:
        return True
    control, this_block = view.control(m), view.block_control(m)
    away = ((entry >> (WARP + 5)) & 15) - this_block[s.RANK]
    who = (away + this_block[s.BLOCKS]) % this_block[s.BLOCKS] * control[s.ACTORS] + (
        (entry >> WARP) & 31
    )
    if who == warp or time <= block[s.LEARNED_INSIDE]:
        return False
    return int64(view.clocks(m)[warp, who]) < time - control[s.PASSED]


@njit
def new_mark(m, warp, kind):
    number = view.block_control(view.peer(m, int64(0)))[s.NUMBER] + 1
    control, rank = view.control(m), view.block_control(m)[s.RANK]
    time = min(control[s.PASSED] + control[s.TICK], TIME)
    return number << BLOCK | rank << (WARP + 5) | warp << WARP | kind << KIND | time


@njit
def mark(m, warp, pc, at, size, how, now):
    """Note an access of a warp to ``size`` bytes of one buffer, from a device address.
    now: see `new_mark`. Returns a conflict and its instruction: the mark of a write, or that of a read with its sign
    changed; 0 for none."""
    handlers, ranges = view.handlers(m), view.ranges(m)
    places = view.int64s(handlers[PLACES], (3 * int64(len(ranges)) + 2,))
    conflict, conflicting = int64(0), int64(-1)
    for index in range(len(ranges)):
        if ranges[index, 0] <= at < ranges[index, 1]:
            if places[index] < 0:
                places[len(ranges)] |= int64(how == WRITE)
                return conflict, conflicting
            first = at - ranges[index, 0]
            last = min(first + size, ranges[index, 1] - ranges[index, 0]) - 1
            if not handlers[FAULTING]:
                end = len(ranges) + 2 + 2 * index + int64(how == WRITE)
                places[end] = max(places[end], last + 1)
                return conflict, conflicting
            marks = view.int64s(handlers[MARKS], (int64(6), handlers[COUNT]))
            rows = view.int32s(handlers[ROWS], (int64(5), handlers[COUNT]))
            who, kind = now >> WARP, (now >> KIND) & 7
            begin = places[index]
            for cell in range(
                begin + (first >> handlers[GRAIN]), begin + (last >> handlers[GRAIN]) + 1
            ):
                # While nothing was read, or stored before atomics, those marks need no memory.
                noted, writer = places[len(ranges) + 1], marks[WRITER, cell]
                reader = marks[READER, cell] if noted & 1 else int64(0)
                stored = marks[STORED, cell] if noted & 2 else int64(0)
                before = (writer >> KIND) & 7
                looks = how == READ and before == SWAP
                apart = writer and not looks and writer >> WARP != who
                if apart and _unordered(m, warp, writer, kind):
                    conflict, conflicting = writer, int64(rows[WRITER, cell])
                elif stored and kind >= SUM and _unordered(m, warp, stored, kind):
                    conflict, conflicting = stored, int64(rows[STORED, cell])
                elif reader and how != READ and kind != SWAP and not conflict:
                    for row in range(READER, EARLIER + 1):
                        entry = marks[row, cell]
                        if entry and not conflict and _unordered(m, warp, entry, kind):
                            conflict, conflicting = -entry, int64(rows[row, cell])
                if how == WRITE or (how == KEEP and (writer or kind == WEAK)):
                    entry, plain = now, before == WEAK or before == KEPT
                    if kind >= SUM and writer and plain:
                        marks[STORED, cell], rows[STORED, cell] = writer, rows[WRITER, cell]
                        places[len(ranges) + 1] |= 2
                    elif kind < SUM and stored:
                        marks[STORED, cell] = 0
                    if kind == WEAK and how == KEEP and (not writer or before == KEPT):
                        entry |= int64(KEPT) << KIND
                    elif kind == WEAK and SUM <= before <= SWAP and writer >> BLOCK == now >> BLOCK:
                        entry |= int64(PUBLISHED) << KIND
                    marks[WRITER, cell], rows[WRITER, cell] = entry, pc
                elif how == READ:
                    if reader and reader >> WARP != who:
                        same_block = reader >> BLOCK == now >> BLOCK
                        row = OTHER if same_block else EARLIER
                        marks[row, cell], rows[row, cell] = reader, rows[READER, cell]
                        if not same_block:
                            marks[OTHER, cell] = 0
                    marks[READER, cell], rows[READER, cell] = now, pc
                    places[len(ranges) + 1] |= 1
                if kind and (how == WRITE or how == KEEP):
                    fenced = view.block_control(view.peer(m, int64(0)))[s.FENCED]
                    if fenced > marks[SHOWN, cell]:
                        marks[SHOWN, cell] = fenced
            return conflict, conflicting
    return conflict, conflicting


@njit
def _learn(m, at):
    """Execute a strong read: the block knows what the address shows, and fences of its own warps."""
    handlers, ranges = view.handlers(m), view.ranges(m)
    places = view.int64s(handlers[PLACES], (int64(len(ranges)) + 2,))
    block = view.block_control(view.peer(m, int64(0)))
    block[s.LEARNED_INSIDE] = block[s.FENCED_INSIDE]
    for index in range(len(ranges)):
        if ranges[index, 0] <= at < ranges[index, 1] and places[index] >= 0:
            marks = view.int64s(handlers[MARKS], (int64(6), handlers[COUNT]))
            cell = places[index] + ((at - ranges[index, 0]) >> handlers[GRAIN])
            block[s.LEARNED] = max(block[s.LEARNED], marks[SHOWN, cell])


@njit
def _noted(m, addresses):
    """Return whether any address lies in a buffer whose reads are noted."""
    ranges = view.ranges(m)
    places = view.int64s(view.handlers(m)[PLACES], (int64(len(ranges)) + 2,))
    hit = uint64(0)
    for index in range(len(ranges)):
        if places[index] >= 0:
            start, size = ranges[index, 0], uint64(ranges[index, 1] - ranges[index, 0])
            for lane in range(32):
                hit |= uint64(uint64(addresses[lane] - start) < size)
    return hit != 0


@njit
def _changes(m, warp, row, lane, at):
    """Return whether a lane's store changes memory; False outside memory."""
    words, width, d = view.memory(m), int64(row[c.WIDTH]), row[c.DST]
    offset = at - view.origin(m)[0]
    if offset < 0 or offset + width > 4 * len(words):
        return False
    R = view.registers(m)[warp]
    for part in range((width + 3) // 4):
        value = uint32(0) if d == 255 else R[d + part, lane]
        differs = words[(offset >> 2) + part]
        if width < 4:
            differs = (differs >> uint32(8 * (offset & 3)) ^ value) & uint32((1 << (8 * width)) - 1)
        else:
            differs ^= value
        if differs:
            return True
    return False


@njit
def mark_lanes(m, warp, pc, mask, addresses, size, writing):
    """Note what a warp's lanes read or write in buffers, and conflicts with other warps and blocks."""
    if not (writing or _noted(m, addresses)):
        return
    row, faulting = view.code(m)[pc], view.handlers(m)[FAULTING]
    atomic, kind = row[c.FAMILY] == c.ATOMIC, int64(WEAK)
    if atomic:
        kind = int64(SUM if row[c.OP] in SUMS else SWAP)
    elif row[c.FLAGS] & c.STRONG and size <= FLAG:
        kind = int64(STRONG)
    elif writing and view.block_control(view.peer(m, int64(0)))[s.FENCED_INSIDE]:
        kind = int64(PUBLISHED)
    strong_read = faulting and (row[c.SUB] >> 16 if atomic else kind == STRONG and not writing)
    lanes, first, conflicting, instruction = uint32(0), int64(0), int64(0), int64(-1)
    now = new_mark(m, warp, kind)
    for lane in range(32):
        if (mask >> lane) & 1:
            if strong_read:
                _learn(m, addresses[lane])
            how = READ
            if writing:
                how = WRITE
                if faulting and not atomic and not _changes(m, warp, row, lane, addresses[lane]):
                    how = KEEP
            conflict, other = mark(m, warp, pc, addresses[lane], size, int64(how), now)
            if conflict and faulting and how != KEEP:
                if not lanes:
                    first, conflicting, instruction = addresses[lane], conflict, other
                lanes |= uint32(1) << uint32(lane)
    if lanes:
        unordered(m, warp, pc, lanes, first, conflicting, instruction)


@njit
def unordered(m, warp, pc, lanes, address, other, instruction):
    """Note a fault: two accesses to global memory race. other, instruction: see `mark`."""
    collision(
        m, int64(s.UNORDERED), pc, warp, uint32(lanes), int64(address), other, int64(0), instruction
    )


@njit
def mark_copy(m, warp, pc, reading, width):
    """Note what these lanes of a copy read: the bytes before those that zeros replace."""
    full_lanes, zeros = int64(0), view.zeros(m)
    for lane in range(32):
        bit = reading & int64(1) << lane
        if zeros[lane] == 0:
            full_lanes |= bit
        elif bit:
            mark_lanes(m, warp, pc, bit, view.addresses(m)[1], width - zeros[lane], False)
    mark_lanes(m, warp, pc, full_lanes, view.addresses(m)[1], width, False)


@njit
def _fingerprint(m, at, size, so_far):
    """Update a fingerprint with bytes of a buffer, rounded out to whole words."""
    words, offset = view.memory(m), at - view.origin(m)[0]
    for word in range(offset >> 2, (offset + size + 3) >> 2):
        if 0 <= word < len(words):
            so_far = (so_far ^ uint64(words[word])) * uint64(0x100000001B3)
    return so_far


@njit
def mark_box(m, warp, pc, address, at, how):
    """Note what a tensor copy reads and writes: its map, and the part of the box inside the array.
    at: the five coordinates at which the box begins. Returns as `mark` does, and for COMPARE a fingerprint of the box."""
    element, fingerprint = bulk.element_of(m, address), uint64(0xCBF29CE484222325)
    conflict, other, now = int64(0), int64(-1), new_mark(m, warp, int64(WEAK))
    low = max(at[0], 0)
    high = min(at[0] + bulk.count_along(m, address, 0), bulk.size_along(m, address, 0))
    mark(m, warp, pc, address, int64(8 * WORDS), int64(READ), now)
    if low < high:
        start = bulk.map_word(m, address, ADDRESS) + low * element
        for row in range(bulk.rows_of(m, address)):
            line = bulk.row_at(m, address, at, row)
            if line >= 0:
                latest, instruction = mark(
                    m, warp, pc, start + line, (high - low) * element, how, now
                )
                if latest:
                    conflict, other = latest, instruction
                if how == COMPARE:
                    fingerprint = _fingerprint(m, start + line, (high - low) * element, fingerprint)
    return conflict, other, fingerprint


@njit
def mark_bulk(m, warp, pc, row, how):
    """Note what a bulk copy does; operands as in `bulk`. Returns as `mark_box` does."""
    U, op = view.uniforms(m)[warp], row[c.OP]
    first, second = row[c.A_UREG], row[c.G_UREG]
    if op == ops.Y_LOAD or op == ops.Y_STORE:
        address = int64(joined(U[second + 1], U[second]))
        if bulk.sealed(m, address) and bulk.rank_of(m, address) == row[c.SUB]:
            return mark_box(m, warp, pc, address, bulk.coordinates(U, row), how)
    elif op == ops.Y_BYTES_IN or op == ops.Y_BYTES_OUT:
        outside = first if op == ops.Y_BYTES_OUT else second
        at, size = int64(joined(U[outside + 1], U[outside])), int64(U[row[c.SUB]] & 0xFFFF) << 4
        fingerprint = _fingerprint(m, at, size, uint64(0)) if how == COMPARE else uint64(0)
        conflict, other = mark(m, warp, pc, at, size, how, new_mark(m, warp, int64(WEAK)))
        return conflict, other, fingerprint
    return int64(0), int64(-1), uint64(0)


def _marked(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    family, space = row[c.FAMILY], row[c.OP]
    outside = space == c.GLOBAL or space == c.GENERIC
    addresses = view.addresses(m)[0]
    # Note stores before they execute, while the old values can be compared.
    if family == c.STORE and outside:
        address_lanes(m, warp, row, int64(c.A_REG), int64(0), addresses)
        mark_lanes(m, warp, pc, int64(mask), addresses, int64(row[c.WIDTH]), True)
    faulting = view.handlers(m)[FAULTING]
    storing = family == c.BULK and (space == ops.Y_STORE or space == ops.Y_BYTES_OUT)
    conflict, before = int64(0), uint64(0)
    if storing and faulting:
        conflict = mark_bulk(m, warp, pc, row, int64(LOOK))[0]
        if conflict:  # rare, so only then is a fingerprint worth its time
            before = mark_bulk(m, warp, pc, row, int64(COMPARE))[2]
    call(view.handlers(m)[c.CONTROL + family], m, warp, pc, mask)
    if family == c.BULK:
        how = int64(READ)
        if storing:
            same = conflict != 0 and mark_bulk(m, warp, pc, row, int64(COMPARE))[2] == before
            how = int64(KEEP if same else WRITE)
        conflict, other, before = mark_bulk(m, warp, pc, row, how)
        if conflict and faulting and how != KEEP:
            unordered(m, warp, pc, mask, int64(-1), conflict, other)
    elif family == c.COPY:
        mark_copy(m, warp, pc, int64(reading_lanes(m, warp, row, mask)), int64(row[c.WIDTH]))
    elif family == c.ATOMIC:
        if row[c.SUB] >> 8 & 255 != c.SHARED:
            if not faulting:
                mark_lanes(m, warp, pc, int64(mask), addresses, int64(row[c.WIDTH]), False)
            mark_lanes(m, warp, pc, int64(mask), addresses, int64(row[c.WIDTH]), True)
        elif row[c.SUB] >> 16:  # warps may learn of each other's work by it
            block = view.block_control(view.peer(m, int64(0)))
            block[s.LEARNED_INSIDE] = block[s.FENCED_INSIDE]
    elif family == c.LOAD and outside:
        mark_lanes(m, warp, pc, int64(mask), addresses, int64(abs(row[c.WIDTH])), False)


MARKED = Entry("marks", _marked, SIGNATURE, None)


class Marks:
    """The writer and reader of each piece of the buffers that are not read-only.
    fixed: whether each buffer of `State.ranges` is read-only. faulting: a conflict is a fault;
    otherwise only the ends of what is read and written are noted."""

    def __init__(self, state: State, fixed: Sequence[bool], faulting: bool = True) -> None:
        self._faulting, self._starts = faulting, state.ranges[:, 0] - state.origin[0]
        self._grain = _grain(state.code)
        pieces = (state.ranges[:, 1] - state.ranges[:, 0] >> self._grain) + 1
        pieces[np.array(fixed, bool) | (not faulting)] = 0
        # The system provides memory for what is touched only.
        self.blocks = np.zeros((6, int(pieces.sum())), np.int64)
        self._rows = np.zeros((5, self.blocks.shape[1]), np.int32)
        starts = np.where(fixed, -1, np.cumsum(pieces) - pieces)
        self._places = np.concatenate([starts, np.zeros(2 + 2 * len(starts), np.int64)])

    def watching(self, state: State) -> State:
        """Return a state whose accesses are noted here; these marks must outlive it."""
        addresses = [array.ctypes.data for array in (self.blocks, self._rows, self._places)]
        more = (*addresses, self.blocks.shape[1], self._grain, self._faulting)
        return replaced(state, MARKED, FAMILIES, *more)

    def ends(self, start: int) -> tuple[int, int]:
        """Return the ends of what was read and written of a buffer at ``start``; 0 if nothing was."""
        at = len(self._starts) + 2 + 2 * int(np.flatnonzero(self._starts == start)[0])
        return int(self._places[at]), int(self._places[at + 1])

    @property
    def changed_fixed(self) -> bool:
        """A read-only buffer was written."""
        return bool(self._places[len(self._starts)])


def _grain(rows: np.ndarray) -> int:
    """Return the bytes of the narrowest access to global memory, as a power of two; at most four."""
    family, space = rows[:, c.FAMILY], rows[:, c.OP]
    if np.any(family == c.BULK):
        return 0
    chosen = np.isin(family, (c.LOAD, c.STORE)) & np.isin(space, (c.GLOBAL, c.GENERIC))
    return int(np.log2(min(4, np.abs(rows[chosen, c.WIDTH]).min(initial=4))))


def apart(parts: Iterable[Marks]) -> bool:
    """Return whether no part has read or written what another has written."""
    read = written = np.zeros(1, bool)
    for part in parts:
        part_written, part_read = part.blocks[[WRITER, READER]] != 0
        if (
            part.changed_fixed
            or np.any(part_written & (read | written))
            or np.any(part_read & written)
        ):
            return False
        read, written = read | part_read, written | part_written
    return True
