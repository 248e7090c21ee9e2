"""y[i] = 2 x[i]."""

from typing import ClassVar

from tilewave.kernel.operations.base import Operand, Operation


class Twice(Operation):
    dimensions = ("n",)
    operands: ClassVar = {"x": Operand(("n",), stream=0), "y": Operand(("n",), written=True)}

    def reference(self, job, given, alpha=1.0, beta=0.0):
        return {"y": 2 * self.wide(job, "x", given["x"])}
