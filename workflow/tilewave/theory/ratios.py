"""The ratio of two times with its interval, and what it says. Pure: arrays in, numbers out."""

import numpy as np

FASTER, SAME, SLOWER = "faster", "same", "slower"
AMBIGUOUS, NOT_COMPARABLE = "ambiguous", "not comparable"
VERDICTS = (FASTER, SAME, SLOWER, AMBIGUOUS, NOT_COMPARABLE)
MARGIN, TWO_RUNS = 0.01, 0.075
"""A ratio nearer to 1 than this is *same*: of kernels timed in turn with each other, and of two runs. Measured
on an H200, each kernel against itself: in turn 157 of 160 ratios were within 1 %; of two runs, though each was
paired with cuBLAS, 51 of 70, because a GPU does not give each process the same pages, nor the same power."""
WIDE = 0.05
"""An interval that reaches so far beyond the ratio could hide a change: *ambiguous*."""
RESAMPLED, INTERVAL = 1000, (2.5, 97.5)


def ratio(before: np.ndarray, after: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    """Ratio of the medians, after over before, and the bounds of its 95 % interval (bootstrap)."""
    low, high = np.percentile(_resampled(after, seed) / _resampled(before, seed + 1), INTERVAL)
    return float(np.median(after) / np.median(before)), float(low), float(high)


def ratio_in_turn(
    before: np.ndarray, after: np.ndarray, seed: int = 0
) -> tuple[float, float, float]:
    """Median of the ratios of samples that were taken beside each other, and its 95 % interval."""
    pairs = after / before
    low, high = np.percentile(_resampled(pairs, seed), INTERVAL)
    return float(np.median(pairs)), float(low), float(high)


def median(values: np.ndarray) -> tuple[float, float, float]:
    """The lower bound of the median's 95 % interval (bootstrap), the median, the upper bound."""
    low, high = np.percentile(_resampled(values, 0), INTERVAL)
    return float(low), float(np.median(values)), float(high)


def _resampled(values: np.ndarray, seed: int) -> np.ndarray:
    """Medians of samples drawn anew from these."""
    drawn = np.random.default_rng(seed).integers(0, len(values), (RESAMPLED, len(values)))
    return np.asarray(np.median(values[drawn], axis=1))


def verdict(found: float, low: float, high: float, margin: float) -> str:
    """What the ratio of two times and its interval say."""
    if found > 1 + margin and low > 1:
        return SLOWER
    if found < 1 - margin and high < 1:
        return FASTER
    narrow = max(high - found, found - low) < WIDE
    return SAME if narrow and abs(found - 1) <= margin else AMBIGUOUS
