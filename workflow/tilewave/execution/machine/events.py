"""Events of a block: what each warp executes, and what its accesses move, for the model of time (`timing`).
The block is executed instruction by instruction, without a search for races. Products of matrices are skipped: no branch
and no address depends on them. Blocks of a cluster run together; the events are those of the first."""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,call-overload,arg-type,var-annotated,attr-defined"

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy import int32, int64, uint32

from tilewave.basics.bits import count_ones, lowest_one
from tilewave.basics.jit import njit
from tilewave.execution.machine import bulk, maps
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.blocks import begin, run, run_some, spent
from tilewave.execution.machine.compiling import Entry, entry
from tilewave.execution.machine.copies import reading_lanes
from tilewave.execution.machine.families import control, copies
from tilewave.execution.machine.families import mbarrier as mbarriers
from tilewave.execution.machine.handlers import SIGNATURE
from tilewave.execution.machine.integer import joined
from tilewave.execution.machine.tracing import next_group, run_warp
from tilewave.execution.machine.validity import address_lanes
from tilewave.execution.machine.warp import barrier_operands

A, B, C, D, FIRST, COUNT = range(COLUMNS := 6)
"""Columns of an event's details, by what it is:

    access to memory      wavefronts in shared memory, bytes, 0, 0, its lines
    barrier of the block  number, warps (0: all), whether it only arrives, 0
    mbarrier              offset, arrivals, awaited bytes, 0; STAS: offset, 0, 0, bytes
    its initialisation    offset, arrivals that a phase needs, INITIAL, 0
    its test              offset, phases that must be over, 0, 0
    bulk copy             offset of its mbarrier, bytes, those inside the array, blocks that receive it, its lines

A line has 128 bytes: its number, shifted by 4 bits, and a bit for each 32-byte sector that is accessed."""
INITIAL = -1
SECTOR = 5  # bits of an offset in a sector
LOCAL = int64(1) << int64(50)  # lines of local memory
ENDED, FULL, STUCK, STOPPED, POLLS = range(5)
"""How the events end: the block ended; no more room; a deadlock; a fault; it waits for another block."""
TURN, IDLE = 512, 30_000
"""Steps of a warp's turn; events without any but loads and comparisons after which a block is said to poll."""
POLLING = (c.INTEGER, c.LOGIC, c.LANES, c.SPECIAL, c.LOAD, c.CONTROL)
LANES, MOST_LINES = 32, 1024
REST = 200_000_000  # instructions without events, after which a block does not end


def _skip(table, warp, pc, mask):
    """Execute nothing."""


SKIP = Entry("timing", _skip, SIGNATURE, None)
SKIPPED = (c.HMMA, c.DMMA, c.IMMA, c.HGMMA)


@njit
def lines_of(addresses, mask, width, lines, end):
    """Append the lines of an access from ``end`` on; return the new end."""
    first = end
    for lane in range(LANES):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        last = (addresses[lane] + width - 1) >> SECTOR
        for sector in range(addresses[lane] >> SECTOR, last + 1):
            bit, place = int64(1) << (sector & 3), end - 1
            while place >= first and lines[place] >> 4 != sector >> 2:
                place -= 1
            if place >= first:
                lines[place] |= bit
            else:
                lines[end] = sector >> 2 << 4 | bit
                end += 1
    return end


@njit
def contiguous(begin_at, size, lines, end):
    """Append the lines of contiguous bytes; return the new end."""
    for sector in range(begin_at >> SECTOR, (begin_at + size + 31) >> SECTOR):
        if end and lines[end - 1] >> 4 == sector >> 2:
            lines[end - 1] |= int64(1) << (sector & 3)
        elif end < len(lines):
            lines[end] = sector >> 2 << 4 | int64(1) << (sector & 3)
            end += 1
    return end


@njit
def mbarrier(m, warp, row, mask, detail):
    """Note a use of an mbarrier before it is executed; of a test, the parity in C."""
    addresses, op = view.addresses(m)[0], row[c.OP]
    address_lanes(m, warp, row, int64(c.A_REG), int64(1), addresses)
    first, source = int64(lowest_one(mask)), row[c.SOURCES + c.INDEX]
    R, active = view.registers(m)[warp], int64(count_ones(mask))
    detail[A] = addresses[first] & bulk.OFFSET
    if op == mbarriers.B_INIT:
        detail[B] = -int64(view.uniforms(m)[warp, source] >> uint32(1)) & 0xFFFFF
        detail[C] = INITIAL
    elif op == mbarriers.B_CHECK:
        detail[C] = int64(R[source, first] >> uint32(31))
    elif op == mbarriers.B_STORE:
        detail[A] = (addresses[first] >> int64(32)) & bulk.OFFSET
        detail[D] = active * row[c.WIDTH]
    elif op == mbarriers.B_ARRIVE:
        for lane in range(LANES):
            if (mask >> uint32(lane)) & uint32(1):
                operand = int64(int32(R[source, lane]))
                if row[c.SUB] & mbarriers.ONE_ARRIVAL:
                    detail[B] += 1
                elif row[c.SUB] & mbarriers.SOME_ARRIVALS:
                    detail[B] += operand
                if row[c.SUB] & mbarriers.MORE_BYTES:
                    detail[C] += operand
    else:
        detail[B] = active


