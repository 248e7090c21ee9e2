"""C[b] = alpha A[b] B[b] + beta C[b] for each b of a batch, the matrices without gaps."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from tilewave.kernel.expressions import Sizes
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Operand, Operation, Product, Work
from tilewave.kernel.operations.matmul import Matmul


class BatchedMatmul(Matmul):
    """A batch of products."""

    dimensions = ("batch", "m", "n", "k")
    operands: ClassVar = {
        "a": Operand(("batch", "m", "k"), stream=0),
        "b": Operand(("batch", "k", "n"), stream=1),
        "c": Operand(("batch", "m", "n"), stream=2, written=True),
    }
    laid_out = False
    judge_large = Operation.judge_large

    def products(self, job: Job) -> Sequence[Product]:
        m, n, k = (job.shape[name] for name in "mnk")
        sizes = {"a": m * k, "b": k * n, "c": m * n}
        return [
            Product({"m": m, "n": n, "k": k}, {name: at * sizes[name] for name in sizes})
            for at in range(job.shape["batch"])
        ]

    def work(self, shape: Sizes, dtypes: Mapping[str, str], beta: float = 0) -> Work:
        flops, moved = super().work(shape, dtypes, beta)
        return Work(shape["batch"] * flops, shape["batch"] * moved)
