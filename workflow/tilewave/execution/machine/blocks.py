"""Blocks of a grid, one after the other; the warps of a block take turns.
A warp runs until it waits, and its copies land only when they are waited for. In this order missing
synchronisation changes results; the shadow of shared memory finds it in any order."""

from collections.abc import Sequence

import numpy as np
from numpy import int64, uint32

from tilewave.basics.deadline import Deadline
from tilewave.basics.jit import njit
from tilewave.execution.machine import exchanges, written
from tilewave.execution.machine import state as s
from tilewave.execution.machine import views as view
from tilewave.execution.machine.cluster import all_landed, all_read
from tilewave.execution.machine.codes import NAMES, SPECIAL_REGISTERS
from tilewave.execution.machine.compiling import entry
from tilewave.execution.machine.state import State
from tilewave.execution.machine.validity import fault
from tilewave.execution.machine.warp import new_group, run_warp

ALL = uint32(0xFFFFFFFF)
UNDEFINED = 255  # registers of a lane without a thread
LARGE = uint32(0x7F7FFFFF)  # the largest float, which neither a maximum, a minimum nor a sum hides
CTAID = 3  # place of SR_CTAID.X in codes.SPECIAL_REGISTERS; .Y and .Z follow
SM = SPECIAL_REGISTERS.index("SR_VIRTUALSMID")
MOST_TICKS = 1 << 21  # then the shadow is cleared
LOOK = 100_000  # instructions between looks at the clock
MANY = 32  # blocks (or clusters): so many are enough to predict the time of the rest
BLOCK_ARRAYS = NAMES["block_arrays"]


@njit
def begin_blocks(m, number, grid, cluster, threads):
    """Initialise the blocks of a cluster; ``number`` counts clusters as a grid counts blocks.
    grid, cluster: int64 (3,), in blocks. Without clusters each is one block."""
    blocks, control = view.block_control(m)[s.BLOCKS], view.control(m)
    if control[s.TICK] > MOST_TICKS:
        for rank in range(blocks):
            view.fill(view.shadow(view.peer(m, rank)), uint32(0))
            view.fill(view.reads(view.peer(m, rank)), uint32(0))
        control[s.PASSED] += control[s.TICK]
        control[s.TICK] = 1
    control[s.TICK] += 1
    control[s.FIRST_TICK] = control[s.TICK]
    wide, high = grid[0] // cluster[0], grid[1] // cluster[1]
    x = number % wide * cluster[0]
    y = number // wide % high * cluster[1]
    z = number // (wide * high) * cluster[2]
    for rank in range(blocks):
        at_x = x + rank % cluster[0]
        at_y = y + rank // cluster[0] % cluster[1]
        at_z = z + rank // (cluster[0] * cluster[1])
        begin_block(
            view.peer(m, rank), (at_z * grid[1] + at_y) * grid[0] + at_x, grid[0], grid[1], threads
        )


