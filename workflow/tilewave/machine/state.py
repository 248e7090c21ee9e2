"""What a running block consists of: arrays, allocated once and used for block after block.

Compiled functions reach them through `tilewave.machine.views`; columns and entries have names here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilewave.machine import codes as c

REGISTERS = 288  # of a warp: 255 named ones, then zeros, which RZ of any width reads
FRAGMENTS = 280  # the last ones hold what a warpgroup instruction took from shared memory
UNIFORMS = 264
QUEUE = 512  # asynchronous copies of a warp that may be in flight
SLOTS = 33  # groups of lanes of a warp that can be apart
BARRIERS = 16
FAULTS = 16
WAYS = 4  # patterns that a copy remembers: its cost depends on both sides' half of a line
PATTERN = 128  # words that one access of a warp can touch

# ---- columns of counts
(
    EXECUTED, THREADS, THREADS_ON, SHARED_REQUESTS, SHARED_TRANSACTIONS, SHARED_WAVEFRONTS,
    SHARED_IDEAL, SHARED_CONFLICTS, SHARED_ATTRIBUTED, GLOBAL_REQUESTS, GLOBAL_SECTORS,
    GLOBAL_SECTORS_IDEAL, BARRIER_WARPS, GLOBAL_ATTRIBUTED,
) = range(14)  # fmt: skip
COUNTS = (
    "executed", "threads_executed", "threads_on", "shared_requests", "shared_transactions",
    "shared_wavefronts", "shared_ideal", "shared_conflicts", "shared_attributed",
    "global_requests", "global_sectors", "global_sectors_ideal", "barriers",
    "global_attributed",
)  # fmt: skip

# ---- entries of control
(
    BUDGET, TICK, FIRST_TICK, FAULT_COUNT, WARPS, SHARED_BASE, SHARED_END, LOCAL_BYTES, NOW,
    GRAIN, RACES, STOP, OPCODE_NOW, REVERSED, QUANTUM, TAKEN, READERS, KNOWLEDGE, PARKED,
    PARKED_FOR, ASYNCHRONOUS, ACTORS, PRINTED,
) = range(23)  # fmt: skip
CONTROL_SIZE = 23

# ---- columns of a fault
(F_KIND, F_ROW, F_WARP, F_LANES, F_ADDRESS, F_OTHER, F_BLOCK) = range(7)

# ---- kinds of faults
(
    OUTSIDE_GLOBAL, MISALIGNED, OUTSIDE_SHARED, UNINITIALISED, RACE, NEVER_REACHED, OUT_OF_BUDGET,
    NOT_KNOWN, OUTSIDE_LOCAL, OUTSIDE_CONSTANT, TRAPPED, QUEUE_FULL, IN_FLIGHT, BAD_TARGET, UNFENCED,
    NO_MAP, BAD_MATRIX, TOO_MANY_ARRIVALS, NO_BLOCK, MANY_MBARRIERS, BAD_SIZE, ASSERTED,
    SYSTEM_CALL, BAD_RANK,
) = range(24)  # fmt: skip

# ---- what a group of lanes is doing
(
    FREE, READY, AT_CONVERGE, AT_BARRIER, AT_WARPSYNC, AT_MBARRIER, AT_CLUSTER, AT_REGISTERS,
    AT_PRODUCTS,
) = range(9)  # fmt: skip
TURN_OVER = -1  # of PARKED: the group can go on, but others should have their turn

# ---- entries of own: what a block of a cluster has to itself
(
    RANK, NUMBER, BLOCKS, POOL, MBARRIER_COUNT, PARAMETERS_AT, REGISTERS_AT_FIRST,
) = range(7)  # fmt: skip
OWN_SIZE = 7
MBARRIERS = 32  # of a block, as sources of knowledge about asynchronous copies
ELSEWHERE = MBARRIERS  # stands for stores of other blocks, which are always in order
PRINTS = 1024  # calls of printf that are kept
PRINT_ARGUMENTS = 32  # words of 8 bytes that are kept of the arguments of one
GROUPS_KEPT = 64  # committed groups of a warp that may be outstanding
MATRICES, BULKS = range(2)  # kinds of such groups


class State(NamedTuple):
    """Arrays of the block that runs; W warps, S words of shared memory.

    Blocks of a cluster run together: each has arrays of its own, but for those of the launch.
    Whose accesses can be known: the warps', and where there are asynchronous ones (`orders`) those
    of ACTORS; KNOWLEDGE counts them over the cluster, READERS those that read.

    Lanes are the last axis and there are 32. ``groups`` int64 (W, SLOTS, 4): program counter,
    lanes, what it does, what it waits for.
    """

    code: np.ndarray  # int32 (instructions, codes.COLUMNS)
    registers: np.ndarray  # uint32 (W, REGISTERS, 32)
    uniforms: np.ndarray  # uint32 (W, UNIFORMS)
    predicates: np.ndarray  # uint32 (W, 16): P0..P6, PT, UP0..UP6, UPT as lane masks
    converge: np.ndarray  # uint32 (W, 16, 32): the lanes that a B register of a lane waits for
    groups: np.ndarray
    live: np.ndarray  # uint32 (W,): lanes that have not exited
    scratch: np.ndarray  # uint32 (12, 32)
    addresses: np.ndarray  # int64 (2, 32)
    shared: np.ndarray  # uint32 (S,)
    shadow: np.ndarray  # uint32 (units,): who wrote a unit of shared memory last, and when
    reads: np.ndarray  # uint32 (readers, units): when each read it last
    last_read: np.ndarray  # uint32 (readers,): when each read any
    known: np.ndarray  # uint32 (W, knowledge): up to when a warp knows another's accesses
    arrived: np.ndarray  # uint32 (BARRIERS, W)
    clocks: np.ndarray  # uint32 (BARRIERS, knowledge): what arrivals at a barrier bring along
    expected: np.ndarray  # int64 (BARRIERS, 2): threads a barrier waits for, 0 for all; reduction
    results: np.ndarray  # uint32 (W,): what a reducing barrier returned
    local: np.ndarray  # uint32 (32 W, words): a row for each thread
    queue: np.ndarray  # uint32 (W, QUEUE, 5, 32): word address and four words of data
    queued: np.ndarray  # int64 (W, 3): first, next, groups committed
    stamps: np.ndarray  # int64 (W, QUEUE, 2): group and width of a queued copy
    memory: np.ndarray  # uint32 words: all global buffers
    ranges: np.ndarray  # int64 (buffers, 2): first and last+1 byte of each, in device addresses
    origin: np.ndarray  # int64 (1,): device address of memory[0]
    constants: np.ndarray  # uint32 (banks, words)
    identity: np.ndarray  # uint32 (W, len(codes.SPECIAL_REGISTERS), 32)
    counts: np.ndarray  # int64 (instructions, len(COUNTS))
    patterns: np.ndarray  # int64 (memos, 16)
    deltas: np.ndarray  # int64 (memos, 2, 32)
    touched: np.ndarray  # int32 (memos, PATTERN)
    faults: np.ndarray  # int64 (FAULTS, 7)
    control: np.ndarray  # int64 (CONTROL_SIZE,)
    zeros: np.ndarray  # int64 (32,): bytes that a copy fills with zeros instead
    resume: np.ndarray  # uint32 (W, 32): where a lane goes from the end of a collective
    safe: np.ndarray  # uint32 (W,): up to when a warp knows the accesses of all others
    handlers: np.ndarray  # int64 (families,): addresses of the functions that execute each
    own: np.ndarray  # int64 (OWN_SIZE,)
    peers: np.ndarray  # int64 (blocks of the cluster,): addresses of their `views.table`
    mbarriers: np.ndarray  # int64 (MBARRIERS,): byte addresses in shared memory
    phases: np.ndarray  # uint32 (2 MBARRIERS, knowledge): what arrivals bring; of finished phases
    outstanding: np.ndarray  # int64 (W, 2, 1 + GROUPS_KEPT): groups committed, when each was
    meetings: np.ndarray  # int64 (W, 2): arrivals at the cluster's barrier, and waits passed
    gathered: np.ndarray  # uint32 (1, knowledge): what arrivals at the cluster's barrier bring
    quota: np.ndarray  # int64 (W,): registers of each thread
    prints: (
        np.ndarray
    )  # int64 (calls of printf, 1 + PRINT_ARGUMENTS): the format's address, its arguments


def rows_with_memos(rows: np.ndarray) -> int:
    """Number the instructions that access memory, in place; returns how many there are."""
    families = (c.LOAD, c.STORE, c.ATOMIC, c.MATRIX, c.COPY)
    chosen = np.flatnonzero(np.isin(rows[:, c.FAMILY], families))
    ways = np.where(rows[chosen, c.FAMILY] == c.COPY, WAYS, 1)
    rows[chosen, c.MEMO] = np.cumsum(ways) - ways
    return int(ways.sum())
