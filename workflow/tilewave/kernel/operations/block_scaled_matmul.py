"""C[m, n] = alpha A B + beta C of matrices in FP8 whose blocks of 128 along k have scales.

A row of A has a scale for every 128 of its elements, B one for every block of 128 x 128: the sum of 128
products is multiplied by both and added in single precision (as DeepGEMM does). Scales of A lie with the rows
beside each other, `scale_a[k / 128][m]`, those of B with k beside each other, `scale_b[n / 128][k / 128]`.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from tilewave.kernel.inputs import uniform
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Arrays, Operand, Operation
from tilewave.kernel.operations.matmul import Matmul
from tilewave.kernel.tolerance import Tolerance

BLOCK = 128  # elements of k, and columns of B, that a scale is of
MEAN, SPAN = 1.25, 0.75  # scales are uniform in [0.5, 2)
LARGEST = (MEAN + SPAN) ** 2  # of a product's two scales together


class BlockScaledMatmul(Matmul):
    """The product of two matrices whose blocks are scaled."""

    operands: ClassVar = {
        **Matmul.operands,
        "scale_a": Operand(("k", "m"), stream=3),
        "scale_b": Operand(("n", "k"), stream=4),
    }
    vendor = ""
    products = Operation.products  # none of a, b and c alone

    def extents(self, job: Job, name: str) -> tuple[int, ...]:
        blocks = {size: -(-job.shape[size] // BLOCK) for size in "nk"}
        scales = {"scale_a": (blocks["k"], job.shape["m"]), "scale_b": (blocks["n"], blocks["k"])}
        return scales[name] if name in scales else super().extents(job, name)

    def streamed(self, job: Job, name: str) -> int | None:
        return None if name.startswith("scale") else super().streamed(job, name)

    def inputs(self, job: Job) -> dict[str, np.ndarray]:
        values = super().inputs(job)
        for name in ("scale_a", "scale_b"):
            stream = self.operands[name].stream
            assert stream is not None
            drawn = uniform(job.seed, stream, values[name].size, "f32")
            values[name] = (MEAN + SPAN * drawn).astype(np.float32)
        return values

    def of_kind(self, job: Job, kind: str) -> dict[str, np.ndarray]:
        """Return inputs of a kind; scales stay as they are."""
        scales = {name: values for name, values in self.inputs(job).items() if "scale" in name}
        return {**super().of_kind(job, kind), **scales}

    def reference(self, job: Job, given: Arrays, alpha: float = 1.0, beta: float = 0.0) -> Arrays:
        a, b, of_a, of_b = (
            self.wide(job, operand, given[operand]) for operand in ("a", "b", "scale_a", "scale_b")
        )
        n, k = job.shape["n"], job.shape["k"]
        along = np.arange(k) // BLOCK
        columns = np.arange(n) // BLOCK
        product = alpha * ((a * of_a.T[:, along]) @ (b * of_b.T[np.ix_(along, columns)]))
        return {"c": product + beta * self.wide(job, "c", given["c"]) if beta else product}

    def tolerance(self, job: Job, name: str, alpha: float = 1.0, beta: float = 0.0) -> Tolerance:
        """Return the product's tolerance, times the largest or the mean product of two scales."""
        bare = super().tolerance(job, name, alpha, beta)
        # The mean square of a scale is the root mean square of two multiplied.
        mean = MEAN**2 + SPAN**2 / 3
        return replace(bare, absolute=LARGEST * bare.absolute, deviation=mean * bare.deviation)
