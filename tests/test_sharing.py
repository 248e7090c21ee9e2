"""Work shared among forked processes, of which somebody ends one."""

import os
import signal
import weakref

import pytest

from tilewave import sharing
from tilewave.errors import UserError


def test_a_process_that_is_killed_is_told_in_a_line():
    def killed(number):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(UserError, match="ended by: found 'SIGKILL'"):
        list(sharing.each(killed, [1, 2, 3], 2))


def test_a_mistake_reaches_the_one_who_asked():
    def wrong(number):
        raise UserError("file", "key", number, "another")

    with pytest.raises(UserError, match="file: key: found"):
        list(sharing.each(wrong, [1, 2], 2))


class Cycle:
    def __init__(self):
        self.mine = self


@pytest.mark.parametrize("many", [0, 10**9])
def test_cycles_are_looked_for_where_there_are_many_objects(many, monkeypatch):
    monkeypatch.setattr(sharing, "MANY", many)
    left = []

    def leaves(number):
        left.append(weakref.ref(Cycle()))
        return sum(one() is not None for one in left) == len(left)

    found = [kept for _, kept in sharing.each(leaves, range(8), 2)]
    assert all(found) == bool(many)
