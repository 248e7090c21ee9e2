"""sums[i] = x[i, 0] + x[i, 1] + ...: the sums that a reduction's blocks leave, with `each` elements a block.
The elements are those of `reduction`, so that every order of adding gives the same sum."""

from typing import ClassVar

import numpy as np

from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays, Operand, Operation
from tilewave.kernel.operations.reduction import EIGHTHS, steps_of


class BlockSums(Operation):
    """The sum of each row of a matrix."""

    dimensions = ("blocks", "each")
    operands: ClassVar = {
        "x": Operand(("blocks", "each"), 0),
        "sums": Operand(("blocks",), written=True),
    }

    def inputs(self, job: Job) -> dict[str, np.ndarray]:
        return {"x": steps_of(job, self, "x", EIGHTHS, 0)}

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        return {"sums": self.wide(job, "x", given["x"]).sum(axis=1)}
