"""Another kernel as the reference: what it gave when it was executed here must come out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.padding import POISON
from tilewave.kernel.tolerance import JudgedOutput, Judgement, Tolerance, compare
from tilewave.theory.dtypes import DTYPES

Arrays = Mapping[str, np.ndarray]
Executed = Callable[[Path, Job, Arrays], Mapping[str, "np.ma.MaskedArray[Any, Any]"]]
"""What a kernel file leaves in the outputs of a job, from the job's inputs: float64 in memory's order, without padding;
masked are elements that it does not write. Raises `NoReference`."""
execute: Callable[..., Mapping[str, np.ma.MaskedArray[Any, Any]]] | None = None
"""`pipeline.reference_kernel.outputs`, set where a kernel can be planned: by the workers of a run and the command line."""


def executed(
    file: Path, job: Job, given: Arrays, machine: Any = None
) -> Mapping[str, np.ma.MaskedArray[Any, Any]]:
    """See `Executed`. machine: what executes; default: one is made."""
    if execute is None:
        raise NoReference("nothing here can plan a kernel")
    return execute(file, job, given, machine)


class JudgedOperation(Protocol):
    """What is asked here of an operation (see `base.Operation`)."""

    @property
    def name(self) -> str: ...

    @property
    def kernel(self) -> Path | None: ...

    def arrays(self, job: Job) -> Mapping[str, Any]: ...

    def dtype(self, job: Job, name: str) -> str: ...

    def extents(self, job: Job, name: str) -> tuple[int, ...]: ...

    def output(self, job: Job, name: str) -> JudgedOutput: ...


ROUNDINGS = 12
"""Of an element besides those of its sum: an exponential, a quotient, a root and some products."""


class NoReference(ValueError):
    """Why the kernel that is a reference does not say what is right."""


def rounding(operation: JudgedOperation, job: Job, name: str, want: np.ndarray) -> Tolerance:
    """What two kernels may differ by that round differently, where the operation does not say it.

    Both lose `ROUNDINGS` and those of a sum of so many terms as the longest dimension has, or as there are
    inputs for each element of the output; signs of roundings are random, so that of a sum the root counts. An element
    is as large as itself and its output's typical one together, as terms may cancel. Whole numbers are equal.
    """
    arrays = operation.arrays(job)
    roundoffs = [DTYPES[operation.dtype(job, array)].roundoff or 0.0 for array in arrays]
    if DTYPES[operation.dtype(job, name)].whole:
        return Tolerance()
    read = sum(math.prod(operation.extents(job, array)) for array, a in arrays.items() if a.given)
    terms = max(*job.shape.values(), read / want.size)
    relative = 2 * max(roundoffs) * (ROUNDINGS + math.sqrt(terms))
    finite = want[np.isfinite(want)]
    typical = float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0
    return Tolerance(relative * typical, relative, relative, typical)


def judge(
    operation: JudgedOperation,
    job: Job,
    outputs: Arrays,
    given: Arrays,
    executed: Executed,
    *,
    stated: bool,
) -> Judgement:
    """Verdict on outputs without padding, beside those of `Operation.kernel`, which says itself that it is the
    judge. Elements that neither wrote are equal; where the reference gives NaN nothing is compared, which is told.
    stated: whether the operation has a tolerance of its own."""
    kernel = operation.kernel
    assert kernel is not None
    if str(kernel) == job.source:
        return Judgement(result.NOT_CHECKED, f"it is the reference of {operation.name} itself")
    try:
        wanted = executed(kernel, job, given)
    except NoReference as error:
        why = f"its reference {kernel.name} says nothing: {error}"
        return Judgement(result.NOT_CHECKED, why)
    judgements, numberless, compared = [], 0, 0
    for name, memory in outputs.items():
        got, want = memory.copy(), wanted[name].data.copy()
        nobody = np.ma.getmaskarray(wanted[name])
        poisoned = np.all(memory.view(np.uint8).reshape(memory.size, -1) == POISON, axis=1)
        unknown = np.isnan(want) & ~nobody
        left_out = (nobody & poisoned) | unknown
        got[left_out], want[left_out] = 0, 0.0
        numberless += int(unknown.sum())
        compared += int((~left_out).sum())
        output = operation.output(job, name)
        if not stated:
            output = replace(output, bound=rounding(operation, job, name, want))
        judgements.append(compare(output, got, want, operation.dtype(job, name)))
    worst = Judgement.worst(judgements)
    said = f"judged by what {kernel.name} gave, executed on the CPU without findings"
    if numberless:
        said += f", but for {numberless} elements that are NaN there"
    if not compared:
        return Judgement(result.NOT_CHECKED, f"{kernel.name} gives no number to compare with")
    return replace(worst, reason="; ".join(filter(None, (worst.reason, said))))
