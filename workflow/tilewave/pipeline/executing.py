"""Stage execute: the choice of the cases that this machine's CPU executes, with the source ``executed``.
Without a GPU and a recorded value, the stages check and counters take their results from here."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tilewave.basics.paths import is_shipped
from tilewave.execution import cost
from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline.cases import Case, wants
from tilewave.records.recorded import Recorded

SECOND = 1.0
"""Predicted seconds up to which a user's kernel is checked here, whatever a recording says."""
REPLACED = ("check", "counters")
"""The stages whose results an execution can give."""


def wanted(
    cases: Collection[Case],
    replaced: Mapping[str, Iterable[Job | Result]],
    target: Mapping[str, Any],
    recorded: Recorded | None,
    when: str,
) -> set[str]:
    """Return the cases to execute, by `execute.when`: all, or those of studies that ask, and without a GPU
    those that lack a recorded result or are `checked_here`. replaced: jobs and results of REPLACED."""
    if when == "never":
        return set()
    chosen = (case for case in cases if when == "always" or case.execute)
    names = {case.id for case in chosen if wants(result.EXECUTE, case)}
    if when == "always":
        return names
    if not target["live"]:
        for case in cases:
            jobs = [job for job in replaced.get(case.id, ()) if isinstance(job, Job)]
            unanswered = any(recorded is None or not recorded.answers(job) for job in jobs)
            here = any(job.stage == "check" and checked_here(case, job) for job in jobs)
            if case.kernel.provider == "nvrtc" and (unanswered or here):
                names.add(case.id)
    return informative([case for case in cases if case.id in names])


def checked_here(case: Case, check: Job) -> bool:
    """Return whether a recorded *correct* does not replace an execution: of a user's kernel, about a second long."""
    return not is_shipped(case.kernel.path) and cost.worker_s(check) <= SECOND


def informative(cases: Collection[Case]) -> set[str]:
    """Return the cases whose execution is shown anywhere. No page shows that of a case that is only timed,
    but if it is its variant's smallest, it tells whether the variant is correct."""

    def size(case: Case) -> tuple[int, bool]:
        return math.prod(case.sizes.values()), case.only_timed

    smallest = {case.variant.id: case.id for case in sorted(cases, key=size, reverse=True)}
    return {case.id for case in cases if not case.only_timed} | set(smallest.values())
