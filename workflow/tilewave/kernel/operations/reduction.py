"""total += x[0] + ... + x[n - 1].

The elements are whole eighths from -1 to 1, so that no partial sum needs more than a float's 24 bits (partial sums of
2^26 of them stay below 2^17). Every order of adding gives the same sum, and an element that is forgotten or added twice
shows. With other numbers a float's sum depends on the order, and with atomics on the run. Elements of a type of whole
numbers are those up to `WHOLE`, or fewer so that no sum leaves the range of the types."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from tilewave.kernel.expressions import Sizes
from tilewave.kernel.inputs import LARGE, SPECIAL, storage, to_float64, uniform
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays, Operand, Operation, Work
from tilewave.theory.dtypes import DTYPES

EIGHTHS, WHOLE = 8, 100
PART = 1 << 16
"""Elements that are widened at a time, so that they stay in the cache."""


def steps_of(job: Job, operation: Operation, name: str, steps: int, stream: int) -> np.ndarray:
    """Return elements whose sum is the same in every order: multiples of 1 / steps up to 1, or whole numbers."""
    dtype, count = operation.stored(job, name)
    drawn = uniform(job.seed, stream, count, "f32")
    if DTYPES[operation.dtype(job, name)].whole:
        rows = [DTYPES[operation.dtype(job, of)] for of in operation.operands]
        ends = [np.iinfo(of.storage).max if of.whole else 1 / (of.roundoff or 1) for of in rows]
        added = sum(operation.stored(job, of)[1] for of in operation.operands)
        drawn *= min(max(min(ends) // added, 1), WHOLE)
        np.rint(drawn if np.iinfo(dtype).min else np.abs(drawn), out=drawn)
    else:
        drawn *= steps
        np.rint(drawn, out=drawn)
        drawn /= steps
    return drawn.astype(dtype, copy=False)


class Reduction(Operation):
    """The sum of an array, added to the previous total."""

    dimensions = ("n",)
    kinds = (SPECIAL, LARGE)  # atomics flush denormal numbers
    operands: ClassVar = {"x": Operand(("n",), 0), "total": Operand((), 1, written=True)}

    def inputs(self, job: Job) -> dict[str, np.ndarray]:
        return self._whole_steps(job, EIGHTHS)

    def _whole_steps(self, job: Job, steps: int) -> dict[str, np.ndarray]:
        streams = {name: operand.stream or 0 for name, operand in self.operands.items()}
        return {name: steps_of(job, self, name, steps, at) for name, at in streams.items()}

    def of_kind(self, job: Job, kind: str) -> dict[str, np.ndarray]:
        """Return inputs of a kind; large ones have as many bits as every order of adding keeps."""
        exponents = self.exponents(job, kind)
        if kind != LARGE or exponents is None:
            return super().of_kind(job, kind)
        roundoff = max(DTYPES[self.dtype(job, name)].roundoff or 0.0 for name in self.operands)
        steps = 1 << max(3, -round(math.log2(roundoff)) - job.shape["n"].bit_length())
        values = self._whole_steps(job, steps)
        return {name: np.ldexp(array, exponents[name]) for name, array in values.items()}

    def exponents(self, job: Job, kind: str) -> dict[str, int] | None:
        """Return powers of two that leave the sum in range."""
        high = min(DTYPES[self.dtype(job, name)].exponents[1] for name in self.operands)
        room = high - math.ceil(math.log2(job.shape["n"]))
        return dict.fromkeys(self.operands, room if kind == LARGE else 0) if room > 0 else None

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        x, dtype = given["x"], self.dtype(job, "x")
        parts = (to_float64(x[at : at + PART], dtype) for at in range(0, x.size, PART))
        total = self.wide(job, "total", given["total"])
        return {"total": total + sum(part.sum() for part in parts)}

    def work(self, shape: Sizes, dtypes: Mapping[str, str], beta: float = 0) -> Work:
        """Return an addition and a read for each element; the sum is too small to count."""
        n = shape["n"]
        return Work(n, n * storage(dtypes["x"]).itemsize)
