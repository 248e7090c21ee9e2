"""Where each result of a stage comes from: the store, a recording, or a measurement now."""

import itertools
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewave.execution import results as executed
from tilewave.gpu.failure import PREDICTED_COST, Measure
from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.launches import Provider
from tilewave.kernel.result import Result
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store


def stopped_by_check(check: Result | None) -> tuple[str, str] | None:
    """Return status and reason if the check did not end (a crash, a time-out, unsupported); a wrong result stops nothing."""
    if check is None or check.status in (result.OK, result.NOT_MEASURED, result.STALE):
        return None
    return check.status, check.reason


def from_recording(job: Job, recorded: Recorded | None, target: Mapping[str, Any]) -> Result:
    """Return the recorded result of a job, or the result that says why there is none."""
    status, reason, label = result.NOT_MEASURED, target["reason"], target["label"]
    if recorded is not None:
        answer = recorded.answer(job)
        if answer is not None:
            return replace(answer, case=job.case)
        if recorded.unusable:
            reason += f", and {recorded.unusable} of {label} is damaged"
        elif recorded.get(job.stage, job.case):
            status, reason = result.STALE, f"recorded on {label} for other code, launch or method"
        else:
            reason += f", and {label} has no recorded value of this case"
    return Result.of_job(job, status, reason)


def _ncu(stage: str, target: Mapping[str, Any]) -> str | None:
    """Return the version of ncu that this run's counters are read with, None in stages without it."""
    if stage not in ("counters", result.SAMPLE):
        return None
    environment = target["environment"] if target["live"] else target["host"]
    version = target["environments"].get(environment, {}).get("ncu")
    return str(version) if version else None


def _answers(outcome: Result, job: Job, target: Mapping[str, Any]) -> bool:
    """Return whether a stored result answers the job: from the same ncu, with no shorter limit."""
    limit_s = outcome.notes.get("limit_s", 0)
    waited = isinstance(limit_s, int | float) and limit_s >= job.limit_s
    limited = outcome.status == result.TIMED_OUT or "limit_s" in outcome.notes
    enough = waited or not limited
    same = bool(outcome.notes.get("ncu") == _ncu(job.stage, target))
    return enough and same and not outcome.transient


def _conclusive(execution: Result) -> bool:
    """Return whether an execution gave a status of the kernel, not of the machine or the interpreter."""
    return execution.status not in (result.NOT_MEASURED, result.UNSUPPORTED)


def _substitute(job: Job, outcome: Result, execution: Result) -> Result:
    """Return the execution as the result of a stage; if it gave none either, the stage's result with both reasons."""
    stale = outcome.status == result.STALE and not _conclusive(execution)
    if execution.status == result.NOT_MEASURED or stale:
        return replace(outcome, reason=f"{outcome.reason}; {execution.reason}")
    return executed.of_stage(job, execution)


@dataclass(frozen=True)
class Sources:
    """The places where a finished result may be; the first with the job's key gives it.

    An execution is looked up in the store, then in the recording. On a live GPU all else is looked up in the store;
    elsewhere in the recording, and code on the host then in the store. The store includes the failed attempts.
    failed_attempts: results of jobs that this machine could not measure, repeated if they were interrupted, or once
    it can do more. remeasured: cases that are measured although the store has them.
    """

    target: Mapping[str, Any]
    store: Store
    recorded: Recorded | None = None
    failed_attempts: Store | None = None
    remeasured: Container[str] = ()

    def environment(self, job: Job) -> str:
        """Return the id of the environment in which this machine measures a job."""
        live = self.target["live"] and job.stage != result.EXECUTE
        return str(self.target["environment"] if live else self.target["host"])

    def measurable(self, stage: str, provider: Provider) -> bool:
        """Return whether this machine can try: code for a GPU needs one."""
        return bool(provider == "cpu" or stage == result.EXECUTE or self.target["live"])

    def _stored(self, job: Job) -> Result | None:
        """Look in the store, then among failed attempts; a result of another GPU of the run counts, too."""
        if job.case in self.remeasured:
            return None
        here, gpus = self.environment(job), self.target.get("gpus", ())
        environments = dict.fromkeys((here, *(gpus if here in gpus else ())))
        stores = self.store, self.failed_attempts
        for store, environment in itertools.product(stores, environments):
            outcome = store and store.get(environment, job.stage, job.key)
            if outcome and _answers(outcome, job, self.target):
                return replace(outcome, case=job.case)
        return None

    def _recorded(self, job: Job) -> Result | None:
        outcome = self.recorded and self.recorded.answer(job)
        return replace(outcome, case=job.case) if outcome else None

    def find(self, job: Job) -> Result | None:
        """Return the result of a job without measuring, None if no source has it."""
        executed = job.stage == result.EXECUTE
        if executed or self.target["live"]:
            return self._stored(job) or (self._recorded(job) if executed else None)
        # Recorded values first, so that all of them come from one environment.
        return self._recorded(job) or (self._stored(job) if job.provider == "cpu" else None)

    def missing(self, job: Job) -> Result:
        """Return the result, with its reason, of a job that no source has and that is not measured."""
        if self.measurable(job.stage, job.provider):
            where = self.environment(job), job.stage, job.key
            failed = self.failed_attempts and self.failed_attempts.get(*where)
            if failed and failed.transient:
                return replace(failed, case=job.case)
            return Result.of_job(job, result.NOT_MEASURED, job.no_cubin or "it was not tried")
        return from_recording(job, self.recorded, self.target)


