"""Reads and writes of global memory by the blocks of a launch, where nothing can order them.

As in `capturing`, another function replaces a family's handler and notes what it did, so other
launches pay nothing. Only writes of read-only buffers are noted. Blocks of a cluster can wait for
each other and count as one. A store that changes nothing is no write.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from collections.abc import Iterable, Sequence

import numpy as np
from numpy import int32, int64, uint32, uint64

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.bulk import (
    coordinates,
    count_along,
    element_of,
    map_word,
    rank_of,
    row_at,
    rows_of,
    sealed,
    size_along,
)
from tilewave.execution.machine.compiling import Entry
from tilewave.execution.machine.copies import reading_lanes
from tilewave.execution.machine.families import copies as ops
from tilewave.execution.machine.handlers import SIGNATURE, call
from tilewave.execution.machine.integer import joined
from tilewave.execution.machine.maps import ADDRESS, WORDS
from tilewave.execution.machine.state import State
from tilewave.execution.machine.validity import address_lanes, fault

FAMILIES = (c.LOAD, c.STORE, c.COPY, c.BULK)
# Entries after the addresses of the handlers: addresses of the marks and of `places`, the number of marks, bytes of
# a mark as a power of two, whether a conflict between blocks is a fault.
MARKS, PLACES, COUNT, GRAIN, FAULTING = (2 * c.CONTROL + place for place in range(5))
WRITER, READER = range(2)
# Accesses. KEEP: a store that changes nothing takes over what another block has written. LOOK: only ask. COMPARE: ask
# and take a fingerprint.
READ, WRITE, KEEP, LOOK, COMPARE = range(5)
SEVERAL = int32(-1)
"""The reader of a piece that several blocks have read."""


@njit
def mark(m, at, size, how):
    """Note an access of the block to ``size`` bytes of one buffer, from a device address.

    Returns 0, or a conflict: twice the other block's number, plus 2 if it has read, plus 3 if it
    has written; -1 if several blocks have read.
    """
    handlers, ranges = view.handlers(m), view.ranges(m)
    places = view.int64s(handlers[PLACES], (int64(len(ranges)) + 1,))
    for index in range(len(ranges)):
        if ranges[index, 0] <= at < ranges[index, 1]:
            if places[index] < 0:
                places[len(ranges)] |= int64(how == WRITE)
                return int64(0)
            marks = view.int32s(handlers[MARKS], (int64(2), handlers[COUNT]))
            number = int32(view.block_control(view.peer(m, int64(0)))[s.NUMBER] + 1)
            first, conflict = at - ranges[index, 0], int64(0)
            last = min(first + size, ranges[index, 1] - ranges[index, 0]) - 1
            begin = places[index]
            for cell in range(
                begin + (first >> handlers[GRAIN]), begin + (last >> handlers[GRAIN]) + 1
            ):
                writer, reader = marks[WRITER, cell], marks[READER, cell]
                if writer and writer != number:
                    conflict = 2 * int64(writer) + 1
                elif how != READ and reader and reader != number and not conflict:
                    conflict = 2 * int64(reader) if reader > 0 else int64(-1)
                if how == WRITE or (how == KEEP and writer):
                    marks[WRITER, cell] = number
                elif how == READ and reader != number:
                    marks[READER, cell] = SEVERAL if reader else number
            return conflict
    return int64(0)


@njit
def _noted(m, addresses):
    """Return whether any address lies in a buffer whose reads are noted."""
    ranges = view.ranges(m)
    places = view.int64s(view.handlers(m)[PLACES], (int64(len(ranges)) + 1,))
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
    """Note what a warp's lanes read or write in buffers, and conflicts with other blocks."""
    if not (writing or _noted(m, addresses)):
        return
    row, faulting = view.code(m)[pc], view.handlers(m)[FAULTING]
    lanes, first, conflicting = uint32(0), int64(0), int64(0)
    for lane in range(32):
        if (mask >> lane) & 1:
            how = READ
            if writing:
                how = WRITE
                if faulting and not _changes(m, warp, row, lane, addresses[lane]):
                    how = KEEP
            conflict = mark(m, addresses[lane], size, int64(how))
            if conflict and faulting and how != KEEP:
                if not lanes:
                    first, conflicting = addresses[lane], conflict
                lanes |= uint32(1) << uint32(lane)
    if lanes:
        unordered(m, warp, pc, lanes, first, conflicting)


@njit
def unordered(m, warp, pc, lanes, address, other):
    """Note a fault: two blocks use the same memory. other: see `mark`."""
    fault(m, s.UNORDERED, pc, warp, lanes, address, other, 0)


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
def mark_box(m, address, at, how):
    """Note what a tensor copy reads and writes: its map, and the part of the box inside the array.

    at: the five coordinates at which the box begins. Returns as `mark` does, and for COMPARE a
    fingerprint of the box.
    """
    element, conflict, fingerprint = element_of(m, address), int64(0), uint64(0xCBF29CE484222325)
    low, high = max(at[0], 0), min(at[0] + count_along(m, address, 0), size_along(m, address, 0))
    mark(m, address, int64(8 * WORDS), int64(READ))
    if low < high:
        start = map_word(m, address, ADDRESS) + low * element
        for row in range(rows_of(m, address)):
            line = row_at(m, address, at, row)
            if line >= 0:
                conflict = mark(m, start + line, (high - low) * element, how) or conflict
                if how == COMPARE:
                    fingerprint = _fingerprint(m, start + line, (high - low) * element, fingerprint)
    return conflict, fingerprint


