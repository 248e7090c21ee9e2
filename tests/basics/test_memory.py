"""Areas of memory that repeat a pattern."""

import mmap
import sys

import numpy as np
import pytest

from tilewave.basics.memory import repeat


@pytest.mark.skipif(sys.platform != "linux", reason="mappings of Linux")
def test_an_area_repeats_a_pattern_which_stays_as_it_was() -> None:
    area = np.zeros(1 << 26, np.uint8)[5:-3]
    pattern = np.random.default_rng(1).integers(1, 256, 2 * mmap.PAGESIZE, np.uint8)
    repeat(area, pattern)
    head = -area.ctypes.data % mmap.PAGESIZE
    assert (area[:head] == pattern[:head]).all() and area.all()
    assert (area[head:][: 3 * pattern.size].reshape(3, -1) == pattern).all()
    small = np.zeros(1 << 26, np.uint8)[9:13]
    repeat(small, pattern)
    assert (small == pattern[:4]).all()
    area[head] = 0
    assert area[head + pattern.size] == pattern[0]
