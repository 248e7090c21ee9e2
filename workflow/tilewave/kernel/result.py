"""The words every result uses, and how a result is made.

A result is a plain dict, so that it can be stored and sent between processes as JSON::

    {"schema_version": 1, "stage": ..., "case": ..., "key": ..., "status": ..., "reason": ...,
     "verdict": ..., "environment": id, "source": ..., "figures": [{metric, value, unit}],
     "samples": {series: [...]}, "instructions": [...], "notes": {...}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SCHEMA_VERSION = 1
Result = dict[str, Any]

OK = "ok"
NOT_MEASURED = "not measured"
FAILED_TO_COMPILE = "failed to compile"
FAILED_TO_LAUNCH = "failed to launch"
INVALID_ACCESS = "invalid access"
ASSERTION_FAILED = "assertion failed"
TRAPPED = "trap"
TIMED_OUT = "timed out"
UNSUPPORTED = "unsupported"
STALE = "stale"
# Statuses that a kernel is to blame for; the rest say what this machine could not do.
FAILURES = (
    FAILED_TO_COMPILE,
    FAILED_TO_LAUNCH,
    INVALID_ACCESS,
    ASSERTION_FAILED,
    TRAPPED,
    TIMED_OUT,
)
STATUSES = (OK, NOT_MEASURED, *FAILURES, UNSUPPORTED, STALE)

CORRECT = "correct"
WRONG = "wrong"
NOT_CHECKED = "not checked"
RACE = "race"
UNINITIALISED = "uninitialised read"
BARRIER = "barrier"
# What an execution may find in a case that ended.
FINDINGS = (RACE, UNINITIALISED, BARRIER)
VERDICTS = (CORRECT, WRONG, NOT_CHECKED, RACE, UNINITIALISED, BARRIER)

EXECUTE = "execute"
SAMPLE = "sample"
TUNE = "tune"
STAGES = ("check", "time", TUNE, "counters", SAMPLE, EXECUTE)
# Where the figures of a stage come from when they were measured here.
SOURCES = {
    "check": "events",
    "time": "events",
    "tune": "events",
    "counters": "counters",
    SAMPLE: "samples",
    EXECUTE: "executed",
}
EXECUTED = SOURCES[EXECUTE]
INSTEAD = "executed here, because on this GPU "
"""Begins the reason of a result that stands in for one that this machine's GPU did not give."""
DISTURBED = "disturbed: "
"""Begins the reason of a result whose figures something else on the machine has changed."""
DOUBTFUL = "doubtful: "
"""Begins the reason of a time that another measurement of the same case contradicts (`records.agreement`)."""
SPOILT = (DISTURBED, DOUBTFUL)
COUNTED_CLOCK = "counted"
"""Note ``clock`` of a time whose SM clock was counted on the GPU; others were read through NVML, which lags."""


FIELDS = {
    "stage": str, "case": str, "key": str, "status": str, "reason": str, "environment": str, "source": str,
    "figures": list, "samples": dict, "instructions": list, "notes": dict,
}  # fmt: skip
"""Of every result, besides the verdict, which may be None."""


def result(
    stage: str,
    case: str,
    status: str,
    reason: str = "",
    *,
    key: str = "",
    verdict: str | None = None,
    environment: str = "",
    **more: Any,
) -> Result:
    """A result; raises ValueError for a status or verdict outside the closed lists."""
    made = {
        "schema_version": SCHEMA_VERSION,
        "stage": stage,
        "case": case,
        "key": key,
        "status": status,
        "reason": reason,
        "verdict": verdict,
        "environment": environment,
        "source": "",
        "figures": [],
        "samples": {},
        "instructions": [],
        "notes": {},
        **more,
    }
    validate(made)
    return made


def validate(made: Mapping[str, Any]) -> None:
    """Raise ValueError where a result's words are outside the closed lists."""
    if made["status"] not in STATUSES:
        raise ValueError(f"status {made['status']!r} is none of {', '.join(STATUSES)}")
    if made["verdict"] is not None and made["verdict"] not in VERDICTS:
        raise ValueError(f"verdict {made['verdict']!r} is none of {', '.join(VERDICTS)}")


def well_formed(made: Any) -> bool:
    """Whether what was read is a result: each field there, of its kind, its words from the lists."""
    if not isinstance(made, dict) or made.get("schema_version") != SCHEMA_VERSION:
        return False
    if not all(isinstance(made.get(name), kind) for name, kind in FIELDS.items()):
        return False
    try:
        validate(made)
    except (ValueError, TypeError, KeyError):
        return False
    rows = (*made["figures"], *made["instructions"])
    return all(isinstance(row, dict) for row in rows) and all(
        isinstance(one.get("metric"), str) and isinstance(one.get("value"), int | float | None)
        for one in made["figures"]
    )


def passing(made: Mapping[str, Any]) -> bool:
    """Whether the next run may well get a better result: somebody ended this one (``interrupted``), or
    disturbed it (``disturbed``), or another measurement contradicts it (``doubtful``)."""
    return bool({"interrupted", "disturbed", "doubtful"} & made["notes"].keys())


def recordable(made: Mapping[str, Any]) -> bool:
    """Whether a result may be shipped: also that a case was too dear on the recorded GPU."""
    too_dear = made["status"] == NOT_MEASURED and bool(made["figures"])
    return keepable(made) or too_dear


def keepable(made: Mapping[str, Any]) -> bool:
    """Whether a result says something about the case that will be as true next time.

    What this machine could not do (no permission, no time) is asked again on the next run, and so is what
    somebody interrupted or disturbed. That a
    library has no product for a case lasts as long as its version, which the environment names;
    a case refused by its front matter has no key and costs nothing to refuse again.
    """
    if passing(made):
        return False
    answered = made["status"] == UNSUPPORTED and bool(made["key"]) and made["stage"] != EXECUTE
    return made["status"] == OK or made["status"] in FAILURES or answered