@njit
def mark_bulk(m, warp, row, how):
    """Note what a bulk copy does; operands as in `bulk`. Returns as `mark_box` does."""
    U, op = view.uniforms(m)[warp], row[c.OP]
    first, second = row[c.A_UREG], row[c.G_UREG]
    if op == ops.Y_LOAD or op == ops.Y_STORE:
        address = int64(joined(U[second + 1], U[second]))
        if sealed(m, address) and rank_of(m, address) == row[c.SUB]:
            return mark_box(m, address, coordinates(U, row), how)
    elif op == ops.Y_BYTES_IN or op == ops.Y_BYTES_OUT:
        outside = first if op == ops.Y_BYTES_OUT else second
        at, size = int64(joined(U[outside + 1], U[outside])), int64(U[row[c.SUB]] & 0xFFFF) << 4
        fingerprint = _fingerprint(m, at, size, uint64(0)) if how == COMPARE else uint64(0)
        return mark(m, at, size, how), fingerprint
    return int64(0), uint64(0)


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
        conflict = mark_bulk(m, warp, row, int64(LOOK))[0]
        if conflict:  # rare, so only then is a fingerprint worth its time
            before = mark_bulk(m, warp, row, int64(COMPARE))[1]
    call(view.handlers(m)[c.CONTROL + family], m, warp, pc, mask)
    if family == c.BULK:
        how = int64(READ)
        if storing:
            same = conflict != 0 and mark_bulk(m, warp, row, int64(COMPARE))[1] == before
            how = int64(KEEP if same else WRITE)
        conflict = mark_bulk(m, warp, row, how)[0]
        if conflict and faulting and how != KEEP:
            unordered(m, warp, pc, mask, int64(-1), conflict)
    elif family == c.COPY:
        mark_copy(m, warp, pc, int64(reading_lanes(m, warp, row, mask)), int64(row[c.WIDTH]))
    elif family == c.ATOMIC:
        if row[c.SUB] >> 8 & 255 != c.SHARED:
            for side in range(2):
                mark_lanes(m, warp, pc, int64(mask), addresses, int64(row[c.WIDTH]), int64(side))
    elif family == c.LOAD and outside:
        mark_lanes(m, warp, pc, int64(mask), addresses, int64(abs(row[c.WIDTH])), False)


MARKED = Entry("marks", _marked, SIGNATURE, None)


class Marks:
    """The writer and reader of each piece of the buffers that are not read-only.

    fixed: whether each buffer of `State.ranges` is read-only. faulting: a conflict between blocks
    is a fault; otherwise atomics and single bytes are noted, too.
    """

    def __init__(self, state: State, fixed: Sequence[bool], faulting: bool = True) -> None:
        self._faulting, self._starts = faulting, state.ranges[:, 0] - state.origin[0]
        self._grain = _grain(state.code) if faulting else 0
        pieces = (state.ranges[:, 1] - state.ranges[:, 0] >> self._grain) + 1
        pieces[np.array(fixed, bool)] = 0
        self.blocks = np.zeros((2, int(pieces.sum())), np.int32)
        self._places = np.append(np.where(fixed, -1, np.cumsum(pieces) - pieces), 0)

    def watching(self, state: State) -> State:
        """Return a state whose accesses are noted here; these marks must outlive it."""
        handlers = state.handlers
        addresses = [self.blocks.ctypes.data, self._places.ctypes.data]
        more = [*addresses, self.blocks.shape[1], self._grain, self._faulting]
        patched = np.concatenate([handlers, handlers, np.array(more, np.int64)])
        families = FAMILIES if self._faulting else (*FAMILIES, c.ATOMIC)
        patched[[family for family in families if handlers[family]]] = MARKED.address
        return state._replace(handlers=patched)

    def ends(self, start: int, size: int) -> tuple[int, int]:
        """Return the ends of what was read and written of a buffer at ``start``; 0 if nothing was."""
        first = int(self._places[int(np.flatnonzero(self._starts == start)[0])])
        blocks = self.blocks[:, first : first + size]
        read, written = (
            int(np.max(np.flatnonzero(blocks[side]), initial=-1)) + 1 for side in (READER, WRITER)
        )
        return read, written

    @property
    def changed_fixed(self) -> bool:
        """A read-only buffer was written."""
        return bool(self._places[-1])


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
        part_written, part_read = part.blocks != 0
        if (
            part.changed_fixed
            or np.any(part_written & (read | written))
            or np.any(part_read & written)
        ):
            return False
        read, written = read | part_read, written | part_written
    return True
