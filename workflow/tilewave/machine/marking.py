"""Which bytes of global memory a launch, or a part of one, has read and written.

As in `capturing`, a family's handler is called by a function in its place that notes what it did, so
that a launch that is not watched pays nothing. Reads of buffers that are read-only are not noted: who
writes one is.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy import int64, uint8, uint64

from tilewave.machine import codes as c
from tilewave.machine import state as s
from tilewave.machine import views as view
from tilewave.machine.bulk import (
    coordinates,
    count_along,
    element_of,
    map_word,
    row_at,
    rows_of,
    size_along,
)
from tilewave.machine.compiling import Entry, njit
from tilewave.machine.families import copies as ops
from tilewave.machine.handlers import SIGNATURE, call
from tilewave.machine.integer import joined
from tilewave.machine.maps import ADDRESS, WORDS
from tilewave.machine.state import State

FAMILIES = (c.LOAD, c.STORE, c.ATOMIC, c.COPY, c.BULK)
CELL = 8  # bytes of memory that a byte of the marks stands for
# What follows the addresses of the handlers: those of the marks and of `fixed`, bytes of one side.
MARKS, FIXED, SIZE = (2 * c.CONTROL + place for place in range(3))


@njit
def mark(m, at, size, writing):
    """Note that ``size`` bytes from a device address on, of one buffer, are read or written."""
    handlers, ranges = view.handlers(m), view.ranges(m)
    fixed = view.int64s(handlers[FIXED], (int64(len(ranges)) + 1,))
    for index in range(len(ranges)):
        if ranges[index, 0] <= at < ranges[index, 1]:
            if fixed[index]:
                fixed[len(ranges)] |= int64(writing)
                return
            marks = view.uint8s(handlers[MARKS], (int64(2), handlers[SIZE]))[int64(writing)]
            first = at - view.origin(m)[0]
            last = min(first + size, ranges[index, 1] - view.origin(m)[0]) - 1
            for cell in range(first // CELL, last // CELL + 1):
                low, high = max(first - CELL * cell, 0), min(last - CELL * cell, CELL - 1)
                marks[cell] |= uint8((int64(2) << high) - (int64(1) << low))
            return


@njit
def _noted(m, addresses):
    """Whether any address lies in a buffer whose reads are noted."""
    ranges = view.ranges(m)
    fixed = view.int64s(view.handlers(m)[FIXED], (int64(len(ranges)) + 1,))
    hit = uint64(0)
    for index in range(len(ranges)):
        if not fixed[index]:
            start, size = ranges[index, 0], uint64(ranges[index, 1] - ranges[index, 0])
            for lane in range(32):
                hit |= uint64(uint64(addresses[lane] - start) < size)
    return hit != 0


@njit
def mark_lanes(m, mask, addresses, size, writing):
    """Note what the lanes of a warp read or write; addresses in no buffer are passed over."""
    if not (writing or _noted(m, addresses)):
        return
    for lane in range(32):
        if (mask >> lane) & 1:
            mark(m, addresses[lane], size, writing)


@njit
def mark_box(m, address, at, writing):
    """Note what a tensor copy reads or writes: its map, and of each row of the box that begins at these
    five coordinates what lies inside the array."""
    element = element_of(m, address)
    low, high = max(at[0], 0), min(at[0] + count_along(m, address, 0), size_along(m, address, 0))
    mark(m, address, int64(8 * WORDS), False)
    if low < high:
        start = map_word(m, address, ADDRESS) + low * element
        for row in range(rows_of(m, address)):
            line = row_at(m, address, at, row)
            if line >= 0:
                mark(m, start + line, (high - low) * element, writing)


@njit
def mark_bulk(m, warp, row):
    """Note what a bulk copy reads or writes; operands as in `bulk`."""
    if view.control(m)[s.FAULT_COUNT]:  # then nothing counts, and what is a map is not known
        return
    U, op = view.uniforms(m)[warp], row[c.OP]
    first, second = row[c.A_UREG], row[c.G_UREG]
    if op == ops.Y_LOAD or op == ops.Y_STORE:
        address = int64(joined(U[second + 1], U[second]))
        mark_box(m, address, coordinates(U, row), op == ops.Y_STORE)
    elif op == ops.Y_BYTES_IN or op == ops.Y_BYTES_OUT:
        outside = first if op == ops.Y_BYTES_OUT else second
        size = int64(U[row[c.SUB]] & 0xFFFF) << 4
        mark(m, int64(joined(U[outside + 1], U[outside])), size, op == ops.Y_BYTES_OUT)


def _marked(table, warp, pc, mask):
    m = view.opened(table)
    row = view.code(m)[pc]
    family, space = row[c.FAMILY], row[c.OP]
    call(view.handlers(m)[c.CONTROL + family], m, warp, pc, mask)
    if family == c.BULK:
        mark_bulk(m, warp, row)
    elif family == c.COPY:
        mark_lanes(m, int64(mask), view.addresses(m)[1], int64(row[c.WIDTH]), False)
    elif family == c.ATOMIC:
        if row[c.SUB] >> 8 & 255 != c.SHARED:
            for side in range(2):
                mark_lanes(m, int64(mask), view.addresses(m)[0], int64(row[c.WIDTH]), int64(side))
    elif space == c.GLOBAL or space == c.GENERIC:
        addresses = view.addresses(m)[0]
        mark_lanes(m, int64(mask), addresses, int64(abs(row[c.WIDTH])), family == c.STORE)


MARKED = Entry("marks", _marked, SIGNATURE, None)


class Marks:
    """What one part of a launch has read and written. fixed: of each buffer in `State.ranges`,
    whether it is read-only."""

    def __init__(self, state: State, fixed: Sequence[bool]) -> None:
        self.sides = np.zeros((2, state.memory.nbytes // CELL + 1), np.uint8)
        self._fixed = np.array([*fixed, False], np.int64)

    def watching(self, state: State) -> State:
        """A state whose accesses are noted here; these marks must outlive it."""
        own = state.handlers
        more = [self.sides.ctypes.data, self._fixed.ctypes.data, self.sides.shape[1]]
        made = np.concatenate([own, own, np.array(more, np.int64)])
        made[[family for family in FAMILIES if own[family]]] = MARKED.address
        return state._replace(handlers=made)

    def ends(self, start: int, size: int) -> tuple[int, int]:
        """Of a buffer of ``size`` bytes at a multiple of `CELL`: the end of what was read, and of what was
        written; 0 where nothing was."""
        own = self.sides[:, start // CELL : (start + size - 1) // CELL + 1]
        last = [int(np.max(np.flatnonzero(side), initial=-1)) for side in own]
        read, written = (
            0 if at < 0 else CELL * at + int(side[at]).bit_length() for at, side in zip(last, own)
        )
        return read, written

    @property
    def changed_fixed(self) -> bool:
        """Whether a buffer that is read-only was written."""
        return bool(self._fixed[-1])


def apart(parts: Iterable[Marks]) -> bool:
    """Whether no part has read or written what another has written: then their order is the same."""
    read = written = np.zeros(1, np.uint8)
    for one in parts:
        own_read, own_written = one.sides
        if (
            one.changed_fixed
            or np.any(own_written & (read | written))
            or np.any(own_read & written)
        ):
            return False
        read, written = read | own_read, written | own_written
    return True
