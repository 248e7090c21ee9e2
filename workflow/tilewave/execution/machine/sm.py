"""The state of an SM in the model of time: its arrays, their columns, and the numbers that `pipes` and `cycles` share.
Compiled functions reach the arrays as those of a block (`views`): ``warps(m)`` and so on."""
# mypy: disable-error-code="no-untyped-call"

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import numpy as np
from numpy import float64, int32, int64

from tilewave.basics.tables import table_beside
from tilewave.execution.machine import views
from tilewave.execution.machine.events import COLUMNS as DETAILS
from tilewave.execution.machine.events import BlockEvents
from tilewave.execution.machine.state import Array, fields

NEVER = 1e18
SCHEDULERS, SCOREBOARDS, RING, PHASES, BLOCK_BARRIERS, QUEUE_PLACES = 4, 6, 16, 64, 16, 32
SETS, WAYS = 512, 8  # of the L1: lines of 128 bytes
CODE_LINE = 8  # instructions in 128 bytes of code
# ---- columns of an instruction. X, Y: see the kinds. Three registers that it reads, and whether each stays for reuse.
STALL, WRITES, READS, WAITS, PIPE, INTERVAL, LATENCY, KIND, X, Y = range(10)
REGISTER, REUSED, COLUMNS = 10, 13, 16
# ---- pipes
NONE, FMA, IMAD, ALU, FP64, XU, TENSOR_PIPE, UNIFORM, LSU, BRANCH = range(PIPES := 10)
PIPE_NAMES = ("none", "fma", "imad", "alu", "fp64", "xu", "tensor", "uniform", "lsu", "branch")
# ---- kinds
(
    PLAIN,
    SHARED_ACCESS,  # X: whether it stores
    SHUFFLE,
    GLOBAL_ACCESS,  # X: LOAD, STORE, ATOMIC or REDUCTION; Y: bytes of a lane
    COPY, COMMIT,
    COPIES,  # X: scoreboard; Y: how many may be outstanding
    PRODUCT,
    WGMMA,  # X: cycles of the tensor core; Y: lines of shared memory, negative where a group ends
    GROUPS,  # X: how many groups of products may be outstanding
    MEETING, ARRIVAL, TEST, REMOTE,
    BULK,  # X: whether it stores
    CLUSTER,  # X: whether it waits
    JUMP, SLEEP,
) = range(18)  # fmt: skip
LOAD, STORE, ATOMIC, REDUCTION = range(4)
LINE = 128.0  # bytes that shared memory serves in a cycle
MOST_ABSENT = 28  # bytes that a store of one word leaves of its sector
# ---- columns of a warp: its next event and the end; when it may issue; when to look again; why not now; since when it
# waits; when its copies end; the block barrier, the mbarrier and the phase that it waits for; registers kept for reuse
AT, END, NEXT, READY, WHY, SINCE, COPIED, AT_BARRIER, AT_MBARRIER, PHASE, REUSE = range(11)
WARP_COLUMNS = REUSE + 3
# ---- why a warp does not issue
ISSUED, CODE, SCOREBOARD, PIPE_BUSY, QUEUE_FULL, PRODUCTS, MBARRIER, BARRIER = range(8)
REASONS = (
    "issue and fixed latencies", "instruction fetch", "results of memory or slow pipes", "a busy pipe",
    "the queue of memory instructions", "wgmma", "an mbarrier", "a barrier",
)  # fmt: skip
# ---- columns of a block, of one of its barriers, and of one of its mbarriers
ALIVE, SERIAL = range(2)
CAME, LAST = range(2)
ARRIVED, AWAITED, LANDED, LATEST, OVER = range(5)
# ---- columns of a scheduler: when it is free; the warp that issued last; when its tensor core is free; when its two
# register banks are; how many memory instructions it has queued
FREE, GREEDY, TENSOR, BANKS, QUEUED = 0, 1, 2, 3, 5
# ---- what the SM shares: times at which it is free, then sums
(
    DATA_PATH, OWED, PORT, L2, DRAM, TMA, BARRIER_UNIT, OPERANDS, ATOMICS, USE, USED_AT, DRAM_SHARE, STARTED,
    FINISHED, END_OF_ALL, BUSY_DRAM, BUSY_L2, BUSY_ATOMICS,
) = range(SHARED := 18)  # fmt: skip
# ---- constants: those of sm.yaml, then those of a launch: SMs with blocks; the share of the sectors that DRAM serves; the share
# of stored sectors that reaches DRAM while the launch runs; ways of the L1 that shared memory leaves; gap between two
# blocks
NAMES = tuple(table_beside(__file__))
(
    K_START, K_FETCH, K_FETCH_NEXT, K_NEXT_BLOCK, K_NEXT_CLUSTER, K_L1, K_L2, K_DRAM, K_PORT, K_L2_RATE, K_DRAM_RATE,
    K_LOADED, K_WINDOW, K_TAG, K_QUEUE, K_COPY_SHARE, K_OWED, K_READ_OPERANDS, K_BARRIER, K_BARRIER_WARP, K_MBARRIER,
    K_TMA, K_TMA_RATE, K_OUTSIDE_RATE, K_WGMMA, K_WGMMA_AHEAD, K_REMOTE, K_JUMP, K_PORTS, K_ATOMIC, K_ATOMIC_SAME, K_PART,
    K_SMS, K_DRAM_SHARE, K_STORES, K_WAYS, K_GAP,
) = range(CONSTANTS := 37)  # fmt: skip


