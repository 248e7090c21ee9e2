"""A GPU that is lost while cases run on it: no case is to blame."""

from __future__ import annotations

from collections.abc import Callable

from tilewave import environment
from tilewave.jobs import Job
from tilewave.processes import Result, result
from tilewave.records.model import NOT_MEASURED

Keep = Callable[[Result], None]
Measure = Callable[[list[Job], Keep], list[Result]]


def watched(measure: Measure, gpu: int) -> Measure:
    """The same, but CUDA errors under which the GPU of that number was lost become *not measured*, and the
    next run tries these cases again. A failure is kept once a later result shows that the GPU outlived it."""

    def watching(waiting: list[Job], keep: Keep) -> list[Result]:
        held: list[Result] = []

        def release() -> None:
            while held:
                keep(held.pop(0))

        def finished(made: Result) -> None:
            held.append(made)
            if made["status"] != NOT_MEASURED and "CUDA_ERROR_" not in made["reason"]:
                release()

        results = measure(waiting, finished)
        why = environment.probe(gpu).get("gpu_reason") if held else ""
        lost = {made["case"] for made in held if made["status"] != NOT_MEASURED} if why else set()
        if lost:
            reason = f"the GPU was lost: {why}"
            notes = {"interrupted": reason}
            of_nobody = {
                job.case: result(job, job.stage, NOT_MEASURED, reason, notes=notes)
                for job in waiting
                if job.case in lost
            }
            held[:] = [of_nobody.get(made["case"], made) for made in held]
            results = [of_nobody.get(made["case"], made) for made in results]
        release()
        return results

    return watching
