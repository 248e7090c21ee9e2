"""An execution as the result of another stage: where no GPU says it, the CPU does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewave.execution import counters
from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.records.counters import catalogue
from tilewave.records.counters.instructions import probe_figures


def of_check(job: Job, made: Result) -> Result:
    """The check of a job from the execution of its case."""
    told = made.notes.get("check", {})
    notes = {name: value for name, value in told.items() if name != "figures"}
    return _result(job, made, verdict=made.verdict, figures=told.get("figures", []), notes=notes)


def of_counters(job: Job, made: Result) -> Result:
    """The counters of a job: those of its metrics that an execution predicts."""
    if made.status == result.OK and not made.figures:
        made = replace(made, status=result.NOT_MEASURED)
    known = {name: float(value) for name, value in made.by_metric.items()}
    rows = made.instructions if catalogue.of_instructions(job.metrics) else []
    asked = catalogue.of_launches(job.metrics)
    values = {name: known[name] for name in asked if name in known}
    figures = counters.figures(values, rows, job.dtypes.get("a", ""))
    notes: dict[str, Any] = {"not_executed": [name for name in asked if name not in known]}
    if job.instruction and rows:
        found, note = probe_figures(job.instruction, rows, values)
        figures += found
        if note:
            notes["probe_instruction"] = note
    return _result(job, made, figures=figures, instructions=rows, notes=notes)


def _result(job: Job, made: Result, **more: Any) -> Result:
    status, ok = made.status, made.status == result.OK
    notes = {"executed": made.key, **(more.pop("notes") if ok else {})}
    if not ok:
        more = {"verdict": made.verdict if job.stage == "check" else None}
    source = "executed" if ok else ""
    reason = made.reason if job.stage == "check" or not ok else ""
    where = made.environment
    return Result.of_job(job, status, reason, environment=where, source=source, notes=notes, **more)


STAGES = {"check": of_check, "counters": of_counters}


def of_stage(job: Job, made: Result) -> Result:
    """The result of a check or counters job from the execution of its case."""
    return STAGES[job.stage](job, made)
