"""Work shared among forked processes, one of which is killed. Limits: tests/kernel/test_kernel_files.py."""

import os
import signal
import weakref
from unittest.mock import Mock

import pytest

from tilewave.basics.errors import UserError
from tilewave.workers import pool


def test_an_error_says_where_it_was_raised():
    def full(number):
        raise OSError(28, "No space left on device", "x")

    with pytest.raises(OSError, match="No space left") as error:
        list(pool.shared(full, [1, 2], 2))
    assert error.value.errno == 28 and "in full" in error.value.__notes__[0]


class Twice(Exception):
    def __init__(self, first, second):
        super().__init__(first)


def killed(number):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("work", "kind", "message"),
    [
        (killed, UserError, "ended by SIGKILL"),
        (Mock(side_effect=UserError("file", "key", 1, "another")), UserError, "file: key is"),
        (Mock(side_effect=Twice("this", "that")), RuntimeError, "Twice: this"),  # it cannot be sent
    ],
)
def test_an_error_reaches_the_caller(work, kind, message):
    with pytest.raises(kind, match=message):
        list(pool.shared(work, [1, 2, 3], 2))


def test_of_an_item_comes_all_that_is_yielded():
    def some(number):
        yield from range(number)
        if number == 2:
            raise ValueError("no more")

    pairs = list(pool.Pool(some, [1, 2, 3], 2, pool.ProcessLimits(10, 1 << 30)).take())
    by_item = {number: [value for item, value in pairs if item == number] for number in (1, 2, 3)}
    assert by_item[1] == [0] and by_item[3] == [0, 1, 2] and by_item[2][:2] == [0, 1]
    assert by_item[2][2].reason == "ValueError: no more"


class Cycle:
    def __init__(self):
        self.itself = self


@pytest.mark.parametrize("many", [0, 10**9])
def test_cycles_are_looked_for_where_there_are_many_objects(many, monkeypatch):
    monkeypatch.setattr(pool, "MANY", many)
    left = []

    def leaves(number):
        left.append(weakref.ref(Cycle()))
        return sum(reference() is not None for reference in left) == len(left)

    results = [kept for _, kept in pool.shared(leaves, range(8), 2)]
    assert all(results) == bool(many)
