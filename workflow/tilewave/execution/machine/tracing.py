"""A second execution of a block, instruction by instruction, to find the other side of a finding.
The shadow of shared memory holds the warp of an access but not its instruction and threads, because
that would slow every access. Findings are rare and need both sides, so the block is executed again."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy import int64, uint32

from tilewave.basics.jit import njit
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.blocks import begin, run
from tilewave.execution.machine.compiling import entry
from tilewave.execution.machine.integer import SHARED_WINDOW
from tilewave.execution.machine.races import CLOCK, FLYING, writer

# Columns of a search: the faulting access, and whether it read an uninitialised unit.
W_PC, W_WARP, W_UNIT, W_UNWRITTEN = range(WANTED := 4)
# Columns of a match: the state of its search, and the other access; whether its threads have ended.
K_STATE, K_PC, K_WARP, K_LANES, K_ORDERED, K_ENDED = range(MATCH_COLUMNS := 6)
OPEN, MET, FOUND = range(3)
"""States of a search: not started; read seen, its writer is searched; other access found."""
MOST = 2_000_000  # instructions


@intrinsic
def run_warp(typingctx, address, table, warp, budget):
    """Call `blocks.run` by its address."""

    def build(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)] * 3)
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])

    return types.int64(*[types.int64] * 4), build


@njit
def next_group(m, warp):
    """Return the group of lanes that a warp's next turn begins with; -1 for none."""
    for slot in range(s.SLOTS):
        if view.groups(m)[warp, slot, 2] == s.READY:
            return slot
    return -1


@njit
def lanes_at(m, row, mask, unit):
    """Return the lanes of the last access that cover a unit of shared memory."""
    grain = view.control(m)[s.GRAIN]
    width = int64(row[c.WIDTH])
    if row[c.FAMILY] == c.MATRIX:
        if width < 4:
            mask &= uint32((1 << (8 * width)) - 1)
        width = int64(16)
    width = abs(width)
    lanes = uint32(0)
    for lane in range(32):
        if not (mask >> uint32(lane)) & uint32(1):
            continue
        at = view.addresses(m)[0, lane]
        if at >> int64(32) == int64(SHARED_WINDOW):
            at &= int64(0xFFFFFFFF)
        if at >> grain <= unit <= (at + width - 1) >> grain:
            lanes |= uint32(1) << uint32(lane)
    return lanes


@njit
def units_at(m, row, mask):
    """Return the first and last unit of shared memory that the last access may cover."""
    addresses, grain = view.addresses(m)[0], view.control(m)[s.GRAIN]
    low, high = int64(0xFFFFFFFF), int64(0)
    for lane in range(32):
        if (mask >> uint32(lane)) & uint32(1):
            at = addresses[lane] & int64(0xFFFFFFFF)
            low, high = min(low, at), max(high, at + 16)
    return low >> grain, high >> grain


@njit
def touches_shared(row):
    """Return whether an instruction may access shared memory."""
    family, op = row[c.FAMILY], row[c.OP]
    if family in (c.MATRIX, c.COPY):
        return True
    if family == c.ATOMIC:
        space = (row[c.SUB] >> 8) & 255
        return space in (c.SHARED, c.GENERIC)
    return family in (c.LOAD, c.STORE) and op != c.LOCAL and op != c.CONST_BANK


