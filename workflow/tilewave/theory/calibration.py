"""The costs of a variant (`tilewave.theory.selection.Costs`) from a few of its measured cases.

Each case is an equation: the costs times the work of its launch are its duration. The costs are those
with the least sum of squared relative errors of which none is negative: a cost that is zero says that
these cases do not show it. What a step along k takes more where other SMs are busy is at most as much
again: kernels that fill the SMs at all these shapes tell the two apart by noise alone, and would be
expected to take no time for a long k on a few.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewave.theory.selection import (
    COSTS,
    OTHER_STEPS,
    STEPS,
    Costs,
    Launch,
    Shape,
    step_size,
    work,
)

Sizes = tuple[int, int, int]
"""m, n, k."""
SHAPES: Mapping[Sizes, str] = {
    (64, 64, 64): "a tile or a few: the launch",
    (128, 128, 128): "twice that: what of it is latency",
    (256, 256, 256): "little work on some SMs",
    (512, 512, 512): "on most of them",
    (1024, 1024, 1024): "one wave or less",
    (4096, 4096, 4096): "full waves",
    (512, 512, 8192): "few tiles and a long k: steps on idle SMs, and parts that are added",
    (4096, 128, 4096): "a skinny product: few tiles, A from DRAM",
    (128, 4096, 4096): "the same with B, of which other tiles have each row",
    (8192, 8192, 128): "a short k: the ends of tiles",
}
"""The cases of a variant that its costs are taken from: each shows what the others do not."""
LEAST = 3
"""Cases without which a variant has no costs."""
SATURATING = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
"""Blocks that may be needed to keep an SM busy."""
GAIN = 0.9
"""A larger number of them must lower the sum of squares to this share: so few cases fit too well anyway."""


@dataclass(frozen=True)
class Case:
    """A measured case: its launch at a shape, and microseconds."""

    sizes: Sizes
    launch: Launch
    us: float

    @property
    def shape(self) -> Shape:
        return dict(zip("mnk", self.sizes))


def least_squares(
    rows: NDArray[np.float64], wanted: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """x >= 0 with the least |rows x - wanted|^2, and that sum: the best of all choices of columns
    whose own solution has no negative number."""
    columns = rows.shape[1]
    best = np.zeros(columns), float(wanted @ wanted)
    for count in range(1, min(rows.shape) + 1):
        for chosen in map(list, itertools.combinations(range(columns), count)):
            found, _, rank, _ = np.linalg.lstsq(rows[:, chosen], wanted, rcond=None)
            if rank < count or found.min() < 0:
                continue
            error = rows[:, chosen] @ found - wanted
            if error @ error < best[1]:
                best = np.zeros(columns), float(error @ error)
                best[0][chosen] = found
    return best


def costs(cases: Sequence[Case], sms: int) -> Costs | None:
    """The costs of a variant; None with fewer cases than `LEAST`."""
    if len(cases) < LEAST:
        return None
    best: tuple[Costs, float] | None = None
    most = cases[0].launch.blocks_per_sm
    unit = max(step_size(one.launch.tile) for one in cases)
    own, others = COSTS.index(STEPS), COSTS.index(OTHER_STEPS)
    for saturating in SATURATING:
        if saturating > most:
            break
        rows = np.array([work(one.shape, one.launch, sms, saturating, unit) for one in cases])
        relative = rows / np.array([[one.us] for one in cases])
        relative[:, others] += relative[:, own]
        found, error = least_squares(relative, np.ones(len(cases)))
        found[own] += found[others]
        if best is None or error < GAIN * best[1] - 1e-9:
            best = Costs(tuple(map(float, found)), saturating, unit), error
    return best and best[0]


def at(cases: Sequence[Case], sizes: Sequence[Sizes] = tuple(SHAPES)) -> list[Case]:
    """The cases at these shapes, in the shapes' order, one of each."""
    by_sizes = {one.sizes: one for one in reversed(cases)}
    return [by_sizes[one] for one in sizes if one in by_sizes]
