"""Fixtures that several tests share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tilewave.gpu.launch import Session

# Tables, figures and decoded programs are many objects and few cycles: looking for those as often as Python does
# by itself took an eighth of the time.
gc.set_threshold(100_000, 50, 100)
gc.freeze()


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """What a worker keeps open on the GPU; for tests that are `live_gpu.live`."""
    from tilewave.gpu.device import open_gpu
    from tilewave.gpu.launch import Session

    made = Session(open_gpu())
    yield made
    made.close()
