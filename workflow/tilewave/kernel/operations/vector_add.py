"""c[i] = a[i] + b[i]. The sum of two floats is rounded once, so it must be equal, not near."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from tilewave.kernel.expressions import Sizes
from tilewave.kernel.inputs import KINDS
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays, Operand, Operation, Work


class VectorAdd(Operation):
    """The sum of two arrays."""

    dimensions = ("n",)
    kinds = KINDS[1:]
    operands: ClassVar = {
        "a": Operand(("n",), stream=0),
        "b": Operand(("n",), stream=1),
        "c": Operand(("n",), written=True),
    }
    rehearsed = False

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        dtype, _ = self.stored(job, "c")
        with np.errstate(all="ignore"):
            rounded = (given["a"] + given["b"]).astype(dtype)
        return {"c": self.wide(job, "c", rounded)}

    def work(self, shape: Sizes, dtypes: Mapping[str, str], beta: float = 0) -> Work:
        return Work(shape["n"], super().work(shape, dtypes).bytes)
