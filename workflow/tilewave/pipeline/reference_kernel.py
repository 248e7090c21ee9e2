"""A kernel that is the reference of another, executed at the other's case."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.basics.errors import UserError
from tilewave.execution import case
from tilewave.kernel import operations
from tilewave.kernel.inputs import storage, to_float64
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays
from tilewave.kernel.operations.kernel_reference import NoReference
from tilewave.kernel.padding import POISON
from tilewave.pipeline import single

EXACT = ("f32", "f64")
"""What a reference may take where the kernel that it judges has other elements: it holds nearly all of them."""
KEPT = 4


class _Asked:
    """A job's question to its reference, known by what the answer depends on."""

    def __init__(self, file: Path, job: Job, given: Arrays, machine: Any) -> None:
        self.file, self.job, self.given, self.machine = file, job, given, machine
        sizes, dtypes = sorted(job.shape.items()), sorted(job.dtypes.items())
        self.known = (file, job.operation_code, job.seed, *sizes, *dtypes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Asked) and self.known == other.known

    def __hash__(self) -> int:
        return hash(self.known)


def outputs(
    file: Path, job: Job, given: Arrays, machine: Any = None
) -> Mapping[str, np.ma.MaskedArray[Any, Any]]:
    """What a kernel file leaves in a job's outputs, as `base.Executed` says. Raises NoReference where it cannot
    take the job's inputs, or anything was found."""
    return _outputs(_Asked(file, job, given, machine))


@functools.lru_cache(maxsize=KEPT)
def _outputs(asked: _Asked) -> Mapping[str, np.ma.MaskedArray[Any, Any]]:
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        try:
            job = single.reference(asked.file, asked.job, Path(folder))
            left = case.run_unjudged(job, _taken(asked, job), asked.machine)
        except UserError as error:
            raise NoReference(str(error)) from error
    asked.given = {}  # what is kept is the answer
    if left.problem:
        raise NoReference(left.problem)
    operation, made = operations.load(job.operation, job.source), {}
    for name in operation.outputs(job):
        memory = operation.without_padding(job, name, left.buffers[name])
        unwritten = np.all(memory.view(np.uint8).reshape(memory.size, -1) == POISON, axis=1)
        made[name] = np.ma.masked_array(to_float64(memory, operation.dtype(job, name)), unwritten)
    return made


def _taken(asked: _Asked, job: Job) -> Arrays:
    """The inputs as the reference takes them."""
    operation, made = operations.load(job.operation, job.source), {}
    for name, values in asked.given.items():
        has, wants = operation.dtype(asked.job, name), operation.dtype(job, name)
        if has != wants and wants not in EXACT:
            raise NoReference(f"{name} is {wants} there, and {has} here")
        numbers = values if has == wants else to_float64(values, has).astype(storage(wants))
        made[name] = numbers
    return made
