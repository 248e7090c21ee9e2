"""Racing: which of several candidates is the fastest, without measuring all of them to the end.

Pure decisions, no GPU: a `Track` runs the candidates and gives microseconds of a launch, the race
says who runs next and who is out. Candidates compete inside their league: kernels of this project
among themselves, vendor products among themselves; all leagues share the laps, so that their times
may be divided.

1. *Screening*, in the order of a predicted time. A candidate runs a few short blocks. Who is slower
   than the best known so far by more than ``margin``, both spreads left out, is out at once; at the
   end all are held against the best of the screening once more.
2. *Laps* among the rest: every runner once forward and once backward (A B C C B A), so that a
   linear drift of the clock is the same for all. After each lap who is significantly slower than
   the leader is out: a one-sided t test, at 99 %, on the lap-by-lap ratio of the two.
3. The end: at least ``laps`` laps, then as soon as one runner is left in each league or the rest are
   within ``tie`` of the leader; after twice as many laps in any case.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

LEAST_LAPS = 3
"""Laps before anybody is dropped from them: a t test on two ratios has almost no power."""
# One-sided 99 % quantile of Student's t by degrees of freedom; the last stands for all beyond.
STUDENT_99 = (
    31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764,
    2.718, 2.681, 2.650, 2.624, 2.602, 2.583, 2.567, 2.552, 2.539, 2.528,
)  # fmt: skip

SCREENING, LAPS = "screening", "laps"


@dataclass(frozen=True)
class Rules:
    """margin: share of the best time by which a screened candidate may be slower. tie: share of the
    leader's time within which runners count as equally fast. laps: the fewest of a full race."""

    laps: int = 5
    margin: float = 0.10
    tie: float = 0.01


@dataclass(frozen=True)
class Candidate:
    """A candidate: its predicted time (any unit, for the order only) and its league."""

    name: str
    predicted: float
    league: str = "own"


@dataclass(frozen=True)
class Outcome:
    """How a candidate's race ended. Times in microseconds.

    out: where it was eliminated (`screening`, `laps`), empty for those that stayed to the end.
    samples: the blocks that its figure comes from: laps where it ran any, else the screening.
    leader, leader_us: whom it was held against in the end and that one's time (its own, where it
    led).
    """

    name: str
    out: str
    samples: tuple[float, ...]
    laps: int
    leader: str
    leader_us: float


class Track(Protocol):
    """What runs the candidates. None from either means that the candidate cannot go on; whoever
    implements this has said why."""

    def screen(self, name: str, worst_us: float) -> Sequence[float] | None:
        """Short blocks of a candidate, after its warm-up. Where the warm-up alone shows that a
        launch takes longer than ``worst_us`` (may be infinite), what it took is enough."""

    def lap(self, name: str) -> float | None:
        """One block of a candidate."""


def beaten(samples: Sequence[float], best: Sequence[float], margin: float) -> bool:
    """Whether a candidate is out after screening: even its fastest block is slower than the best
    candidate's slowest by more than ``margin`` of it."""
    return min(samples) > max(best) * (1 + margin)


def limit_us(best: Sequence[float] | None, margin: float) -> float:
    """The time of a launch beyond which a candidate cannot but be beaten."""
    return float("inf") if best is None else max(best) * (1 + margin)


def lap_order(names: Iterable[str]) -> list[str]:
    """Forward, then backward: the mean place of every runner is the same."""
    forward = list(names)
    return forward + forward[::-1]


def slower(own: Sequence[float], leader: Sequence[float]) -> bool:
    """Whether lap times are significantly longer than the leader's in the same laps (one-sided
    t test at 99 % on the ratios)."""
    ratios = [mine / its for mine, its in zip(own, leader)]
    if len(ratios) < LEAST_LAPS:
        return False
    mean, spread = statistics.fmean(ratios), statistics.stdev(ratios)
    quantile = STUDENT_99[min(len(ratios) - 1, len(STUDENT_99)) - 1]
    return mean - 1 > quantile * spread / math.sqrt(len(ratios))


def leader_of(laps: Mapping[str, Sequence[float]]) -> str:
    """The runner with the lowest median lap (the first of several)."""
    return min(laps, key=lambda name: statistics.median(laps[name]))


