"""Blocks of a grid, one after the other; the warps of a block take turns.

A warp runs until it waits. Warp after warp, with copies that land only when they are waited for,
is the order in which missing synchronisation shows; the shadow of shared memory finds it in any
order.
"""
# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,call-arg,var-annotated,attr-defined"

from __future__ import annotations

import threading
import time
from collections import Counter

import numpy as np
from numba import njit
from numpy import int64, uint32

from tilewave.machine import codes
from tilewave.machine import views as view
from tilewave.machine.accesses import fault
from tilewave.machine.state import (
    BUDGET,
    CLASS_NOW,
    FIRST_TICK,
    FREE,
    NEVER_REACHED,
    OUT_OF_BUDGET,
    QUANTUM,
    READY,
    REVERSED,
    SLOTS,
    STOP,
    TAKEN,
    TICK,
    WARPS,
)
from tilewave.machine.warp import new_group, run_warp

ALL = uint32(0xFFFFFFFF)
CTAID = 3  # place of SR_CTAID.X in codes.SPECIAL_REGISTERS; .Y and .Z follow
MOST_TICKS = 1 << 21  # then the shadow starts anew


@njit(cache=True)
def begin_block(m, number, grid_x, grid_y, threads):
    """Registers, predicates, barriers and shared memory as a block finds them."""
    warps = view.control(m)[WARPS]
    if view.control(m)[TICK] > MOST_TICKS:
        view.shadow(m)[:] = uint32(0)
        view.reads(m)[:, :] = uint32(0)
        view.control(m)[TICK] = 1
    view.control(m)[TICK] += 1
    view.control(m)[FIRST_TICK] = view.control(m)[TICK]
    view.control(m)[TAKEN] = number
    place = (number % grid_x, number // grid_x % grid_y, number // (grid_x * grid_y))
    view.shared(m)[:] = ALL
    view.arrived(m)[:, :] = uint32(0)
    view.clocks(m)[:, :] = uint32(0)
    view.expected(m)[:, :] = 0
    view.known(m)[:, :] = uint32(0)
    view.last_read(m)[:] = uint32(0)
    view.safe(m)[:] = uint32(0)
    view.queued(m)[:, :] = 0
    for warp in range(warps):
        view.registers(m)[warp, :255] = uint32(0)
        view.uniforms(m)[warp, :] = uint32(0)
        view.predicates(m)[warp, :] = uint32(0)
        view.predicates(m)[warp, 7] = ALL
        view.predicates(m)[warp, 15] = ALL
        view.converge(m)[warp, :, :] = uint32(0)
        view.groups(m)[warp, :, 2] = FREE
        for axis in range(3):
            view.identity(m)[warp, CTAID + axis, :] = uint32(place[axis])
        lanes = min(32, threads - 32 * warp)
        live = ALL if lanes == 32 else uint32((1 << lanes) - 1)
        view.live(m)[warp] = live
        new_group(m, int64(warp), int64(0), uint32(live), int64(READY), int64(0))


@njit(cache=True)
def block_alive(m):
    """Whether any thread of the block has not ended."""
    for warp in range(view.control(m)[WARPS]):  # noqa: SIM110 (numba knows no any())
        if view.live(m)[warp]:
            return True
    return False


@njit(cache=True, nogil=True)
def run_block(m, limit):
    """Give every warp its turns until the block ends, is stuck, or ``limit`` instructions ran.

    Returns 0 where it ended, 1 where it goes on, 2 where it stopped for a fault.
    """
    warps = view.control(m)[WARPS]
    used = int64(0)
    while True:
        moved = int64(0)
        for turn in range(warps):
            warp = warps - 1 - turn if view.control(m)[REVERSED] else turn
            if view.live(m)[warp]:
                moved += run_warp(m, int64(warp), view.control(m)[QUANTUM])
                if view.control(m)[STOP]:
                    return 2
        if not block_alive(m):
            return 0
        if not moved:
            stuck(m)
            return 2
        used += moved
        if used >= limit:
            return 1


@njit(cache=True)
def stuck(m):
    """Nobody can go on: name the warp and lanes that wait, at the instruction where they wait."""
    for warp in range(view.control(m)[WARPS]):
        for slot in range(SLOTS):
            if view.groups(m)[warp, slot, 2] > READY:
                pc = view.groups(m)[warp, slot, 0]
                lanes = uint32(view.groups(m)[warp, slot, 1])
                fault(
                    m, int64(NEVER_REACHED), int64(pc), int64(warp), lanes, int64(-1), int64(0),
                    int64(1),
                )  # fmt: skip
                return


@njit(cache=True, nogil=True)
def run_some(m, state, grid_x, grid_y, threads, total, reverse, limit):
    """Run blocks until ``limit`` instructions ran.

    state: int64 (3,): next block, whether one is under way, blocks done. Returns as `run_block`,
    0 where the grid ended.
    """
    before = view.control(m)[BUDGET]
    while True:
        if not state[1]:
            if state[0] == total:
                return 0
            number = total - 1 - state[0] if reverse else state[0]
            begin_block(m, number, grid_x, grid_y, threads)
            state[1] = 1
        found = run_block(m, limit)
        if found == 2:
            return 2
        if found == 0:
            state[0] += 1
            state[1] = 0
        if before - view.control(m)[BUDGET] >= limit:
            return 1


@njit(cache=True)
def spent(m):
    """Warp instructions executed so far."""
    return -view.control(m)[BUDGET]


def run_grid(
    m: np.ndarray,
    grid: tuple[int, ...],
    threads: int,
    total: int,
    instructions: int,
    deadline: float,
    reverse: bool,
) -> int:
    """Run all blocks; notes a fault where a limit ends it. Returns how many blocks were done."""
    progress = np.zeros(3, np.int64)
    # No block: compiled, where that is still to do, before the clock counts.
    begun = time.perf_counter()
    run_some(m, progress, grid[0], grid[1], threads, 0, reverse, 0)
    deadline = deadline and deadline + time.perf_counter() - begun
    step = 1_000_000  # instructions between looks at the clock
    while True:
        used = spent(m)
        if (instructions and used >= instructions) or (deadline and time.perf_counter() > deadline):
            pc, warp, lanes = _somewhere(m)
            fault(m, OUT_OF_BUDGET, pc, warp, lanes, -1, used, 1)
            break
        if instructions:
            step = min(step, max(1, instructions - used))
        if run_some(m, progress, grid[0], grid[1], threads, total, reverse, step) != 1:
            break
    return int(progress[0])


@njit(cache=True)
def _somewhere(m):
    """A place where the block under way is: program counter, warp, lanes."""
    for warp in range(view.control(m)[WARPS]):
        for slot in range(SLOTS):
            if view.groups(m)[warp, slot, 2] == READY:
                return (
                    view.groups(m)[warp, slot, 0],
                    int64(warp),
                    uint32(view.groups(m)[warp, slot, 1]),
                )
    return int64(-1), int64(0), uint32(0)


class Sampler:
    """Looks, a thousand times a second, at which class of instruction is being executed."""

    def __init__(self, control: np.ndarray) -> None:
        self._control = control
        self._seen: Counter[int] = Counter()
        self._on = True
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while self._on:
            time.sleep(0.001)
            self._seen[int(self._control[CLASS_NOW])] += 1

    def stop(self) -> dict[str, float]:
        """Share of the samples by class."""
        self._on = False
        self._thread.join()
        total = sum(self._seen.values()) or 1
        return {codes.CLASSES[index]: count / total for index, count in self._seen.most_common()}
