"""How long executing a case will take, before anything runs: so that hopeless ones are not begun."""

from __future__ import annotations

import math

from tilewave import operations
from tilewave.dtypes import DTYPES
from tilewave.jobs import Job

# Operations of the product that one core gets through a second at best, measured with the ladder's
# fastest kernels (`make bench`), so that what is left out would surely have taken too long.
FLOP_RATE = {"scalar": 6e8, "tensor": 4e9}
LAUNCHES = 2
"""A product is executed with beta = 0 and with another one."""
LANES = 32
SLACK = 32
A_WARP = 1000
"""Warp instructions that a warp may spend on anything but its part of the product."""
WARPS_A_SECOND = 5e6
"""Warp instructions a second that slow kernels reach, about."""
PATIENCE_S = 60.0


def budget(job: Job) -> int:
    """Warp instructions after which a launch is taken for endless.

    Far more than an operation of this size can need (the plainest product executes two thread
    instructions for each of its operations); of a probe, whose work is not known, what the time
    limit allows, about.
    """
    work = operations.load(job.operation).work(job.shape, job.dtypes)
    if not work.bytes:
        return int(WARPS_A_SECOND * min(job.limit_s, PATIENCE_S))
    warps = -(-math.prod(job.launch.block) // LANES) * job.launch.blocks
    return int(SLACK * ((2 * work.flops + work.bytes) / LANES + A_WARP * warps))


def predicted_s(job: Job, flop: float = 0) -> float:
    """Least seconds that executing a job takes on one core; 0 where nothing is known.

    flop: operations of one launch, of a probe whose front matter counts them (`work`).
    """
    dtype = DTYPES.get(job.dtypes.get("a", ""))
    kind = "tensor" if dtype and dtype.tensor_cores else "scalar"
    if job.operation != "matmul":
        return float(flop / FLOP_RATE[kind])
    work = operations.load("matmul").work(job.shape, job.dtypes)
    return float(LAUNCHES * work.flops / FLOP_RATE[kind])
