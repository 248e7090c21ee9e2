"""The collector of every stage: each case from the first source that knows it, or measured now."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewave.execution import results as executed
from tilewave.gpu.failure import Measure
from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.launches import Provider
from tilewave.kernel.result import Result
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store


def blocked(check: Result | None) -> tuple[str, str] | None:
    """Why a case may not be timed or profiled, from its check: only clean endings are."""
    if check is None or check.status in (result.OK, result.NOT_MEASURED, result.STALE):
        return None
    return check.status, check.reason


def from_recording(job: Job, recorded: Recorded | None, target: Mapping[str, Any]) -> Result:
    """The recorded result of a job, or the result that says that there is none."""
    status, reason, label = result.NOT_MEASURED, target["reason"], target["label"]
    if recorded is not None:
        found = recorded.answer(job)
        if found is not None:
            return replace(found, case=job.case)
        if recorded.unusable:
            reason += f", and {recorded.unusable} of {label} is damaged"
        elif recorded.has_case(job.stage, job.case):
            status, reason = result.STALE, f"recorded on {label} for other code, launch or method"
        else:
            reason += f", and {label} has no recorded figure of this case"
    return Result.of_job(job, status, reason)


def _ncu(stage: str, target: Mapping[str, Any]) -> str | None:
    """Version of the ncu that counters of this run are read with; None in stages without it."""
    if stage not in ("counters", result.SAMPLE):
        return None
    environment = target["environment"] if target["live"] else target["host"]
    version = target["environments"].get(environment, {}).get("ncu")
    return str(version) if version else None


def _still_good(made: Result, job: Job, target: Mapping[str, Any]) -> bool:
    """Whether a stored result answers the job: read by the same ncu, and given no less time."""
    given = made.notes.get("limit_s", 0)
    long = isinstance(given, int | float) and given >= job.limit_s
    enough = made.status != result.TIMED_OUT or long
    if made.passing:
        return False
    return enough and bool(made.notes.get("ncu") == _ncu(job.stage, target))


def _says(execution: Result) -> bool:
    """Whether an execution says anything of its case."""
    return execution.status not in (result.NOT_MEASURED, result.UNSUPPORTED)


def _instead(job: Job, taken: Result, execution: Result) -> Result:
    """What an execution says where there is no figure; else the reason with the execution's."""
    stale = taken.status == result.STALE and not _says(execution)
    if execution.status == result.NOT_MEASURED or stale:
        return replace(taken, reason=f"{taken.reason}; {execution.reason}")
    return executed.of_stage(job, execution)


@dataclass(frozen=True)
class Sources:
    """Where a figure comes from: an ordered list, of which the first that has its key gives it.

    recorded: figures of a named GPU, where their key is the job's; None also where a run is to be
    fresh. attempts: what was tried by this checkout and could
    not be measured; asked again once the machine can do more. executions: what executing the cases
    gave, by case; ``executed_first``: before recorded figures. again: cases that are measured although
    the store has them.
    """

    target: Mapping[str, Any]
    store: Store
    recorded: Recorded | None = None
    attempts: Store | None = None
    again: Container[str] = ()

    def environment(self, job: Job) -> str:
        """Id of the environment in which this machine measures a job."""
        live = self.target["live"] and job.stage != result.EXECUTE
        return str(self.target["environment"] if live else self.target["host"])

    def measurable(self, stage: str, provider: Provider) -> bool:
        """Whether this machine can try: what a GPU runs needs one, the rest a CPU."""
        on_host = provider == "cpu" or stage == result.EXECUTE
        return bool(on_host or self.target["live"])

    def _stored(self, job: Job) -> Result | None:
        if job.case in self.again:
            return None
        mine, others = self.environment(job), self.target.get("gpus", ())
        places = dict.fromkeys((mine, *(others if mine in others else ())))
        for place, environment in itertools.product((self.store, self.attempts), places):
            found = place and place.get(environment, job.stage, job.key)
            if found and _still_good(found, job, self.target):
                return replace(found, case=job.case)
        return None

    def _recorded(self, job: Job) -> Result | None:
        found = self.recorded and self.recorded.answer(job)
        return replace(found, case=job.case) if found else None

    def _order(self, job: Job) -> tuple[Callable[[Job], Result | None], ...]:
        if job.stage == result.EXECUTE:
            return self._stored, self._recorded
        if self.target["live"]:
            return (self._stored,)
        # Recorded figures first, so that all of them come from one environment.
        return (self._recorded, self._stored) if job.provider == "cpu" else (self._recorded,)

    def find(self, job: Job) -> Result | None:
        """What is known of a job without measuring, None where nothing is."""
        found = (source(job) for source in self._order(job))
        return next((one for one in found if one is not None), None)

    def missing(self, job: Job) -> Result:
        """The result of a job of which nothing is known and nothing was measured: the reason why."""
        if self.measurable(job.stage, job.provider):
            where = self.environment(job), job.stage, job.key
            tried = self.attempts and self.attempts.get(*where)
            if tried and tried.passing:
                return replace(tried, case=job.case)
            return Result.of_job(job, result.NOT_MEASURED, job.no_cubin or "it was not tried")
        return from_recording(job, self.recorded, self.target)


