"""A kernel as the reference: an output must equal what this kernel gave, executed on the CPU."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.padding import unset
from tilewave.kernel.tolerance import Judgement, Tolerance, compare
from tilewave.theory.dtypes import DTYPES

Arrays = Mapping[str, np.ndarray]
Executed = Callable[[Path, Job, Arrays], Mapping[str, "np.ma.MaskedArray[Any, Any]"]]
"""A function that executes a kernel file on a job's inputs and returns its outputs: float64 in memory's order, without
padding. Elements that the kernel does not write are masked. Raises `NoReference`."""
execute: Callable[..., Mapping[str, np.ma.MaskedArray[Any, Any]]] | None = None
"""`pipeline.reference_kernel.outputs`, set by the workers of a run and the command line, which can plan a kernel."""


def executed(
    file: Path, job: Job, given: Arrays, machine: Any = None
) -> Mapping[str, np.ma.MaskedArray[Any, Any]]:
    """Execute a kernel file as `Executed`. machine: the machine that executes; a new one by default."""
    if execute is None:
        raise NoReference("this process cannot plan a kernel")
    return execute(file, job, given, machine)


ROUNDINGS = 12
"""Roundings of an element besides those of its sum: an exponential, a quotient, a root and some products."""
WITHIN = 1.0
"""Allowed difference of whole numbers from a reference with fractions, which a kernel may cut off."""


class NoReference(ValueError):
    """A reference kernel that gives no reference, with the reason."""


def rounding(operation: Any, job: Job, name: str, want: Any, turned: bool = False) -> Tolerance:
    """Return the tolerance between two kernels that round differently, for an operation without its own.

    Each kernel has `ROUNDINGS` and those of a sum. The sum has as many terms as the longest dimension, or as
    there are inputs for an element of the output. Signs of roundings are random, so the root of their number counts.
    Terms may cancel, so an element counts as itself plus a typical element. An angle that grows along the longest dimension
    (``turned``) rounds as much more as it is large. Whole numbers must be equal to whole ones, and
    `WITHIN` of fractions, or where the operation ``rounds``: half may go up or to even."""
    arrays = operation.arrays(job)
    roundoffs = [DTYPES[operation.dtype(job, array)].roundoff or 0.0 for array in arrays]
    if DTYPES[operation.dtype(job, name)].whole:
        rounds = getattr(operation, "rounds", False)
        exact = np.array_equal(want, np.rint(want), equal_nan=True) and not rounds
        return Tolerance() if exact else Tolerance(WITHIN, frobenius=1.0)
    read = sum(math.prod(operation.extents(job, array)) for array, a in arrays.items() if a.given)
    terms = max(*job.shape.values(), read / max(want.size, 1))
    turns = ROUNDINGS * terms if turned or getattr(operation, "turned", False) else 0.0
    relative = 2 * max(roundoffs) * (ROUNDINGS + math.sqrt(terms) + turns)
    finite = want[np.isfinite(want)]
    typical = float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0
    return Tolerance(relative * typical, relative, relative, typical)


def judge(
    operation: Any, job: Job, outputs: Arrays, given: Arrays, executed: Executed, *, stated: bool
) -> Judgement:
    """Judge outputs without padding by those of `Operation.kernel`. The reason names that kernel.
    Elements that neither kernel wrote are equal. Elements whose reference is NaN are not compared, and the reason
    says how many. stated: whether the operation has its own tolerance."""
    kernel: Path = operation.kernel
    if str(kernel) == job.source:
        return Judgement(result.NOT_CHECKED, f"it is the reference of {operation.name} itself")
    try:
        wanted = executed(kernel, job, given)
    except NoReference as error:
        why = f"its reference {kernel.name} has no result: {error}"
        return Judgement(result.NOT_CHECKED, why)
    if all(np.ma.getmaskarray(wanted[name]).all() for name in outputs):
        return Judgement(result.NOT_CHECKED, f"its reference {kernel.name} writes no output")
    judgements, numberless, compared = [], 0, 0
    for name, memory in outputs.items():
        got, want = memory.copy(), wanted[name].data.copy()
        unwritten = np.ma.getmaskarray(wanted[name])
        unknown = np.isnan(want) & ~unwritten
        skipped = (unwritten & unset(memory)) | unknown
        got[skipped], want[skipped] = 0, 0.0
        numberless += int(unknown.sum())
        compared += int((~skipped).sum())
        output = operation.output(job, name)
        if not stated:
            output = replace(output, bound=rounding(operation, job, name, want))
        judgements.append(compare(output, got, want, operation.dtype(job, name)))
    worst = Judgement.worst(judgements)
    source = f"judged by what {kernel.name} gave, executed on the CPU without findings"
    if numberless:
        source += f", except {numberless} elements that are NaN there"
    if not compared:
        return Judgement(result.NOT_CHECKED, f"{kernel.name} gives no number to compare with")
    return replace(worst, reason="; ".join(filter(None, (worst.reason, source))))
