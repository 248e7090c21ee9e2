"""How a claim is judged.

The verdict follows from a claim's prediction, its measurement and the stated tolerance by `judge`, and
from nothing else; it is never written down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from tilewave.plots.base import StudyData
from tilewave.plots.claims.facts import Facts, Function, Unknown, Value

HOLDS = "holds"
ELSEWHERE = "holds elsewhere"
FALSE = "does not hold"
NOT_MEASURED = "not measured"
THEORY_ONLY = "theory only"
VERDICTS = (HOLDS, ELSEWHERE, FALSE, THEORY_ONLY, NOT_MEASURED)

Relation = Literal["equals", "at least", "at most", "more than", "less than"]
"""How a value must stand to the claimed one. The tolerance is a share of it (absolute where it is 0):
*equals* give or take it, *at least* not below less it, *more than* above by more than it."""
Basis = Literal["measurement", "theory", "limit"]
"""Judged by the measurement; by the measurement where there is one, else by the closed form; by the
closed form alone, a limit that nothing can pass and below which nothing here can decide."""


@dataclass(frozen=True)
class Claim:
    """What a document says, what would make it true, and what it is judged by.

    row: the figure's label; claims of one document with the same label share a row. claimed: a number
    or yes/no; told: how the document puts a number that it does not write out. place: where else the
    claim holds, if it does.
    predicted: a closed form, with the target's limits; measured: a question to the records; elsewhere:
    the closed form at `place`. Each gives None where it has no answer.
    """

    id: str
    document: str
    section: str
    row: str
    text: str
    claimed: Value
    unit: str = ""
    relation: Relation = "equals"
    tolerance: float = 0.0
    basis: Basis = "measurement"
    told: str = ""
    place: str = ""
    predicted: Function | None = None
    measured: Function | None = None
    elsewhere: Function | None = None


@dataclass(frozen=True)
class Judged:
    """A claim with its values, where they come from, and the verdict."""

    claim: Claim
    predicted: Value | None
    measured: Value | None
    elsewhere: Value | None
    verdict: str
    by: str
    read: tuple[str, ...]
    source: str
    missing: str

    @property
    def value(self) -> Value | None:
        """What the claim is compared with: the measurement, else the prediction."""
        return self.predicted if self.measured is None else self.measured

    @property
    def ratio(self) -> float | None:
        """`value` over the claimed one; None where they are no numbers or the claim is of 0."""
        return _over(self.value, self.claim.claimed)

    @property
    def predicted_ratio(self) -> float | None:
        """The prediction over the claimed value, as `ratio`."""
        return _over(self.predicted, self.claim.claimed)


def _over(value: Value | None, claimed: Value) -> float | None:
    if value is None or isinstance(value, bool) or isinstance(claimed, bool) or claimed == 0:
        return None
    return value / claimed


# --------------------------------------------------------------------------------------- verdicts


def agrees(value: Value, claim: Claim) -> bool:
    """Whether a value is as claimed. NaN never is."""
    if isinstance(value, bool) or isinstance(claim.claimed, bool):
        return value is claim.claimed
    margin = claim.tolerance * (abs(claim.claimed) or 1.0)
    return {
        "equals": abs(value - claim.claimed) <= margin,
        "at least": value >= claim.claimed - margin,
        "at most": value <= claim.claimed + margin,
        "more than": value > claim.claimed + margin,
        "less than": value < claim.claimed - margin,
    }[claim.relation]


def judge(
    claim: Claim, predicted: Value | None, measured: Value | None, elsewhere: Value | None
) -> tuple[str, str]:
    """The verdict, of VERDICTS, and by what it was reached ("measurement", "theory", "")."""
    if claim.basis == "limit":
        if predicted is None or isinstance(claim.claimed, bool):
            return NOT_MEASURED, ""
        passes = claim.claimed <= predicted * (1 + claim.tolerance)
        return (THEORY_ONLY if passes else FALSE), "theory"
    value, by = measured, "measurement"
    if value is None and claim.basis == "theory":
        value, by = predicted, "theory"
    if value is None:
        return NOT_MEASURED, ""
    if agrees(value, claim):
        return HOLDS, by
    if elsewhere is not None and agrees(elsewhere, claim):
        return ELSEWHERE, by
    return FALSE, by


def _asked(function: Function | None, facts: Facts) -> Value | None:
    try:
        value = None if function is None else function(facts)
    except Unknown as error:
        facts.lack(str(error))
        return None
    return None if isinstance(value, float) and math.isnan(value) else value


def judge_all(study: StudyData, claims: Sequence[Claim]) -> list[Judged]:
    """Every claim, in order."""
    facts = Facts(study)
    found = []
    for claim in claims:
        facts.forget()
        predicted = _asked(claim.predicted, facts)
        elsewhere = _asked(claim.elsewhere, facts)
        facts.forget()
        measured = _asked(claim.measured, facts)
        missing = facts.missing[0] if measured is None and facts.missing else ""
        if measured is not None and len(facts.timed) > 1:
            measured, missing = None, "its times come from several environments"
        if claim.measured is None:
            missing = "nothing here measures it"
        read, sources = (facts.read, facts.sources) if measured is not None else ([], [])
        verdict, by = judge(claim, predicted, measured, elsewhere)
        found.append(
            Judged(
                claim, predicted, measured, elsewhere, verdict, by,
                tuple(dict.fromkeys(read)), ", ".join(sources), missing,
            )
        )  # fmt: skip
    return found


def told(value: Value | None) -> str:
    """A value as the table and the figure show it: yes, no, or four significant digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    figures = max(0, 3 - math.floor(math.log10(abs(value))))
    text = f"{value:.{figures}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _margin(claim: Claim) -> str:
    if isinstance(claim.claimed, bool):
        return ""
    if claim.claimed == 0:
        return f"{claim.tolerance:g}"
    return f"{100 * claim.tolerance:g} %"


def frame(judged: Sequence[Judged]) -> pd.DataFrame:
    """One row a claim, as the report's table shows them."""
    rows = []
    for one in judged:
        claim = one.claim
        relation = "" if claim.relation == "equals" else f"{claim.relation} "
        ratio = one.ratio
        read = "; ".join(one.read[:2])
        read += f" and {len(one.read) - 2} more" if len(one.read) > 2 else ""
        rows.append(
            {
                "claim": claim.text,
                "document": claim.document,
                "where it stands": claim.section,
                "claimed": relation
                + told(claim.claimed)
                + (f" ({claim.told})" if claim.told else ""),
                "predicted": told(one.predicted),
                "measured": told(one.measured),
                "unit": claim.unit,
                "deviation (%)": None if ratio is None else round(100 * (ratio - 1), 1),
                "verdict": one.verdict,
                "tolerance": _margin(claim),
                "judged by": one.by,
                "where it holds": claim.place if one.verdict == ELSEWHERE else "",
                "measured from": read,
                "status": "ok" if one.measured is not None else NOT_MEASURED,
                "reason": one.missing,
                "source": one.source,
            }
        )
    return pd.DataFrame(rows)
