"""What the blocks of a launch read and write of global memory, where nothing can order them.

As in `capturing`, a family's handler is called by a function in its place that notes what it did, so
that a launch that is not watched pays nothing. Reads of buffers that are read-only are not noted: who
writes one is. Blocks of a cluster can wait for each other and count as one; a store of what is there already
counts as none.
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
# What follows the addresses of the handlers: those of the marks and of `places`, their number, and bytes that a mark
# stands for, as a power of two; whether it is told where blocks meet.
MARKS, PLACES, COUNT, GRAIN, TOLD = (2 * c.CONTROL + place for place in range(5))
WRITER, READER = range(2)
# What is done: a store that changes nothing makes what another block has written the block's own; to look is to ask,
# and to compare is to look and take a fingerprint.
READ, WRITE, KEEP, LOOK, COMPARE = range(5)
SEVERAL = int32(-1)
"""Among the readers: more than one block."""


@njit
def mark(m, at, size, how):
    """Note what the block does to ``size`` bytes from a device address on, of one buffer. Returns 0, or where
    another one has written them or has read what is written: twice its number, plus 2 where it has read
    and 3 where it has written; -1 where several have read."""
    handlers, ranges = view.handlers(m), view.ranges(m)
    places = view.int64s(handlers[PLACES], (int64(len(ranges)) + 1,))
    for index in range(len(ranges)):
        if ranges[index, 0] <= at < ranges[index, 1]:
            if places[index] < 0:
                places[len(ranges)] |= int64(how == WRITE)
                return int64(0)
            marks = view.int32s(handlers[MARKS], (int64(2), handlers[COUNT]))
            own = int32(view.own(view.peer(m, int64(0)))[s.NUMBER] + 1)
            first, found = at - ranges[index, 0], int64(0)
            last = min(first + size, ranges[index, 1] - ranges[index, 0]) - 1
            begin = places[index]
            for cell in range(
                begin + (first >> handlers[GRAIN]), begin + (last >> handlers[GRAIN]) + 1
            ):
                writer, reader = marks[WRITER, cell], marks[READER, cell]
                if writer and writer != own:
                    found = 2 * int64(writer) + 1
                elif how != READ and reader and reader != own and not found:
                    found = 2 * int64(reader) if reader > 0 else int64(-1)
                if how == WRITE or (how == KEEP and writer):
                    marks[WRITER, cell] = own
                elif how == READ and reader != own:
                    marks[READER, cell] = SEVERAL if reader else own
            return found
    return int64(0)


@njit
def _noted(m, addresses):
    """Whether any address lies in a buffer whose reads are noted."""
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
    """Whether a lane stores something else than there is; False outside of memory."""
    words, width, d = view.memory(m), int64(row[c.WIDTH]), row[c.DST]
    place = at - view.origin(m)[0]
    if place < 0 or place + width > 4 * len(words):
        return False
    R = view.registers(m)[warp]
    for part in range((width + 3) // 4):
        value = uint32(0) if d == 255 else R[d + part, lane]
        differs = words[(place >> 2) + part]
        if width < 4:
            differs = (differs >> uint32(8 * (place & 3)) ^ value) & uint32((1 << (8 * width)) - 1)
        else:
            differs ^= value
        if differs:
            return True
    return False


@njit
def mark_lanes(m, warp, pc, mask, addresses, size, writing):
    """Note what the lanes of a warp read or write, and where another block comes between; addresses in no buffer
    are passed over."""
    if not (writing or _noted(m, addresses)):
        return
    row, told = view.code(m)[pc], view.handlers(m)[TOLD]
    lanes, first, other = uint32(0), int64(0), int64(0)
    for lane in range(32):
        if (mask >> lane) & 1:
            how = READ
            if writing:
                how = WRITE
                if told and not _changes(m, warp, row, lane, addresses[lane]):
                    how = KEEP
            found = mark(m, addresses[lane], size, int64(how))
            if found and told and how != KEEP:
                if not lanes:
                    first, other = addresses[lane], found
                lanes |= uint32(1) << uint32(lane)
    if lanes:
        unordered(m, warp, pc, lanes, first, other)


@njit
def unordered(m, warp, pc, lanes, address, other):
    """Two blocks use the same memory; other: see `mark`."""
    fault(m, s.UNORDERED, pc, warp, lanes, address, other, 0)


@njit
def mark_copy(m, warp, pc, reading, width):
    """Note what these lanes of a copy have read: what precedes the bytes that zeros replace."""
    whole, zeros = int64(0), view.zeros(m)
    for lane in range(32):
        one = reading & int64(1) << lane
        if zeros[lane] == 0:
            whole |= one
        elif one:
            mark_lanes(m, warp, pc, one, view.addresses(m)[1], width - zeros[lane], False)
    mark_lanes(m, warp, pc, whole, view.addresses(m)[1], width, False)


@njit
def _fingerprint(m, at, size, so_far):
    """Of bytes of a buffer, a multiple of 4 or what lies around them."""
    words, place = view.memory(m), at - view.origin(m)[0]
    for word in range(place >> 2, (place + size + 3) >> 2):
        if 0 <= word < len(words):
            so_far = (so_far ^ uint64(words[word])) * uint64(0x100000001B3)
    return so_far


@njit
def mark_box(m, address, at, how):
    """Note what a tensor copy does: it reads its map, and of each row of the box that begins at these five coordinates
    reads or writes what lies inside the array. Returns as `mark` does, and for COMPARE a fingerprint of the box."""
    element, found, print_ = element_of(m, address), int64(0), uint64(0xCBF29CE484222325)
    low, high = max(at[0], 0), min(at[0] + count_along(m, address, 0), size_along(m, address, 0))
    mark(m, address, int64(8 * WORDS), int64(READ))
    if low < high:
        start = map_word(m, address, ADDRESS) + low * element
        for row in range(rows_of(m, address)):
            line = row_at(m, address, at, row)
            if line >= 0:
                found = mark(m, start + line, (high - low) * element, how) or found
                if how == COMPARE:
                    print_ = _fingerprint(m, start + line, (high - low) * element, print_)
    return found, print_


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
        print_ = _fingerprint(m, at, size, uint64(0)) if how == COMPARE else uint64(0)
        return mark(m, at, size, how), print_
    return int64(0), uint64(0)


def _marked(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    family, space = row[c.FAMILY], row[c.OP]
    outside = space == c.GLOBAL or space == c.GENERIC
    addresses = view.addresses(m)[0]
    # Stores are looked at before they are done: what is there must be known.
    if family == c.STORE and outside:
        address_lanes(m, warp, row, int64(c.A_REG), int64(0), addresses)
        mark_lanes(m, warp, pc, int64(mask), addresses, int64(row[c.WIDTH]), True)
    told = view.handlers(m)[TOLD]
    storing = family == c.BULK and (space == ops.Y_STORE or space == ops.Y_BYTES_OUT)
    found, before = int64(0), uint64(0)
    if storing and told:
        found = mark_bulk(m, warp, row, int64(LOOK))[0]
        if found:  # which is seldom: only then is it worth to know what is there
            before = mark_bulk(m, warp, row, int64(COMPARE))[1]
    call(view.handlers(m)[c.CONTROL + family], m, warp, pc, mask)
    if family == c.BULK:
        how = int64(READ)
        if storing:
            same = found != 0 and mark_bulk(m, warp, row, int64(COMPARE))[1] == before
            how = int64(KEEP if same else WRITE)
        found = mark_bulk(m, warp, row, how)[0]
        if found and told and how != KEEP:
            unordered(m, warp, pc, mask, int64(-1), found)
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
    """Which block has written and which has read each piece of the buffers that are not read-only. fixed: of each
    buffer in `State.ranges`, whether it is; told: whether blocks that meet are a fault, else atomics are noted, too,
    and every byte."""

    def __init__(self, state: State, fixed: Sequence[bool], told: bool = True) -> None:
        self._told, self._starts = told, state.ranges[:, 0] - state.origin[0]
        self._grain = _grain(state.code) if told else 0
        pieces = (state.ranges[:, 1] - state.ranges[:, 0] >> self._grain) + 1
        pieces[np.array(fixed, bool)] = 0
        self.blocks = np.zeros((2, int(pieces.sum())), np.int32)
        self._places = np.append(np.where(fixed, -1, np.cumsum(pieces) - pieces), 0)

    def watching(self, state: State) -> State:
        """A state whose accesses are noted here; these marks must outlive it."""
        own = state.handlers
        addresses = [self.blocks.ctypes.data, self._places.ctypes.data]
        more = [*addresses, self.blocks.shape[1], self._grain, self._told]
        made = np.concatenate([own, own, np.array(more, np.int64)])
        families = FAMILIES if self._told else (*FAMILIES, c.ATOMIC)
        made[[family for family in families if own[family]]] = MARKED.address
        return state._replace(handlers=made)

    def ends(self, start: int, size: int) -> tuple[int, int]:
        """Of a buffer of ``size`` bytes, by its place in memory: the end of what was read, and of what was written;
        0 where nothing was."""
        first = int(self._places[int(np.flatnonzero(self._starts == start)[0])])
        own = self.blocks[:, first : first + size]
        read, written = (
            int(np.max(np.flatnonzero(own[side]), initial=-1)) + 1 for side in (READER, WRITER)
        )
        return read, written

    @property
    def changed_fixed(self) -> bool:
        """Whether a buffer that is read-only was written."""
        return bool(self._places[-1])


def _grain(rows: np.ndarray) -> int:
    """Bytes of the narrowest access to global memory, as a power of two; four at most."""
    family, space = rows[:, c.FAMILY], rows[:, c.OP]
    if np.any(family == c.BULK):
        return 0
    chosen = np.isin(family, (c.LOAD, c.STORE)) & np.isin(space, (c.GLOBAL, c.GENERIC))
    return int(np.log2(min(4, np.abs(rows[chosen, c.WIDTH]).min(initial=4))))


def apart(parts: Iterable[Marks]) -> bool:
    """Whether no part has read or written what another has written: then their order is the same."""
    read = written = np.zeros(1, bool)
    for one in parts:
        own_written, own_read = one.blocks != 0
        if (
            one.changed_fixed
            or np.any(own_written & (read | written))
            or np.any(own_read & written)
        ):
            return False
        read, written = read | own_read, written | own_written
    return True
