"""Stage execute: which cases this machine's CPU executes.

Its results have the source ``executed`` and stand beside those of the other stages. Where there is
no GPU, and no recorded figure either, the stages check and counters take theirs from here.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tilewave.cases import Request, wants
from tilewave.records import model
from tilewave.records.recorded import Recorded
from tilewave.stages.jobs import Planned
from tilewave.stages.resolving import Resolved

REPLACED = ("check", "counters")
"""The stages whose results an execution can give."""


def wanted(
    requests: Iterable[Request],
    replaced: Iterable[Planned],
    target: Mapping[str, Any],
    recorded: Recorded | None,
    when: str,
) -> set[str]:
    """The cases to execute: all, those of studies that ask for it, and those of which a machine
    without a GPU has no recorded check or counters, as the config's `execute.when` says.

    replaced: what the stages of REPLACED do for the cases.
    """
    if when == "never":
        return set()
    asked = {
        one.case.id
        for one in requests
        if (when == "always" or one.execute) and wants(model.EXECUTE, one)
    }
    if target["live"]:
        return asked
    for planned in replaced:
        job = planned.job
        if planned.result is not None or planned.case.variant.kernel.provider != "nvrtc":
            continue
        if job is None or recorded is None or not recorded.answers(job):
            asked.add(planned.case.id)
    return asked


def telling(cases: Collection[Resolved]) -> set[str]:
    """Of cases to execute those that tell something.

    Of one that is only timed nobody sees what executing gives: such a case is executed where it is its
    variant's smallest, to tell whether the variant is right.
    """

    def size(one: Resolved) -> tuple[int, bool]:
        return math.prod(one.shape.values()), one.request.only_timed

    falling = sorted(cases, key=size, reverse=True)
    smallest = {one.case.variant.id: one.case.id for one in falling}
    return {one.case.id for one in cases if not one.request.only_timed} | set(smallest.values())
