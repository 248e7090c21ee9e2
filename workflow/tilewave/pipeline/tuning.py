"""Stage tune: the candidates of all kernels race each other, one race for each shape and dtypes.

One job for all of them, because candidates of different kernels compete. A result's key is its own
candidate's, as in every stage: a kernel that is added makes nothing stale. What was eliminated
stays so, since a newcomer can only make the best time shorter; those that reached the end race
again beside a newcomer, so that the winner of a group always comes out of one run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.records.store import Store
from tilewave.theory import splitting
from tilewave.theory.occupancy import SmLimits, occupancy


def group_of(job: Job) -> str:
    """What a job's rivals share: the product, its sizes and its dtypes. Layouts may differ."""
    shape = "x".join(str(size) for size in job.shape.values())
    return f"{job.operation} {shape} {json.dumps(job.dtypes, sort_keys=True)}"


def predicted_loads(
    job: Job, resources: Mapping[str, Any], target: Mapping[str, Any]
) -> float | None:
    """Elements that a job's launch loads (see `splitting.loads`), for the order of the screening.

    resources: of its compiled kernel. None where the tile, the registers or the GPU are not known,
    as for a vendor's product.
    """
    launch, facts = job.launch, target["environments"].get(target["environment"], {})
    limits, sms = SmLimits.if_known(facts), int(facts.get("sms") or 0)
    if launch.tile is None or limits is None or not sms or not resources.get("registers"):
        return None
    shared = int(resources.get("static_shared_bytes") or 0) + launch.shared_bytes
    threads, registers = math.prod(launch.block), int(resources["registers"])
    held = occupancy(limits, threads, registers, shared).blocks
    if not held:
        return None
    dealing = splitting.of_launch(
        job.shape, launch.tile, launch.blocks, launch.working_blocks, launch.scratch_bytes
    )
    return float(splitting.loads(dealing, launch.tile, sms, held))


def judged(key: str, case: str, check: Result | None) -> Result | None:
    """Why a case does not race: its check did not find it correct. None where it races."""
    if check is None or check.status != result.OK or check.verdict == result.CORRECT:
        return None  # without a check of this machine the measurement says why
    reason = f"only correct cases race, and this one's check says {check.verdict}"
    return Result(result.TUNE, case, result.NOT_MEASURED, reason, key=key)


def plan(
    planned: Mapping[str, Job | Result],
    compiled: Mapping[str, Mapping[str, Mapping[str, Any] | None]],
    checks: Mapping[str, Result],
    target: Mapping[str, Any],
) -> dict[str, Job | Result]:
    """The candidates that race, with their `group` and `predicted_loads`.

    planned: what `jobs.of_stage` has of this stage. compiled: by variant and architecture. checks:
    the results of that stage, by case.
    """
    found: dict[str, Job | Result] = {}
    for case, one in planned.items():
        if isinstance(one, Job) and (why := judged(one.key, case, checks.get(case))):
            one = why
        if isinstance(one, Job):
            entry = compiled[one.variant][f"sm_{target['arch']}"] or {}
            used = entry.get("resources", {})
            # That of the launch that leads is there by its symbol, too.
            loads = predicted_loads(one, used.get(one.entry, {}), target)
            one = replace(one, group=group_of(one), predicted_loads=loads)
        found[case] = one
    return found


def race_again(jobs: Iterable[Job], target: Mapping[str, Any], store: Store) -> set[str]:
    """Stored cases that race once more: those that reached the end of their race, where their group
    has a candidate without a result."""
    if not target["live"]:
        return set()
    stored: dict[str, dict[str, Result]] = {}
    incomplete: set[str] = set()
    for job in jobs:
        made = store.get(target["environment"], result.TUNE, job.key)
        if made is None:
            incomplete.add(job.group)
        else:
            stored.setdefault(job.group, {})[job.case] = made
    return {
        case
        for group in incomplete
        for case, made in stored.get(group, {}).items()
        if made.status == result.OK and not made.notes.get("out")
    }


def by_group(waiting: Iterable[Job]) -> list[Job]:
    """Jobs with those of one group beside each other, groups in the order of their first."""
    groups: dict[str, list[Job]] = {}
    for job in waiting:
        groups.setdefault(job.group, []).append(job)
    return [job for members in groups.values() for job in members]


def saved(results: Iterable[Result]) -> tuple[int, int, float, float]:
    """Candidates that raced, those eliminated, seconds of GPU spent, and seconds that measuring each
    of them to the end takes."""
    raced = eliminated = 0
    spent = full = 0.0
    for made in results:
        figures = made.by_metric
        if "tune_duration" not in figures:
            continue
        raced += 1
        eliminated += figures["tune_eliminated"] > 0
        spent += 1e-3 * figures["tune_spent"]
        full += 1e-3 * figures["tune_full_cost"]
    return raced, int(eliminated), spent, full
