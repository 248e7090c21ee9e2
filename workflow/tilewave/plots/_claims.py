"""Claims of documents about matrix products, and how they are judged.

A claim's words and its claimed value stand in claims.yaml, what it is judged by in `_claimed.py`:
a prediction (closed form), a measurement (records of the study's cases) and, for a claim that is
right somewhere else, the same closed form for that place. The verdict follows from these and the
stated tolerance by `judge`, and from nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from tilewave.errors import UserError
from tilewave.expressions import ExpressionError, evaluate
from tilewave.plots import base
from tilewave.plots.base import StudyData
from tilewave.records.model import EXECUTED
from tilewave.theory import occupancy

Value = float | bool
Function = Callable[["Facts"], "Value | None"]

TEXTS = Path(__file__).with_name("claims.yaml")

HOLDS = "holds"
ELSEWHERE = "holds elsewhere"
FALSE = "does not hold"
NOT_MEASURED = "not measured"
THEORY_ONLY = "theory only"
VERDICTS = (HOLDS, ELSEWHERE, FALSE, THEORY_ONLY, NOT_MEASURED)

RELATIONS: Mapping[str, str] = {
    "equals": "claimed, give or take the tolerance (a share of it; absolute where it is 0)",
    "at least": "not below claimed less the tolerance",
    "at most": "not above claimed plus the tolerance",
    "more than": "above claimed by more than the tolerance",
    "less than": "below claimed by more than the tolerance",
    "is": "yes or no, as claimed",
}
BASES: Mapping[str, str] = {
    "measurement": "judged by the measurement",
    "theory": "judged by the measurement where there is one, else by the closed form",
    "limit": "the closed form is a limit that nothing can pass; below it nothing here can decide",
}


@dataclass(frozen=True)
class Claim:
    """What a document says, and what would make it true.

    claimed: a number or yes/no; symbolic ones ("N times") are evaluated at the shape `at`.
    relation: of RELATIONS. tolerance: a share of the claimed value. basis: of BASES.
    row: the figure's label; claims of one document with the same label share a row.
    place: where else the claim holds, if it does.
    """

    id: str
    document: str
    section: str
    text: str
    row: str
    claimed: Value
    unit: str = ""
    relation: str = "equals"
    tolerance: float = 0.0
    basis: str = "measurement"
    at: Mapping[str, int] = field(default_factory=dict)
    told: str = ""
    place: str = ""


@dataclass(frozen=True)
class Functions:
    """What a claim is judged by; each gives None where it has no answer."""

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


# ------------------------------------------------------------------------------------------ facts


class Unknown(Exception):
    """A closed form asks for a fact that the target does not tell."""


class Facts:
    """The study's records and the target's limits, as the claims' functions ask for them.

    Every question is written down: `read` has what was found, `missing` what was not, `timed` the
    environments of the times, `places` those of all that a GPU gave. A figure of a case that is not
    *correct* is not given.
    """

    def __init__(self, study: StudyData) -> None:
        self.study = study
        rows = study.records[study.records["metric"].astype(str) != ""]
        rows = rows[rows["status"] == "ok"].drop_duplicates(["case", "metric"], keep="last")
        self._records: dict[tuple[str, str], dict[str, Any]] = {
            (str(r["case"]), str(r["metric"])): {str(k): v for k, v in r.items()}
            for r in rows.to_dict("records")
        }
        self._verdicts = base.verdicts(study)
        self._states = base.statuses(study)
        self.cases = study.cases.to_dict("records")
        self.environment = study.environments.get(str(study.target.get("environment", "")), {})
        self.forget()

    def forget(self) -> None:
        """Begin a new claim."""
        self.read: list[str] = []
        self.sources: list[str] = []
        self.missing: list[str] = []
        self.timed: set[str] = set()
        self.places: set[str] = set()

    @property
    def limits(self) -> occupancy.SmLimits:
        """What an SM of the target holds; those of compute capability 9.0 where it is not told."""
        try:
            return occupancy.SmLimits.from_environment(self.environment)
        except (KeyError, TypeError, ValueError):
            return occupancy.HOPPER

    @property
    def sms(self) -> int:
        """The target's SMs. Raises Unknown where no GPU is known."""
        count = int(self.study.target.get("sms") or self.environment.get("sms") or 0)
        if count < 1:
            raise Unknown("the number of SMs is not known")
        return count

    def fact(self, name: str) -> float | None:
        """A fact that the target's driver told."""
        value = self.environment.get(name)
        if value is None:
            self.lack(f"the environment does not tell {name}")
            return None
        self._found(f"{name} of the environment", "environment")
        return float(value)

    def case(self, variant: str, m: int, n: int | None = None, k: int | None = None) -> str | None:
        """The id of a variant's case at a shape (m cubed without n and k), None without one."""
        shape = (m, n or m, k or m)
        for row in self.cases:
            found = row["variant"] == variant and base.present(row["m"])
            if found and tuple(int(row[d]) for d in ("m", "n", "k")) == shape:
                return str(row["case"])
        self.lack(f"{variant} at {'×'.join(map(str, shape))} is no case of the study")
        return None

    def probe(self, kernel: str, name: str) -> str | None:
        """The id of a probe's case, None without one."""
        for row in self.cases:
            if row["kernel"] == kernel and row["probe_case"] == name:
                return str(row["case"])
        self.lack(f"{kernel}@{name} is no case of the study")
        return None

    def about(self, case: str) -> Mapping[str, Any]:
        """The case's row in the table of cases."""
        return next(row for row in self.cases if row["case"] == case)

    def _record(self, case: str | None, metric: str) -> Mapping[str, Any] | None:
        if case is None:
            return None
        found = self._records.get((case, metric))
        if found is None:
            state = self._states[case]
            why = f" ({state.status}{': ' if state.reason else ''}{state.reason})"
            self.lack(f"no {metric} of {case}" + ("" if state.status == "ok" else why))
            return None
        if self._verdicts[case] != "correct":
            self.lack(f"{case} is {self._verdicts[case]}")
            return None
        if found["stage"] == "time":
            self.timed.add(str(found["environment"]))
        if found["source"] != EXECUTED:
            self.places.add(str(found["environment"]))
        self._found(f"{metric} of {case}", str(found["source"]))
        return found

    def value(self, case: str | None, metric: str) -> float | None:
        """A metric of a case, None without an ok value."""
        found = self._record(case, metric)
        if found is None or not base.present(found["value"]):
            return None
        return float(found["value"])

    def text(self, case: str | None, metric: str) -> str | None:
        """A metric that is text, such as the names of the kernels that ran."""
        found = self._record(case, metric)
        told = None if found is None else found.get("text")
        return str(told) if base.present(told) else None

    def ratio(self, metric: str, over: str | None, under: str | None) -> float | None:
        """A metric of one case over that of another."""
        return self.together(divided(self.value(over, metric), self.value(under, metric)))

    def together(self, quotient: float | None) -> float | None:
        """A quotient of what this claim has read, None where that comes from several environments.

        What was executed was counted on no GPU: it may stand beside any other count.
        """
        if len(self.places) > 1:
            self.lack("its figures come from several environments")
            return None
        return quotient

    def ended_well(self, case: str | None) -> bool | None:
        """Whether a case ran to its end and was right; None where it was not tried."""
        if case is None:
            return None
        state, verdict = self._states[case], self._verdicts[case]
        if state.status in ("not measured", "stale", "unsupported"):
            self.lack(f"{case} was not run ({state.reason or state.status})")
            return None
        rows = self.study.records[self.study.records["case"] == case]
        for source in rows["source"].unique():
            self._found(f"verdict of {case}", str(source))
        return state.status == "ok" and verdict == "correct"

    def _found(self, what: str, source: str) -> None:
        self.read.append(what)
        if base.present(source) and source not in self.sources:
            self.sources.append(source)

    def lack(self, what: str) -> None:
        """Write down what was asked for and is not there."""
        if what not in self.missing:
            self.missing.append(what)


