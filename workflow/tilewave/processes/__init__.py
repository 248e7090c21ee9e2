"""Workers: processes that run a list of jobs and report each at once, and who starts them.

A *job* is the JSON-able dict that the planning code writes for one measurement, a *result* the dict
that a stage gives back for it (see `records`).
"""

from collections.abc import Mapping
from typing import Any

from tilewave.records import model

Job = Mapping[str, Any]
Result = dict[str, Any]


def result(job: Job, stage: str, status: str = "ok", reason: str = "", **more: Any) -> Result:
    """A result document for a job; `more` overrides verdict, figures, samples, notes, ...

    `environment` is left empty: the caller that knows the environment fills it in.
    """
    return model.result(stage, job.get("case", ""), status, reason, key=job.get("key", ""), **more)
