"""Work shared among forked processes: what was loaded before they start need not be loaded again."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

# What the forked processes find: functions that close over data cannot be sent to them.
_shared: tuple[Callable[[Any], Any], Sequence[Any]] | None = None


def _call(number: int) -> Any:
    assert _shared is not None
    function, items = _shared
    # What an item makes is looked through once, at its end: a sixth of a figure's time otherwise.
    gc.disable()
    try:
        return function(items[number])
    finally:
        gc.enable()
        gc.collect()


def each(
    function: Callable[[Item], Made], items: Sequence[Item], workers: int
) -> Iterator[tuple[Item, Made]]:
    """Each item with what the function makes of it, in the order in which they are done.

    In this process where there is one item or one worker, or where the system does not fork. Not for
    a process that has initialised CUDA. Raises what the function raises.
    """
    global _shared
    if min(workers, len(items)) < 2 or sys.platform != "linux":
        yield from ((item, function(item)) for item in items)
        return
    _shared = (function, items)
    context = multiprocessing.get_context("fork")
    try:
        # What is there before the fork is there to stay.
        with ProcessPoolExecutor(
            min(workers, len(items)), mp_context=context, initializer=gc.freeze
        ) as pool:
            futures = {pool.submit(_call, number): item for number, item in enumerate(items)}
            for future in as_completed(futures):
                yield futures[future], future.result()
    finally:
        _shared = None
