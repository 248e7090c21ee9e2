"""Fixtures that several tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tilewave.garbage import collect_seldom

if TYPE_CHECKING:
    from tilewave.gpu.launch import Session

collect_seldom()


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """What a worker keeps open on the GPU; for tests that are `live_gpu.live`."""
    from tilewave.gpu.device import open_gpu
    from tilewave.gpu.launch import Session

    made = Session(open_gpu())
    yield made
    made.close()