def divided(over: float | None, under: float | None) -> float | None:
    """A quotient, None where a part is missing or the divisor is 0."""
    return None if over is None or not under else over / under


def _asked(function: Function | None, facts: Facts) -> Value | None:
    try:
        value = None if function is None else function(facts)
    except Unknown as error:
        facts.lack(str(error))
        return None
    return None if isinstance(value, float) and math.isnan(value) else value


def judge_all(
    study: StudyData, claims: Sequence[Claim], functions: Mapping[str, Functions]
) -> list[Judged]:
    """Every claim, in order."""
    facts = Facts(study)
    found = []
    for claim in claims:
        asked = functions[claim.id]
        facts.forget()
        predicted = _asked(asked.predicted, facts)
        elsewhere = _asked(asked.elsewhere, facts)
        facts.forget()
        measured = _asked(asked.measured, facts)
        missing = facts.missing[0] if measured is None and facts.missing else ""
        if measured is not None and len(facts.timed) > 1:
            measured, missing = None, "its times come from several environments"
        if asked.measured is None:
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


# ------------------------------------------------------------------------------------------ texts

_KEYS = {
    "document", "section", "claim", "row", "claimed", "unit", "holds", "tolerance", "basis", "at",
    "told", "elsewhere",
}  # fmt: skip


