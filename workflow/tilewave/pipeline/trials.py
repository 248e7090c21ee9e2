"""The judge of a kernel: an ordered list of runs with other shapes, scalars and inputs, each affordable.

`tilewave execute` and `tilewave check` execute them on the CPU. A study's stage *check* has the two runs of
its operation (`Operation.runs`) at the study's shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewave.execution.case import CaseExecution
from tilewave.kernel.result import Result
from tilewave.kernel.variants import Variant
from tilewave.pipeline.cases import Case


@dataclass(frozen=True)
class Trial:
    """A run with inputs of the judge's choice.

    name: what it tries, such as ``negative alpha``. sizes: the shape. scalars: (alpha, beta) of its launches;
    the operation's own if empty. kind: the kind of inputs (`kernel.inputs.KINDS`).
    """

    name: str
    sizes: Mapping[str, int]
    scalars: tuple[tuple[float, float], ...] = ()
    kind: str = "uniform"


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial, of stage execute. done: its execution; None if it did not run (`result.reason`)."""

    trial: Trial
    result: Result
    done: CaseExecution | None = None


def trials(
    variant: Variant, sizes: Mapping[str, int] | None, device: Mapping[str, Any]
) -> list[Trial]:
    """Return the trials of a variant, in order; none for a probe.

    The first has the operation's own inputs at ``sizes``, or at a small shape if None.
    """
    raise NotImplementedError


def judged(
    case: Case,
    arch: str,
    target: Mapping[str, Any],
    entry: Mapping[str, Any],
    *,
    seed: int = 1,
    limit_s: float = 600.0,
    budget_s: float = 5.0,
    machine: Any = None,
    done: CaseExecution | None = None,
) -> list[TrialResult]:
    """Execute the trials of a case's variant, in order; stop at the first that is not right.

    case: its shape may be None: the judge chooses. entry: what was compiled (`single.planned`). budget_s:
    seconds for all trials after the first; those that do not fit are *not measured*, with the reason. done: the
    execution of the case itself, if the caller has it.
    """
    raise NotImplementedError


def worst(results: Sequence[TrialResult]) -> TrialResult:
    """Return the trial that decides the verdict: the first that is not right, else the first."""
    raise NotImplementedError


def summary(results: Sequence[TrialResult]) -> str:
    """Return a sentence: how many trials were right, and which did not run."""
    raise NotImplementedError
