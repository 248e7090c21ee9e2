"""Tuning runs: find the fastest of several candidates without measuring all of them to the end.

The run decides who runs next and who is out; a `Track` runs the candidates and gives microseconds of a
launch. Candidates compete inside their league: kernels of this project, or vendor products. All leagues
share the laps, so that times of two leagues have a valid ratio.

1. *Screening*, in the candidates' order. A candidate runs a few short blocks. It is out if its
   fastest block is slower than the best candidate's slowest by more than ``margin``. At the end all are
   compared with the best again.
2. *Laps* among the rest: every runner once forward and once backward (A B C C B A), so that a linear drift
   of the clock is the same for all. After each lap a runner that is significantly slower than the leader is
   out: a one-sided t test, at 99 %, on the lap-by-lap ratio of the two.
3. The end: after at least ``laps`` laps, once each league has one runner or all are within ``tie`` of its
   leader; at the latest after twice as many laps.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tilewave.basics.tables import table_beside

LEAST_LAPS = 3
"""Laps before a runner is dropped, because a t test on two ratios has almost no power."""
STUDENT_99: Sequence[float] = table_beside(__file__)

SCREENING, LAPS = "screening", "laps"


@dataclass(frozen=True)
class Rules:
    """Rules of a tuning run. laps: the fewest of a full one. margin: share of the best time by which a
    screened candidate may be slower. tie: share of the leader's within which runners count as equal."""

    laps: int = 5
    margin: float = 0.10
    tie: float = 0.01


@dataclass(frozen=True)
class Candidate:
    """A candidate and its league."""

    name: str
    league: str = "own"


@dataclass(frozen=True)
class Outcome:
    """The end of a candidate's part in a tuning run. Times in microseconds.
    out: the phase that eliminated it, or empty. samples: the blocks behind its figure, from laps if it ran any, else
    from screening. leader, leader_us: the leader at that moment (maybe itself) and its time."""

    name: str
    out: str
    samples: tuple[float, ...]
    laps: int
    leader: str
    leader_us: float


class Track(Protocol):
    """A runner of candidates. It returns None if a candidate cannot go on, and reports why itself."""

    def screen(self, name: str, worst_us: float) -> Sequence[float] | None:
        """Run short blocks of a candidate; one launch is enough if it takes longer than ``worst_us``."""

    def lap(self, name: str) -> float | None:
        """Run a block of a candidate."""


def beaten(samples: Sequence[float], best: Sequence[float], margin: float) -> bool:
    """Return whether a candidate's fastest block is slower than the best one's slowest by over ``margin``."""
    return min(samples) > max(best) * (1 + margin)


def slower(times: Sequence[float], leader: Sequence[float]) -> bool:
    """Return whether lap times are significantly longer than the leader's in the same laps (t test, 99 %)."""
    ratios = [time / best for time, best in zip(times, leader)]
    if len(ratios) < LEAST_LAPS:
        return False
    mean, spread = statistics.fmean(ratios), statistics.stdev(ratios)
    quantile = STUDENT_99[min(len(ratios) - 1, len(STUDENT_99)) - 1]
    return mean - 1 > quantile * spread / math.sqrt(len(ratios))


def leader_of(laps: Mapping[str, Sequence[float]]) -> str:
    """Return the runner with the lowest median lap (the first of several)."""
    return min(laps, key=lambda name: statistics.median(laps[name]))