def _claim(name: str, entry: Mapping[str, Any], documents: Mapping[str, str]) -> Claim:
    where, key = TEXTS.name, f"claims.{name}"
    for word in entry:
        if word not in _KEYS:
            raise UserError(where, f"{key}.{word}", word, sorted(_KEYS))
    for needed in ("document", "section", "claim", "row", "claimed"):
        if needed not in entry:
            raise UserError(where, f"{key}.{needed}", None, "a value")
    at = {str(d): int(s) for d, s in (entry.get("at") or {}).items()}
    try:
        claimed = evaluate(entry["claimed"], at)
    except ExpressionError as error:
        raise UserError(where, f"{key}.claimed", entry["claimed"], str(error)) from error
    relation = str(entry.get("holds", "is" if isinstance(claimed, bool) else "equals"))
    basis = str(entry.get("basis", "measurement"))
    for word, found, allowed in (
        ("document", entry["document"], documents),
        ("holds", relation, RELATIONS),
        ("basis", basis, BASES),
    ):
        if found not in allowed:
            raise UserError(where, f"{key}.{word}", found, allowed)
    if isinstance(claimed, bool) != (relation == "is"):
        raise UserError(where, f"{key}.holds", relation, "`is` for yes and no, and only there")
    return Claim(
        id=name, document=documents[entry["document"]], section=str(entry["section"]),
        text=str(entry["claim"]), row=str(entry["row"]), claimed=claimed,
        unit=str(entry.get("unit", "")), relation=relation,
        tolerance=float(entry.get("tolerance", 0.0)), basis=basis, at=at,
        told=str(entry.get("told", "")), place=str(entry.get("elsewhere", "")),
    )  # fmt: skip


def load_claims(path: Path = TEXTS) -> list[Claim]:
    """The claims in the file's order.

    Raises
    ------
    UserError: an unknown key, document, relation or basis, or a claimed value that has none.
    """
    texts = yaml.safe_load(path.read_text(encoding="utf-8"))
    documents = {str(key): str(name) for key, name in texts["documents"].items()}
    return [_claim(str(name), entry, documents) for name, entry in texts["claims"].items()]


def told(value: Value | None) -> str:
    """A value as the table and the figure show it: yes, no, or four significant digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    figures = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.{figures}f}".rstrip("0").rstrip(".")


def _margin(claim: Claim) -> str:
    if claim.relation == "is":
        return ""
    if claim.claimed == 0:
        return f"{claim.tolerance:g}"
    return f"{100 * claim.tolerance:g} %"


def frame(judged: Sequence[Judged]) -> pd.DataFrame:
    """One row a claim, as the report's table shows them."""
    rows = []
    for one in judged:
        claim = one.claim
        relation = "" if claim.relation in ("equals", "is") else f"{claim.relation} "
        ratio = one.ratio
        read = "; ".join(one.read[:2])
        read += f" and {len(one.read) - 2} more" if len(one.read) > 2 else ""
        rows.append(
            {
                "claim": claim.text,
                "where it stands": f"{claim.document}, {claim.section}",
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
