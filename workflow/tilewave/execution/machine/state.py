"""The state of a running block: arrays, allocated once and reused block after block.
Compiled functions reach them through `views`, which is generated from the fields. Columns and entries are named here."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple, get_type_hints

import numpy as np
from numpy import int32, int64, uint8, uint32

from tilewave.execution.machine import codes as c

REGISTERS = 288  # of a warp: 255 registers, then zeros for RZ of any width
FRAGMENTS = 280  # the last ones hold a warpgroup instruction's operands from shared memory
UNIFORMS = 264
QUEUE = 512  # asynchronous copies of a warp that may be in flight
SLOTS = 33  # groups of diverged lanes of a warp
BARRIERS = 16
FAULTS = 256
RECENT = 16  # stores and loads of a warp since its lanes met that are kept
WAYS = 4  # patterns that a copy remembers: one for each half of a line on either side
PATTERN = 128  # words that one access of a warp can touch

# ---- columns of counts
(
    EXECUTED, THREADS, THREADS_ON, SHARED_REQUESTS, SHARED_TRANSACTIONS, SHARED_WAVEFRONTS,
    SHARED_IDEAL, SHARED_CONFLICTS, SHARED_ATTRIBUTED, GLOBAL_REQUESTS, GLOBAL_SECTORS,
    GLOBAL_SECTORS_IDEAL, BARRIER_WARPS, GLOBAL_ATTRIBUTED,
) = range(14)  # fmt: skip
COUNTS = c.NAMES["counts"]

# ---- entries of control
(
    BUDGET, TICK, FIRST_TICK, FAULT_COUNT, WARPS, SHARED_BASE, SHARED_END, LOCAL_BYTES, NOW,
    GRAIN, RACES, STOP, REVERSED, QUANTUM, TAKEN, READERS, CLUSTER_ACTORS, PARKED,
    PARKED_FOR, ASYNCHRONOUS, ACTORS, PRINTED, SMS, PASSED, FILLING,
) = range(25)  # fmt: skip
CONTROL_SIZE = 25

# ---- columns of a fault
(
    F_KIND, F_ROW, F_WARP, F_LANES, F_ADDRESS, F_OTHER, F_BLOCK, F_OTHER_ROW, F_COUNT,
) = range(FAULT_COLUMNS := 9)  # fmt: skip

# ---- kinds of faults
(
    OUTSIDE_GLOBAL, MISALIGNED, OUTSIDE_SHARED, UNINITIALISED, RACE, NEVER_REACHED, OUT_OF_BUDGET,
    NOT_KNOWN, OUTSIDE_LOCAL, OUTSIDE_CONSTANT, TRAPPED, QUEUE_FULL, IN_FLIGHT, BAD_TARGET, UNFENCED,
    NO_MAP, BAD_MATRIX, TOO_MANY_ARRIVALS, NO_BLOCK, MANY_MBARRIERS, BAD_SIZE, ASSERTED,
    SYSTEM_CALL, BAD_RANK, BEFORE_ARRAY, WITHIN_PIECE, UNORDERED, MAYBE_ENDED, UNPUBLISHED, UNWRITTEN,
    SPLIT_BARRIER, BARRIER_ONLY, NOT_MET, LANES_APART, STILL_READ, CONTESTED,
) = range(36)  # fmt: skip

# ---- what a group of lanes is doing
(
    FREE, READY, AT_CONVERGE, AT_BARRIER, AT_WARPSYNC, AT_MBARRIER, AT_CLUSTER, AT_REGISTERS,
    AT_PRODUCTS,
) = range(9)  # fmt: skip
TURN_OVER = -1  # value of PARKED: the group can go on in its next turn

# ---- entries of block_control: those of one block of a cluster
(
    RANK, NUMBER, BLOCKS, POOL, MBARRIER_COUNT, PARAMETERS_AT, REGISTERS_AT_FIRST, EPOCH,
    # times, see `marking`: of the last fences for other blocks and inside the block, and up to which
    # the block knows what other blocks and its own warps did
    FENCED, FENCED_INSIDE, LEARNED, LEARNED_INSIDE,
) = range(12)  # fmt: skip
BLOCK_CONTROL_SIZE = 12
MBARRIERS = 32  # of a block, as actors of asynchronous copies
ELSEWHERE = MBARRIERS  # the actor of stores of other blocks, which count as ordered
PRINTS = 1024  # calls of printf that are kept
PRINT_ARGUMENTS = 32  # words of 8 bytes of arguments that are kept of a call
GROUPS_KEPT = 64  # committed groups of a warp that may be outstanding
MATRICES, BULKS = range(2)  # kinds of such groups


Array = np.ndarray


class State(NamedTuple):
    """Arrays of the running block.

    Blocks of a cluster run together: they share the arrays of the launch, and each has the others.
    ACTORS counts the actors of a block: its warps, with asynchronous accesses more (`orders`).
    CLUSTER_ACTORS counts those of the cluster, READERS those of a block that read.

    Each field names the type of an item and the sizes. The 32 lanes are the last axis.
    """

    code: Annotated[Array, int32, "instructions", c.COLUMNS]
    registers: Annotated[Array, uint32, "warps", REGISTERS, 32]
    uniforms: Annotated[Array, uint32, "warps", UNIFORMS]
    # P0..P6, PT, UP0..UP6, UPT as lane masks
    predicates: Annotated[Array, uint32, "warps", 16]
    # the lanes that a B register of a lane waits for
    converge: Annotated[Array, uint32, "warps", 16, 32]
    # of each group of lanes: program counter, lanes, what it does, what it waits for
    groups: Annotated[Array, int64, "warps", SLOTS, 4]
    # lanes that have not exited
    live: Annotated[Array, uint32, "warps"]
    scratch: Annotated[Array, uint32, 12, 32]
    addresses: Annotated[Array, int64, 2, 32]
    shared: Annotated[Array, uint32, "shared words"]
    # the last writer of a unit of shared memory, and its tick
    shadow: Annotated[Array, uint32, "units"]
    # the tick of each reader's last read of a unit, and of any unit
    reads: Annotated[Array, uint32, "readers", "units that are read"]
    last_read: Annotated[Array, uint32, "readers"]
    # ticks up to which a warp knows the accesses of each actor, and of all other warps
    clocks: Annotated[Array, uint32, "warps", "actors of the cluster"]
    safe: Annotated[Array, uint32, "warps"]
    # lanes that have written shared memory since their last fence between the proxies
    unfenced: Annotated[Array, uint32, "warps"]
    # what some lanes of a warp did since all of them met, see `exchanges`
    apart: Annotated[Array, int64, "warps", 5]
    arrived: Annotated[Array, uint32, BARRIERS, "warps"]
    # merged clocks of the arrivals at a barrier
    barrier_clocks: Annotated[Array, uint32, BARRIERS, "actors of the cluster"]
    # threads a barrier waits for, 0 for all; reduction; what it returned to each warp
    expected: Annotated[Array, int64, BARRIERS, 2]
    results: Annotated[Array, uint32, "warps"]
    # number of stores, and of loads, since the lanes of a warp met; then each one, see `exchanges`
    recent: Annotated[Array, int64, "warps", 1 + RECENT, 36]
    loaded: Annotated[Array, int64, "warps", 1 + RECENT, 36]
    local: Annotated[Array, uint32, "threads", "local words"]
    # the epoch (`EPOCH`) of the block that wrote a word
    local_written: Annotated[Array, uint8, "threads", "local words"]
    # asynchronous copies: destination and four words of data; group and width
    queue: Annotated[Array, uint32, "warps", "copies", 5, 32]
    stamps: Annotated[Array, int64, "warps", QUEUE, 2]
    # first, next, groups committed
    queued: Annotated[Array, int64, "warps", 3]
    # all global buffers, and the device address of the first word
    memory: Annotated[Array, uint32, "words"]
    # whether a word was written or needs not to be; a single item without scratch buffers
    written: Annotated[Array, uint8, "words that are written"]
    origin: Annotated[Array, int64, 1]
    # first and last + 1 byte of each buffer, in device addresses
    ranges: Annotated[Array, int64, "buffers", 2]
    constants: Annotated[Array, uint32, "banks", "words of a bank"]
    identity: Annotated[Array, uint32, "warps", len(c.SPECIAL_REGISTERS), 32]
    counts: Annotated[Array, int64, "instructions", len(COUNTS)]
    # the last access of an instruction, see `patterns`
    patterns: Annotated[Array, int64, "memos", 16]
    deltas: Annotated[Array, int64, "memos", 2, 32]
    touched: Annotated[Array, int32, "memos", "units of an access"]
    faults: Annotated[Array, int64, FAULTS, FAULT_COLUMNS]
    control: Annotated[Array, int64, CONTROL_SIZE]
    # bytes that a copy fills with zeros instead
    zeros: Annotated[Array, int64, 32]
    # the target of a lane at the end of a collective
    resume: Annotated[Array, uint32, "warps", 32]
    # addresses of the functions that execute each family
    handlers: Annotated[Array, int64, "families"]
    block_control: Annotated[Array, int64, BLOCK_CONTROL_SIZE]
    # addresses of the `views.table` of each block of the cluster
    peers: Annotated[Array, int64, "blocks"]
    # byte addresses in shared memory; merged clocks of arrivals, then those of finished phases
    mbarriers: Annotated[Array, int64, MBARRIERS]
    phases: Annotated[Array, uint32, "phases", "actors of the cluster"]
    # finished phases, how many of them a warp of the block has observed, whether a fence published it
    turned: Annotated[Array, int64, MBARRIERS, 3]
    # last arrival of each warp of the cluster: tick, phase, program counter, lane
    arrivals: Annotated[Array, int64, MBARRIERS, "warps of the cluster", 4]
    # committed groups and their ticks, by kind
    outstanding: Annotated[Array, int64, "warps", 2, 1 + GROUPS_KEPT]
    # arrivals at the cluster's barrier, and waits passed; merged clocks of the arrivals
    meetings: Annotated[Array, int64, "warps", 2]
    gathered: Annotated[Array, uint32, "actors of the cluster"]
    # registers of each thread
    quota: Annotated[Array, int64, "warps"]
    # calls of printf: address of the format, its arguments
    prints: Annotated[Array, int64, "calls of printf", 1 + PRINT_ARGUMENTS]


Size = int | str


def fields(state: type) -> dict[str, tuple[type, tuple[Size, ...]]]:
    """Return item type and sizes of each array of a state: a number is fixed, a name is a size of the launch."""
    hints = get_type_hints(state, include_extras=True).items()
    return {name: (kind.__metadata__[0], kind.__metadata__[1:]) for name, kind in hints}


FIELDS = fields(State)


def allocated(sizes: Mapping[str, int], **arrays: Array) -> State:
    """Allocate a state: zeros, except for ``arrays``. sizes: those of the zeros by name."""
    zeros: dict[str, Array] = {
        name: np.zeros([size if isinstance(size, int) else sizes[size] for size in shape], kind)
        for name, (kind, shape) in FIELDS.items()
        if name not in arrays
    }
    return State(**zeros, **arrays)


def rows_with_memos(rows: np.ndarray) -> int:
    """Number the instructions that access memory, in place; return how many there are."""
    families = (c.LOAD, c.STORE, c.ATOMIC, c.MATRIX, c.COPY)
    chosen = np.flatnonzero(np.isin(rows[:, c.FAMILY], families))
    ways = np.where(rows[chosen, c.FAMILY] == c.COPY, WAYS, 1)
    rows[chosen, c.MEMO] = np.cumsum(ways) - ways
    return int(ways.sum())
