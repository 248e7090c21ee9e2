"""Blocks of a grid on several cores at once, where their order makes no difference.

Each core has a block's arrays of its own and takes the next run of blocks. What was read and written
of global memory is noted (`marking`): where two cores touched the same byte, something was found or a
limit was reached, nothing of it counts, and the launch is executed in order from its beginning. So
counts, findings and results are those of one core.
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

# Of what runs: besides a block's own arrays those that one core writes.
ITS_OWN = (
    *blocks.ITS_OWN, "scratch", "addresses", "counts", "patterns", "deltas", "touched", "faults",
    "control", "zeros", "peers",
)  # fmt: skip
LEAST = 4  # blocks (or clusters) for each core: for fewer the arrays take longer than they save
RUNS = 8  # runs of blocks that each core takes: the last ones end at about the same time
ORDERED, TIMED = re.compile(r"\.STRONG\.(GPU|SYS)"), re.compile(r"\bSR_(CLOCK|GLOBALTIMER)")


def unordered(program: Program) -> bool:
    """Whether nothing in a kernel lets a block wait for another one, but for those of its cluster: no atomics of
    global memory, no loads and stores that are ordered beyond the block."""
    rows = program.rows
    space = rows[:, c.SUB] >> 8 & 255
    atomics = (rows[:, c.FAMILY] == c.ATOMIC) & (space != c.SHARED)
    return not np.any(atomics) and not any(ORDERED.search(one.text) for one in program.instructions)


def independent(program: Program) -> bool:
    """Whether nothing in a kernel says that the order of its blocks can be seen: they cannot wait for each other,
    read no clock and print nothing."""
    timed = any(TIMED.search(one.text) for one in program.instructions)
    return not (program.prints or timed) and unordered(program)


@dataclass
class RemainingBlocks:
    """What is left of a launch: of ``total`` blocks (or clusters), of which the first ``working`` have work, those
    from ``following`` on."""

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
        """The next run of blocks, its first and the one behind its last."""
        with self.lock:
            first = self.following
            self.following = min(first + self.size, self.total)
            return None if self.stopped or first == self.total else (first, self.following)

    def used(self, instructions: int, done: int) -> None:
        """Note warp instructions that ran and blocks that are done; stops where instructions are more than may
        run, or time is up or will be long before the end."""
        with self.lock:
            self.spent += instructions
            self.done += done
            # Each core may have nearly done another one.
            most = max(
                (self.done + self.cores) / self.working,
                self.spent / (self.instructions or math.inf),
            )
            late = self.deadline.passed() or (
                self.working >= blocks.MANY and self.deadline.hopeless(most)
            )
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
    """Execute a launch with ``cores`` threads. Returns how many blocks were done: all of them, or 0
    where it has to be executed again, in order.

    state: of a block that has not begun; its memory and counts are the launch's afterwards. together:
    gives the blocks of a cluster by rank, see `launch`. fixed: whether each buffer is read-only. The
    others: see `blocks.run_grid`.
    """
    total = int(np.prod(grid)) // int(np.prod(cluster))
    working = min(-(-working // int(np.prod(cluster))) or total, total)
    work = RemainingBlocks(
        total, working, cores, max(1, total // (RUNS * cores)), instructions, deadline
    )
    marks = [marking.Marks(state, fixed) for _ in range(cores)]
    own = [
        one.watching(state._replace(**{name: getattr(state, name).copy() for name in ITS_OWN}))
        for one in marks
    ]
    sizes, dims = np.array(grid, np.int64), np.array(cluster, np.int64)
    blocks.spent(views.table(state))  # loads the loop, which two threads must not do at once
    deadline.skip()

    def on_one_core(first: s.State) -> None:
        states = together(first)
        tables = views.tables(states)
        while blocks_ := work.take():
            progress = np.array([blocks_[0], 0, 0], np.int64)
            found = 1
            while found == 1 and not work.stopped:
                before, first_one = blocks.spent(tables[0]), int(progress[0])
                found = blocks.run_some(
                    tables[0], progress, sizes, dims, threads, blocks_[1], 0, blocks.LOOK
                )
                work.used(blocks.spent(tables[0]) - before, int(progress[0]) - first_one)
            work.stopped |= found == 2

    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(on_one_core, own))
    found_any = any(one.control[s.FAULT_COUNT] for one in own)
    if work.stopped or found_any or not marking.apart(marks):
        return 0
    state.counts[...] = sum(one.counts for one in own)
    return int(np.prod(grid))
