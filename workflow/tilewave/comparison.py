"""What decides whether a matrix product is right, wherever it ran: on the GPU or executed here.

A product runs with (alpha, beta) = (1, 0), C poisoned before, and, where the kernel takes them, with
(0.75, -0.5), or (2, -1) where sums are whole numbers. Each run is compared element by element and in
the Frobenius norm with a float64 product of the same rounded inputs (tolerances:
`operations.matmul`); the run that came nearest to its tolerance, or went farthest past it, speaks for
the case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tilewave.inputs import to_float64, uniform
from tilewave.jobs import Job
from tilewave.operations.matmul import OPERANDS, Tolerance, exact, tolerance
from tilewave.records import model

ALPHA, BETA = 0.75, -0.5  # exact in every floating-point dtype
WHOLE_ALPHA, WHOLE_BETA = 2.0, -1.0  # where the accumulator holds whole numbers
READS_C = "reads C even where beta is 0, as its front matter says: C must hold numbers"
"""Beside the verdict of a product that was not checked against an uninitialised C."""
STREAMS = {"a": 0, "b": 1, "c": 2}
"""Random stream of each matrix; buffer set i of a timing adds 16 i."""


@dataclass(frozen=True)
class Comparison:
    """An output beside its reference. `first` is a storage index, -1 where nothing is wrong.

    An element that is NaN enters neither error. worst: error and tolerance of the element that came
    nearest to its own tolerance, or went farthest past it, where each was looked at.
    """

    max_error: float
    relative_error: float
    wrong: int
    first: int
    worst: tuple[float, float] | None = None


@dataclass(frozen=True)
class Run:
    """One product beside its reference."""

    alpha: float
    beta: float
    bound: Tolerance
    found: Comparison
    typical: float  # tolerance of an element of typical size
    reason: str
    no_number: bool = False  # elements that are NaN were found: the errors are of the others

    @property
    def correct(self) -> bool:
        # Written so that NaN is wrong.
        return self.found.wrong == 0 and self.found.relative_error <= self.bound.frobenius

    @property
    def badness(self) -> tuple[bool, float]:
        # Where nothing is tolerated (whole numbers) any error is beyond measure.
        error = self.found.max_error
        beyond = math.inf if error else 0.0
        return not self.correct, error / self.typical if self.typical else beyond


def scalars(job: Job) -> list[tuple[float, float]]:
    """The (alpha, beta) that a job is checked with."""
    names = job.arguments or ("alpha", "beta")
    whole = exact(job.dtypes.get("accumulate", ""))
    alpha, beta = (WHOLE_ALPHA, WHOLE_BETA) if whole else (ALPHA, BETA)
    second = (alpha if "alpha" in names else 1.0, beta if "beta" in names else 0.0)
    if job.provider != "nvrtc":
        second = (alpha, beta)
    return [(1.0, 0.0)] + ([second] if second != (1.0, 0.0) else [])


def left_dirty(job: Job, read: Callable[[str], np.ndarray]) -> str:
    """Empty where a launch left the product's zeroed scratch zero, else a sentence: the next launch
    would count on it. ``read`` gives a buffer's bytes."""
    for one in job.launch.scratch:
        if not one.zeroed:
            continue
        found = np.flatnonzero(read(one.name))
        if found.size:
            return f"left byte {int(found[0])} of scratch buffer {one.name} not zero"
    return ""


def deviation(shape: Mapping[str, int], alpha: float) -> float:
    """Standard deviation of an element of alpha A B for inputs with variance 1/3 (whole numbers
    have a larger one, and no tolerance that it could enter)."""
    return abs(alpha) * math.sqrt(shape["k"]) / 3


def least_norm(shape: Mapping[str, int], alpha: float) -> float:
    """Norm that a product of this shape has by its size; few elements may be near 0 by chance."""
    return math.sqrt(shape["m"] * shape["n"]) * deviation(shape, alpha)


def bound(job: Job, alpha: float, beta: float) -> Tolerance:
    """The tolerance of a job's product."""
    return tolerance(job.dtypes, job.shape["k"], alpha, beta, job.tensor_cores)


