"""An operation's arrays on the GPU: sizes, and contents before a launch."""

import math
from collections.abc import Mapping

import numpy as np

from tilewave.gpu.buffers import DeviceBuffer, DeviceMemory
from tilewave.gpu.device import ok
from tilewave.gpu.session import Session
from tilewave.kernel import operations
from tilewave.kernel.job import Job

BESIDE = 16
"""Distance of random streams: buffer set i of a timing holds those from 16 i."""


def sizes(job: Job) -> dict[str, int]:
    """Return the bytes of each operand."""
    operation = operations.load(job.operation, job.source)
    stored = {name: operation.stored(job, name) for name in operation.arrays(job)}
    return {name: dtype.itemsize * count for name, (dtype, count) in stored.items()}


def fill(
    session: Session,
    job: Job,
    buffers: Mapping[str, DeviceBuffer],
    beta: float = 1.0,
    index: int = 0,
    host_inputs: dict[str, np.ndarray] | None = None,
) -> None:
    """Write these operands for a launch with this beta, on the stream; arrays without values are poisoned.
    index: of a timing's buffer set. host_inputs: keeps inputs that only the host generates between sets."""
    operation = operations.load(job.operation, job.source)
    host_inputs = {} if host_inputs is None else host_inputs
    for name in buffers:
        source = operation.begins_as(job, name)
        stream = operation.streamed(job, source)
        if source == name and not operation.given(job, name, beta):
            buffers[name].poison()
        elif operation.zeroed(job, source):
            buffers[name].clear()
        elif stream is not None:
            dtype, number = operation.dtype(job, name), stream + BESIDE * index
            if not operation.padded(job, name):
                session.support.fill(buffers[name], dtype, job.seed, number)
                continue
            buffers[name].poison()
            with DeviceMemory(session.gpu) as aside:
                dense = without_padding(aside, job, {name: buffers[name]})[name]
                session.support.fill(dense, dtype, job.seed, number)
                move(job, name, dense, buffers[name], gathering=False)
        else:
            host_inputs.update({} if host_inputs else operation.inputs(job))
            buffers[name].upload(operation.in_memory(job, name, host_inputs[source]))


def without_padding(
    memory: DeviceMemory, job: Job, buffers: Mapping[str, DeviceBuffer]
) -> dict[str, DeviceBuffer]:
    """Return a buffer without padding for each padded operand (to be filled by `move`), and the other buffers."""
    operation = operations.load(job.operation, job.source)
    dense = {}
    for name, buffer in buffers.items():
        if padded := operation.padded(job, name):
            size = operation.stored(job, name)[0].itemsize
            dense[name] = memory.new(name, padded.elements * size, guarded=False)
        else:
            dense[name] = buffer
    return dense


def gather(job: Job, padded: Mapping[str, DeviceBuffer], dense: Mapping[str, DeviceBuffer]) -> None:
    """Copy padded buffers to their dense counterparts, on the stream."""
    for name, buffer in dense.items():
        if buffer is not padded[name]:
            move(job, name, buffer, padded[name], gathering=True)


def move(job: Job, name: str, dense: DeviceBuffer, padded: DeviceBuffer, gathering: bool) -> None:
    """Copy a padded operand's elements row by row, on the stream. gathering: from the padded buffer, else back."""
    from cuda.bindings import driver

    operation = operations.load(job.operation, job.source)
    placed = operation.padded(job, name)
    assert placed is not None
    size = operation.stored(job, name)[0].itemsize
    columns, rows, *batch = placed.sizes
    for index in range(math.prod(batch)):
        apart = dense.pointer + index * columns * rows * size
        among = padded.pointer + index * (placed.strides[2] if batch else 0) * size
        copy = driver.CUDA_MEMCPY2D()
        copy.srcMemoryType = copy.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.WidthInBytes, copy.Height = columns * size, rows
        copy.srcDevice, copy.dstDevice = (among, apart) if gathering else (apart, among)
        pitches = (placed.strides[1] * size, columns * size)
        copy.srcPitch, copy.dstPitch = pitches if gathering else pitches[::-1]
        ok(driver.cuMemcpy2DAsync(copy, dense.gpu.handle))


def scratch(memory: DeviceMemory, job: Job) -> dict[str, DeviceBuffer]:
    """Return a launch's scratch buffers, zeroed if the kernel relies on that, else poisoned."""
    buffers = {}
    for plan in job.launch.scratch:
        buffer = buffers[plan.name] = memory.new(plan.name, plan.nbytes)
        (buffer.clear if plan.zeroed else buffer.poison)()
    return buffers
