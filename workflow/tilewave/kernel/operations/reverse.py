"""The reversal of an array through shared memory: in place, or from the first array to the second."""

from collections.abc import Mapping

import numpy as np

from tilewave.kernel.expressions import Sizes
from tilewave.kernel.inputs import KINDS, storage
from tilewave.kernel.job import Job
from tilewave.kernel.launches import leaves
from tilewave.kernel.operations.base import Arrays, Operand, Operation, Work
from tilewave.theory.dtypes import DTYPES, SIZES

SCALARS = ("n", "alpha", "beta")


class Reverse(Operation):
    """The reversal of an array."""

    dimensions = ("n",)
    kinds = KINDS[1:]
    rehearsed = False

    def arrays(self, job: Job) -> Mapping[str, Operand]:
        names = [of for of in leaves(job.arguments) if isinstance(of, str) and of not in SCALARS]
        if not names:
            raise ValueError(f"{job.case}: no array among the arguments {list(job.arguments)}")
        source, target = names[0], names[-1]
        operands = {source: Operand(("n",), stream=0, written=source == target)}
        return operands | ({} if source == target else {target: Operand(("n",), written=True)})

    def streamed(self, job: Job, name: str) -> int | None:
        return None if DTYPES[self.dtype(job, name)].whole else super().streamed(job, name)

    def inputs(self, job: Job) -> dict[str, np.ndarray]:
        """Return the array to reverse; integers equal their index."""
        source = next(iter(self.arrays(job)))
        dtype = self.dtype(job, source)
        if DTYPES[dtype].whole:
            return {source: np.arange(job.shape["n"], dtype=storage(dtype))}
        return super().inputs(job)

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        source, *_, target = [*self.arrays(job), *self.arrays(job)]
        return {target: self.wide(job, source, given[source])[::-1]}

    def work(self, shape: Sizes, dtypes: Mapping[str, str], beta: float = 0) -> Work:
        return Work(0, 2 * shape["n"] * SIZES[next(iter(dtypes.values()))])
