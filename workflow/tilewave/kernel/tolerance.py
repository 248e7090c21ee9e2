"""The comparison of an output with its float64 reference, for the GPU and for execution on the CPU. It is by
element and in the Frobenius norm. Of several launches the worst, relative to its tolerance, decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from tilewave.basics.columns import filled
from tilewave.kernel import result
from tilewave.kernel.inputs import to_float64
from tilewave.kernel.job import Job
from tilewave.kernel.padding import unset

Array = np.ndarray[Any, Any]
READS_C = "reads C even where beta is 0, as its front matter says: C must hold numbers"
"""Reason beside the verdict of a product that was not checked against an uninitialised C."""
NEAR = 100.0
"""Multiple of the tolerance up to which a message names it: the tolerance itself may be wrong."""


@dataclass(frozen=True)
class Tolerance:
    """The allowed difference of an output from its double-precision reference.

    An element is wrong if not (|output - reference| <= absolute + relative_out |reference|), the whole output
    if not (||output - reference|| <= frobenius ||reference||), in Frobenius norms.
    deviation: size of a typical element; outputs of few elements may be near 0 by chance."""

    absolute: float = 0.0
    relative_out: float = 0.0
    frobenius: float = 0.0
    deviation: float = 0.0

    def scaled(self, factor: float, spacing: float = 0.0) -> Tolerance:
        """Return the tolerance of an output that is ``factor`` times as large. spacing: of numbers near zero."""
        absolute = factor * self.absolute + spacing
        return replace(self, absolute=absolute, deviation=factor * self.deviation)

    @property
    def typical(self) -> float:
        return self.absolute + self.relative_out * self.deviation


@dataclass(frozen=True)
class JudgedOutput:
    """An output to judge. bound: its tolerance. whole: whether it holds whole numbers. scaled: alpha and
    beta, if any. read: whether the kernel may read it where beta is 0. given: whether it has values before a launch.
    special: its inputs have NaNs."""

    name: str
    extents: tuple[int, ...]
    order: Literal["C", "F"]
    bound: Tolerance
    whole: bool = False
    scaled: tuple[float, float] | None = None
    read: bool = False
    given: bool = False
    special: bool = False

    @property
    def count(self) -> int:
        return math.prod(self.extents)

    @property
    def least_norm(self) -> float:
        return math.sqrt(self.count) * self.bound.deviation

    def element(self, index: int) -> str:
        """Return the name of an element from its index in memory: ``C[3, 5]``."""
        indices = np.unravel_index(index, self.extents, order=self.order)
        # Matrices have capital letters.
        name = self.name.upper() if len(self.extents) > 1 else self.name
        return f"{name}[{', '.join(str(int(at)) for at in indices)}]"


@dataclass(frozen=True)
class OutputComparison:
    """An output beside its reference. A NaN enters neither error.
    wrong: number of wrong elements. first: index in memory of the first, -1 where none is wrong. worst: error and
    tolerance of the element nearest to its tolerance, or farthest past it; None if not every element was compared."""

    max_error: float
    relative_error: float
    wrong: int
    first: int
    worst: tuple[float, float] | None = None


@dataclass(frozen=True)
class Judgement:
    """Verdict, reason, figures and notes of a check. badness: the largest of several judgements decides the case."""

    verdict: str
    reason: str = ""
    figures: list[dict[str, Any]] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    badness: tuple[bool, float] = (False, 0.0)

    @classmethod
    def worst(cls, judgements: Iterable[Judgement]) -> Judgement:
        """Return the judgement nearest to its tolerance, or farthest past it."""
        return max(judgements, key=lambda judgement: judgement.badness)


def judged(
    output: JudgedOutput,
    comparison: OutputComparison,
    value: float = math.nan,
    expected: float = math.nan,
    label: str = "",
    blank: bool | None = None,
) -> Judgement:
    """Return the judgement of a comparison. value, expected: at ``comparison.first``; label: if there are several.
    blank: whether the element holds what memory holds before a launch, if that is known."""
    bound, reason = output.bound, ""
    alpha, beta = output.scaled or (1.0, 0.0)
    if comparison.wrong or not comparison.relative_error <= bound.frobenius:
        blank, allowed = False if output.given else blank, bound.absolute
        allowed += bound.relative_out * abs(expected)
        facts = {"value": value, "expected": expected, "blank": blank, "allowed": allowed}
        facts["maybe_unwritten"] = not (beta or output.special) and (blank or math.isnan(value))
        facts["near"] = allowed > 0 and abs(value - expected) < NEAR * allowed
        reason = filled(__file__, "tolerance", output=output, comparison=comparison, **facts)
    correct = not reason
    if correct and output.read:
        reason = READS_C
    if reason and label:
        reason = f"{label}: {reason}"
    # No errors beside NaN elements: those of the other elements would look small.
    no_number = math.isnan(comparison.worst[0] if comparison.worst else 0.0)
    no_number = no_number or (comparison.wrong > 0 and math.isnan(value))
    values = {"max_error": comparison.max_error, "tolerance": bound.typical}
    values["relative_error"] = comparison.relative_error
    if no_number:
        values = {"tolerance": bound.typical}
    notes: dict[str, Any] = {"alpha": alpha, "beta": beta} if output.scaled else {}
    notes |= {"wrong_elements": comparison.wrong, "relative_tolerance": bound.frobenius}
    if comparison.worst is not None and not no_number:
        notes["worst_error"], notes["worst_tolerance"] = comparison.worst
    # Whole numbers have no tolerance, so any error is infinitely large.
    unbounded = math.inf if comparison.max_error else 0.0
    badness = comparison.max_error / bound.typical if bound.typical else unbounded
    figures = [{"metric": name, "value": float(of), "unit": ""} for name, of in values.items()]
    verdict = result.CORRECT if correct else result.WRONG
    return Judgement(verdict, reason, figures, notes, (not correct, badness))


def compare(output: JudgedOutput, got: Array, want: Array, dtype: str = "f64") -> Judgement:
    """Compare an output with its float64 reference, both in memory's order (one dimension); NaN equals NaN
    alone. dtype: dtype of ``got``, see `inputs.to_float64`. An infinite reference must be equal."""
    bound = output.bound
    if got.shape != want.shape:
        return Judgement(
            result.WRONG, f"{output.name} has {got.size} elements, expected {want.size}",
            badness=(True, math.inf),
        )  # fmt: skip
    both = ((got[at : at + PART], want[at : at + PART], at) for at in range(0, got.size, PART))
    parts = [_compared(bound, part, dtype, wanted, at) for part, wanted, at in both]
    first = next((part.first for part in parts if part.wrong), -1)
    wrong = sum(part.wrong for part in parts)
    norm = max(math.hypot(*(part.norm for part in parts)), output.least_norm)
    total = math.hypot(*(part.total for part in parts))
    worst = max(parts, key=lambda part: part.excess, default=None)
    largest, relative = max((part.largest for part in parts), default=0.0), total / (norm or 1.0)
    comparison = OutputComparison(largest, relative, wrong, first, worst and worst.worst)
    value, expected, blank = math.nan, math.nan, None
    if wrong:
        value = float(to_float64(got[first : first + 1], dtype)[0])
        expected, blank = float(want[first]), bool(unset(got[first : first + 1])[0])
        blank = (
            None if blank and dtype == "f64" and output.scaled else blank
        )  # sums of doubles keep a NaN's bits
    judgement = judged(output, comparison, value, expected, blank=blank)
    if blank is False and not (output.given or output.whole) and unset(got).any():
        gaps = np.flatnonzero(unset(got))
        text = f"; {gaps.size} elements are never written, as {output.element(int(gaps[0]))}"
        return replace(judgement, reason=judgement.reason + text)
    return judgement


PART = 1 << 13
"""Elements that are compared at a time. Intermediate arrays then stay in the cache; allocating memory for a
large output took ten times as long as comparing it."""


class _Part(NamedTuple):
    """Part of an `OutputComparison`. total, norm: of errors and reference. excess: worst error over its tolerance."""

    largest: float
    total: float
    norm: float
    wrong: int
    first: int
    excess: float
    worst: tuple[float, float]


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def _compared(bound: Tolerance, memory: Array, dtype: str, want: Array, start: int) -> _Part:
    got = to_float64(memory, dtype)
    # Fast path for outputs that are only moved: a quarter of the cost.
    if np.array_equal(got, want):
        allowed_of_first = bound.absolute + bound.relative_out * abs(float(want[0]))
        norm = float(np.linalg.norm(want))
        return _Part(0.0, 0.0, norm, 0, start, 0.0, (0.0, allowed_of_first))
    if np.isnan(want).any():  # an element that was never written is a NaN, too
        agreed = np.isnan(want) & np.isnan(got) & ~unset(memory)
        got, want = np.where(agreed, 0.0, got), np.where(agreed, 0.0, want)
    if dtype == "f16":  # what it cannot hold
        infinite = np.isinf(got) & (np.sign(got) * want > np.finfo(np.float16).max)
        got, want = np.where(infinite, 0.0, got), np.where(infinite, 0.0, want)
    error = np.where(got == want, 0.0, np.abs(got - want))  # infinities may be meant
    allowed = bound.absolute + bound.relative_out * np.where(np.isinf(want), 0.0, np.abs(want))
    bad = ~(error <= allowed)
    errors = error[~np.isnan(error)]
    ratio = np.where(error == 0, 0.0, error / allowed)
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    worst = int(np.argmax(ratio))
    return _Part(
        float(errors.max(initial=0.0)),
        float(np.linalg.norm(errors)),
        float(np.linalg.norm(want)),
        int(bad.sum()),
        start + int(np.argmax(bad)),
        float(ratio[worst]),
        (float(error[worst]), float(allowed[worst])),
    )


def left_dirty(job: Job, read: Callable[[str], Array]) -> str:
    """Return a sentence if a launch left zeroed scratch, whose bytes ``read`` returns, not zero; else empty."""
    for buffer in job.launch.scratch:
        if not buffer.zeroed:
            continue
        nonzero = np.flatnonzero(read(buffer.name))
        if nonzero.size:
            return f"left byte {int(nonzero[0])} of scratch buffer {buffer.name} not zero"
    return ""
