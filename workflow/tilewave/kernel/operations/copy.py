"""b[i] = a[i]: the least work with memory, and so the measure for other kernels."""

from typing import ClassVar

from tilewave.kernel.inputs import KINDS
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays, Operand, Operation


class Copy(Operation):
    """The copy of an array."""

    dimensions = ("n",)
    kinds = KINDS[1:]
    operands: ClassVar = {"a": Operand(("n",), stream=0), "b": Operand(("n",), written=True)}

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        return {"b": self.wide(job, "a", given["a"])}
