"""The costs of a variant (`tilewave.theory.selection.Costs`) from a few of its measured cases.

Each case is an equation: the costs times the work of its launch are its duration. The costs are those
with the least sum of squared relative errors of which none is negative: a cost that is zero says that
these cases do not show it. What a step along k takes more where other SMs are busy is at most as much
again: kernels that fill the SMs at all these shapes tell the two apart by noise alone, and would be
expected to take no time for a long k on a few.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewave.theory.nearby import Nearby, Seen, Sizes
from tilewave.theory.selection import (
    COSTS,
    OTHER_STEPS,
    STEPS,
    UNKNOWN,
    Costs,
    Elements,
    Launch,
    Shape,
    block_steps,
    held,
    kinds,
    step_size,
    work,
)

USUAL: Mapping[Sizes, str] = {
    (64, 64, 64): "a tile or a few: the launch",
    (128, 128, 128): "twice that: what of it is latency",
    (90, 90, 90): "the same of variants that are raced alone, and of rows that the TMA takes not",
    (256, 256, 256): "little work on some SMs",
    (512, 512, 512): "on most of them",
    (1024, 1024, 1024): "one wave or less",
    (4096, 4096, 4096): "full waves",
    (280, 280, 3500): "very few tiles and a long k",
    (512, 512, 8192): "few tiles and a long k: steps on idle SMs, and parts that are added",
    (4096, 128, 4096): "a skinny product: few tiles, A from DRAM",
    (128, 4096, 4096): "the same with B, of which other tiles have each row",
    (8192, 8192, 128): "a short k: the ends of tiles",
}
"""The cases of a variant that its costs are fitted to: each shows what the others do not."""
SPECIAL: Mapping[Sizes, str] = {
    (4104, 4104, 1032): "rows that begin inside of lines",
    (1000, 3000, 2000): "the same of few tiles; not of doubles, whose rows are whole lines",
    (777, 1001, 333): "rows that begin anywhere, those of C, too",
    (4096, 16, 4096): "few columns: boxes that are mostly outside of the matrix",
    (6000, 60, 2002): "rows that begin anywhere, few columns",
    (100, 6000, 3500): "the same, few rows",
    (600, 600, 1002): "the same, few tiles",
    (300, 300, 10004): "the same, a long k",
    (48, 1759, 4248): "few rows, and those of C begin anywhere",
    (560, 112, 39612): "rows that begin at words of 8 bytes, or inside of lines, of a very long k",
    (64, 480, 18364): "the same, fewer tiles",
}
"""Those that only show what a kind of shape takes more (`selection.kinds`, `theory.nearby`): among the others in one fit
they would bend what it says of usual shapes."""
SHAPES: Mapping[Sizes, str] = {**USUAL, **SPECIAL}
"""All that costs are taken from."""
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
    """x >= 0 with the least |rows x - wanted|^2, and that sum (Lawson and Hanson, 1974, chapter 23)."""
    lengths = np.linalg.norm(rows, axis=0)
    lengths[lengths == 0] = 1.0
    columns = rows / lengths
    found = np.zeros(rows.shape[1])
    used = np.zeros(rows.shape[1], bool)
    for _ in range(3 * len(found)):  # rounding may take out again what it took in
        gain = np.where(used, 0.0, columns.T @ (wanted - columns @ found))
        if gain.max() <= 1e-10 * np.linalg.norm(wanted):
            break
        used[gain.argmax()] = True
        while True:
            free = np.zeros_like(found)
            free[used] = np.linalg.lstsq(columns[:, used], wanted, rcond=None)[0]
            below = used & (free < 0)
            if not below.any():
                break
            # As far towards the free solution as no number becomes negative: one of them ends at zero.
            shares = found[below] / (found[below] - free[below])
            found += shares.min() * (free - found)
            used[np.flatnonzero(below)[shares == shares.min()]] = False
            found[~used] = 0.0
        found = free
    error = columns @ found - wanted
    return found / lengths, float(error @ error)


def costs(cases: Sequence[Case], sms: int, elements: Elements = (0, 0)) -> Costs | None:
    """The costs of a variant, of all its measured cases, one a shape; None with fewer than `LEAST`."""
    told = _telling([one.sizes for one in cases], elements)
    usual = [one for one in cases if one.sizes in USUAL]
    # Where too few are usual, there is nothing that the others would bend.
    fit = usual if len(usual) >= LEAST else cases
    found = _fitted(fit, sms) if len(fit) >= LEAST else None
    if found is None:
        return None
    seen = []
    for one in cases:
        expected = found.duration(one.shape, one.launch, sms)
        # Of a variant of which many cases are far from any of the fit it may be nothing.
        ratio = one.us / max(expected, found.shortest / 2)
        asked = frozenset(kinds(one.shape, elements))
        seen.append(Seen(one.sizes, asked, math.log(ratio), one.sizes in told))
    return replace(found, elements=elements, nearby=Nearby(tuple(seen)), fitted_at=tuple(told))


def _fitted(cases: Sequence[Case], sms: int) -> Costs | None:
    """The costs that these cases, one at least, fit best."""
    best: tuple[Costs, float] | None = None
    most = cases[0].launch.blocks_per_sm
    unit = max(step_size(one.launch.tile) for one in cases)
    shortest = min(one.us for one in cases)
    steps: dict[int, int] = {}
    for one in cases:
        blocks = held(one.launch, sms)
        steps[blocks] = max(steps.get(blocks, 0), block_steps(one.shape, one.launch))
    own, others = COSTS.index(STEPS), COSTS.index(OTHER_STEPS)
    for saturating in SATURATING:
        if saturating > most:
            break
        rows = np.array([work(one.shape, one.launch, sms, saturating, unit) for one in cases])
        relative = rows / np.array([[one.us] for one in cases])
        relative[:, others] += relative[:, own]
        found, error = least_squares(relative, np.ones(len(cases)))
        if best is None or error < GAIN * best[1] - 1e-9:
            misfit = float(np.mean((relative @ found - 1) ** 4) ** 0.25)
            if len(cases) < len(COSTS):  # which miss none of them
                misfit = UNKNOWN
            found[own] += found[others]
            best = Costs(tuple(map(float, found)), saturating, unit, misfit, steps, shortest), error
    return best and best[0]


def at(cases: Sequence[Case], sizes: Iterable[Sizes]) -> list[Case]:
    """The cases at these shapes, in the shapes' order, one of each."""
    by_sizes = {one.sizes: one for one in reversed(cases)}
    return [by_sizes[one] for one in sizes if one in by_sizes]


def _telling(measured: Collection[Sizes], elements: Elements) -> Collection[Sizes]:
    """The shapes of a variant that its costs are taken from: usual ones, and special ones that are of a kind (rows of 2000
    halves begin inside of lines, those of as many doubles do not). All that were measured where too few of them are
    usual."""

    def tells(sizes: Sizes) -> bool:
        return sizes in USUAL or bool(kinds(dict(zip("mnk", sizes)), elements))

    chosen = [sizes for sizes in SHAPES if sizes in measured and tells(sizes)]
    return chosen if len(USUAL.keys() & chosen) >= LEAST else measured
