"""Stage execute: which cases this machine's CPU executes, and their results from the store or now.

Its results have the source ``executed`` and stand beside those of the other stages. Where there is
no GPU, and no recorded figure either, the stages check and counters take theirs from here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilewave.cases import Request, wants
from tilewave.config import Config
from tilewave.records import model
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store
from tilewave.stages import jobs
from tilewave.stages.jobs import Planned
from tilewave.stages.measuring import Measure

STAGE = "execute"
REPLACED = ("check", "counters")
"""The stages whose results an execution can give."""


def wanted(
    requests: list[Request],
    compiled: dict[str, Any],
    target: dict[str, Any],
    recorded: Recorded | None,
    config: Config,
) -> set[str]:
    """The cases to execute: all, those of studies that ask for it, and those of which a machine
    without a GPU has no recorded check or counters, as the config's `execute.when` says."""
    when = config.execute.when
    if when == "never":
        return set()
    asked = {
        one.case.id for one in requests if (when == "always" or one.execute) and wants(STAGE, one)
    }
    if target["live"]:
        return asked
    for stage in REPLACED:
        for planned in jobs.plan(stage, requests, compiled, target, config):
            job = planned.job
            if job is None or job["provider"] != "nvrtc":
                continue
            if recorded is None or recorded.get(stage, job["key"]) is None:
                asked.add(planned.case.id)
    return asked


def _enough(made: Mapping[str, Any], job: Mapping[str, Any]) -> bool:
    """Whether a stored result answers the job: one that timed out had no less time."""
    given = float(made["notes"].get("limit_s", 0))
    return made["status"] != model.TIMED_OUT or given >= float(job["limit_s"])


def collect(
    planned: Iterable[Planned], target: Mapping[str, Any], store: Store, measure: Measure
) -> dict[str, Any]:
    """Results of the cases in their order. Returns {"results", "counts"}; counts says how many were
    executed now and how many were there."""
    results: dict[str, dict[str, Any]] = {}
    waiting: dict[str, dict[str, Any]] = {}  # by key: cases that share one are executed once
    same: dict[str, list[str]] = {}
    counts = {"executed": 0, "reused": 0}
    for one in planned:
        results[one.case.id] = {}
        if one.job is None:
            assert one.result is not None
            results[one.case.id] = one.result
            continue
        job = one.job
        found = store.get(target["host"], STAGE, job["key"])
        if found is not None and _enough(found, job):
            results[one.case.id] = found | {"case": one.case.id}
            counts["reused"] += 1
            continue
        waiting.setdefault(job["key"], job)
        same.setdefault(job["key"], []).append(one.case.id)

    def finished(made: dict[str, Any]) -> None:
        job = by_case[made["case"]]
        whole = made | {"key": job["key"], "environment": target["host"]}
        if made["status"] == model.TIMED_OUT:
            whole["notes"] = {**made["notes"], "limit_s": job["limit_s"]}
        model.validate(whole)
        store.put(whole)
        for case in same[job["key"]]:
            results[case] = whole | {"case": case}
        counts["executed"] += whole["status"] == model.OK

    by_case = {job["case"]: job for job in waiting.values()}
    if waiting:
        for made in measure(list(waiting.values()), finished):
            if not results[made["case"]]:
                finished(made)
    return {"results": list(results.values()), "counts": counts}
