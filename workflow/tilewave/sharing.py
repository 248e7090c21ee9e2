"""Work shared among forked processes: what was loaded before they start need not be loaded again."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from tilewave.errors import UserError
from tilewave.processes.lifetime import die_with_parent, ended_by

Item = TypeVar("Item")
Made = TypeVar("Made")

MANY = 300_000
"""Objects that items may leave before somebody looks for cycles among them: five figures, 100 MB."""

# What the forked processes find: functions that close over data cannot be sent to them.
_shared: tuple[Callable[[Any], Any], Sequence[Any]] | None = None


def _call(number: int) -> Any:
    assert _shared is not None
    function, items = _shared
    try:
        return function(items[number])
    finally:
        if gc.get_count()[0] > MANY:
            gc.collect()


def _begin() -> None:
    die_with_parent()
    gc.freeze()  # what is there before the fork is there to stay
    gc.disable()  # a sixth of a figure's time otherwise


def each(
    function: Callable[[Item], Made], items: Sequence[Item], workers: int
) -> Iterator[tuple[Item, Made]]:
    """Each item with what the function makes of it, in the order in which they are done.

    In this process where there is one item or one worker, or where the system does not fork. Not for
    a process that has initialised CUDA. Raises what the function raises, and UserError where one of the
    processes is ended.
    """
    global _shared
    if min(workers, len(items)) < 2 or sys.platform != "linux":
        yield from ((item, function(item)) for item in items)
        return
    _shared = (function, items)
    context = multiprocessing.get_context("fork")
    started: list[Any] = []
    try:
        with ProcessPoolExecutor(
            min(workers, len(items)), mp_context=context, initializer=_begin
        ) as pool:
            futures = {pool.submit(_call, number): item for number, item in enumerate(items)}
            started += multiprocessing.active_children()
            for future in as_completed(futures):
                yield futures[future], future.result()
    except BrokenProcessPool:
        names = {ended_by(one.exitcode or 0) for one in started} - {""}
        # The others are ended by the pool.
        name = next(iter(names - {"SIGTERM"} or names), "no signal")
        allowed = "an end by itself, not by somebody or because memory ran out; run again: what was done is kept"
        raise UserError("a process of this job", "ended by", name, allowed) from None
    finally:
        _shared = None
