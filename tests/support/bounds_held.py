"""Whether the bounds of `tilewave.report.advice` hold: a kernel's findings beside what a later kernel or another
variant gained."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from tilewave.kernel import result
from tilewave.records.counters.catalogue import AVERAGE, ISSUED, WARP_INSTRUCTIONS
from tilewave.report.advice.rules import RULES, for_case
from tilewave.report.advice.subject import Finding, Subject, total

SAME_PRODUCT = ["operation", "dtype", "shape"]

MENDED = 0.5
"""The other does what a rule suggests where it leaves at most this part of what the rule looks at."""
SAME_WORK = 0.98
"""And where it does no less of the rest, but for what two passes of the profiler differ by: a bound says nothing
of what is spared besides. What was not counted (sectors, where a case has no rows of instructions) may be less."""
PASSES = 0.03
"""Of a launch's cycles: what two runs of one kernel at the power limit differ by (see `plots.limits`)."""


@dataclass(frozen=True)
class Compared:
    """A finding of one case, and what another one gained over it.

    held: whether the gain kept to the bound; None where the other is not what the rule suggests and nothing
    besides, or there is no bound.
    """

    finding: Finding
    after: float | None
    gained: float
    held: bool | None


def _work(one: Subject) -> dict[str, float]:
    """What is done whatever the rules mend, as far as it was counted."""
    found = {}
    if executed := one.value(WARP_INSTRUCTIONS):
        found["instructions"] = executed
    elif (issued := one.value(ISSUED.name)) and (active := one.value(AVERAGE)):
        found["instructions"] = issued / 100 * active
    if one.instructions:
        found["wavefronts"] = total(one.instructions, "wavefronts_shared_ideal")
        found["sectors"] = total(one.instructions, "sectors_global_ideal")
    return found


def compared(before: Subject, after: Subject, gained: float) -> list[Compared]:
    """Each finding of ``before`` against ``after``, a case of the same product on the same GPU."""
    here, there = _work(before), _work(after)
    both = here.keys() & there.keys()
    same = bool(both) and all(there[name] >= SAME_WORK * here[name] for name in both)
    later = {found.rule: found.amount for rule in RULES if (found := rule.find(after)) is not None}
    made = []
    for finding in for_case(before):
        amount = later.get(finding.rule)
        mended = amount is not None and amount <= MENDED * finding.amount
        known = mended and same and finding.bound is not None
        held = gained <= (finding.bound or 0.0) + PASSES if known else None
        made.append(Compared(finding, amount, gained, held))
    return made


def pairs(cases: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Cases of one product of which the second may be what a rule suggests for the first: a kernel that
    follows the other's, or the same one with one macro changed."""
    for _, group in cases.groupby(SAME_PRODUCT, sort=False):
        rows = [row | {"macros": json.loads(row["macros"])} for row in group.to_dict("records")]
        for first in rows:
            for second in rows:
                same = first["kernel"] == second["kernel"]
                apart = [
                    name
                    for name, value in first["macros"].items()
                    if second["macros"].get(name) != value
                ]
                if second["follows"] == first["kernel"] or (same and len(apart) == 1):
                    yield first["case"], second["case"]


def held(
    cases: pd.DataFrame, records: pd.DataFrame, known: Mapping[str, Subject]
) -> list[tuple[str, str, Compared]]:
    """Of each of `pairs` that was timed and counted in one environment: both cases, and each finding compared.

    Where both were timed in turn with the vendor's product, their times are taken in units of its: it had their clock.
    """
    timed = records[(records["stage"] == "time") & (records["verdict"] == result.CORRECT)]
    times = {
        metric: {row["case"]: float(row["value"]) for row in rows.to_dict("records")}
        for metric, rows in timed.groupby("metric")
        if metric in ("duration", "baseline_duration")
    }
    durations, units = times.get("duration", {}), times.get("baseline_duration", {})
    environments = dict(zip(timed["case"], timed["environment"]))
    counted_too = [case for case in durations if case in known]
    made = []
    for first, second in pairs(cases[cases["case"].isin(counted_too)]):
        same = environments[first] == environments[second]
        if not same or known[first].device != known[second].device:
            continue
        gained = 1 - durations[second] / durations[first]
        if first in units and second in units:
            gained = 1 - (1 - gained) * units[first] / units[second]
        made += [(first, second, one) for one in compared(known[first], known[second], gained)]
    return made