def _possible(job: Job, sources: Sources) -> bool:
    """Whether this machine can try a job: its code is there as well."""
    return sources.measurable(job.stage, job.provider) and not job.no_cubin


def _unmeasured(
    one: Job | Result, sources: Sources, tried: bool, checks: Mapping[str, Result] | None
) -> Result | None:
    """A case's result without measuring it; None where it is to be measured. tried: whether anything is."""
    if not isinstance(one, Job):
        return one
    stop = None if checks is None else blocked(checks.get(one.case))
    if stop:
        return Result.of_job(one, *stop)
    found = sources.find(one)
    if found is None and not (tried and _possible(one, sources)):
        found = sources.missing(one)
    return found


def collect(
    planned: Mapping[str, Job | Result],
    sources: Sources,
    measure: Measure | None = None,
    checks: Mapping[str, Result] | None = None,
) -> dict[str, Any]:
    """Results of a stage in the order of the cases.

    ``measure`` runs jobs and calls its second argument for each finished case; without it nothing is
    measured. ``checks`` holds the check results by case for the later stages. Returns {"results",
    "counts"}, where counts says how many were measured now, reused (from the store, or from another
    case of this run that is the same measurement) and taken from a recording.
    """
    target = sources.target
    results: dict[str, Result] = {}
    waiting: dict[tuple[str, float], Job] = {}
    twins: dict[str, list[str]] = {}
    counts = {"measured": 0, "reused": 0, "recorded": 0}
    for case, one in planned.items():
        found = _unmeasured(one, sources, measure is not None, checks)
        if found is not None:
            results[case] = found
            recorded = found.source.startswith("recorded:")
            counts["recorded"] += recorded
            counts["reused"] += not recorded and bool(found.environment)
            continue
        # Cases that share key and limit are one measurement.
        assert isinstance(one, Job)
        first = waiting.setdefault((one.key, one.limit_s), one)
        if first is not one:
            twins.setdefault(first.case, []).append(case)

    def finished(made: Result) -> None:
        job, notes = by_case[made.case], dict(made.notes)
        if (ncu := _ncu(job.stage, target)) is not None:
            notes["ncu"] = ncu
        if made.status == result.TIMED_OUT:
            notes["limit_s"] = job.limit_s
        whole = replace(
            made,
            key=job.key,
            environment=made.environment or sources.environment(job),
            source=result.SOURCES[job.stage] if made.status == result.OK else "",
            notes=notes,
        )
        if not sources.store.put(whole) and sources.attempts is not None:
            sources.attempts.put(whole, always=True)
        same = twins.get(whole.case, ())
        for case in (whole.case, *same):
            results[case] = replace(whole, case=case)
        counts["measured"] += whole.status == result.OK
        counts["reused"] += len(same) * (whole.status == result.OK)

    by_case = {job.case: job for job in waiting.values()}
    if waiting:
        assert measure is not None
        for made in measure(list(waiting.values()), finished):
            if made.case not in results:
                finished(made)
    return {"results": [results[case] for case in planned], "counts": counts}


def with_execution(job: Job, made: Result, execution: Result, live: bool, first: bool) -> Result:
    """A check or counters where the case was executed: what that says, where there is no figure. first: before
    recorded figures; with live figures executions stand in only for what was not measured."""
    if live:
        if made.status != result.NOT_MEASURED:
            return made
        found = _instead(job, made, execution)
        if found.source == result.EXECUTED:
            why = "; ".join(filter(None, (made.reason, found.reason)))
            found = replace(found, reason=f"{result.INSTEAD}it was not measured: {why}")
        return found
    if first and _says(execution):
        return executed.of_stage(job, execution)
    return made if made.environment else _instead(job, made, execution)


def log_lines(stage: str, document: dict[str, Any]) -> str:
    """Short account of a stage for its log: counts, then every case that is not ok or was executed
    where this machine's GPU should have measured it."""
    counts = ", ".join(f"{number} {name}" for name, number in document["counts"].items())
    rows = [f"{stage}: {len(document['results'])} cases; {counts}"]
    for made in document["results"]:
        told = made.reason.startswith((result.INSTEAD, *result.SPOILT))
        if made.status != result.OK or made.verdict == result.WRONG or told:
            verdict = f" {made.verdict}" if made.verdict else ""
            rows.append(f"  {made.case}: {made.status}{verdict}: {made.reason}")
    return "\n".join(rows) + "\n"
