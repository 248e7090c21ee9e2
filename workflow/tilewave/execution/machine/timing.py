"""Model of time: the cycles of a launch, from the events of one of its blocks.

`events` says what the warps of a block execute and access, `pipes` what the code says of each instruction, and `cycles` runs
an SM with as many blocks as fit. A few rounds of blocks are simulated, and further ones take as long as the last. Not modelled: waits for other blocks,
where in the L2 data lie, and clocks. docs/timing.md says how far off it is.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from tilewave.basics.errors import NoTime
from tilewave.basics.memory import repeat
from tilewave.basics.tables import table_beside
from tilewave.execution.machine import cycles, pipes, sm, views
from tilewave.execution.machine import events as recorded
from tilewave.execution.machine.arguments import Buffer
from tilewave.execution.machine.events import BlockEvents
from tilewave.execution.machine.launch import SMS, Limits, cluster_of, state_of
from tilewave.execution.machine.program import Program
from tilewave.theory import architectures
from tilewave.theory.data_sheets import DataSheet
from tilewave.theory.occupancy import SmLimits, occupancy, round_up

CONSTANTS: dict[str, float] = table_beside(sm.__file__)
MEASURED_ON = 4800e9  # bytes per second of the H200 whose constants these are
ROUNDS = 3
"""Rounds of blocks of an SM that are simulated; more take as long as the last of them."""
MOST_CYCLES = 50_000_000
MOST_EVENTS = 1_200_000
MOST_SHARES, LONGER = 8, 1.01
"""Blocks that share a counter, where its buffer does not say it; how much more the last of them executes."""
L1_BYTES, L1_LEAST = 256 << 10, 8 << 10
COMPULSORY = 0.8
"""Share of its L2 above which a launch's stores reach DRAM while it runs."""
SECTOR_BYTES = 32 * np.array([bin(mask).count("1") for mask in range(16)])


@dataclass(frozen=True)
class Time:
    """Cycles of a launch, of which instruction warps waited for what, and how many rounds of blocks an SM
    runs. stalls: float64 (instructions, reasons)."""

    cycles: float
    stalls: np.ndarray
    rounds: float
    reasons: tuple[str, ...] = sm.REASONS


def _numbered(events: BlockEvents, table: np.ndarray) -> tuple[BlockEvents, np.ndarray]:
    """Return events whose mbarriers are numbers from 0 on, and the arrivals that a phase of each needs."""
    details = events.details.copy()
    first = details[:, recorded.C] == recorded.INITIAL
    needed = dict(details[first][:, [recorded.A, recorded.B]].tolist())
    used = np.flatnonzero(events.places >= 0)
    codes = events.instructions[used]
    kinds = table[np.where(codes >= 0, codes, -1 - codes), sm.KIND]
    marks = (sm.ARRIVAL, sm.TEST, sm.REMOTE, sm.BULK)
    places = events.places[used[np.isin(kinds, marks)]]
    offsets = np.unique(details[places, recorded.A])
    details[places, recorded.A] = np.searchsorted(offsets, details[places, recorded.A])
    bulk = details[places, recorded.A] < 0
    details[places[bulk], recorded.A] = -1
    arrivals = [needed.get(at, 1) for at in offsets.tolist()]
    return replace(events, details=details), np.array(arrivals, np.int64)


def _distinct_stores(events: BlockEvents, table: np.ndarray) -> float:
    """Return the share of the sectors that a block's stores send which are distinct: the L2 joins the others."""
    used = np.flatnonzero((events.places >= 0) & (events.instructions >= 0))
    row = table[events.instructions[used]]
    storing = used[(row[:, sm.KIND] == sm.GLOBAL_ACCESS) & (row[:, sm.X] == sm.STORE)]
    first, count = events.details[events.places[storing], recorded.FIRST :].T
    sent = np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())
    lines = events.lines[sent]
    distinct = SECTOR_BYTES[_joined(lines) & 15].sum()
    return float(distinct / max(SECTOR_BYTES[lines & 15].sum(), 1))


