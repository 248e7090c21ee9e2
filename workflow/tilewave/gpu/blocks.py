"""Blocks of launches: CUDA graphs between two events, behind a gate."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tilewave.gpu.device import Gpu
from tilewave.gpu.reference import Support
from tilewave.kernel.job import Job

CASES = "tilewave-job"
"""NVTX domain of the ranges of cases."""
MAX_REPEATS = 1024


def span(name: str) -> contextlib.AbstractContextManager[Any]:
    """Return an NVTX range in the domain `tilewave`; ncu profiles what is in the range `measure`."""
    import nvtx

    return cast(contextlib.AbstractContextManager[Any], nvtx.annotate(name, domain="tilewave"))


def case_span(job: Job, index: int) -> contextlib.AbstractContextManager[Any]:
    """Return the NVTX range of a case, for timelines and reports: its name, index in the batch and stage."""
    import nvtx

    about = {"domain": CASES, "category": job.stage, "payload": index}
    return cast(contextlib.AbstractContextManager[Any], nvtx.annotate(job.case, **about))


class Block:
    """A CUDA graph of `repeats` launches, which use the buffer sets in turn."""

    def __init__(self, support: Support, launches: list[Callable[[], None]], repeats: int) -> None:
        self._support, self.repeats = support, repeats
        stream = support.gpu.stream
        builder = stream.create_graph_builder().begin_building("thread_local")
        try:
            for index in range(repeats):
                launches[index % len(launches)]()
        except BaseException:
            with contextlib.suppress(Exception):  # the stream must leave capture mode
                builder.end_building()
            raise
        self._graph = builder.end_building().complete()
        builder.close()
        self._graph.upload(stream)
        gpu = support.gpu
        gpu.sync()
        self._events = (gpu.event(), gpu.event())

    def enqueue(self) -> None:
        stream = self._support.gpu.stream
        stream.record(self._events[0])
        self._graph.launch(stream)
        stream.record(self._events[1])

    def us(self) -> float:
        """Return the microseconds of a launch in the last enqueued block, once the stream is done."""
        return 1e3 * float(self._events[1] - self._events[0]) / self.repeats

    def run(self) -> float:
        """Run one block behind the gate. Return microseconds a launch."""
        self._support.gate()
        self.enqueue()
        self._support.gpu.sync()
        return self.us()

    def close(self) -> None:
        self._graph.close()


def _repeats(us: float, block_us: float, most: int) -> int:
    return max(1, min(most, round(block_us / max(us, 0.1))))


def build(
    support: Support,
    launches: list[Callable[[], None]],
    block_us: float,
    launch_us: float = 0.0,
    most: int = MAX_REPEATS,
) -> Block:
    """Build a block of about `block_us` with at most ``most`` launches.
    A few launches are timed first, then the block, which is rebuilt if it misses its length. Every launch function
    must have run once before, because a capture forbids lazy loading. launch_us: the time of a second launch, if known."""
    if launch_us >= block_us:
        return Block(support, launches, 1)
    support.gate()
    repeats = _repeats(_mean_us(support.gpu, launches[:3]), block_us, most)
    block = Block(support, launches, repeats)
    better = _repeats(block.run(), block_us, most)
    if repeats != better and not 0.6 < better / repeats < 1.7:
        block.close()
        block = Block(support, launches, better)
        block.run()
    return block


def empty_us(support: Support) -> float:
    """Return the time of an empty kernel in the same graph form (us), measured once for each `Support`."""
    if support.empty_us is None:
        launch = support.prepare_empty()
        launch()
        support.gpu.sync()
        block = Block(support, [launch], 512)
        try:
            support.empty_us = float(np.median([block.run() for _ in range(5)]))
        finally:
            block.close()
    return support.empty_us


def first_launch_us(gpu: Gpu, launch: Callable[[], None]) -> float:
    """Return the microseconds of one launch without a gate; the first launch also loads the code."""
    return _mean_us(gpu, [launch])


def _mean_us(gpu: Gpu, launches: Sequence[Callable[[], None]]) -> float:
    first, last = gpu.event(), gpu.event()
    gpu.stream.record(first)
    for launch in launches:
        launch()
    gpu.stream.record(last)
    gpu.sync()
    return 1e3 * float(last - first) / len(launches)
