"""Stage tune: a tuning run for each shape and dtypes times the candidates of all kernels in turn.

A result's key depends on its candidate alone, so a new kernel makes nothing stale. An eliminated candidate
stays eliminated, because a newcomer can only shorten the best time. Candidates that reached the end are timed
again with a newcomer, so that the winner of a group always comes from one run.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.records.store import Store


def judged(key: str, case: str, check: Result | None) -> Result | None:
    """Return the result of a case that is not tuned, because its check is not correct; None if it is."""
    if check is None or check.status != result.OK or check.verdict == result.CORRECT:
        return None  # without a check here, the measurement gives the reason
    reason = f"only correct cases are tuned, and the check says {check.verdict}"
    return Result(result.TUNE, case, result.NOT_MEASURED, reason, key=key)


def plan(
    planned: Mapping[str, Job | Result], checks: Mapping[str, Result]
) -> dict[str, Job | Result]:
    """Return the candidates of the tuning runs, with their `group`, and the results of the rest."""
    candidates: dict[str, Job | Result] = {}
    for case, candidate in planned.items():
        if isinstance(candidate, Job):
            candidate = judged(candidate.key, case, checks.get(case)) or candidate
        if isinstance(candidate, Job):
            shape = "x".join(map(str, candidate.shape.values()))  # layouts may differ in a group
            dtypes = json.dumps(candidate.dtypes, sort_keys=True)
            candidate = replace(candidate, group=f"{candidate.operation} {shape} {dtypes}")
        candidates[case] = candidate
    return candidates


def repeated(jobs: Iterable[Job], target: Mapping[str, Any], store: Store) -> set[str]:
    """Return the stored cases that are timed again: those that reached the end, in groups with a newcomer."""
    if not target["live"]:
        return set()
    stored = [(job, store.get(target["environment"], result.TUNE, job.key)) for job in jobs]
    incomplete = {job.group for job, outcome in stored if outcome is None}
    ended = [job for job, o in stored if o and o.status == result.OK and not o.notes.get("out")]
    return {job.case for job in ended if job.group in incomplete}


def by_group(waiting: Iterable[Job]) -> list[Job]:
    """Return the jobs sorted by group, groups in the order of their first job."""
    jobs = list(waiting)
    groups = list(dict.fromkeys(job.group for job in jobs))
    return sorted(jobs, key=lambda job: groups.index(job.group))


def saved(results: Iterable[Result]) -> tuple[int, int, float, float]:
    """Return how many candidates were tuned and eliminated, the GPU's seconds spent, and those without elimination."""
    every = (outcome.by_metric for outcome in results)
    tuned = [figures for figures in every if "tune_duration" in figures]
    eliminated = sum(figures["tune_eliminated"] > 0 for figures in tuned)
    spent = sum(1e-3 * figures["tune_spent"] for figures in tuned)
    full = sum(1e-3 * figures["tune_full_cost"] for figures in tuned)
    return len(tuned), eliminated, spent, full
