"""Everything that needs a driver. Every module here imports without CUDA; functions import it.

A *job* is the JSON-able dict that the planning code writes for one measurement, a *result* the dict
that a stage gives back for it (see `records`).
"""

from collections.abc import Mapping
from typing import Any

SCHEMA_VERSION = 1

Job = Mapping[str, Any]
Result = dict[str, Any]


def result(job: Job, stage: str, status: str = "ok", reason: str = "", **more: Any) -> Result:
    """A result document for a job; `more` overrides verdict, figures, samples, notes, ...

    `environment` is left empty: the caller that knows the environment fills it in.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "stage": stage,
        "case": job.get("case", ""),
        "key": job.get("key", ""),
        "status": status,
        "reason": reason,
        "verdict": None,
        "environment": "",
        "figures": [],
        "samples": {},
        "instructions": [],
        "notes": {},
        **more,
    }


def figure(metric: str, value: float, unit: str) -> dict[str, Any]:
    """One figure of a result."""
    return {"metric": metric, "value": float(value), "unit": unit}
