"""Why a case has no figures: what an exception says, or that it would take too long."""

from __future__ import annotations

import traceback

from tilewave.counters.figures import figure
from tilewave.gpu.device import CudaError
from tilewave.jobs import Job
from tilewave.processes import Result, result


def failure(stage: str, job: Job, error: Exception) -> tuple[Result, bool]:
    """The result of a job that raised, and whether the process can go on."""
    if isinstance(error, CudaError):
        notes = {"interrupted": str(error)} if error.passing else {}
        made = result(job, stage, error.status, str(error), notes=notes)
        return made, not error.poisoned
    if isinstance(error, MemoryError):
        return result(job, stage, "not measured", "out of host memory"), True
    from tilewave.gpu.cublaslt import Unavailable

    if isinstance(error, Unavailable):
        return result(job, stage, "not measured", str(error)), True
    traceback.print_exception(error)
    text = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
    return result(job, stage, "failed to launch", text.splitlines()[0]), True


def too_dear(stage: str, job: Job, predicted_s: float) -> Result | None:
    """A result *not measured* where the predicted seconds exceed the case's limit."""
    if predicted_s <= job.limit_s:
        return None
    reason = f"predicted cost {predicted_s:.3g} s exceeds case_limit_s = {job.limit_s:g} s"
    figures = [figure("predicted_cost_s", predicted_s, "s")]
    return result(job, stage, "not measured", reason, figures=figures)