@njit
def phases_over(m, detail):
    """Complete the note of a test that passed: the last phase of its parity that is over."""
    turned = int64(0)
    for index in range(view.block_control(m)[s.MBARRIER_COUNT]):
        if view.mbarriers(m)[index] == detail[A]:
            turned = view.turned(m)[index, 0]
    detail[B] = turned - (turned and (turned - 1) & 1 != detail[C])
    detail[C] = 0


@njit
def bulk_copy(m, warp, row, detail, lines, end):
    """Note a bulk copy; return the new end of the lines."""
    U = view.uniforms(m)[warp]
    first, second, op = row[c.A_UREG], row[c.G_UREG], row[c.OP]
    incoming = op == copies.Y_LOAD or op == copies.Y_BYTES_IN
    detail[A], receivers = int64(U[first + 1]) & bulk.OFFSET if incoming else -1, int64(1)
    if op == copies.Y_BYTES_IN or op == copies.Y_BYTES_OUT:
        counted = U[row[c.SUB]]
        outside = second if incoming else first
        detail[B] = detail[C] = int64(counted & uint32(0xFFFF)) << 4
        end = contiguous(int64(joined(U[outside + 1], U[outside])), detail[B], lines, end)
        receivers = int64(counted >> uint32(16))
    else:
        address, at = int64(joined(U[second + 1], U[second])), bulk.coordinates(U, row)
        element = bulk.element_of(m, address)
        inner = bulk.count_along(m, address, 0) * element
        low = max(at[0] * element, 0)
        wide = min(at[0] * element + inner, bulk.size_along(m, address, 0) * element) - low
        detail[B] = bulk.rows_of(m, address) * inner
        for line in range(bulk.rows_of(m, address)):
            begin_at = bulk.row_at(m, address, at, line)
            if begin_at >= 0 and wide > 0:
                detail[C] += wide
                begin_at += bulk.map_word(m, address, maps.ADDRESS) + low
                end = contiguous(begin_at, wide, lines, end)
        receivers = int64(U[max(row[c.BANK], 0)] >> uint32(16))
    detail[D] = count_ones(uint32(receivers)) if incoming and row[c.BANK] >= 0 else 1
    return end


@njit
def access(m, warp, row, mask, before, pc, detail, lines, end):
    """Note an access after it was executed; return the new end of the lines."""
    family, width = row[c.FAMILY], abs(int64(row[c.WIDTH]))
    detail[A] = view.counts(m)[pc, s.SHARED_WAVEFRONTS] - before
    if family == c.ATOMIC:
        space, width = (row[c.SUB] >> 8) & 255, max(width, 4)
    elif family == c.COPY or family == c.MATRIX:
        space = c.GLOBAL if family == c.COPY else c.SHARED
    else:
        space = row[c.OP]
    detail[B] = int64(count_ones(mask)) * width
    if family == c.COPY:
        mask = reading_lanes(m, warp, row, mask)
    if space == c.LOCAL:
        for part in range(max(width >> 2, 1)):
            word = (view.addresses(m)[0, int64(lowest_one(mask))] >> 2) + part
            lines[end] = (LOCAL + (warp << 20) + word) << 4 | 15
            end += 1
    elif space == c.GLOBAL or (space == c.GENERIC and not detail[A]):
        end = lines_of(view.addresses(m)[1 if family == c.COPY else 0], mask, width, lines, end)
    return end


@njit
def moves(family):
    return family in (c.LOAD, c.STORE, c.ATOMIC, c.COPY, c.MATRIX)


@njit
def note(m, table, warp, run, events, details, lines, ends):
    """Execute an instruction of a warp and note it; return whether there was one.
    ends: of events, details and lines; the events up to the last one that does not belong to polling; the word of memory
    of the last atomic of a single lane with a result, a counter perhaps."""
    slot = next_group(m, warp)
    if slot < 0 or not view.live(m)[warp]:
        return False
    pc = view.groups(m)[warp, slot, 0]
    row, mask = view.code(m)[pc], uint32(view.groups(m)[warp, slot, 1])
    guard = view.predicates(m)[warp, row[c.GUARD]]
    mask &= ~guard if row[c.GUARD_NOT] else guard
    family, op, detail = row[c.FAMILY], row[c.OP], details[ends[1]]
    view.fill(detail, int32(0))
    detail[FIRST], end, noted = ends[2], ends[2], mask != uint32(0)
    if not noted:
        pass
    elif family == c.CONTROL and op in (
        control.BLOCK_SYNC,
        control.BLOCK_ARRIVE,
        control.BLOCK_REDUCE,
    ):
        detail[A], threads = barrier_operands(m, warp, row, mask)
        detail[B], detail[C] = threads // LANES, op == control.BLOCK_ARRIVE
    elif family == c.MBARRIER:
        mbarrier(m, warp, row, mask, detail)
    elif family == c.BULK and op <= copies.Y_BYTES_OUT:
        end = bulk_copy(m, warp, row, detail, lines, end)
    else:
        noted = moves(family) and not (family == c.LOAD and op == c.CONST_BANK)
    before = view.counts(m)[pc, s.SHARED_WAVEFRONTS]
    if not run_warp(run, table, warp, int64(1)):
        return False
    if noted and moves(family):
        end = access(m, warp, row, mask, before, pc, detail, lines, end)
        if family == c.ATOMIC and row[c.DST] != 255 and end > ends[2] and count_ones(mask) == 1:
            at = view.addresses(m)[0, int64(lowest_one(mask))] - view.origin(m)[0]
            ends[4] = at >> 2
    elif noted and family == c.MBARRIER and op == mbarriers.B_CHECK:
        phases_over(m, detail)
    detail[COUNT] = end - ends[2]
    at = ends[0]
    events[0, at], events[1, at], events[2, at] = (
        warp,
        pc if mask else -1 - pc,
        ends[1] if noted else -1,
    )
    ends[0] += 1
    ends[1] += noted
    ends[2] = end
    if family not in POLLING or (family == c.CONTROL and noted):
        ends[3] = ends[0]
    return True