@njit
def begin_block(m, number, grid_x, grid_y, threads):
    """Initialise registers, predicates, barriers and shared memory of a block."""
    warps = view.control(m)[s.WARPS]
    view.control(m)[s.TAKEN] = number
    block_control = view.block_control(m)
    written.begin_block(m)
    block_control[s.NUMBER], block_control[s.MBARRIER_COUNT], block_control[s.POOL] = number, 0, 0
    for time in range(s.FENCED, s.BLOCK_CONTROL_SIZE):
        block_control[time] = 0
    view.fill(view.phases(m), uint32(0))
    view.fill(view.turned(m), int64(0))
    view.fill(view.arrivals(m), int64(0))
    for warp in range(warps):
        view.outstanding(m)[warp, 0, 0] = 0
        view.outstanding(m)[warp, 1, 0] = 0
    view.fill(view.meetings(m), int64(0))
    view.fill(view.gathered(m), uint32(0))
    view.fill(view.quota(m), block_control[s.REGISTERS_AT_FIRST])
    coordinates = (number % grid_x, number // grid_x % grid_y, number // (grid_x * grid_y))
    filling = uint32(view.control(m)[s.FILLING])
    view.fill(view.shared(m), filling)
    if filling != ALL:
        view.fill(view.local(m), filling)
    view.fill(view.arrived(m), uint32(0))
    view.fill(view.barrier_clocks(m), uint32(0))
    view.fill(view.expected(m), int64(0))
    view.fill(view.clocks(m), uint32(0))
    if view.control(m)[s.ASYNCHRONOUS]:
        for block in range(block_control[s.BLOCKS]):
            for warp in range(warps):
                column = block * view.control(m)[s.ACTORS] + 3 * warps + s.ELSEWHERE
                view.clocks(m)[warp, column] = ALL
    view.fill(view.last_read(m), uint32(0))
    view.fill(view.safe(m), uint32(0))
    view.fill(view.unfenced(m), uint32(0))
    view.fill(view.apart(m), int64(0))
    view.fill(view.queued(m), int64(0))
    view.fill(view.registers(m), uint32(0))
    view.fill(view.uniforms(m), uint32(0))
    view.fill(view.predicates(m), uint32(0))
    view.fill(view.converge(m), uint32(0))
    for warp in range(warps):
        view.predicates(m)[warp, 7] = ALL
        view.predicates(m)[warp, 15] = ALL
        for slot in range(s.SLOTS):
            view.groups(m)[warp, slot, 2] = s.FREE
        # Debug code does not load the top of the stack but expects it here.
        view.fill(view.registers(m)[warp, 1], uint32(view.control(m)[s.LOCAL_BYTES]))
        for axis in range(3):
            view.fill(view.identity(m)[warp, CTAID + axis], uint32(coordinates[axis]))
        view.fill(view.identity(m)[warp, SM], uint32(number % view.control(m)[s.SMS]))
        lanes = min(32, threads - 32 * warp)
        live = ALL if lanes == 32 else uint32((1 << lanes) - 1)
        for register in range(UNDEFINED if lanes < 32 else 0):  # what a shuffle gets from no thread
            for lane in range(lanes, 32):
                view.registers(m)[warp, register, lane] = LARGE | uint32(lane & 1) << uint32(31)
        exchanges.met(m, warp)
        view.live(m)[warp] = live
        new_group(m, int64(warp), int64(0), uint32(live), int64(s.READY), int64(0))


@njit
def block_alive(m):
    """Return whether any thread of the block, or of its cluster, is still running."""
    for rank in range(view.block_control(m)[s.BLOCKS]):
        live = view.live(view.peer(m, rank))
        for warp in range(view.control(m)[s.WARPS]):
            if live[warp]:
                return True
    return False


@njit
def run_block(m, limit):
    """Run each warp in turn until the block (or its cluster) ends, is stuck or ran ``limit`` instructions.
    Returns 0 if it ended, 1 if it goes on, 2 if it stopped for a fault."""
    warps, blocks = view.control(m)[s.WARPS], view.block_control(m)[s.BLOCKS]
    backwards = view.control(m)[s.REVERSED]
    used = int64(0)
    while True:
        moved = int64(0)
        for index in range(blocks):
            block = view.peer(m, blocks - 1 - index if backwards else index)
            view.control(m)[s.TAKEN] = view.block_control(block)[s.NUMBER]
            for turn in range(warps):
                warp = warps - 1 - turn if backwards else turn
                if view.live(block)[warp]:
                    moved += run_warp(block, int64(warp), view.control(m)[s.QUANTUM])
                    if view.control(m)[s.STOP]:
                        return 2
        if not block_alive(m):
            all_landed(m)
            all_read(m)
            return 0
        if not moved:
            stuck(m)
            return 2
        used += moved
        if used >= limit:
            return 1


@njit
def stuck(m):
    """Note a deadlock: the first waiting warp, its lanes and the instruction where they wait."""
    for rank in range(view.block_control(m)[s.BLOCKS]):
        groups = view.groups(view.peer(m, rank))
        view.control(m)[s.TAKEN] = view.block_control(view.peer(m, rank))[s.NUMBER]
        for warp in range(view.control(m)[s.WARPS]):
            for slot in range(s.SLOTS):
                if groups[warp, slot, 2] > s.READY:
                    pc = groups[warp, slot, 0]
                    lanes = uint32(groups[warp, slot, 1])
                    fault(m, s.NEVER_REACHED, pc, warp, lanes, -1, 0, 1)
                    return


@entry("loop")
def run_some(table, state, grid, cluster, threads, total, reverse, limit):
    """Run blocks until ``limit`` instructions ran.
    state: int64 (3,): next block (or cluster), whether one is running. total: their number. Returns
    as `run_block`, 0 if the grid ended."""
    m, state = view.opened(table), view.int64s(state, (3,))
    grid, cluster = view.int64s(grid, (3,)), view.int64s(cluster, (3,))
    before = view.control(m)[s.BUDGET]
    while True:
        if not state[1]:
            if state[0] == total:
                return 0
            number = total - 1 - state[0] if reverse else state[0]
            begin_blocks(m, number, grid, cluster, threads)
            state[1] = 1
        outcome = run_block(m, limit)
        if outcome == 2:
            return 2
        if outcome == 0:
            state[0] += 1
            state[1] = 0
        if before - view.control(m)[s.BUDGET] >= limit:
            return 1


@entry("loop")
def spent(table):
    """Return the warp instructions executed so far."""
    return -view.control(view.opened(table))[s.BUDGET]


@entry("loop")
def begin(table, number, grid, cluster, threads):
    begin_blocks(
        view.opened(table), number, view.int64s(grid, (3,)), view.int64s(cluster, (3,)), threads
    )
    return int64(0)


@entry("loop")
def run(table, warp, budget):
    return run_warp(view.opened(table), warp, budget)


class Contexts:
    """Suspended blocks (or clusters), which wait for a flag of another block in global memory.

    Memory is bounded by one block until a block polls: it executes only loads and comparisons, again
    and again. states: those of the running block or cluster. waits: bool (instructions,), whether one
    may belong to polling. loads: bool (instructions,), whether one loads from global memory.
    """

    def __init__(self, states: Sequence[State], waits: np.ndarray, loads: np.ndarray) -> None:
        self._states, self._waits, self._loads = states, waits, loads
        self._seen = self._executed()
        self.aside: list[tuple[int, int, list[dict[str, np.ndarray]]]] = []

    def _executed(self) -> np.ndarray:
        counts = [np.array(state.counts[:, s.EXECUTED]) for state in self._states[:1]]
        return counts[0] if counts else np.zeros(0, np.int64)

    def polls(self) -> bool:
        """Return whether only polling happened since the last call."""
        now = self._executed()
        done, self._seen = now != self._seen, now
        return bool(np.all(self._waits[done]) and np.any(self._loads[done]))

    def put_aside(self) -> None:
        """Suspend the running block: copy its arrays."""
        held = [
            {name: getattr(state, name).copy() for name in BLOCK_ARRAYS} for state in self._states
        ]
        first, now = self._states[0].control[[s.FIRST_TICK, s.TICK]].tolist()
        self.aside.append((first, now, held))

    def take_next(self) -> bool:
        """Resume the block that has waited longest. Returns False if none waits."""
        if not self.aside:
            return False
        first, then, held = self.aside.pop(0)
        control = self._states[0].control
        control[s.FIRST_TICK] = first
        control[s.TICK] = max(int(control[s.TICK]), then)  # the clock may have been reset
        for state, arrays in zip(self._states, held):
            for name, array in arrays.items():
                getattr(state, name)[...] = array
        return True


def run_grid(
    m: np.ndarray,
    grid: tuple[int, ...],
    threads: int,
    total: int,
    instructions: int,
    deadline: Deadline,
    reverse: bool,
    cluster: tuple[int, ...] = (1, 1, 1),
    contexts: Contexts | None = None,
    working: int = 0,
) -> int:
    """Run all blocks; note a fault if a limit ends them. Returns the number of finished blocks.

    working: the number of first blocks that have work; 0: all.

    A block that only polls global memory is suspended, and the next one begins; the last ones take
    turns. The first of many blocks predict whether all finish in time; if not, the launch ends.
    """
    progress = np.zeros(3, np.int64)
    sizes, dims = np.array(grid, np.int64), np.array(cluster, np.int64)
    together = int(np.prod(cluster))
    total //= together
    working = min(-(-working // together) or total, total)
    contexts = contexts or Contexts([], np.zeros(0, bool), np.zeros(0, bool))
    # Run no block: this compiles the loop before the clock starts.
    run_some(m, progress, sizes, dims, threads, 0, reverse, 0)
    deadline.skip()
    step = LOOK
    while True:
        used = spent(m)
        # An endless kernel should reach the instruction limit, which shows that it is endless.
        done = max(progress[0] / working, used / instructions if instructions else 0.0)
        late = deadline.passed() or (
            working >= MANY and not contexts.aside and deadline.hopeless(done)
        )
        if (instructions and used >= instructions) or late:
            out_of_budget(m)
            break
        if instructions:
            step = min(step, max(1, instructions - used))
        before = int(progress[0])
        outcome = run_some(m, progress, sizes, dims, threads, total, reverse, step)
        if outcome == 2 or (outcome == 0 and not contexts.take_next()):
            break
        if outcome == 0:
            progress[:2] = total - 1, 1
        elif progress[1] and before == progress[0] and contexts.polls():
            if before < total - 1:
                contexts.put_aside()
                progress[:2] = before + 1, 0
            elif contexts.aside:
                contexts.put_aside()
                contexts.take_next()
    return (int(progress[0]) - len(contexts.aside)) * together


@entry("loop")
def out_of_budget(table):
    """Note where the running block is: program counter, warp, lanes."""
    m = view.opened(table)
    pc, warp, lanes = int64(-1), int64(0), uint32(0)
    for rank in range(view.block_control(m)[s.BLOCKS]):
        groups = view.groups(view.peer(m, rank))
        view.control(m)[s.TAKEN] = view.block_control(view.peer(m, rank))[s.NUMBER]
        for turn in range(view.control(m)[s.WARPS] * s.SLOTS):
            slot = turn % s.SLOTS
            if pc < 0 and groups[turn // s.SLOTS, slot, 2] == s.READY:
                warp = turn // s.SLOTS
                pc, lanes = groups[warp, slot, 0], uint32(groups[warp, slot, 1])
        if pc >= 0:
            break
    used = -view.control(m)[s.BUDGET]
    fault(m, s.OUT_OF_BUDGET, pc, warp, lanes, -1, used, 1)
    return int64(0)
