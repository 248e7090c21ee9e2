"""Workers: processes that run a list of jobs and report each at once, and who starts them.

A *result* is the dict that a stage gives back for a job (see `records`).
"""

from typing import Any

from tilewave.kernel import result as model
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result as Result


def result(job: Job, stage: str, status: str = "ok", reason: str = "", **more: Any) -> Result:
    """A result document for a job; `more` overrides verdict, figures, samples, notes, ...

    `environment` is left empty: the caller that knows the environment fills it in.
    """
    return model.result(stage, job.case, status, reason, key=job.key, **more)