@njit
def note(m, wanted, matches, last, warp, pc, mask, entries):
    """Compare an access with the searched ones; return how many searches ended with it.
    last: int64 (wanted, 1 + warps, 3): place, warp and lanes of the last write, and of each warp's
    last read. entries: the shadow of each unit before the access."""
    row = view.code(m)[pc]
    family = row[c.FAMILY]
    writes = family in (c.STORE, c.COPY, c.ATOMIC) or (family == c.MATRIX and row[c.OP] == 1)
    first = uint32(view.control(m)[s.FIRST_TICK])
    ended = 0
    low, high = units_at(m, row, mask)
    for index in range(len(wanted)):
        unit = wanted[index, W_UNIT]
        lanes = lanes_at(m, row, mask, unit) if low <= unit <= high else uint32(0)
        if not lanes:
            continue
        match = matches[index]
        same_access = wanted[index, W_PC] == pc and wanted[index, W_WARP] == warp
        if same_access and match[K_STATE] == OPEN:
            if wanted[index, W_UNWRITTEN]:
                match[K_STATE] = MET
                match[K_ORDERED] = int64(view.reads(m)[warp, unit])
            else:
                tick = entries[index] >> CLOCK
                who = writer(m, entries[index])
                other = int64(-1)
                unordered = who != warp and view.clocks(m)[warp, who] < tick
                if tick >= first and (unordered or entries[index] & FLYING):
                    other = int64(0)
                elif writes:
                    for reader in range(view.control(m)[s.READERS]):
                        seen = view.reads(m)[reader, unit]
                        if reader != warp and seen >= first and view.clocks(m)[warp, reader] < seen:
                            other = int64(1 + reader)
                if other >= 0 and last[index, other, 2]:
                    match[K_STATE] = FOUND
                    for column in range(3):
                        match[K_PC + column] = last[index, other, column]
                    match[K_ENDED] = match[K_LANES] & int64(view.live(m)[match[K_WARP]]) == 0
                    ended += 1
        elif match[K_STATE] == MET and writes:
            reading_warp = wanted[index, W_WARP]
            match[K_STATE] = FOUND
            match[K_PC], match[K_WARP], match[K_LANES] = pc, warp, int64(lanes)
            before = int64(view.clocks(m)[warp, reading_warp]) >= match[K_ORDERED]
            match[K_ORDERED] = warp == reading_warp or before
            ended += 1
        place = 0 if writes else 1 + warp
        last[index, place, 0] = pc
        last[index, place, 1] = warp
        last[index, place, 2] = int64(lanes)
    return ended


@entry("trace")
def trace(table, wanted_at, count, matches_at, last_at, places, entries_at, run):
    """Execute a block from its start and fill ``matches`` (see `note`). run: that of `blocks`."""
    m = view.opened(table)
    wanted = view.int64s(wanted_at, (count, WANTED))
    matches = view.int64s(matches_at, (count, MATCH_COLUMNS))
    last = view.int64s(last_at, (count, places, 3))
    entries = view.uint32s(entries_at, (count,))
    view.control(m)[s.STOP] = 0
    warps = view.control(m)[s.WARPS]
    remaining, steps = count, int64(0)
    while remaining > 0 and steps < MOST:
        moved = False
        for turn in range(warps):
            warp = int64(warps - 1 - turn if view.control(m)[s.REVERSED] else turn)
            for _ in range(view.control(m)[s.QUANTUM]):
                slot = next_group(m, warp)
                if slot < 0 or not view.live(m)[warp]:
                    break
                pc = view.groups(m)[warp, slot, 0]
                row = view.code(m)[pc]
                mask = uint32(view.groups(m)[warp, slot, 1])
                guard = view.predicates(m)[warp, row[c.GUARD]]
                mask &= ~guard if row[c.GUARD_NOT] else guard
                here = mask != uint32(0) and touches_shared(row)
                if here:
                    for index in range(len(wanted)):
                        entries[index] = view.shadow(m)[wanted[index, W_UNIT]]
                run_warp(run, table, warp, int64(1))
                moved = True
                steps += 1
                if here:
                    remaining -= note(m, wanted, matches, last, warp, pc, mask, entries)
                if view.control(m)[s.STOP] or remaining <= 0:
                    return steps
        if not moved:
            break
    return steps


def colliding(
    m: np.ndarray, wanted: np.ndarray, number: int, grid: tuple[int, ...], threads: int
) -> np.ndarray:
    """Find the colliding access (K_ columns) of each search (W_ columns) in block ``number``."""
    warps = -(-threads // 32)
    matches = np.zeros((len(wanted), MATCH_COLUMNS), np.int64)
    # Readers are warps, and products and bulk stores of warps.
    last = np.zeros((len(wanted), 1 + 3 * warps, 3), np.int64)
    begin(m, number, np.array(grid, np.int64), np.ones(3, np.int64), threads)
    entries = np.zeros(len(wanted), np.uint32)
    trace(m, wanted, len(wanted), matches, last, last.shape[1], entries, run.address)
    return matches
