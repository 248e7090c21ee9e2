"""Stages check, time, tune and counters: take each case from the store or a recording, or measure it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from tilewave.execution import results as executed
from tilewave.records import model
from tilewave.records.recorded import Recorded
from tilewave.records.store import Store
from tilewave.stages.jobs import Planned

Measure = Callable[[list[dict[str, Any]], Callable[[dict[str, Any]], None]], list[dict[str, Any]]]


def blocked(check: dict[str, Any] | None) -> tuple[str, str] | None:
    """Why a case may not be timed or profiled, from its check: only clean endings are."""
    if check is None or check["status"] in (model.OK, model.NOT_MEASURED, model.STALE):
        return None
    return check["status"], check["reason"]


def from_recording(
    job: dict[str, Any], recorded: Recorded | None, target: dict[str, Any]
) -> dict[str, Any]:
    """The recorded result of a job, or the result that says that there is none."""
    stage, case = job["stage"], job["case"]
    if recorded is None:
        return model.result(stage, case, model.NOT_MEASURED, target["reason"], key=job["key"])
    found = recorded.get(stage, job["key"])
    if found is not None:
        return found | {"case": case}
    if recorded.has_case(stage, case):
        reason = f"recorded on {target['label']} for other code, launch or method"
        return model.result(stage, case, model.STALE, reason, key=job["key"])
    reason = f"{target['reason']}, and {target['label']} has no recorded figure of this case"
    return model.result(stage, case, model.NOT_MEASURED, reason, key=job["key"])


def _ncu(stage: str, target: Mapping[str, Any]) -> str | None:
    """Version of the ncu that counters of this run are read with; None in the other stages."""
    if stage != "counters":
        return None
    environment = target["environment"] if target["live"] else target["host"]
    version = target["environments"].get(environment, {}).get("ncu")
    return str(version) if version else None


def _still_good(made: Mapping[str, Any], job: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Whether a stored result answers the job: read by the same ncu, and given no less time."""
    enough = made["status"] != model.TIMED_OUT or float(made["notes"].get("limit_s", 0)) >= float(
        job["limit_s"]
    )
    return enough and bool(made["notes"].get("ncu") == _ncu(job["stage"], target))


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two cases are one measurement: the same key and limit."""
    return one["key"] == other["key"] and one.get("limit_s") == other.get("limit_s")


def _says(execution: Mapping[str, Any] | None) -> bool:
    """Whether an execution says anything of its case."""
    return execution is not None and execution["status"] not in (
        model.NOT_MEASURED,
        model.UNSUPPORTED,
    )


def _instead(
    job: dict[str, Any], taken: dict[str, Any], execution: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What an execution says where there is no figure; else the reason with the execution's."""
    if execution is None:
        return taken
    stale = taken["status"] == model.STALE and not _says(execution)
    if execution["status"] == model.NOT_MEASURED or stale:
        return taken | {"reason": f"{taken['reason']}; {execution['reason']}"}
    return executed.of_stage(job, execution)


def collect(
    planned: list[Planned],
    target: dict[str, Any],
    recorded: Recorded | None,
    store: Store,
    measure: Measure,
    checks: dict[str, dict[str, Any]] | None = None,
    executions: Mapping[str, Mapping[str, Any]] | None = None,
    executed_first: bool = False,
    again: Container[str] = (),
) -> dict[str, Any]:
    """Results of a stage in the order of the cases.

    ``measure`` runs jobs and calls its second argument for each finished case; ``checks`` holds
    the check results by case for the later stages; ``executions`` what executing the cases gave,
    for those that are not measured, and where there is no GPU before recorded figures if
    ``executed_first``; ``again`` the cases that are measured although the store has them. Returns {"results", "counts"}, where counts says how many were measured now,
    reused (from the store, or from another case of this run that is the same measurement), taken
    from a recording and, if any, executed.
    """
    executions = executions or {}
    results: dict[str, dict[str, Any]] = {}
    waiting: list[dict[str, Any]] = []
    twins: dict[str, list[str]] = {}
    counts = {"measured": 0, "reused": 0, "recorded": 0}
    for one in planned:
        if one.result is not None:
            results[one.case.id] = one.result
            continue
        job = one.job
        assert job is not None
        stop = blocked((checks or {}).get(one.case.id))
        if stop:
            results[one.case.id] = model.result(job["stage"], job["case"], *stop, key=job["key"])
            continue
        on_host = job["provider"] == "cpu"
        environment = target["environment"] if target["live"] else target["host"]
        if not target["live"]:
            # Recorded figures first, so that all of them come from one environment.
            execution = executions.get(one.case.id)
            taken = from_recording(job, recorded, target)
            if executed_first and execution is not None and _says(execution):
                taken = executed.of_stage(job, execution)
            elif not taken["source"] and not on_host:
                taken = _instead(job, taken, execution)
            if taken["source"] or not on_host:
                results[one.case.id] = taken
                counts["recorded"] += str(taken["source"]).startswith("recorded:")
                continue
        found = store.get(environment, job["stage"], job["key"])
        if found is not None and (one.case.id in again or not _still_good(found, job, target)):
            found = None
        if found is not None:
            results[one.case.id] = found | {"case": one.case.id}
            counts["reused"] += 1
            continue
        twin = next((other for other in waiting if _same(other, job)), None)
        if twin is not None:
            twins.setdefault(twin["case"], []).append(one.case.id)
            continue
        waiting.append(job | {"environment": environment})

    def finished(made: dict[str, Any]) -> None:
        job = by_case[made["case"]]
        whole = made | {
            "key": job["key"],
            "environment": job["environment"],
            "source": model.SOURCES[job["stage"]] if made["status"] == model.OK else "",
        }
        if _ncu(job["stage"], target) is not None:
            whole["notes"] = {**made["notes"], "ncu": _ncu(job["stage"], target)}
        if made["status"] == model.TIMED_OUT:
            whole["notes"] = {**whole["notes"], "limit_s": job["limit_s"]}
        model.validate(whole)
        store.put(whole)
        for case in (whole["case"], *twins.get(whole["case"], ())):
            results[case] = whole | {"case": case}
        counts["measured"] += whole["status"] == model.OK
        counts["reused"] += len(twins.get(whole["case"], ())) * (whole["status"] == model.OK)

    by_case = {job["case"]: job for job in waiting}
    if waiting:
        for made in measure(waiting, finished):
            if made["case"] not in results:
                finished(made)
    for one in planned:
        if target["live"] and one.job is not None and one.case.id in executions:
            made = results[one.case.id]
            if made["status"] == model.NOT_MEASURED:
                results[one.case.id] = _instead(one.job, made, executions[one.case.id])
    number = sum(made["source"] == model.EXECUTED for made in results.values())
    if number:
        counts["executed"] = number
    order = [one.case.id for one in planned]
    return {"results": [results[case] for case in order], "counts": counts}


def log_lines(stage: str, document: dict[str, Any]) -> str:
    """Short account of a stage for its log: counts, then every case that is not ok."""
    counts = ", ".join(f"{number} {name}" for name, number in document["counts"].items())
    rows = [f"{stage}: {len(document['results'])} cases; {counts}"]
    for made in document["results"]:
        if made["status"] != model.OK or made["verdict"] == model.WRONG:
            verdict = f" {made['verdict']}" if made["verdict"] else ""
            rows.append(f"  {made['case']}: {made['status']}{verdict}: {made['reason']}")
    return "\n".join(rows) + "\n"
