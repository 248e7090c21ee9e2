"""Claims as their files state them, and their verdicts, which are never written down.
`judge` derives them from prediction, measurement and the stated tolerance alone."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from tilewave.basics import validation
from tilewave.basics.errors import UserError
from tilewave.basics.validation import validated
from tilewave.kernel import expressions
from tilewave.kernel.expressions import Expression, ExpressionError
from tilewave.plots.base import StudyData
from tilewave.plots.claims.facts import Facts, evaluate
from tilewave.plots.claims.forms import NoValue

TEXTS = "multiplication_notes multiplication_lecture performance_notes shared_memory_article hgemm_article"
FILES = tuple(f"{name}.yaml" for name in TEXTS.split())

HOLDS = "holds"
ELSEWHERE = "holds elsewhere"
FALSE = "does not hold"
NOT_MEASURED = "not measured"
THEORY_ONLY = "theory only"
VERDICTS = (HOLDS, ELSEWHERE, FALSE, THEORY_ONLY, NOT_MEASURED)

Value = bool | float


class Statement(BaseModel):
    """A statement of a document, the condition under which it is true, and its judges.

    section: its place in the document. row: the figure's label; claims of one document with the same label
    share a row. claimed: a number (or its expression) or yes/no; claimed_as: the document's wording of a number
    that it does not write out. predicted: a closed form; measured: a question to the records; elsewhere: the
    closed form at `place`, where else the claim holds. These three are expressions of what `facts` has.

    relation: between a value and the claimed one; the tolerance is a share of the claimed one (absolute where it is
    0). *equals*: within it. *at least*: not below the claimed value less it. *more than*: above by more than it.

    basis: judged by the measurement; by the measurement where it exists, else by the closed form (*theory*); by
    the closed form alone, a limit that nothing can pass and below which nothing here can decide (*limit*).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    section: str
    row: str
    statement: str
    claimed: Value
    unit: str = ""
    relation: Literal["equals", "at least", "at most", "more than", "less than"] = "equals"
    tolerance: float = Field(0.0, ge=0)
    basis: Literal["measurement", "theory", "limit"] = "measurement"
    claimed_as: str = ""
    predicted: Expression | None = None
    measured: Expression | None = None
    place: str = ""
    elsewhere: Expression | None = None

    @field_validator("claimed", mode="before")
    @classmethod
    def _number(cls, value: Any) -> Any:
        return expressions.evaluate(value)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.predicted is None and (self.measured is None or self.basis != "measurement"):
            raise ValueError("a claim needs predicted or measured; by theory or a limit, predicted")
        if (self.elsewhere is None) == bool(self.place):
            raise ValueError("place and elsewhere need one another")
        return self


class Claim(Statement):
    """A statement with its id and its document's fields: file, the document's name, names."""

    id: str = ""
    file: str = ""
    document: str = ""
    names: dict[str, Any] = {}


class Document(BaseModel):
    """A file: the document's name, names for the claims' expressions, and the claims by id."""

    model_config = ConfigDict(extra="forbid")

    document: str
    names: dict[str, Any] = {}
    claims: dict[str, Statement]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim with its values, their sources, and the verdict."""

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
        """The value that the claim is compared with: the measurement, else the prediction."""
        return self.predicted if self.measured is None else self.measured

    def over_claimed(self, value: Value | None) -> float | None:
        """Return a value over the claimed one; None where they are no numbers or the claim is of 0."""
        claimed = self.claim.claimed
        if value is None or isinstance(value, bool) or isinstance(claimed, bool) or not claimed:
            return None
        return value / claimed


def load(path: Path) -> list[Claim]:
    """Return a file's claims. Raises UserError: the first mistake, with its claim and key."""
    document = validated(Document, validation.read_mapping(path, path.name), path.name)
    same = {"file": path.name, "document": document.document, "names": document.names}
    return [Claim(id=name, **dict(fields), **same) for name, fields in document.claims.items()]


@cache
def all_claims() -> tuple[Claim, ...]:
    return tuple(claim for name in FILES for claim in load(Path(__file__).with_name(name)))