@entry("timing")
def record(table, peers, ranks, run, events_at, details_at, lines_at, most, ends_at):
    """Execute a block, or a cluster, and note the events of the first; return how they end."""
    m, addresses = view.opened(table), view.int64s(peers, (ranks,))
    events, ends = view.int32s(events_at, (int64(3), most)), view.int64s(ends_at, (int64(5),))
    details = view.int32s(details_at, (most, int64(COLUMNS)))
    lines = view.int64s(lines_at, (most,))
    while True:
        moved = False
        for rank in range(ranks):
            block = view.peer(m, rank)
            view.control(m)[s.TAKEN] = view.block_control(block)[s.NUMBER]
            for warp in range(view.control(m)[s.WARPS]):
                for _ in range(TURN):
                    if rank:
                        alive = view.live(block)[warp] and next_group(block, warp) >= 0
                        going = alive and run_warp(run, addresses[rank], warp, int64(1)) > 0
                    else:
                        going = note(block, table, warp, run, events, details, lines, ends)
                    if view.control(m)[s.STOP]:
                        return int64(STOPPED)
                    if not going:
                        break
                    moved = True
                if max(ends[0], ends[1], ends[2] + MOST_LINES * LANES) + TURN > most:
                    return int64(FULL)
        over = True
        for warp in range(view.control(m)[s.WARPS]):
            over = over and not view.live(m)[warp]
        if over or not moved:
            return int64(ENDED if over else STUCK)
        if ends[0] - ends[3] > IDLE:
            return int64(POLLS)


@dataclass(frozen=True)
class BlockEvents:
    """Events of a block, warp by warp.

    instructions: int32, the index of an instruction, or -1 - index where its guard was off for all lanes. places: of
    its details, -1 for none. starts: the first event of each warp, and the end. how: ENDED and so on. executed: all
    instructions of the block, also those for whose events there was no room. counter: a word of memory that one thread
    changed by an atomic with a result, -1 for none.
    """

    instructions: np.ndarray
    places: np.ndarray
    starts: np.ndarray
    details: np.ndarray
    lines: np.ndarray
    how: int
    executed: int
    counter: int

    @property
    def warps(self) -> int:
        return len(self.starts) - 1


def of_block(
    states: Sequence[s.State],
    grid: Sequence[int],
    cluster: Sequence[int],
    threads: int,
    number: int,
    most: int,
) -> BlockEvents:
    """Execute block (or cluster) ``number`` and return its events, at most ``most``. states: of the cluster's blocks."""
    for state in states:
        for family in SKIPPED:
            if state.handlers[family]:
                state.handlers[family] = SKIP.address
    tables = view.tables(states)
    peers = np.array([table.ctypes.data for table in tables], np.int64)
    dims, of_cluster = np.array(grid, np.int64), np.array(cluster, np.int64)
    begin(tables[0], number, dims, of_cluster, threads)
    # Pages that nothing is written to take no memory.
    events, details = np.empty((3, most), np.int32), np.empty((most, COLUMNS), np.int32)
    lines, ends = np.empty(most, np.int64), np.array([0, 0, 0, 0, -1], np.int64)
    how = record(tables[0], peers, len(peers), run.address, events, details, lines, most, ends)
    if how == FULL:
        rest = np.array([number, 1, 0], np.int64)
        if run_some(tables[0], rest, dims, of_cluster, threads, number + 1, 0, REST):
            how = POLLS  # such a block waits for another one
    noted, of_details, of_lines, progress, counter = ends.tolist()
    by, instructions, places = events[:, : progress if how == POLLS else noted]
    executed = spent(tables[0]) // len(peers) if how == FULL else len(by)
    warps = -(-threads // LANES)
    starts, order = np.append(0, np.bincount(by, minlength=warps)).cumsum(), np.empty_like(by)
    for warp in range(warps):
        order[starts[warp] : starts[warp + 1]] = np.flatnonzero(by == warp)
    return BlockEvents(
        instructions[order], places[order], starts, details[:of_details], lines[:of_lines],
        int(how), int(executed), counter,
    )  # fmt: skip