class Sm(NamedTuple):
    """Arrays of an SM, all of float64 except for what `events` gives and the tags of the L1."""

    table: Annotated[Array, float64, "instructions", COLUMNS]
    events: Annotated[Array, int32, "events"]
    places: Annotated[Array, int32, "events"]
    starts: Annotated[Array, int64, "warps of a block and the end"]
    details: Annotated[Array, int32, "details", DETAILS]
    lines: Annotated[Array, int64, "lines"]
    # arrivals that a phase of each mbarrier needs
    needed: Annotated[Array, int64, "mbarriers"]
    constants: Annotated[Array, float64, CONSTANTS]
    warps: Annotated[Array, float64, "warps", WARP_COLUMNS]
    # when each scoreboard is free; its last completions, and those of groups of wgmma; how many there were
    boards: Annotated[Array, float64, "warps", SCOREBOARDS]
    rings: Annotated[Array, float64, "warps", SCOREBOARDS + 1, RING]
    counts: Annotated[Array, int64, "warps", SCOREBOARDS + 1]
    blocks: Annotated[Array, float64, "blocks", 2]
    barriers: Annotated[Array, float64, "blocks", BLOCK_BARRIERS, 2]
    mbarriers: Annotated[Array, float64, "blocks", "mbarriers", 5]
    # when each phase ended
    phases: Annotated[Array, float64, "blocks", "mbarriers", PHASES]
    schedulers: Annotated[Array, float64, SCHEDULERS, 6]
    pipes: Annotated[Array, float64, SCHEDULERS, PIPES]
    # when each queued memory instruction is served
    queues: Annotated[Array, float64, SCHEDULERS, QUEUE_PLACES]
    shared: Annotated[Array, float64, SHARED]
    # lines in the L1 and their sectors; when they arrive, and when they were last used
    keys: Annotated[Array, int64, SETS, WAYS]
    sectors: Annotated[Array, int64, SETS, WAYS]
    arrivals: Annotated[Array, float64, SETS, WAYS]
    uses: Annotated[Array, float64, SETS, WAYS]
    # when each line of code is there
    fetched: Annotated[Array, float64, "lines of code"]
    # cycles that warps waited, by instruction and reason
    stalls: Annotated[Array, float64, "instructions", len(REASONS)]


FIELDS = fields(Sm)
globals().update(views.accessors(FIELDS))


def allocated(
    table: np.ndarray,
    events: BlockEvents,
    needed: np.ndarray,
    resident: int,
    constants: Mapping[str, float],
    launch: np.ndarray,
) -> Sm:
    """Return an SM that holds ``resident`` blocks. events: with numbered mbarriers. launch: constants from K_SMS on."""
    given = {
        "table": table, "events": events.instructions, "places": events.places, "starts": events.starts,
        "details": events.details, "lines": events.lines, "needed": needed,
        "constants": np.concatenate([[constants[name] for name in NAMES], launch]),
    }  # fmt: skip
    sizes = {
        "instructions": len(table), "warps": resident * events.warps, "blocks": resident,
        "mbarriers": len(needed), "lines of code": len(table) // CODE_LINE + 1,
    }  # fmt: skip
    return Sm(**{
        name: given[name] if name in given else np.zeros([size if isinstance(size, int) else sizes[size] for size in shape], kind)
        for name, (kind, shape) in FIELDS.items()
    })  # fmt: skip
