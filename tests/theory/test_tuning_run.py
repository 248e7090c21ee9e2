"""Decisions of a tuning run from samples: dropped runners and the end. No GPU."""

import math

import numpy as np
import pytest

from samples import table
from tilewave.theory import tuning_run
from tilewave.theory.tuning_run import Candidate, Rules, TuningRun


class Clockwork:
    """A track with fixed times of candidates, which records every call."""

    def __init__(self, times, noise=0.0, fails=()):
        self.times, self.noise, self.fails = times, noise, dict(fails)
        self.calls = []
        self.limits = {}

    def _time(self, name):
        return self.times[name] * (1 + self.noise * math.sin(17.0 * len(self.calls)))

    def screen(self, name, worst_us):
        self.calls.append(("screen", name))
        self.limits[name] = worst_us
        return None if self.fails.get(name) == "screen" else [self._time(name), self._time(name)]

    def lap(self, name):
        self.calls.append(("lap", name))
        return None if self.fails.get(name) == "lap" else self._time(name)

    def laps(self, name):
        return sum(call == ("lap", name) for call in self.calls)


def run(track, entries, **rules):
    outcomes = []
    entries = [entry if isinstance(entry, Candidate) else Candidate(entry) for entry in entries]
    TuningRun(entries, track, outcomes.append, Rules(**rules)).run()
    return {outcome.name: outcome for outcome in outcomes}, [outcome.name for outcome in outcomes]


def test_a_slow_candidate_is_out_at_once():
    track = Clockwork({"fast": 10.0, "slow": 11.2})
    outcomes, order = run(track, ["fast", "slow"])
    assert order == ["slow", "fast"]
    assert outcomes["slow"].out == "screening" and track.laps("slow") == 0
    assert (outcomes["slow"].leader, outcomes["slow"].leader_us) == ("fast", 10.0)
    assert outcomes["slow"].samples == (11.2, 11.2)
    assert track.limits == {"fast": math.inf, "slow": pytest.approx(11.0)}
    outcomes, _ = run(Clockwork({"fast": 10.0, "near": 10.9}), ["fast", "near"])
    assert outcomes["near"].out == "laps"


def test_early_candidates_are_compared_with_later_ones():
    """Their order costs a short block, not a full run."""
    track = Clockwork({"first": 30.0, "second": 20.0, "third": 10.0})
    outcomes, order = run(track, ["first", "second", "third"])
    assert order == ["first", "second", "third"]
    assert [outcomes[name].out for name in order] == ["screening", "screening", ""]
    assert outcomes["first"].leader == "third"


def test_the_spread_of_both_is_ignored():
    assert not tuning_run.beaten([11.5, 10.9], [10.0, 10.0], 0.10)
    assert tuning_run.beaten([11.5, 11.1], [10.0, 10.0], 0.10)
    assert not tuning_run.beaten([11.5, 11.1], [10.0, 10.2], 0.10)


def test_leagues_do_not_beat_each_other_but_share_the_laps():
    entries = [Candidate("mine"), Candidate("vendor", "vendor")]
    entries.append(Candidate("rival"))
    track = Clockwork({"mine": 20.0, "vendor": 10.0, "rival": 40.0})
    outcomes, _ = run(track, entries, laps=5)
    assert (outcomes["mine"].out, outcomes["vendor"].out) == ("", "")
    assert outcomes["rival"].leader == "mine"
    assert outcomes["mine"].leader == "mine" and outcomes["vendor"].leader == "vendor"
    assert track.laps("mine") == track.laps("vendor") == 10
    order = [name for what, name in track.calls if what == "lap"][:4]
    assert order == ["mine", "vendor", "vendor", "mine"]


DRIFT = np.array([1.0, 1.1, 1.2, 1.3])


@pytest.mark.parametrize(
    ("runner", "leader", "dropped"),
    [
        # Ratios 1.02, 1.03, 1.025: mean 1.025, deviation 0.005, t = 0.025 / (0.005 / 3**0.5) = 8.66,
        # more than 6.965, the quantile of two degrees of freedom.
        ([102.0, 103.0, 102.5], [100.0] * 3, True),
        ([102.0, 103.0], [100.0] * 2, False),  # too few laps
        ([100.0, 105.0, 102.5], [100.0] * 3, False),  # 1.00, 1.05, 1.025: t = 1.73
        (100 * DRIFT, 100 * DRIFT, False),  # a drift of both decides nothing
        (102 * DRIFT, 100 * DRIFT, True),
    ],
)
def test_a_steadily_slower_runner_is_dropped(runner, leader, dropped):
    assert tuning_run.slower(list(runner), list(leader)) == dropped


@pytest.mark.parametrize(("leagues", "done", "ended"), table("theory")["ends of a tuning run"])
def test_the_end_of_a_race(leagues, done, ended):
    assert tuning_run.over(leagues, done, Rules(laps=5, tie=0.01)) is ended


def test_undecided_runners_share_the_end():
    """Two runners 4 % apart with a larger noise: neither is dropped, and the run ends after ten laps."""
    track = Clockwork({"a": 100.0, "b": 104.0}, noise=0.06)
    outcomes, _ = run(track, ["a", "b"], laps=5, margin=0.5)
    assert [outcomes[name].out for name in "ab"] == ["", ""]
    assert [outcomes[name].laps for name in "ab"] == [10, 10]


def test_a_candidate_that_fails_leaves_the_others_alone():
    times = {"a": 10.0, "b": 10.0, "c": 10.1}
    entries = list(times)
    for when in ("screen", "lap"):
        track = Clockwork(times, fails={"a": when})
        outcomes, _ = run(track, entries)
        assert set(outcomes) == {"b", "c"} and outcomes["b"].laps >= 5
        assert track.laps("a") == (1 if when == "lap" else 0)
    # There is no winner if all fail, or without candidates.
    assert run(Clockwork(times, fails={"a": "screen", "b": "lap"}), entries[:2]) == ({}, [])
    assert run(Clockwork({}), []) == ({}, [])


def test_elimination_saves_blocks():
    """Twenty candidates, two of them near the best: the rest run no lap."""
    times = {f"v{i}": 10.0 + 2.0 * i for i in range(20)} | {"near": 10.3}
    track = Clockwork(times, noise=0.002)
    outcomes, _ = run(track, times, laps=5)
    assert [name for name in outcomes if outcomes[name].out != "screening"] == ["near", "v0"]
    assert outcomes["near"].out == "laps" and outcomes["near"].laps == tuning_run.LEAST_LAPS
    laps = sum(what == "lap" for what, _ in track.calls)
    assert laps == 2 * (5 + 3)
