"""Deadlines, and launches that end early because they cannot meet one."""

from types import SimpleNamespace

import pytest

import executing_support as support
from tilewave.basics import deadline
from tilewave.basics.deadline import TELLING, Deadline
from tilewave.execution.machine import blocks, launch

NAIVE = support.ROOT / "kernels" / "ladder" / "matmul_naive.cu"


@pytest.mark.parametrize(
    ("used", "done", "hopeless"),
    [(0.2, 0.0, False), (0.3, 0.0, True), (0.3, 0.07, True), (0.3, 0.08, False), (0.9, 0.3, False)],
)
def test_the_pace_of_a_quarter_tells(used, done, hopeless, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now[0]))
    limit = Deadline.after(10.0)
    limit._looked = limit._begun = 0.0
    now[0] = 3.0
    limit.skip()  # what is compiled first does not count
    now[0] += 10 * used
    assert not limit.passed() and limit.hopeless(done) == hopeless
    assert not Deadline().hopeless(0.0)


@pytest.mark.parametrize(
    ("shape", "seconds", "cores", "share"),
    # Many blocks are given up early; unfinished work of several cores counts.
    [("2048", 1.0, 1, (0, 0.9)), ("2048", 1.0, 2, (0, 0.9)), ("1024", 0.2, 2, (TELLING, 99))],
)
def test_launches_are_given_up_when_it_is_certain(shape, seconds, cores, share):
    done = support.execute(NAIVE, shape, seconds=seconds, cores=cores)
    assert [fault.kind for fault in done.faults] == ["timed out"]
    assert share[0] < done.seconds / seconds < share[1]


@pytest.fixture
def shares(monkeypatch):
    """The shares of work done that a launch reports to its deadline."""
    looks = []

    class Recording(Deadline):
        def hopeless(self, done):
            looks.append(done)
            return False

    monkeypatch.setattr(launch, "Deadline", Recording)
    monkeypatch.setattr(blocks, "MANY", 1)
    monkeypatch.setattr(blocks, "LOOK", 1000)
    return looks


def test_blocks_without_work_do_not_count(shares):
    for working in (0, 4):
        support.execute(NAIVE, "64", working=working)
    half = len(shares) // 2
    assert 0 < max(shares[:half]) <= 1 and shares[half:] == [4 * share for share in shares[:half]]


def test_an_endless_kernel_is_left_to_its_instructions(shares):
    done = support.execute(support.FAULTS / "infinite_loop.cu", "4096", instructions=10_000)
    assert [fault.kind for fault in done.faults] == ["timed out"]
    assert max(shares) > 0.8
