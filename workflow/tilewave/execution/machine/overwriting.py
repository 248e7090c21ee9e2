"""The instruction that changes a read-only buffer, found by executing a launch again.
As in `marking`, another function replaces the handlers of families that write memory. It compares one
word before and after, so that it sees every kind of store."""

import numpy as np
from numpy import int64, uint32

from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.compiling import Entry
from tilewave.execution.machine.handlers import SIGNATURE, call, replaced
from tilewave.execution.machine.state import State
from tilewave.execution.machine.validity import address_lanes

FAMILIES = (c.STORE, c.ATOMIC, c.BULK)
BYTE, INDEX, WARP, LANES, BLOCK = range(5)
"""A note: the byte of memory that is watched, and the instruction, warp, lanes and block that changed it first."""


def _watched(table, warp, pc, mask):
    m = view.opened(table)
    row, handlers = view.code(m)[pc], view.handlers(m)
    note, addresses = view.int64s(handlers[2 * c.CONTROL], (int64(5),)), view.addresses(m)[0]
    before, at, lanes = view.memory(m)[note[BYTE] >> 2], view.origin(m)[0] + note[BYTE], uint32(0)
    if row[c.FAMILY] == c.STORE:
        address_lanes(m, warp, row, int64(c.A_REG), int64(0), addresses)
        for lane in range(32):
            if addresses[lane] <= at < addresses[lane] + row[c.WIDTH]:
                lanes |= uint32(mask) & uint32(1) << uint32(lane)
    call(handlers[c.CONTROL + row[c.FAMILY]], m, warp, pc, mask)
    if note[INDEX] < 0 and view.memory(m)[note[BYTE] >> 2] != before:
        note[INDEX], note[WARP], note[LANES] = pc, warp, int64(lanes if lanes else uint32(mask))
        note[BLOCK] = view.block_control(m)[s.NUMBER]


WATCHED = Entry("marks", _watched, SIGNATURE, None)


class Watch:
    """A watched byte of memory, and the first change of its word (``note``)."""

    def __init__(self, byte: int) -> None:
        self.note = np.array([byte, -1, 0, 0, 0], np.int64)

    def watching(self, state: State) -> State:
        """Return a state whose stores are watched; this watch must outlive it."""
        return replaced(state, WATCHED, FAMILIES, self.note.ctypes.data)
