"""Results of cases without figures: after an exception, over the time limit, or with a lost GPU."""

import traceback
from collections.abc import Callable

from tilewave.gpu.device import CudaError
from tilewave.kernel.job import Job
from tilewave.kernel.result import NOT_MEASURED, Result
from tilewave.records import environment
from tilewave.records.counters.figures import figure

Keep = Callable[[Result], None]
Measure = Callable[[list[Job], Keep], list[Result]]


def failure(job: Job, error: Exception) -> tuple[Result, bool]:
    """Return the result of a job that raised, and whether the process can continue."""
    if isinstance(error, CudaError):
        cause = str(error) if error.transient else ""
        return Result.of_job(job, error.status, str(error), cause), not error.poisoned
    if isinstance(error, MemoryError):
        return Result.of_job(job, "not measured", "the host is out of memory"), True
    from tilewave.gpu.cublaslt import Unavailable

    if isinstance(error, Unavailable):
        return Result.of_job(job, "not measured", str(error)), True
    traceback.print_exception(error)
    text = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
    return Result.of_job(job, "failed to launch", text.splitlines()[0]), True


PREDICTED_COST = "predicted_cost_s"
"""Metric of a case that was refused because it would take too long."""


def over_limit(job: Job, predicted_s: float) -> Result | None:
    """Return a result *not measured* if the predicted seconds exceed the case's limit, else None."""
    if predicted_s <= job.limit_s:
        return None
    reason = f"predicted cost {predicted_s:.3g} s exceeds case_limit_s = {job.limit_s:g} s"
    figures = [figure(PREDICTED_COST, predicted_s, "s")]
    return Result.of_job(job, "not measured", reason, figures=figures)


def watched(measure: Measure, gpu: int) -> Measure:
    """Wrap a measurement so that errors of a lost GPU become *not measured*, and the next run retries the
    cases. A failure is kept once a later result shows that the GPU still works."""

    def watching(waiting: list[Job], keep: Keep) -> list[Result]:
        held: list[Result] = []

        def release() -> None:
            while held:
                keep(held.pop(0))

        def finished(result: Result) -> None:
            held.append(result)
            if result.status != NOT_MEASURED and "CUDA_ERROR_" not in result.reason:
                release()

        results = measure(waiting, finished)
        why = environment.probe(gpu).get("gpu_reason") if held else ""
        lost = {result.case for result in held if result.status != NOT_MEASURED} if why else set()
        if lost:
            why, jobs = f"the GPU was lost: {why}", [job for job in waiting if job.case in lost]
            unmeasured = {job.case: Result.of_job(job, NOT_MEASURED, why, why) for job in jobs}
            held[:] = [unmeasured.get(result.case, result) for result in held]
            results = [unmeasured.get(result.case, result) for result in results]
        release()
        return results

    return watching
