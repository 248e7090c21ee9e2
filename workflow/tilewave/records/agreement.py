"""Agreement of repeated measurements: cuBLAS alone and paired, tuning run and time, cycles and time.

Two times of one launch differ by more than noise if the SM clock differed. At another clock a memory-bound kernel
keeps its time, a compute-bound one keeps its cycles, and others lie between. So two measurements agree if the ratio
of times or of cycles is within 5 % of 1, or if 1 lies between both ratios.

Measured on an H200 (4096³ in FP32 after a second of FP16): the clock takes 100 to 150 ms to follow a load that
reaches or leaves the power limit, and NVML's reading lags as much.
"""

import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tilewave.kernel.result import DOUBTFUL, OK, TUNE, Result

TOLERANCE = 0.05
SHORTEST_US = 50.0
"""Cycles of shorter launches include the launch latency, which back-to-back launches hide."""
IN_ITS_TUNING_RUN = "in its tuning run"
CYCLES = "sm__cycles_elapsed.max"

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Disagreement:
    """A case's time that another measurement contradicts, with the ratios of times and of cycles."""

    case: str
    time_us: float
    other: str
    other_us: float
    ratio: float
    cycle_ratio: float

    @property
    def reason(self) -> str:
        return (
            f"{DOUBTFUL}{self.time_us:.4g} us timed, {self.other_us:.4g} us {self.other} "
            f"(ratio {self.ratio:.2f}, at one clock {self.cycle_ratio:.2f})"
        )


def agree(*ratios: float) -> bool:
    """Return whether both times can be right, by their ratio and their ratio at one clock."""
    return min(ratios) <= 1 + TOLERANCE and max(ratios) >= 1 - TOLERANCE


def _compared(
    case: str, timed: Figures, other: str, other_us: float, other_clock: float | None
) -> Disagreement | None:
    """Compare two times (us) at their clocks (MHz; if one is None, times alone count)."""
    us, clock = timed["duration"], timed.get("sm_clock")
    ratio = us / other_us
    cycle_ratio = ratio * clock / other_clock if clock and other_clock else ratio
    if agree(ratio, cycle_ratio):
        return None
    return Disagreement(case, us, other, other_us, ratio, cycle_ratio)


def alone_over_paired(case: str, alone: Figures, pairs: Sequence[Figures]) -> Disagreement | None:
    """Compare cuBLAS' case alone (stage `time`) with the median of the pairings of the same product."""
    if not pairs:
        return None
    us = statistics.median(pair["baseline_duration"] for pair in pairs)
    clocks = [pair["sm_clock"] for pair in pairs if pair.get("sm_clock")]
    clock = statistics.median(clocks) if clocks else None
    return _compared(case, alone, "paired", us, clock)


def tuned_over_time(
    case: str, timed: Figures, tuned: Figures, tuned_clock: float | None
) -> Disagreement | None:
    """Compare a case's time with its time in a tuning run that it finished (figures of `tune`)."""
    if tuned.get("tune_eliminated"):
        return None
    return _compared(case, timed, IN_ITS_TUNING_RUN, tuned["tune_duration"], tuned_clock)


def counted_over_timed(
    case: str, timed: Figures, counted: Figures, capped: bool
) -> Disagreement | None:
    """Compare a case's time with the cycles that ncu counted, at the clock that was read while timing.
    capped: the power limit lowered the clock within the launch, so its clock is unknown."""
    cycles, profiled_ns = counted.get(CYCLES), counted.get("gpu__time_duration.sum")
    clock, us = timed.get("sm_clock"), timed["duration"]
    if not cycles or not profiled_ns or not clock or us < SHORTEST_US or capped:
        return None
    expected, profiled = cycles / clock, profiled_ns / 1e3
    if agree(us / profiled, us / expected):
        return None
    return Disagreement(case, us, "under ncu", profiled, us / profiled, us / expected)


def disagreements(
    results: Mapping[str, Iterable[Result]], products: Mapping[str, Hashable]
) -> dict[str, Disagreement]:
    """Return the timed cases that another measurement in the same environment contradicts, by case.
    results: by stage. products: the product of each case, shared by cuBLAS and the kernels timed beside it."""
    by_stage = dict[str, dict[str, Result]]()
    for stage in ("time", TUNE, "counters"):
        good = (of for of in results.get(stage, ()) if of.status == OK and of.figures)
        by_stage[stage] = {result.case: result for result in good}
    timed = {case: result.by_metric for case, result in by_stage["time"].items()}
    environments = {case: result.environment for case, result in by_stage["time"].items()}
    pairings: dict[Hashable, list[dict[str, float]]] = {}
    for case, figures in timed.items():
        if "baseline_duration" in figures and case in products:
            pairings.setdefault((environments[case], products[case]), []).append(figures)
    contradicted = {}
    for case, figures in timed.items():
        here = environments[case]
        pairs = pairings.get((here, products.get(case)), ()) if "rank0_duration" in figures else ()
        others = (by_stage[stage].get(case) for stage in (TUNE, "counters"))
        tuned, counted = (each if each and each.environment == here else None for each in others)
        disagreement = alone_over_paired(case, figures, pairs)
        if tuned and not disagreement:
            clock = tuned.notes.get("sm_clock")
            disagreement = tuned_over_time(case, figures, tuned.by_metric, clock)
        if counted and not disagreement:
            capped = bool(by_stage["time"][case].notes.get("throttle"))
            disagreement = counted_over_timed(case, figures, counted.by_metric, capped)
        if disagreement:
            contradicted[case] = disagreement
    return contradicted
