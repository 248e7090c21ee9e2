"""An operation's arrays on the GPU: how large they are, and what they hold before a launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tilewave import operations
from tilewave.gpu.buffers import Buffer, Memory
from tilewave.jobs import Job

if TYPE_CHECKING:
    from tilewave.gpu.session import Session

BESIDE = 16
"""Buffer set i of a timing holds streams 16 i and on."""


def sizes(job: Job) -> dict[str, int]:
    """Bytes of each operand."""
    operation = operations.load(job.operation, job.source)
    stored = {name: operation.stored(job, name) for name in operation.arrays(job)}
    return {name: dtype.itemsize * count for name, (dtype, count) in stored.items()}


def fill(
    session: Session,
    job: Job,
    buffers: Mapping[str, Buffer],
    beta: float = 1.0,
    index: int = 0,
    made: dict[str, np.ndarray] | None = None,
) -> None:
    """Write what the operands hold before a launch with this beta, on the stream; what has no values
    is poisoned. index: of a timing's buffer set; what only the host can make is the same in all, and
    made: keeps it from one set to the next."""
    operation = operations.load(job.operation, job.source)
    made = {} if made is None else made
    for name in operation.arrays(job):
        stream = operation.streamed(job, name)
        if not operation.given(job, name, beta):
            buffers[name].poison()
        elif stream is not None:
            dtype, number = operation.dtype(job, name), stream + BESIDE * index
            session.support.fill(buffers[name], dtype, job.seed, number)
        else:
            made.update({} if made else operation.inputs(job))
            buffers[name].upload(made[name])


def scratch(memory: Memory, job: Job) -> dict[str, Buffer]:
    """A launch's buffers beside its operands: zeroed where the kernel counts on that, else poisoned."""
    made = {}
    for one in job.launch.scratch:
        buffer = made[one.name] = memory.new(one.name, one.nbytes)
        if one.zeroed:
            buffer.clear()
        else:
            buffer.poison()
    return made
