"""A limit of time, and when it is clear that it will not do."""

from types import SimpleNamespace

import pytest

import executing_support as support
from tilewave import deadline
from tilewave.deadline import Deadline


@pytest.mark.parametrize(
    ("used", "done", "hopeless"),
    [(0.2, 0.0, False), (0.3, 0.0, True), (0.3, 0.07, True), (0.3, 0.08, False), (0.9, 0.3, False)],
)
def test_the_pace_of_a_quarter_tells(used, done, hopeless, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: now[0]))
    one = Deadline.after(10.0)
    one._looked = one._begun = 0.0
    now[0] = 3.0
    one.skip()  # what is compiled first does not count
    now[0] += 10 * used
    assert not one.passed() and one.hopeless(done) == hopeless
    assert not Deadline().hopeless(0.0)


def test_many_blocks_are_given_up_early():
    done = support.execute(support.ROOT / "kernels" / "matmul_naive.cu", "1024", seconds=0.4)
    assert [fault.kind for fault in done.faults] == ["timed out"] and done.seconds < 0.3
