"""y[i, j] = exp(x[i, j] - max_j x[i, j]) / sum_j exp(x[i, j] - max_j x[i, j]), row by row."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from tilewave.kernel.expressions import Sizes
from tilewave.kernel.inputs import LARGE, SPECIAL, to_float64
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays, Operand, Operation, Work
from tilewave.kernel.tolerance import Tolerance
from tilewave.theory.dtypes import DTYPES

PART = 1 << 16
"""Elements of the rows that the reference takes at a time, so that they stay in the cache."""
LARGE_EXPONENT = 8
OPERATIONS = 5
"""Operations of an element: maximum, difference, exponential, sum and quotient."""


class Softmax(Operation):
    """The softmax of each row."""

    dimensions = ("rows", "columns")
    kinds = (SPECIAL, LARGE)
    specials = (math.nan, -math.inf)  # minus infinity: a masked element
    operands: ClassVar = {
        "x": Operand(("rows", "columns"), stream=0),
        "y": Operand(("rows", "columns"), written=True),
    }

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        x = given["x"].reshape(self.extents(job, "x"), order=self.order(job, "x"))
        y = np.empty(x.shape)
        height = max(1, PART // job.shape["columns"])
        for first in range(0, len(x), height):
            rows = to_float64(x[first : first + height], self.dtype(job, "x"))
            rows = np.exp(rows - rows.max(axis=1, keepdims=True))
            y[first : first + height] = rows / rows.sum(axis=1, keepdims=True)
        return {"y": y}

    def tolerance(self, job: Job, name: str, alpha: float = 1.0, beta: float = 0.0) -> Tolerance:
        """Return a relative tolerance, because all values are positive.

        Its errors are those of the difference (up to 2, rounded once), of a fast exponential (2^-22, CUDA's
        guide), of the quotient, and of the sum, whose roundings have random signs: at most sqrt(columns) of
        them. All of it is doubled."""
        dtype = DTYPES[self.dtype(job, "y")]
        u, columns = dtype.roundoff or 0.0, job.shape["columns"]
        relative = 2 * u * (12 + math.sqrt(columns))
        return Tolerance(dtype.spacing or 0.0, relative, relative, deviation=1 / columns)

    def exponents(self, job: Job, kind: str) -> dict[str, int] | None:
        """Return the power of two of `LARGE` inputs, whose exponentials are infinite without the maximum."""
        return {"x": LARGE_EXPONENT if kind == LARGE else 0}

    def bound_of_kind(self, job: Job, name: str, kind: str, bound: Tolerance) -> Tolerance:
        """Return the tolerance: rounding d = x - max changes exp(d) by u |d| exp(d), at most u / e."""
        u = DTYPES[self.dtype(job, "y")].roundoff or 0.0
        return replace(bound, absolute=bound.absolute + 2 * u) if kind == LARGE else bound

    def work(self, shape: Sizes, dtypes: Mapping[str, str], beta: float = 0) -> Work:
        """Return five operations an element; it is read once and written once."""
        moved = super().work(shape, dtypes).bytes
        return Work(OPERATIONS * shape["rows"] * shape["columns"], moved)
