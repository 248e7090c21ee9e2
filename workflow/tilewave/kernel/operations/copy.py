"""b[i] = a[i]: the least that a kernel can do with memory, and so what others are held against."""

from typing import ClassVar

import numpy as np

from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays, Operand, Operation


class Copy(Operation):
    """An array, once more."""

    dimensions = ("n",)
    operands: ClassVar = {"a": Operand(("n",), stream=0), "b": Operand(("n",), written=True)}

    def reference(
        self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0
    ) -> dict[str, np.ndarray]:
        return {"b": self.wide(job, "a", given["a"])}
