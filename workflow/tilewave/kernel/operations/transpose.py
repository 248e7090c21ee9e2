"""B[n, m] = the transpose of A[m, n]. Nothing is computed, so elements must be equal."""

from typing import ClassVar

from tilewave.kernel.inputs import KINDS
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays, Operand, Operation


class Transpose(Operation):
    """The transpose of a matrix."""

    dimensions = ("m", "n")
    kinds = KINDS[1:]
    operands: ClassVar = {"a": Operand(("m", "n"), 0), "b": Operand(("n", "m"), written=True)}

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        return {"b": self.wide(job, "a", given["a"]).T}
