"""Whether the bounds held: a kernel's findings beside what a later kernel or another variant gained."""

from __future__ import annotations

from dataclasses import dataclass

from tilewave.advice.rules import RULES, for_case
from tilewave.advice.subject import Finding, Subject, total
from tilewave.counters.catalogue import AVERAGE, ISSUED, WARP_INSTRUCTIONS

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

    after: `Finding.amount` there, None where it is not known. gained: share of the time, negative for a
    loss. suggested: whether the other is what the rule suggests and nothing besides, as far as it was
    counted. held: whether the gain then kept to the bound; None where it is not suggested or has no bound.
    """

    finding: Finding
    after: float | None
    gained: float
    suggested: bool
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
        made.append(Compared(finding, amount, gained, mended and same, held))
    return made
