"""The memory and arguments of a launch on the machine, with the contents of the GPU's check."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewave.kernel import arguments
from tilewave.kernel.job import Job
from tilewave.kernel.launches import MapPlan, leaves
from tilewave.kernel.operations.base import Operation
from tilewave.kernel.padding import POISON
from tilewave.theory.dtypes import DTYPES

PATTERN_SIZE, PATTERN_BYTES = 1024, 4 << 20
"""Sizes of the smaller case whose operands larger ones repeat, and so many of their bytes."""


def poisoned(dtype: Any, count: int) -> np.ndarray:
    """Return an unwritten output."""
    kind = np.dtype(dtype)
    return np.full(count * kind.itemsize, POISON, np.uint8).view(kind)


def blank(dtype: Any, count: int) -> np.ndarray:
    """Return zeros, whose memory is not touched yet."""
    return np.zeros(count, dtype)


def operands(
    operation: Operation,
    job: Job,
    inputs: Mapping[str, np.ndarray],
    beta: float,
    unset: Callable[[Any, int], np.ndarray] = poisoned,
) -> dict[str, np.ndarray]:
    """Return the operands before a launch with this beta, from the operation's `inputs`; those only read are
    views. unset: makes those that the kernel is not given, from dtype and number of items."""
    arrays = {}
    for name, operand in operation.arrays(job).items():
        source = operation.begins_as(job, name)
        if source == name and not operation.given(job, name, beta):
            arrays[name] = unset(*operation.stored(job, name))
            continue
        stored = operation.in_memory(job, name, inputs[source])
        arrays[name] = np.array(stored) if operand.written else stored.view()
        arrays[name].flags.writeable = operand.written
    return arrays


def zeros(operation: Operation, job: Job) -> dict[str, np.ndarray]:
    """Return operands of zeros, whose memory is not touched yet."""
    arrays = {}
    for name, operand in operation.arrays(job).items():
        arrays[name] = blank(*operation.stored(job, name))
        arrays[name].flags.writeable = operand.written
    return arrays


def patterns_of(operation: Operation, job: Job) -> dict[str, np.ndarray]:
    """Return what each operand with values repeats: those of the same case with smaller sizes."""
    sizes = {name: min(size, PATTERN_SIZE) for name, size in job.shape.items()}
    small = replace(job, shape=sizes, strides={})
    drawn = operands(operation, small, operation.inputs(small), 0.0, blank)
    filled = {name: array.reshape(-1) for name, array in drawn.items() if array.any()}
    return {name: np.resize(flat.view(np.uint8), PATTERN_BYTES) for name, flat in filled.items()}


def scratch(job: Job) -> dict[str, np.ndarray]:
    """Return a launch's scratch buffers as the GPU's check makes them."""
    return {
        plan.name: np.zeros(plan.nbytes, np.uint8) if plan.zeroed else poisoned("u1", plan.nbytes)
        for plan in job.launch.scratch
    }


def packed(
    machine: Any,
    job: Job,
    buffers: Mapping[str, np.ndarray],
    alpha: float,
    beta: float,
    sizes: Sequence[int] | None = None,
    written: Mapping[str, np.ndarray] | None = None,
) -> list[Any]:
    """Return a job's arguments in order, as `gpu.launch.pack` does. Raises ValueError (`arguments.values`).
    sizes: bytes of each parameter of the kernel, if known. written: see the machine's `Buffer`."""
    maps = {plan.name: plan for plan in job.launch.tensor_maps}

    def argument(name: str, value: Any) -> Any:
        if value is not None:
            return value
        if name in buffers:
            return machine.Buffer(name, buffers[name], (written or {}).get(name))
        return tensor_map(machine, maps[name])

    return [
        machine.Struct(value.size, tuple((at, argument(*member)) for at, member in value.members))
        if isinstance(value, arguments.StructLayout)
        else argument(*value)
        for value in arguments.values(job, buffers, maps, alpha, beta, sizes)
    ]


def tensor_map(machine: Any, wanted: MapPlan) -> Any:
    return machine.TensorMap(
        wanted.name,
        buffer=wanted.of,
        element=DTYPES[wanted.dtype].size,
        sizes=wanted.sizes,
        strides=wanted.pitches,
        box=wanted.box,
        swizzle=wanted.swizzle,
        element_strides=wanted.steps,
    )


def cluster_and_memory(
    machine: Any,
    job: Job,
    buffers: Mapping[str, np.ndarray],
    written: Mapping[str, np.ndarray] | None = None,
    variables: Mapping[str, np.ndarray] | None = None,
) -> dict[str, Any]:
    """Return the cluster of a launch, and its memory that is no argument: ``variables`` of the module, tensor maps."""
    names = {plan.of for plan in job.launch.tensor_maps} - set(leaves(job.arguments))
    marks = written or {}
    memory = [machine.Buffer(name, buffers[name], marks.get(name)) for name in sorted(names)]
    memory += [machine.Buffer(name, data) for name, data in (variables or {}).items() if data.size]
    return {"cluster": job.launch.cluster, "memory": memory}