def agrees(value: Value, claim: Claim) -> bool:
    """Return whether a value is as claimed. NaN never is."""
    if isinstance(value, bool) or isinstance(claim.claimed, bool):
        return value is claim.claimed
    margin = claim.tolerance * (abs(claim.claimed) or 1.0)
    low, high = claim.claimed - margin, claim.claimed + margin
    return {
        "equals": low <= value <= high,
        "at least": value >= low,
        "at most": value <= high,
        "more than": value > high,
        "less than": value < low,
    }[claim.relation]


def judge(
    claim: Claim, predicted: Value | None, measured: Value | None, elsewhere: Value | None
) -> tuple[str, str]:
    """Return the verdict, of VERDICTS, and its basis ("measurement", "theory", "")."""
    if claim.basis == "limit":
        if predicted is None:
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


def _evaluated(facts: Facts, claim: Claim, key: str) -> Value | None:
    """Return the value of one of a claim's expressions. Raises UserError for one without a meaning."""
    text = getattr(claim, key)
    try:
        value = evaluate(facts, text, claim.names)
    except NoValue as error:
        facts.missing.append(str(error))
        return None
    except ExpressionError as error:
        location = f"claims.{claim.id}.{key}"
        problem = f"{location}: {text!r} has no value: {error.__cause__}"
        raise UserError.because(claim.file, problem, "Correct the expression", location) from error
    if value is None or isinstance(value, bool):
        return value
    return None if math.isnan(value) else float(value)


def judge_all(study: StudyData, claims: Sequence[Claim]) -> list[JudgedClaim]:
    facts, judgements = Facts(study), []
    for claim in claims:
        predicted = _evaluated(facts, claim, "predicted")
        elsewhere = _evaluated(facts, claim, "elsewhere")
        measured, missing = _evaluated(facts, claim, "measured"), ""
        if claim.measured is None:
            missing = "no study measures it"
        elif len(facts.environments) > 1:
            measured, missing = None, "its figures come from several environments"
        elif measured is None:
            missing = next(iter(facts.missing), "no value")
        read, sources = (facts.read, facts.sources) if measured is not None else ((), ())
        verdict, by = judge(claim, predicted, measured, elsewhere)
        origin = tuple(read), ", ".join(sources), missing
        judgements.append(JudgedClaim(claim, predicted, measured, elsewhere, verdict, by, *origin))
    return judgements


def value_text(value: Value | None) -> str:
    """Return a value for table and figure: yes, no, or four significant digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if abs(value) < 9999.5 else f"{value:.0f}"


def frame(judgements: Sequence[JudgedClaim]) -> pd.DataFrame:
    """Return one row per claim for the report's table."""
    rows = []
    for judgement in judgements:
        claim, more = judgement.claim, len(judgement.read) - 2
        ratio = judgement.over_claimed(judgement.value)
        relation = "" if claim.relation == "equals" else f"{claim.relation} "
        margin = f"{100 * claim.tolerance:g} %" if claim.claimed else f"{claim.tolerance:g}"
        rows.append(
            {
                "claim": claim.statement,
                "document": claim.document,
                "where it stands": claim.section,
                "claimed": f"{relation}{value_text(claim.claimed)}{claim.claimed_as and f' ({claim.claimed_as})'}",
                "predicted": value_text(judgement.predicted),
                "measured": value_text(judgement.measured),
                "unit": claim.unit,
                "deviation (%)": None if ratio is None else round(100 * (ratio - 1), 1),
                "verdict": judgement.verdict,
                "tolerance": "" if isinstance(claim.claimed, bool) else margin,
                "judged by": judgement.by,
                "where it holds": claim.place if judgement.verdict == ELSEWHERE else "",
                "measured from": "; ".join(judgement.read[:2])
                + (f" and {more} more" if more > 0 else ""),
                "status": "ok" if judgement.measured is not None else NOT_MEASURED,
                "reason": judgement.missing,
                "source": judgement.source,
            }
        )
    return pd.DataFrame(rows)
