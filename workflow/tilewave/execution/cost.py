"""Predicted times of executions, so that hopeless cases do not start."""

import math

from tilewave.kernel import operations
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Operation
from tilewave.theory.dtypes import DTYPES

# The most operations of a product that a core executes in a second, measured with the ladder's fastest
# kernels (`make bench`). So a case that is skipped would surely have taken too long.
FLOP_RATE = {"scalar": 6e8, "tensor": 4e9}
LOADING_S, BYTE_S = 0.1, 6e-9
"""Seconds beside a case's instructions: to load its code; to create, copy and judge a byte of an operand."""
MARKED = 15
"""Least bytes for a byte that a searched launch writes: itself and its marks, 56 a word (`machine.marking.Marks`)."""
LAUNCHES = 2
"""Launches of a product: with beta = 0 and with another beta."""
LANES = 32
SLACK = 32
A_WARP, INSTRUCTIONS = 1000, 2
"""Warp instructions that a warp may need besides its part of the product, and for each element of the longest dimension."""
WARPS_A_SECOND = 5e6
"""Approximate warp instructions a second of slow kernels."""
PATIENCE_S = 60.0


def states_work(job: Job) -> bool:
    """Return whether the work of a job is known; not that of probes and of some user-defined operations."""
    operation = operations.load(job.operation, job.source)
    user_defined = operations.MODULES.file(job.operation) is not None
    unstated = user_defined and type(operation).work is Operation.work
    return bool(operations.work(job).bytes) and not unstated


def budget(job: Job) -> int:
    """Return the warp instructions after which a launch, or a series of launches, counts as endless: far more
    than an operation of this size can need, or where the work is not known, what the limit allows."""
    if not states_work(job):
        return int(WARPS_A_SECOND * min(job.limit_s, PATIENCE_S))
    work = operations.work(job)
    warps = sum(-(-math.prod(step.block) // LANES) * step.blocks for step in job.launch.steps)
    a_warp = A_WARP + INSTRUCTIONS * max(job.shape.values(), default=1)  # a thread may walk a row
    return int(SLACK * ((2 * work.flops + work.bytes) / LANES + a_warp * warps))


def predicted_s(job: Job, flop: float = 0) -> float:
    """Return the least seconds of a job's execution on one core; 0 if its work is unknown."""
    dtype = DTYPES.get(job.dtypes.get("a", ""))
    kind = "tensor" if dtype and dtype.tensor_cores else "scalar"
    work = operations.work(job)
    return float((flop or LAUNCHES * work.flops) / FLOP_RATE[kind])


def worker_s(job: Job) -> float:
    """Return the approximate seconds that a job occupies a worker."""
    return LOADING_S + BYTE_S * operations.work(job).bytes + predicted_s(job)


def operand_bytes(job: Job, written: int = 1) -> int:
    """Return the bytes of a job's operands; a byte that is written counts so many times."""
    operation, nbytes = operations.load(job.operation, job.source), 0
    for name, operand in operation.arrays(job).items():
        dtype, count = operation.stored(job, name)
        nbytes += dtype.itemsize * count * (written if operand.written else 1)
    return nbytes
