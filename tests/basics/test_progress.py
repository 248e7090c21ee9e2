"""Progress lines of a long job, and their interval."""

import sys
from unittest.mock import MagicMock

import pytest

from samples import a_job
from tilewave.basics import progress
from tilewave.gpu.ncu import profiler
from tilewave.kernel.result import Result
from tilewave.pipeline import rules
from tilewave.pipeline.cases import Plan
from tilewave.workers import supervisor


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def follow():
    clock, lines = Clock(), []

    def start(items, weights=None, every_s=3.0):
        how = {"tell": lines.append, "every_s": every_s, "clock": clock}
        job = progress.Progress("execute", "cases", items, weights, **how)

        def done(name, at):
            clock.now = at
            job.done(name)

        return job, done, lines

    return start


CASES = {f"k@{size}": ["waves"] for size in range(10)}


def test_it_says_how_far_it_is_and_about_how_long_it_takes(follow):
    job, done, lines = follow(CASES)
    assert lines == ["  execute: 10 cases for waves (10)"]
    done("k@0", 21.0)  # a process started first: 20 of these seconds are not the case's
    done("k@1", 22.0)
    done("k@2", 25.0)
    assert lines[1:] == [
        "  execute: 1 of 10 cases, 21 s so far: k@0 (waves)",
        "  execute: 3 of 10 cases, 25 s so far, about 10 s left: k@2 (waves)",
    ]
    assert job.spent == "25 s"


def test_what_costs_more_counts_more(follow):
    _, done, lines = follow({"a": [], "b": [], "c": []}, {"a": 1.0, "b": 1.0, "c": 30.0})
    done("a", 4.0)
    done("b", 8.0)
    assert lines[0] == "  execute: 3 cases"
    assert lines[-1] == "  execute: 2 of 3 cases, 8 s so far, about 2 min left: b"


def test_lines_keep_their_interval(follow):
    _, done, lines = follow(CASES, every_s=30.0)
    for number, name in enumerate(CASES):
        done(name, 7.0 * number)
    assert [line.split(",")[0] for line in lines[1:]] == ["  execute: 6 of 10 cases"]


def test_the_end_is_the_stages_to_say_and_nothing_counts_twice(follow):
    _, done, lines = follow({"a": [], "b": []}, every_s=0.1)
    done("another", 1.0)
    done("a", 2.0)
    done("a", 3.0)
    done("b", 4.0)
    assert len(lines) == 2 and "1 of 2" in lines[1]


def test_the_studies_with_most_cases_are_named(follow):
    names = "abcde"
    _, _, lines = follow({str(i): names[: i + 1] for i in range(5)})
    assert lines == ["  execute: 5 cases for a (5), b (4), c (3) and 2 more"]
    follow({})
    assert len(lines) == 1  # nothing to do is nothing said


@pytest.mark.parametrize(("terminal", "expected"), [(True, 2), (False, 1)])
def test_a_log_gets_fewer_lines_than_a_terminal(monkeypatch, capsys, terminal, expected):
    clock = Clock()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
    job = progress.Progress("check", "cases", CASES, clock=clock)
    clock.now = 5.0
    job.done("k@0")
    assert len(capsys.readouterr().err.splitlines()) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (7.4, "7 s"), (74, "70 s"), (750, "12 min"), (6000, "1.7 h")],
)
def test_an_estimate_is_rounded(seconds, text):
    assert progress.about(seconds) == text


@pytest.mark.parametrize("stage", ["check", "time", "tune", "counters"])
def test_a_gpus_cases_are_followed(stage, tmp_path, monkeypatch, capsys):
    """Each job with a result counts, for every stage."""
    monkeypatch.setattr(progress, "LOG_S", 0.0)
    monkeypatch.setenv("TILEWAVE_GPU", "0")  # which the stage sets, and the test takes back

    def runs(*given, on_result, **how):
        for job in given[-1]:
            on_result(Result.of_job(job))
        return []

    monkeypatch.setattr(supervisor, "run_jobs", runs)
    monkeypatch.setattr(profiler, "profile", runs)
    waiting = [a_job(stage=stage, case=f"k@{size}") for size in (64, 96, 128)]
    cases = {job.case: MagicMock(id=job.case, studies=["waves"]) for job in waiting}
    project = MagicMock(plan=Plan(cases, {"waves": list(cases)}), results=tmp_path)
    project.store.root, project.config.gpu, project.config.timing.case_limit_s = tmp_path, 0, 1.0
    kept = []
    rules._measure(
        rules.Run(project, {"live": True, "environment": "gpu", "gpus": {"gpu": 0}}), stage, 1
    )(waiting, kept.append)
    assert [result.case for result in kept] == [job.case for job in waiting]
    lines = [line.split(",")[0] for line in capsys.readouterr().err.splitlines()]
    cases = ["3 cases for waves (3)", "1 of 3 cases", "2 of 3 cases"]
    assert lines == [f"  {stage}: {line}" for line in cases]