def dropped(laps: Mapping[str, Sequence[float]]) -> list[str]:
    """The runners of one league that are significantly slower than its leader."""
    first = leader_of(laps)
    return [name for name in laps if name != first and slower(laps[name], laps[first])]


def tied(laps: Mapping[str, Sequence[float]], tie: float) -> bool:
    """Whether all runners of one league are within ``tie`` of its leader."""
    fastest = statistics.median(laps[leader_of(laps)])
    return all(statistics.median(times) <= fastest * (1 + tie) for times in laps.values())


def over(leagues: Iterable[Mapping[str, Sequence[float]]], done: int, rules: Rules) -> bool:
    """Whether the race ends after ``done`` laps."""
    if done < rules.laps:
        return False
    return done >= 2 * rules.laps or all(tied(laps, rules.tie) for laps in leagues)


class Race:
    """One race; `run` reports every candidate's outcome as soon as it is known."""

    def __init__(
        self,
        entries: Iterable[Candidate],
        track: Track,
        report: Callable[[Outcome], None],
        rules: Rules = Rules(),
    ) -> None:
        self._entries = sorted(entries, key=lambda entry: entry.predicted)  # stable
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
            self._one_lap()
            done += 1
            for laps in self._leagues():
                for name in dropped(laps):
                    self._leave(name, LAPS)
        for name in list(self._laps):
            self._leave(name, "")

    def _best(self, league: str) -> tuple[str, tuple[float, ...]] | None:
        """The candidate of a league with the fastest short block so far, and its blocks."""
        mine = {n: s for n, s in self._screened.items() if self._league[n] == league}
        if not mine:
            return None
        name = min(mine, key=lambda one: min(mine[one]))
        return name, mine[name]

    def _screening(self) -> None:
        margin = self._rules.margin
        for entry in self._entries:
            best = self._best(entry.league)
            worst = limit_us(best[1] if best else None, margin)
            samples = self._track.screen(entry.name, worst)
            if samples is None:
                continue
            self._screened[entry.name] = tuple(samples)
            if best and beaten(samples, best[1], margin):
                self._out_of_screening(entry.name)
        for name in list(self._screened):
            best = self._best(self._league[name])
            if best and best[0] != name and beaten(self._screened[name], best[1], margin):
                self._out_of_screening(name)

    def _out_of_screening(self, name: str) -> None:
        samples = self._screened.pop(name)
        best = self._best(self._league[name])
        assert best is not None  # nobody is beaten but by somebody
        leader, times = best
        self._report(Outcome(name, SCREENING, samples, 0, leader, statistics.median(times)))

    def _leagues(self) -> list[dict[str, list[float]]]:
        """The laps of those still running, by league."""
        found: dict[str, dict[str, list[float]]] = {}
        for name, times in self._laps.items():
            found.setdefault(self._league[name], {})[name] = times
        return list(found.values())

    def _one_lap(self) -> None:
        """Two blocks of every runner; a lap's time is their mean."""
        times: dict[str, list[float]] = {name: [] for name in self._laps}
        for name in lap_order(self._laps):
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
        league = self._league[name]
        rivals = {n: t for n, t in self._laps.items() if self._league[n] == league}
        leader = leader_of(rivals)
        leader_us = statistics.median(self._blocks[leader])
        if out:
            del self._laps[name]
        samples = tuple(self._blocks[name])
        self._report(Outcome(name, out, samples, len(samples) // 2, leader, leader_us))


def durations(
    own: Mapping[str, float], behind: Mapping[str, tuple[str, float]]
) -> dict[str, float]:
    """Microseconds of each candidate, told so that they may be compared.

    own: as measured. behind: of one that was eliminated, for whom, and how many times as long it took
    in the same blocks. It ran before the others had ended, at the clock of that moment: its time is
    its leader's, times that.
    """

    def time(name: str, seen: tuple[str, ...] = ()) -> float:
        leader, ratio = behind.get(name, ("", 1.0))
        if leader not in own or leader in seen:
            return own[name]
        return time(leader, (*seen, name)) * ratio

    return {name: time(name) for name in own}
