"""Record accesses to shared memory: lane by lane, with the wavefront that serves each lane.
The interpreter calls the handler of a family by its address. A captured launch puts another
function in its place, which calls the handler and records what it did. Other launches pay nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy import int64, uint32

from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.access import (
    BYPASS,
    COPY,
    KINDS,
    LANES,
    LOAD,
    MATRIX,
    STORE,
    Access,
)
from tilewave.execution.machine.compiling import Entry, entry
from tilewave.execution.machine.handlers import SIGNATURE, call, replaced
from tilewave.execution.machine.registers import pin
from tilewave.execution.machine.state import State
from tilewave.theory import wavefronts as rules

if TYPE_CHECKING:
    from tilewave.execution.machine.program import Program

FAMILIES = (c.LOAD, c.STORE, c.ATOMIC, c.MATRIX, c.COPY)
# Record of an access; the addresses of its lanes follow, then those that a copy reads.
MASK, READING, BLOCK, WARP, WAVEFRONTS, IDEAL = range(NOTED := 6)
FIRST, WORST = range(2)


def _captured(table, warp, pc, mask):
    m = view.opened(table)
    row, counts, handlers = view.code(m)[pc], view.counts(m)[pc], view.handlers(m)
    requests, wavefronts = counts[s.SHARED_REQUESTS], counts[s.SHARED_WAVEFRONTS]
    is_copy = row[c.FAMILY] == c.COPY
    # ncu's ideal of a copy can be wrong (see `patterns`); the rule's is counted separately.
    ideals = s.SHARED_TRANSACTIONS if is_copy else s.SHARED_IDEAL
    ideal = counts[ideals]
    call(handlers[c.CONTROL + row[c.FAMILY]], m, warp, pc, mask)
    if counts[s.SHARED_REQUESTS] == requests:
        return
    wavefronts, ideal = counts[s.SHARED_WAVEFRONTS] - wavefronts, counts[ideals] - ideal
    to, origin = view.addresses(m)[0], view.addresses(m)[1]
    reading = uint32(mask)
    if row[c.FLAGS] & c.ZERO_FILL:
        reading &= pin(row, int64(c.PIN0), view.predicates(m)[warp])
    if row[c.FAMILY] == c.MATRIX and row[c.WIDTH] < 4:
        mask &= uint32((1 << (8 * row[c.WIDTH])) - 1)
    for lane in range(LANES):
        if to[lane] >> int64(32):  # a generic address outside shared memory
            mask &= ~(uint32(1) << uint32(lane))
    size = (int64(len(view.code(m))), int64(2), int64(NOTED + 2 * LANES))
    book = view.int64s(handlers[2 * c.CONTROL], size)[pc]
    for slot in range(2):
        noted = book[slot]
        if noted[MASK] and (slot == FIRST or noted[WAVEFRONTS] >= wavefronts):
            continue
        noted[MASK], noted[READING] = int64(mask), int64(reading & mask) if is_copy else int64(0)
        noted[BLOCK], noted[WARP] = view.control(m)[s.TAKEN], warp
        noted[WAVEFRONTS], noted[IDEAL] = wavefronts, ideal
        for lane in range(LANES):
            on = -(int64(mask >> uint32(lane)) & int64(1))
            noted[NOTED + lane] = (to[lane] - view.control(m)[s.SHARED_BASE]) & on
            on = -(int64(noted[READING] >> lane) & int64(1))
            noted[NOTED + LANES + lane] = (origin[lane] - view.origin(m)[0]) & on


CAPTURED = Entry("capture", _captured, SIGNATURE, None)


class Book:
    """For each instruction of a launch the first access, and the first with the most wavefronts."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._noted = np.zeros((len(program.rows), 2, NOTED + 2 * LANES), np.int64)

    def watching(self, state: State) -> State:
        """Return a state whose accesses are recorded here; this book must outlive it."""
        return replaced(state, CAPTURED, FAMILIES, self._noted.ctypes.data)

    def accesses(self) -> Mapping[int, tuple[Access, Access]]:
        """Return the first and the worst access of each instruction, by its index."""
        return {
            index: (self._access(index, FIRST), self._access(index, WORST))
            for index in np.flatnonzero(self._noted[:, FIRST, MASK]).tolist()
        }

    def _access(self, index: int, slot: int) -> Access:
        row, noted = self._program.rows[index], self._noted[index, slot].tolist()
        family = row[c.FAMILY]
        kind = {c.LOAD: LOAD, c.MATRIX: MATRIX, c.COPY: COPY}.get(int(family), STORE)
        if kind == COPY and row[c.FLAGS] & c.BYPASS:
            kind = BYPASS
        return access(
            KINDS[kind],
            rules.MATRIX_BYTES if kind == MATRIX else abs(int(row[c.WIDTH])),
            noted[MASK],
            noted[NOTED : NOTED + LANES],
            reading=noted[READING],
            sources=noted[NOTED + LANES :],
            wavefronts=noted[WAVEFRONTS],
            ideal=noted[IDEAL],
            block=noted[BLOCK],
            warp=noted[WARP],
        )


@entry("capture")
def _serve(addresses, sources, mask, reading, width, kind, turns, rivals):
    """Fill turns and rivals by the counting rules; return the lanes of a transaction."""
    to, origin = view.int64s(addresses, (LANES,)), view.int64s(sources, (LANES,))
    turns, rivals = view.int64s(turns, (LANES,)), view.uint32s(rivals, (LANES,))
    if kind == MATRIX:
        rules.warp_turns(to, mask, rules.MATRIX_BYTES, rules.MATRIX_ROWS, turns)
        return rules.MATRIX_ROWS
    if kind == LOAD or kind == STORE:
        lanes = rules.transaction_lanes(to, mask, width, kind == STORE)
        rules.warp_turns(to, mask, max(width, rules.WORD_BYTES), lanes, turns)
        return lanes
    if kind == BYPASS:
        moved = rules.first_writers(to, mask) & reading
        rules.warp_bypass(to, origin, moved, turns)
    if kind == COPY or mask & ~reading:
        rules.warp_through_cache(to, origin, mask, reading, width, rivals)
    return rules.LINE_BYTES // width


def access(
    kind: str,
    width: int,
    mask: int,
    addresses: Sequence[int],
    *,
    reading: int = 0,
    sources: Sequence[int] = (0,) * LANES,
    wavefronts: int,
    ideal: int,
    block: int = 0,
    warp: int = 0,
) -> Access:
    """Build an access, with the wavefront that serves each lane."""
    turns, rivals = np.full(LANES, -1, np.int64), np.zeros(LANES, np.uint32)
    to, origin = np.array(addresses, np.int64), np.array(sources, np.int64)
    lanes = _serve(to, origin, mask, reading, width, KINDS.index(kind), turns, rivals)
    return Access(
        kind, width, mask, reading, tuple(addresses), tuple(sources), wavefronts, ideal, block, warp,
        int(lanes), tuple(turns.tolist()), tuple(rivals.tolist()),
    )  # fmt: skip
