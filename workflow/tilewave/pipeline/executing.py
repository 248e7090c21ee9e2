"""Stage execute: which cases this machine's CPU executes.

Its results have the source ``executed`` and stand beside those of the other stages. Where there is
no GPU, and no recorded figure either, the stages check and counters take theirs from here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tilewave.kernel import result
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline.cases import Case, wants
from tilewave.records.recorded import Recorded

REPLACED = ("check", "counters")
"""The stages whose results an execution can give."""


def wanted(
    cases: Collection[Case],
    replaced: Mapping[str, Iterable[Job | Result]],
    target: Mapping[str, Any],
    recorded: Recorded | None,
    when: str,
) -> set[str]:
    """The cases to execute: all, those of studies that ask for it, and those of which a machine
    without a GPU has no recorded check or counters, as the config's `execute.when` says.

    replaced: what the stages of REPLACED do, by case.
    """
    if when == "never":
        return set()
    asked = {
        case.id
        for case in cases
        if (when == "always" or case.execute) and wants(result.EXECUTE, case)
    }
    if when == "always":
        return asked
    if not target["live"]:
        for case in cases:
            jobs = [one for one in replaced.get(case.id, ()) if isinstance(one, Job)]
            if case.kernel.provider == "nvrtc" and any(
                recorded is None or not recorded.answers(job) for job in jobs
            ):
                asked.add(case.id)
    return telling([case for case in cases if case.id in asked])


def telling(cases: Collection[Case]) -> set[str]:
    """Of cases to execute those that tell something.

    Of one that is only timed nobody sees what executing gives: such a case is executed where it is its
    variant's smallest, to tell whether the variant is right.
    """

    def size(case: Case) -> tuple[int, bool]:
        return math.prod(case.sizes.values()), case.only_timed

    falling = sorted(cases, key=size, reverse=True)
    smallest = {case.variant.id: case.id for case in falling}
    return {case.id for case in cases if not case.only_timed} | set(smallest.values())
