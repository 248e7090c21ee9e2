"""Where a series of runs changes: binary segmentation (Scott and Knott, 1974). Pure: arrays in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewave.comparing import ratios


@dataclass(frozen=True)
class ChangePoint:
    """The first run behind a change, and the ratio of the times on both sides of it, up to the next change,
    with its 95 % interval."""

    at: int
    ratio: float
    low: float
    high: float


def change_points(runs: Sequence[np.ndarray], margin: float) -> list[ChangePoint]:
    """The change points of a series of runs, of each its samples of a time.

    The series is cut where the logarithms of the runs' medians differ most for the number of runs on both
    sides, if all samples of the one side against all of the other are *faster* or *slower* by more than the
    margin (`ratios.verdict`); then each part likewise. Within a margin lies what two runs of the same code
    differ by: one run is one observation, however many samples it has.
    """
    cuts = sorted(_cuts(runs, margin, 0))
    ends = [0, *cuts, len(runs)]
    return [
        ChangePoint(at, *_ratio(runs[before:at], runs[at:behind]))
        for before, at, behind in zip(ends, cuts, ends[2:])
    ]


def _ratio(before: Sequence[np.ndarray], after: Sequence[np.ndarray]) -> tuple[float, float, float]:
    return ratios.ratio(np.concatenate(before), np.concatenate(after))


def _cuts(runs: Sequence[np.ndarray], margin: float, start: int) -> list[int]:
    """Cuts of a part that begins with run number ``start``."""
    count = len(runs)
    if count < 2:
        return []
    medians = np.log([np.median(one) for one in runs])
    apart = [
        abs(medians[:at].mean() - medians[at:].mean()) * (at * (count - at)) ** 0.5
        for at in range(1, count)
    ]
    at = 1 + int(np.argmax(apart))
    said = ratios.verdict(*_ratio(runs[:at], runs[at:]), margin)
    if said not in (ratios.FASTER, ratios.SLOWER):
        return []
    return [
        start + at,
        *_cuts(runs[:at], margin, start),
        *_cuts(runs[at:], margin, start + at),
    ]
