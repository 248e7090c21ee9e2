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
    ENDS,
    OTHER_ENDS,
    OTHER_STEPS,
    RAGGED_ENDS,
    STEPS,
    Costs,
    Elements,
    Launch,
    Shape,
    kinds,
    step_size,
    work,
)

USUAL: Mapping[Sizes, str] = {
    (64, 64, 64): "a tile or a few: the launch",
    (128, 128, 128): "twice that: what of it is latency",
    (90, 90, 90): "the same of variants that are raced alone, and of rows that the TMA takes not",
    (60, 38, 48): "a tile whose rows of C begin inside of 16 bytes",
    (130, 114, 88): "a few of these, and rows of bytes that the TMA takes not",
    (256, 256, 256): "little work on some SMs",
    (512, 512, 512): "on most of them",
    (1024, 1024, 1024): "one wave or less",
    (4096, 4096, 4096): "full waves",
    (280, 280, 3500): "very few tiles and a long k",
    (512, 512, 8192): "few tiles and a long k: steps on idle SMs, and parts that are added",
    (8192, 128, 8192): "a skinny product: few tiles, and more of A than L2 holds",
    (128, 4096, 4096): "the same with B, of which other tiles have each row, and which L2 holds",
    (8192, 8192, 128): "a short k: the ends of tiles",
}
"""The cases of a variant that its costs are fitted to: each shows what the others do not."""
SPECIAL: Mapping[Sizes, str] = {
    (4104, 4104, 1032): "rows that begin inside of lines",
    (1000, 3000, 2000): "the same of few tiles; not of doubles, whose rows are whole lines",
    (777, 1001, 333): "rows that begin anywhere, those of C, too",
    (4096, 16, 4096): "few columns: boxes that are mostly outside of the matrix",
    (8016, 18, 4080): "the same, rows of C that begin anywhere",
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
PULL, ALMOST_ALL = 0.4, 40.0
"""What the distance to the kernel's common costs counts for beside a variant's own cases of the fit, and where these are
no more than `LEAST`, which leave most costs open: of 1,218 trials at new shapes 181 are above 15 %, 212 with all drawn
alike, 219 at 0.2 (185 where the first is 0.7; 189 and 180 where the second is 10 and 400)."""
OWN, OTHERS = COSTS.index(STEPS), COSTS.index(OTHER_STEPS)
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


def costs(
    variants: Mapping[str, Sequence[Case]], sms: int, elements: Elements = (0, 0)
) -> dict[str, Costs]:
    """The costs of a kernel's variants of one dtype, by name, from all measured cases of each, one a shape; those with fewer
    than `LEAST` have none.

    Variants of a kernel are alike, and few cases leave open which of a variant's costs they show: so the costs are not only
    to fit its own cases but to be near those that all variants of the kernel have in common, `_pieces` apart (ridge
    regression, of which the mean is theirs: Hoerl and Kennard, 1970)."""
    told = {
        name: _telling([one.sizes for one in cases], elements) for name, cases in variants.items()
    }
    fits = {
        name: _fit(cases, sms, elements) for name, cases in variants.items() if len(cases) >= LEAST
    }
    if not fits:
        return {}
    every = np.vstack([one.relative * one.pieces for one in fits.values()])
    common, _ = least_squares(every, np.ones(len(every)))
    found = {}
    for name, fit in fits.items():
        drawn = PULL if len(fit.relative) > LEAST else ALMOST_ALL
        pull = np.sqrt(drawn * (fit.relative**2).mean(axis=0))
        wanted = np.concatenate([np.ones(len(fit.relative)), pull * common * fit.pieces])
        each, _ = least_squares(np.vstack([fit.relative, np.diag(pull)]), wanted)
        each[OWN] += each[OTHERS]
        alone = Costs(tuple(map(float, each)), fit.saturating, fit.unit, elements)
        seen = []
        for one in variants[name]:
            # Of a variant of which many cases are far from any of the fit it may be nothing.
            expected = max(alone.duration(one.shape, one.launch, sms), fit.shortest / 2)
            asked = frozenset(kinds(one.shape, elements))
            log = math.log(one.us / expected)
            seen.append(Seen(one.sizes, asked, log, one.sizes in told[name]))
        found[name] = replace(alone, nearby=Nearby(tuple(seen)), fitted_at=tuple(told[name]))
    return found


@dataclass(frozen=True)
class _Fit:
    """What a variant's costs are fitted to. relative: [cases of the fit, `COSTS`], the work of each over its microseconds, such
    that its products with the costs are to be one; steps along k count as those of other blocks, too, of which they cost
    no less. pieces: [`COSTS`], of `_pieces`. shortest: of the cases' times."""

    relative: NDArray[np.float64]
    pieces: NDArray[np.float64]
    saturating: float
    unit: float
    shortest: float


def _fit(cases: Sequence[Case], sms: int, elements: Elements) -> _Fit:
    """With the blocks that keep an SM busy which its cases, `LEAST` at least, show by themselves."""
    usual = [one for one in cases if one.sizes in USUAL]
    # Where too few are usual, there is nothing that the others would bend.
    fitted = usual if len(usual) >= LEAST else cases
    most = max(one.launch.blocks_per_sm for one in fitted)
    largest = max((one.launch.tile for one in fitted), key=step_size)
    unit = step_size(largest)
    us = np.array([[one.us] for one in fitted])
    best: tuple[float, NDArray[np.float64], float] | None = None
    for saturating in SATURATING:
        if best is not None and saturating > most:
            break
        rows = [work(one.shape, one.launch, sms, saturating, unit, elements) for one in fitted]
        relative = np.array(rows) / us
        relative[:, OTHERS] += relative[:, OWN]
        _, error = least_squares(relative, np.ones(len(fitted)))
        if best is None or error < GAIN * best[2] - 1e-9:
            best = saturating, relative, error
    assert best is not None
    return _Fit(best[1], _pieces(largest), best[0], unit, float(us.min()))


def _pieces(tile: Sequence[int]) -> NDArray[np.float64]:
    """[`COSTS`]: how large a piece of each is, that variants with other tiles may be compared: a step along k in its
    products or operands (`step_size`), the ends of a tile in the square root of its outputs (filling the pipeline takes as
    long for any tile, storing the results does not), both beside those of 128x128x32."""
    rows, columns, depth = tile
    ends = math.sqrt(rows * columns / 128**2)
    step = step_size(tile) * depth / (step_size((128, 128, 32)) * 32)
    sizes = {ENDS: ends, OTHER_ENDS: ends, RAGGED_ENDS: ends, STEPS: step, OTHER_STEPS: step}
    return np.array([sizes.get(name, 1.0) for name in COSTS])


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
