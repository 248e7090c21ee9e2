"""Probes: named cases of a small kernel with its expected buffers and counters.

A buffer with ``values`` in the case is an input: an expression over ``lane`` (its element index),
or ``chase(stride)``. A buffer with ``expect`` must hold that after the run; one with ``report``
becomes a figure, the median over its elements. Other buffers are unchecked outputs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewave.kernel.expressions import Expression, ExpressionError, Sizes, evaluate, integer
from tilewave.kernel.inputs import UNIFORM
from tilewave.kernel.job import Job, Probe
from tilewave.kernel.operations.base import Arrays, Executed, Operand, Operation, Work
from tilewave.kernel.result import CORRECT, NOT_CHECKED, WRONG
from tilewave.kernel.tolerance import Judgement
from tilewave.theory.dtypes import DTYPES

FEW = 1024  # most elements that are always evaluated singly


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 random-looking bits for each 64-bit number (SplitMix64's finalizer)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = values ^ (values >> np.uint64(31))
    return mixed


def chase(stride: int, size: int, seed: int = 1) -> np.ndarray:
    """Return a pointer chase: one random cycle through the slots of a buffer.

    The buffer of ``size`` elements (int32) consists of slots of ``stride`` elements. The first element
    of a slot holds the index of the next slot's first element; the others are 0. From any slot, size //
    stride steps visit every slot once and return. The order depends on ``seed`` alone, not on numpy's version.
    Raises ValueError where the buffer holds no slot or an index does not fit."""
    slots = size // stride if stride > 0 else 0
    if slots < 1 or size > 2**31:
        raise ValueError(f"chase({stride}) needs 1 to 2**31 elements in slots, not {size}")
    start = np.uint64((seed * 0x9E3779B97F4A7C15) % 2**64)
    # No two numbers mix to the same number, so every sorting method gives this order.
    order = np.argsort(_mix(np.arange(slots, dtype=np.uint64) + start))
    following = np.empty(slots, dtype=np.int32)
    following[order] = np.roll(order, -1) * stride
    table = np.zeros(size, dtype=np.int32)
    table[: slots * stride : stride] = following
    return table


def launch_names(probe: Probe, *scopes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names for an expression about a launch: those of a buffer, and the elements of each buffer."""
    names = probe.names(*scopes)
    return {**names, **{name: _size(probe, name, names) for name in probe.buffers}}


def _probe(job: Job) -> Probe:
    assert job.probe is not None
    return job.probe


def _size(probe: Probe, name: str, names: Mapping[str, Any]) -> int:
    """Return the number of elements of a buffer; a case may set it."""
    return integer(probe.sizes.get(name, probe.buffers[name].size), names)


def _dtype(probe: Probe, name: str, names: Mapping[str, Any]) -> np.dtype[Any]:
    return np.dtype(DTYPES[str(evaluate(probe.buffers[name].dtype, names))].storage)


def _fill(job: Job, name: str, text: Expression) -> np.ndarray:
    """Return a buffer's elements from an expression over ``lane``, the element's index."""
    probe = _probe(job)
    names = probe.names(job.device)
    count, dtype = _size(probe, name, names), _dtype(probe, name, names)
    functions = {"chase": lambda stride: chase(int(stride), count, job.seed)}

    def at(lane: Any) -> Any:
        return evaluate(text, {**names, "lane": lane}, functions)

    if not (isinstance(text, str) and re.search(r"\blane\b", text)):
        value = np.asarray(at(0)).astype(dtype, copy=False)
        return value if value.shape == (count,) else np.full(count, value, dtype)
    if count > FEW:
        # All elements at once, if a sample shows that the expression means the same for arrays:
        # if-else, and, or do not work on them; True + True is 2, but True for arrays.
        try:
            filled = np.broadcast_to(np.asarray(at(np.arange(count))), (count,)).astype(dtype)
        except (ExpressionError, ValueError):
            pass
        else:
            sampled = np.linspace(0, count - 1, 64, dtype=np.int64)
            if np.array_equal(filled[sampled], np.array([at(int(i)) for i in sampled], dtype)):
                return filled
    return np.array([at(lane) for lane in range(count)], dtype)


def _difference(name: str, values: np.ndarray, expected: np.ndarray) -> str:
    """Return a sentence about the first element that differs, as a NaN (never written) always does; empty if none."""
    differs = ~(values == expected)
    if not differs.any():
        return ""
    index, count = int(np.argmax(differs)), int(differs.sum())
    return (
        f"{name}[{index}] is {values[index].item()!r}, expected {expected[index].item()!r} "
        f"({count} of {values.size} elements differ)"
    )


class ProbeOperation(Operation):
    """Named cases of a small kernel."""

    rehearsed = False

    def arrays(self, job: Job) -> Mapping[str, Operand]:
        """Return the buffers. Those with values in the case are inputs."""
        inputs = _probe(job).values
        return {name: Operand((), written=name not in inputs) for name in _probe(job).buffers}

    def given(self, job: Job, name: str, beta: float = 0.0) -> bool:
        return name in _probe(job).values

    def stored(self, job: Job, name: str) -> tuple[np.dtype[Any], int]:
        probe = _probe(job)
        names = probe.names(job.device)
        return _dtype(probe, name, names), _size(probe, name, names)

    def inputs(self, job: Job) -> dict[str, np.ndarray]:
        """Return the buffers with values in the case. Raises ExpressionError for an expression that has no value."""
        probe = _probe(job)
        named = [name for name in probe.buffers if name in probe.values]
        return {name: _fill(job, name, probe.values[name]) for name in named}

    def judge(
        self,
        job: Job,
        outputs: Arrays,
        given: Arrays | None = None,
        alpha: float = 1.0,
        beta: float = 0.0,
        executed: Executed | None = None,
        kind: str = UNIFORM,
    ) -> Judgement:
        """Judge the buffers, with the reported figures: *wrong* at the first element that differs, or if a
        reported number is not finite: it was not written. *Not checked* without expected values."""
        judgement = Judgement(NOT_CHECKED, "no buffer of this probe has an expected value")
        figures: list[dict[str, Any]] = []
        buffers = _probe(job).buffers
        for name, values in outputs.items():
            if report := buffers[name].report:
                numbers = np.asarray(values, dtype=np.float64)
                if not np.isfinite(numbers).all():
                    why = f"{name} holds a value that is no number: it was not written"
                    return Judgement(WRONG, why, figures)
                median, unit = float(np.median(numbers)), report.get("unit", "")
                figures.append({"metric": report["metric"], "value": median, "unit": unit})
        for name, values in outputs.items():
            if (expect := buffers[name].expect) is None:
                continue
            if difference := _difference(name, np.asarray(values), _fill(job, name, expect)):
                return Judgement(WRONG, difference, figures)
            judgement = Judgement(CORRECT)
        return replace(judgement, figures=figures)

    def sentence(self, job: Job, runs: Sequence[tuple[float, float]], kind: str = UNIFORM) -> str:
        return "those of the case"

    def work(self, shape: Sizes, dtypes: Mapping[str, str], beta: float = 0) -> Work:
        """Return no work: a probe is judged by counts and cycles."""
        return Work(0, 0)
