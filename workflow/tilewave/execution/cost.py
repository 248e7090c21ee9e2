"""How long executing a case will take, before anything runs: so that hopeless ones are not begun."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tilewave.kernel import operations
from tilewave.kernel.job import Job
from tilewave.kernel.operations.base import Operation
from tilewave.theory.dtypes import DTYPES

# Operations of the product that one core gets through a second at best, measured with the ladder's
# fastest kernels (`make bench`), so that what is left out would surely have taken too long.
FLOP_RATE = {"scalar": 6e8, "tensor": 4e9}
LOADING_S, BYTE_S = 0.1, 6e-9
"""What a case costs a worker beside its instructions: to load its code; to make, copy and judge a byte of
its operands."""
LAUNCHES = 2
"""A product is executed with beta = 0 and with another one."""
LANES = 32
SLACK = 32
A_WARP = 1000
"""Warp instructions that a warp may spend on anything but its part of the product."""
WARPS_A_SECOND = 5e6
"""Warp instructions a second that slow kernels reach, about."""
PATIENCE_S = 60.0
TELLING_S = 0.5
"""Launches that took less tell of what it costs to begin one."""
CERTAIN = 1.3
"""So many times its limit a case must seem to take, to be left out: larger ones are somewhat faster."""


def budget(job: Job) -> int:
    """Warp instructions after which a launch, or a series of them, is taken for endless.

    Far more than an operation of this size can need (the plainest product executes two thread
    instructions for each of its operations); of a probe, whose work is not known, what the time
    limit allows, about, and so of a user's operation that does not say it.
    """
    work, operation = operations.work(job), operations.load(job.operation, job.source)
    own = operations.MODULES.file(job.operation) is not None
    if not work.bytes or (own and type(operation).work is Operation.work):
        return int(WARPS_A_SECOND * min(job.limit_s, PATIENCE_S))
    warps = sum(-(-math.prod(one.block) // LANES) * one.blocks for one in job.launch.steps)
    return int(SLACK * ((2 * work.flops + work.bytes) / LANES + A_WARP * warps))


def predicted_s(job: Job, flop: float = 0) -> float:
    """Least seconds that executing a job takes on one core; 0 where nothing is known.

    flop: operations of one launch, of a probe whose front matter counts them (`work`).
    """
    dtype = DTYPES.get(job.dtypes.get("a", ""))
    kind = "tensor" if dtype and dtype.tensor_cores else "scalar"
    work = operations.work(job)
    return float((flop or LAUNCHES * work.flops) / FLOP_RATE[kind])


def worker_s(job: Job) -> float:
    """Seconds, about, that a job keeps a worker."""
    return LOADING_S + BYTE_S * operations.work(job).bytes + predicted_s(job)


@dataclass
class PaceRates:
    """How much longer than predicted the cases of each variant took here, which tells of its larger
    ones before they are begun."""

    _seen: dict[str, tuple[float, str]] = field(default_factory=dict)

    def saw(self, job: Job, seconds: float) -> None:
        """A case's launches took so long, or were given up after so long."""
        predicted = predicted_s(job)
        if predicted and seconds > TELLING_S:
            self._seen[job.variant] = seconds / predicted, job.case

    def hopeless(self, job: Job) -> str:
        """Why a case cannot end within its limit; empty where it may."""
        slower, case = self._seen.get(job.variant, (0.0, ""))
        seconds = slower * predicted_s(job)
        if seconds < CERTAIN * job.limit_s:
            return ""
        limit = f"execute: case_limit_s = {job.limit_s:g} s"
        return f"it would take {seconds:.0f} s, as fast as {case} was, and {limit}"