def _without_measuring(
    planned: Job | Result, sources: Sources, may_measure: bool, checks: Mapping[str, Result] | None
) -> Result | None:
    """Return a case's result if there is one or can be none, None if the case is to be measured.
    planned: a job, or the result of a case that cannot run. may_measure: whether this run measures at all."""
    if not isinstance(planned, Job):
        return planned
    stop = None if checks is None else stopped_by_check(checks.get(planned.case))
    if stop:
        return Result.of_job(planned, *stop)
    outcome = sources.find(planned)
    possible = sources.measurable(planned.stage, planned.provider) and not planned.no_cubin
    if outcome is None and not (may_measure and possible):
        outcome = sources.missing(planned)
    return outcome


def collect(
    planned: Mapping[str, Job | Result],
    sources: Sources,
    measure: Measure | None = None,
    checks: Mapping[str, Result] | None = None,
) -> dict[str, Any]:
    """Return a stage's results in the order of the cases, as {"results", "counts"}.

    ``measure`` returns the results of jobs; it may hand each to its second argument at once, so that it is kept even if
    the run is killed. Without it nothing is measured.
    ``checks``: the check results by case, for the later stages. The counts: measured now, reused, recorded.
    """
    target = sources.target
    results: dict[str, Result] = {}
    waiting: dict[tuple[str, float], Job] = {}
    twins: dict[str, list[str]] = {}
    counts = {"measured": 0, "reused": 0, "recorded": 0}
    for case, entry in planned.items():
        outcome = _without_measuring(entry, sources, measure is not None, checks)
        if outcome is not None:
            results[case] = outcome
            recorded = outcome.source.startswith("recorded:")
            counts["recorded"] += recorded
            counts["reused"] += not recorded and bool(outcome.environment)
            continue
        # Cases that share key and limit are one measurement.
        assert isinstance(entry, Job)
        measured = waiting.setdefault((entry.key, entry.limit_s), entry)
        if measured is not entry:
            twins.setdefault(measured.case, []).append(case)

    def finished(outcome: Result) -> None:
        job, notes = by_case[outcome.case], dict(outcome.notes)
        if (ncu := _ncu(job.stage, target)) is not None:
            notes["ncu"] = ncu
        refused = outcome.status == result.NOT_MEASURED and PREDICTED_COST in outcome.by_metric
        if refused or outcome.status == result.TIMED_OUT:
            notes["limit_s"] = job.limit_s
        where = outcome.environment or sources.environment(job)
        source = result.SOURCES[job.stage] if outcome.status == result.OK else ""
        complete = replace(outcome, key=job.key, environment=where, source=source, notes=notes)
        if not sources.store.put(complete) and sources.failed_attempts is not None:
            sources.failed_attempts.put(complete, always=True)
        same = twins.get(complete.case, ())
        for case in (complete.case, *same):
            results[case] = replace(complete, case=case)
        counts["measured"] += complete.status == result.OK
        counts["reused"] += len(same) * (complete.status == result.OK)

    by_case = {job.case: job for job in waiting.values()}
    if waiting:
        assert measure is not None
        for outcome in measure(list(waiting.values()), finished):
            if outcome.case not in results:
                finished(outcome)
    return {"results": [results[case] for case in planned], "counts": counts}


def with_execution(
    job: Job, outcome: Result, execution: Result, live: bool, prefer_execution: bool
) -> Result:
    """Return the check or counters of an executed case.
    live: on the target's GPU the execution stands in only where the status is *not measured*. Elsewhere it stands in
    where there is no result; with prefer_execution a conclusive one also replaces a recorded result."""
    if live:
        if outcome.status != result.NOT_MEASURED:
            return outcome
        replacement = _substitute(job, outcome, execution)
        if replacement.source == result.EXECUTED:
            why = "; ".join(filter(None, (outcome.reason, replacement.reason)))
            reason = f"{result.INSTEAD}it was not measured: {why}"
            replacement = replace(replacement, reason=reason)
        return replacement
    if prefer_execution and _conclusive(execution):
        return executed.of_stage(job, execution)
    return outcome if outcome.environment else _substitute(job, outcome, execution)


def log_lines(stage: str, document: dict[str, Any]) -> str:
    """Return a stage's lines for the log: counts, then every case that is not ok, or not from this machine's GPU."""
    counts = ", ".join(f"{number} {name}" for name, number in document["counts"].items())
    rows = [f"{stage}: {len(document['results'])} cases; {counts}"]
    for outcome in document["results"]:
        notable = outcome.reason.startswith((result.INSTEAD, *result.SPOILT))
        if outcome.status != result.OK or outcome.verdict == result.WRONG or notable:
            verdict = f" {outcome.verdict}" if outcome.verdict else ""
            rows.append(f"  {outcome.case}: {outcome.status}{verdict}: {outcome.reason}")
    return "\n".join(rows) + "\n"
