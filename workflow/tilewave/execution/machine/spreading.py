"""Blocks of a grid on several cores at once, if their order makes no difference.

Each core has its own block arrays and takes the next run of blocks. `marking` notes what it reads and writes of global
memory. If two cores touch the same byte, a fault is found or a limit is reached, the result is dropped and the launch
is executed again, in order. So counts, findings and results are those of one core.
"""

import math
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from tilewave.basics.deadline import Deadline
from tilewave.execution.machine import blocks, marking, views
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import state as s
from tilewave.execution.machine.program import Program

# Arrays that each core needs for itself: those of a block, and others that it writes.
CORE_ARRAYS = (
    *blocks.BLOCK_ARRAYS, "scratch", "addresses", "counts", "patterns", "deltas", "touched", "faults",
    "control", "zeros", "peers",
)  # fmt: skip
LEAST = 4  # blocks (or clusters) for each core: with fewer, copying the arrays costs more
RUNS = 8  # runs of blocks that each core takes, so that all end at about the same time
OBSERVING = re.compile(r"\.STRONG\.(GPU|SYS)|\bSR_(CLOCK|GLOBALTIMER)")


def independent(program: Program) -> bool:
    """Return whether blocks cannot observe their order: no atomics, scopes, clocks or prints."""
    rows = program.rows
    space = rows[:, c.SUB] >> 8 & 255
    atomics = (rows[:, c.FAMILY] == c.ATOMIC) & (space != c.SHARED)
    seen = program.prints or np.any(atomics)
    return not (seen or any(OBSERVING.search(line.text) for line in program.instructions))


@dataclass
class RemainingBlocks:
    """Blocks (or clusters) from ``following`` to ``total``; the first ``working`` have work."""

    total: int
    working: int
    cores: int
    size: int
    instructions: int
    deadline: Deadline
    following: int = 0
    spent: int = 0
    done: int = 0
    stopped: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> tuple[int, int] | None:
        """Return the next run of blocks as (first, end); None if none is left."""
        with self.lock:
            first = self.following
            self.following = min(first + self.size, self.total)
            return None if self.stopped or first == self.total else (first, self.following)

    def used(self, instructions: int, done: int) -> None:
        """Add warp instructions and finished blocks; stop if a limit is reached or will be."""
        with self.lock:
            self.spent += instructions
            self.done += done
            # Each core may have nearly finished another one.
            share = (self.done + self.cores) / self.working
            most = max(share, self.spent / (self.instructions or math.inf))
            late = self.deadline.passed()
            late |= self.working >= blocks.MANY and self.deadline.hopeless(most)
            self.stopped |= late or (bool(self.instructions) and self.spent >= self.instructions)


def run(
    state: s.State,
    together: Callable[[s.State], list[s.State]],
    fixed: Sequence[bool],
    cores: int,
    grid: Sequence[int],
    cluster: Sequence[int],
    threads: int,
    instructions: int,
    deadline: Deadline,
    working: int = 0,
) -> int:
    """Execute a launch with ``cores`` threads. Return the number of blocks; 0 to execute it again, in order.

    state: that of a block before its start; afterwards it holds memory and counts of the launch. together:
    returns the blocks of a cluster by rank, see `launch`. fixed: whether each buffer is read-only. Other
    parameters: see `blocks.run_grid`.
    """
    total = int(np.prod(grid)) // int(np.prod(cluster))
    working = min(-(-working // int(np.prod(cluster))) or total, total)
    size = max(1, total // (RUNS * cores))
    work = RemainingBlocks(total, working, cores, size, instructions, deadline)
    marks = [marking.Marks(state, fixed) for _ in range(cores)]
    core_states = [
        mark.watching(state._replace(**{name: getattr(state, name).copy() for name in CORE_ARRAYS}))
        for mark in marks
    ]
    sizes, dims = np.array(grid, np.int64), np.array(cluster, np.int64)
    blocks.spent(views.table(state))  # load the loop before the threads start
    deadline.skip()

    def on_core(first: s.State) -> None:
        states = together(first)
        tables = views.tables(states)
        while blocks_ := work.take():
            progress = np.array([blocks_[0], 0, 0], np.int64)
            outcome = 1
            while outcome == 1 and not work.stopped:
                before, first_block = blocks.spent(tables[0]), int(progress[0])
                outcome = blocks.run_some(
                    tables[0], progress, sizes, dims, threads, blocks_[1], 0, blocks.LOOK
                )
                work.used(blocks.spent(tables[0]) - before, int(progress[0]) - first_block)
            work.stopped |= outcome == 2

    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(on_core, core_states))
    faulty = any(core.control[s.FAULT_COUNT] for core in core_states)
    if work.stopped or faulty or not marking.apart(marks):
        return 0
    state.counts[...] = sum(core.counts for core in core_states)
    return int(np.prod(grid))
