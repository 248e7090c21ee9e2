"""Work shared among forked processes, of which somebody ends one."""

import os
import signal

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