def dropped(laps: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the runners of a league that are significantly slower than its leader."""
    leader = leader_of(laps)
    return [name for name in laps if name != leader and slower(laps[name], laps[leader])]


def over(leagues: Iterable[Mapping[str, Sequence[float]]], done: int, rules: Rules) -> bool:
    """Return whether the run ends after ``done`` laps."""
    if done < rules.laps:
        return False
    if done >= 2 * rules.laps:
        return True
    medians = [[statistics.median(times) for times in laps.values()] for laps in leagues]
    return all(max(times) <= min(times) * (1 + rules.tie) for times in medians)


class TuningRun:
    """A tuning run; `run` reports every candidate's outcome as soon as it is known."""

    def __init__(
        self,
        entries: Iterable[Candidate],
        track: Track,
        report: Callable[[Outcome], None],
        rules: Rules = Rules(),
    ) -> None:
        self._entries = list(entries)
        self._league = {entry.name: entry.league for entry in self._entries}
        self._track, self._report, self._rules = track, report, rules
        self._screened: dict[str, tuple[float, ...]] = {}
        self._laps: dict[str, list[float]] = {}
        self._blocks: dict[str, list[float]] = {}

    def run(self) -> None:
        self._screening()
        self._laps = {name: [] for name in self._screened}
        self._blocks = {name: [] for name in self._screened}
        done = 0
        while self._laps and not (done and over(self._leagues(), done, self._rules)):
            self._run_lap()
            done += 1
            for laps in self._leagues():
                for name in dropped(laps):
                    self._leave(name, LAPS)
        for name in list(self._laps):
            self._leave(name, "")

    def _best(self, league: str) -> tuple[str, tuple[float, ...]] | None:
        """Return the candidate of a league with the fastest short block so far, and its blocks."""
        screened = {n: s for n, s in self._screened.items() if self._league[n] == league}
        return min(screened.items(), key=lambda item: min(item[1]), default=None)

    def _screening(self) -> None:
        for entry in self._entries:
            best = self._best(entry.league)
            # A candidate that takes longer is certainly beaten.
            worst = max(best[1]) * (1 + self._rules.margin) if best else math.inf
            samples = self._track.screen(entry.name, worst)
            if samples is not None:
                self._screened[entry.name] = tuple(samples)
                self._compare(entry.name, best)
        for name in list(self._screened):
            self._compare(name, self._best(self._league[name]))

    def _compare(self, name: str, best: tuple[str, tuple[float, ...]] | None) -> None:
        """End the part of a screened candidate that the best one of its league beats."""
        if best is None or best[0] == name:
            return
        leader, times = best
        if beaten(self._screened[name], times, self._rules.margin):
            samples, median = self._screened.pop(name), statistics.median(times)
            self._report(Outcome(name, SCREENING, samples, 0, leader, median))

    def _runners(self, league: str) -> dict[str, list[float]]:
        """Return the laps of a league's runners that were not dropped."""
        return {name: laps for name, laps in self._laps.items() if self._league[name] == league}

    def _leagues(self) -> list[dict[str, list[float]]]:
        return [self._runners(name) for name in dict.fromkeys(self._league[n] for n in self._laps)]

    def _run_lap(self) -> None:
        """Run two blocks of every runner; a lap's time is their mean."""
        times: dict[str, list[float]] = {name: [] for name in self._laps}
        forward = list(self._laps)
        for name in forward + forward[::-1]:  # every runner has the same mean position
            if name not in times:
                continue
            taken = self._track.lap(name)
            if taken is None:
                del times[name], self._laps[name]
            else:
                times[name].append(taken)
        for name, both in times.items():
            self._laps[name].append(statistics.fmean(both))
            self._blocks[name] += both

    def _leave(self, name: str, out: str) -> None:
        leader = leader_of(self._runners(self._league[name]))
        leader_us = statistics.median(self._blocks[leader])
        if out:
            del self._laps[name]
        samples = tuple(self._blocks[name])
        self._report(Outcome(name, out, samples, len(samples) // 2, leader, leader_us))


def durations(
    measured: Mapping[str, float], behind: Mapping[str, tuple[str, float]]
) -> dict[str, float]:
    """Return comparable microseconds of each candidate. behind: of an eliminated one, its leader and the
    ratio of both times, by which its time follows from its leader's: the clock may have been another then."""

    def time(name: str, seen: tuple[str, ...] = ()) -> float:
        leader, ratio = behind.get(name, ("", 1.0))
        if leader not in measured or leader in seen:
            return measured[name]
        return time(leader, (*seen, name)) * ratio

    return {name: time(name) for name in measured}