def _joined(lines: np.ndarray) -> np.ndarray:
    """Return each line once, with the sectors of all its accesses."""
    ordered = np.sort(lines)
    begins = np.flatnonzero(np.diff(ordered >> 4, prepend=-1))
    return np.bitwise_or.reduceat(ordered, begins) if len(ordered) else ordered


@dataclass(frozen=True)
class LaunchModel:
    """A launch as the model sees it. footprint: bytes of its buffers."""

    program: Program
    gpu: DataSheet
    footprint: float
    grid: Sequence[int]
    cluster: Sequence[int]
    shared_bytes: int
    constants: Mapping[str, float] = field(default_factory=lambda: CONSTANTS)

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def together(self) -> int:
        """Blocks of a cluster."""
        return math.prod(self.cluster)

    @cached_property
    def table(self) -> np.ndarray:
        """See `pipes.table`."""
        return pipes.table(self.program)

    def time(self, of_block: BlockEvents) -> Time:
        """Return the time of the launch from the `events` of a block. Raises NoTime."""
        ends = of_block.how in (recorded.ENDED, recorded.FULL, recorded.POLLS)
        if not ends or not len(of_block.instructions):
            raise NoTime("a block does not end on the CPU")
        image, gpu, blocks, together = self.program.image, self.gpu, self.blocks, self.together
        shared = architectures.of(image.arch).declared(image.shared_size) + self.shared_bytes
        limits = SmLimits.of(image.arch)
        fitting = occupancy(limits, 32 * of_block.warps, image.registers, shared).blocks
        most = -(-blocks // (gpu.sms // together * together))  # of an SM
        resident = max(1, min(fitting, most))
        numbered, needed = _numbered(of_block, self.table)
        touched = float(SECTOR_BYTES[_joined(of_block.lines) & 15].sum())
        share = min(1.0, self.footprint / max(touched * blocks, 1.0))
        busy = min(gpu.sms, blocks)
        k = dict(self.constants)
        bandwidth = k["dram_rate"] * gpu.machine.bandwidth / MEASURED_ON
        for name, rate in (("l2_rate", k["l2_rate"]), ("dram_rate", bandwidth)):
            k[name] = min(k["port"], rate * gpu.sms / busy)
        k["part"] *= busy / gpu.sms
        of_shared = resident * round_up(shared + limits.shared_reserved, limits.shared_unit)
        left = max(L1_BYTES - of_shared, L1_LEAST)
        ways = max(1, min(sm.WAYS, left // (sm.SETS * int(sm.LINE))))
        large = self.footprint > COMPULSORY * gpu.l2_bytes
        stores = _distinct_stores(of_block, self.table) if large else 0.0
        gap = k["next_cluster" if together > 1 else "next_block"]
        facts = np.array([busy, share, stores, ways, gap], np.float64)

        def run(rounds: int) -> tuple[float, sm.Sm]:
            arrays = sm.allocated(self.table, numbered, needed, resident, k, facts)
            spent = cycles.simulate(views.table(arrays), min(rounds * resident, most), MOST_CYCLES)
            if spent < 0:
                late = f"it takes more than {MOST_CYCLES} cycles"
                raise NoTime("a block waits for another" if spent == -1 else late)
            return float(spent), arrays

        total, arrays = run(ROUNDS)
        simulated = min(ROUNDS * resident, most)
        if most > simulated:
            total += (total - run(ROUNDS - 1)[0]) * (most - simulated) / resident
        least = float(arrays.shared[sm.BUSY_DRAM :].max()) * most / simulated
        whole = of_block.executed / len(of_block.instructions)
        spent = whole * max(total, k["start"] + k["dram"] + least)
        return Time(spent, arrays.stalls, most / resident)


def predicted(
    program: Program,
    gpu: DataSheet,
    footprint: float,
    grid: Sequence[int],
    block: Sequence[int],
    arguments: Sequence[Any],
    *,
    shared_bytes: int = 0,
    cluster: Sequence[int] | None = None,
    memory: Sequence[Buffer] = (),
    sms: int = SMS,
    patterns: Mapping[str, np.ndarray] = MappingProxyType({}),
) -> Time:
    """Return the time of a launch, whose parameters are those of `launch.execute`. Raises NoTime.
    footprint: bytes of its buffers. patterns: what a large buffer of zeros repeats, by name."""
    launch = LaunchModel(program, gpu, footprint, grid, tuple(cluster or (1, 1, 1)), shared_bytes)
    count = launch.blocks // launch.together
    limits, threads, shares = Limits(races=False), math.prod(block), dict[int, int]()

    def events(number: int, preset: tuple[int, int] | None = None) -> BlockEvents:
        how = shared_bytes, limits, launch.cluster, memory, sms
        first, placed = state_of(program, grid, block, arguments, *how)
        for start, buffer in placed:
            if buffer.name in patterns:
                area = first.memory.view(np.uint8)[start : start + buffer.array.nbytes]
                repeat(area, patterns[buffer.name])
        if preset is not None:
            first.memory[preset[0]] = preset[1]
        states = cluster_of(first, launch.together)
        following = recorded.of_block(states, grid, launch.cluster, threads, number, MOST_EVENTS)
        if preset is None and following.counter >= 0:
            inside = first.ranges - first.origin[0] - 4 * following.counter
            size = int(np.diff(inside[(inside[:, 0] <= 0) & (inside[:, 1] > 0)])[0, 0]) // 4
            shares[number] = count // size
        return following

    def last(number: int, block: BlockEvents) -> tuple[int, BlockEvents] | None:
        """Return what a block does that finds a counter as the last of several does, and how many these are."""
        tries = min(MOST_SHARES, MOST_EVENTS // block.executed)
        for before in dict.fromkeys([shares.get(number, 0) - 1, *range(1, tries)]):
            if block.counter >= 0 and before > 0:
                again = events(number, (block.counter, before))
                if again.executed > LONGER * block.executed:
                    return before + 1, again
        return None

    return _slowest(samples(count, sms // launch.together), events, last, launch.time)


def samples(count: int, apart: int) -> list[list[int]]:
    """Return numbers of blocks of the first SM, and of the SM of the last block, ``apart`` blocks from each other."""
    last, half = count - 1, -(-count // apart) // 2 * apart
    of_sms = (0, min(half, last // apart * apart)), (last, max(last - half, last % apart))
    return [list(dict.fromkeys(numbers)) for numbers in of_sms]


def _slowest(
    of_sms: Iterable[Iterable[int]],
    events: Callable[[int], BlockEvents],
    last: Callable[[int, BlockEvents], tuple[int, BlockEvents] | None],
    time_of: Callable[[BlockEvents], Time],
) -> Time:
    """Return the time of the slowest SM, whose blocks take as long as its samples on average.
    A block that waits for others, as in the fix-up of stream-K, counts only if all samples do. Of blocks that share a
    counter, one is the last and does more."""
    times: dict[int, Time] = {}

    def timed(block: BlockEvents) -> Time:
        key = hash((block.executed, len(block.lines), block.details[:, : recorded.FIRST].tobytes()))
        if key not in times:
            times[key] = time_of(block)
        return times[key]

    @lru_cache
    def of_block(number: int) -> tuple[bool, Time]:
        block = events(number)
        spent = timed(block)
        if further := last(number, block):
            share, longer = further[0], timed(further[1])
            more = (longer.cycles - spent.cycles) / (share if spent.rounds > 1 else 1)
            spent = replace(longer, cycles=spent.cycles + max(more, 0.0))
        return block.how == recorded.POLLS, spent

    sampled = [[of_block(number) for number in numbers] for numbers in of_sms]
    free = [[spent for waits, spent in blocks if not waits] for blocks in sampled]
    kept = [blocks for blocks in free if blocks] or [[spent for _, spent in sampled[0]]]

    def mean(blocks: Sequence[Time]) -> float:
        return sum(spent.cycles for spent in blocks) / len(blocks)

    longest = max(kept, key=mean)
    return replace(longest[0], cycles=mean(longest))