def judged(
    job: Job,
    found: Comparison,
    alpha: float,
    beta: float,
    value: float = math.nan,
    expected: float = math.nan,
    label: str = "",
) -> Run:
    """A run with the sentence that says what is wrong.

    value, expected: C and its reference at ``found.first``; label: which of several
    implementations ran.
    """
    shape = job.shape
    allowed = bound(job, alpha, beta)
    scaled = f"alpha = {alpha:g}, beta = {beta:g}"
    reason = ""
    if found.wrong:
        column_major = job.layouts.get("c") == "col"
        second, first = divmod(found.first, shape["m"] if column_major else shape["n"])
        row, column = (first, second) if column_major else (second, first)
        unwritten = (
            " (never written, or C was read although beta is 0, which `reads_c: true` allows)"
            if math.isnan(value) and not beta
            else ""
        )
        digits = ".0f" if exact(job.dtypes["c"]) else ".6g"
        reason = (
            f"{found.wrong} of {shape['m'] * shape['n']} elements are wrong with {scaled}; "
            f"C[{row}, {column}] is {value:{digits}}{unwritten}, expected {expected:{digits}}"
        )
    elif not found.relative_error <= allowed.frobenius:
        reason = (
            f"relative error {found.relative_error:.3g} of the whole product (Frobenius) with "
            f"{scaled} exceeds {allowed.frobenius:.3g}"
        )
    elif job.reads_c:
        reason = READS_C
    if reason and label:
        reason = f"{label}: {reason}"
    tolerated = allowed.absolute + allowed.relative_out * deviation(shape, alpha)
    worst = found.worst[0] if found.worst else 0.0
    no_number = math.isnan(worst) or (found.wrong > 0 and math.isnan(value))
    return Run(alpha, beta, allowed, found, tolerated, reason, no_number)


def worst(runs: list[Run]) -> Run:
    """The run that came nearest to its tolerance, or went farthest past it."""
    return max(runs, key=lambda run: run.badness)


def verdict(run: Run) -> tuple[str, list[dict[str, Any]], dict[str, Any]]:
    """Verdict, figures and notes of a check whose worst run this is.

    The errors are left out where elements are NaN: those of the others would look small.
    """
    values = {"max_error": run.found.max_error, "tolerance": run.typical}
    values["relative_error"] = run.found.relative_error
    if run.no_number:
        values = {"tolerance": run.typical}
    figures = [{"metric": name, "value": float(one), "unit": ""} for name, one in values.items()]
    notes = {
        "alpha": run.alpha,
        "beta": run.beta,
        "wrong_elements": run.found.wrong,
        "relative_tolerance": run.bound.frobenius,
    }
    if run.found.worst is not None and not run.no_number:
        notes["worst_error"], notes["worst_tolerance"] = run.found.worst
    return (model.CORRECT if run.correct else model.WRONG), figures, notes


# ------------------------------------------------------------------------------------ on the host


def matrix(job: Job, name: str) -> np.ndarray:
    """A matrix's random elements as the memory holds them, one dimension (see `inputs.uniform`)."""
    rows, columns = (job.shape[size] for size in OPERANDS[name])
    return uniform(job.seed, STREAMS[name], rows * columns, job.dtypes[name])


def order(job: Job, name: str) -> Literal["C", "F"]:
    """numpy's word for a matrix's layout."""
    return "F" if job.layouts.get(name) == "col" else "C"


def reference(
    job: Job, matrices: Mapping[str, np.ndarray], alpha: float, beta: float
) -> np.ndarray:
    """The float64 product in two dimensions, from flat matrices as `matrix` gives them.

    C is not looked at where beta is 0.
    """
    wide = {
        name: to_float64(matrices[name], job.dtypes[name]).reshape(
            [job.shape[size] for size in OPERANDS[name]], order=order(job, name)
        )
        for name in ("a", "b", *("c" if beta else ""))
    }
    product: np.ndarray = alpha * (wide["a"] @ wide["b"])
    return product + beta * wide["c"] if beta else product


def compare(
    job: Job, got: np.ndarray, want: np.ndarray, alpha: float, beta: float, label: str = ""
) -> Run:
    """Compare C as its memory holds it (one dimension) with a `reference`, on the host.

    An element that is NaN is wrong.
    """
    shape, limits = job.shape, bound(job, alpha, beta)
    flat = want.ravel(order=order(job, "c"))
    values = to_float64(got, job.dtypes["c"])
    with np.errstate(invalid="ignore"):
        error = np.abs(values - flat)
    allowed = limits.absolute + limits.relative_out * np.abs(flat)
    bad = ~(error <= allowed)
    wrong = int(bad.sum())
    first = int(np.argmax(bad)) if wrong else -1
    norm = max(float(np.linalg.norm(flat)), least_norm(shape, alpha))
    known = error[~np.isnan(error)]
    total = float(np.linalg.norm(known))
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.where(error == 0, 0.0, error / allowed)
    worst = int(np.argmax(np.where(np.isnan(error), np.inf, beyond)))
    found = Comparison(
        float(known.max(initial=0.0)),
        total / norm if norm else total,
        wrong,
        first,
        (float(error[worst]), float(allowed[worst])),
    )
    value, expected = (float(values[first]), float(flat[first])) if wrong else (math.nan, math.nan)
    return judged(job, found, alpha, beta, value, expected, label)
