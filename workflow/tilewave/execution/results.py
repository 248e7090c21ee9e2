"""Results of the stages check and counters from an execution on the CPU, where no GPU gave any."""

from dataclasses import replace
from typing import Any

from tilewave.execution import counters
from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.records.counters import catalogue
from tilewave.records.counters.instructions import probe_figures


def of_stage(job: Job, execution: Result) -> Result:
    """Return the result of a check or counters job from the execution of its case."""
    if job.stage != "check":
        return _of_counters(job, execution)
    notes = dict(execution.notes.get("check", {}))
    figures = notes.pop("figures", [])
    return _result(job, execution, verdict=execution.verdict, figures=figures, notes=notes)


def _of_counters(job: Job, execution: Result) -> Result:
    """Return the counters of a job: those of its metrics that an execution predicts."""
    if execution.status == result.OK and not execution.figures:
        execution = replace(execution, status=result.NOT_MEASURED)
    counted = {name: float(value) for name, value in execution.by_metric.items()}
    rows = execution.instructions if catalogue.of_instructions(job.metrics) else []
    values = {name: counted[name] for name in catalogue.of_launches(job.metrics) if name in counted}
    figures = counters.figures(values, rows, job.dtypes.get("a", ""))
    if job.instruction:
        figures += probe_figures(job.instruction, rows, values)
    return _result(job, execution, figures=figures, instructions=rows, notes={})


def _result(job: Job, execution: Result, **more: Any) -> Result:
    status, ok = execution.status, execution.status == result.OK
    notes = {"executed": execution.key, **(more.pop("notes") if ok else {})}
    if not ok:
        more = {"verdict": execution.verdict if job.stage == "check" else None}
    source = "executed" if ok else ""
    reason = execution.reason if job.stage == "check" or not ok else ""
    where = execution.environment
    return Result.of_job(job, status, reason, environment=where, source=source, notes=notes, **more)
