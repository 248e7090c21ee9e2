"""A kernel that is the reference of another, executed at that one's case."""

import functools
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.basics.errors import UserError
from tilewave.execution import case
from tilewave.kernel import operations
from tilewave.kernel.front_matter import GUESSED, load_kernel
from tilewave.kernel.inputs import storage, to_float64
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays
from tilewave.kernel.operations.kernel_reference import NoReference
from tilewave.kernel.padding import unset
from tilewave.pipeline import single

EXACT = ("f32", "f64")
"""Dtypes of a reference that may differ from the judged kernel's, because they hold nearly all its values."""
KEPT = 4


@dataclass(unsafe_hash=True)
class _Question:
    """A job's question to its reference, equal to another one with the same answer, by ``identity``."""

    file: Path
    identity: tuple[Any, ...]
    job: Job = field(compare=False)
    inputs: Arrays = field(compare=False)
    machine: Any = field(compare=False)


def outputs(
    file: Path, job: Job, inputs: Arrays, machine: Any = None
) -> Mapping[str, np.ma.MaskedArray[Any, Any]]:
    """Return what a kernel file leaves in a job's outputs (`base.Executed`). Raises NoReference."""
    sizes, dtypes = sorted(job.shape.items()), sorted(job.dtypes.items())
    identity = (job.operation_code, job.seed, *sizes, *dtypes)
    return _outputs(_Question(file, identity, job, inputs, machine))


@functools.lru_cache(maxsize=KEPT)
def _outputs(question: _Question) -> Mapping[str, np.ma.MaskedArray[Any, Any]]:
    guesses = load_kernel(question.file).marked(GUESSED)
    if guesses:
        what = " and ".join(guesses)
        remedy = f"Once the {what} is right, remove the comment"
        raise NoReference(f"its {what} is marked as guessed, and a guess judges nobody. {remedy}")
    with tempfile.TemporaryDirectory(prefix="tilewave-") as folder:
        try:
            job = single.reference(question.file, question.job, Path(folder))
            state = case.run_unjudged(job, _taken(question, job), question.machine)
        except UserError as error:
            raise NoReference(str(error)) from error
    question.inputs = {}  # the cache keeps the answer, not the inputs
    if state.problem:
        raise NoReference(state.problem)
    operation, arrays = operations.load(job.operation, job.source), {}
    for name in operation.outputs(job):
        memory = operation.without_padding(job, name, state.buffers[name])
        values = to_float64(memory, operation.dtype(job, name))
        arrays[name] = np.ma.masked_array(values, unset(memory))
    return arrays


def _taken(question: _Question, job: Job) -> Arrays:
    """Return the inputs in the reference's dtypes."""
    operation, arrays = operations.load(job.operation, job.source), {}
    for name, values in question.inputs.items():
        has, wants = operation.dtype(question.job, name), operation.dtype(job, name)
        if has != wants and wants not in EXACT:
            raise NoReference(f"its {name} is {wants}, this kernel's is {has}")
        numbers = values if has == wants else to_float64(values, has).astype(storage(wants))
        arrays[name] = numbers
    return arrays
