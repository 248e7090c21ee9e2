"""References as formulas of NumPy: what `tilewave check` recognises a kernel by, and a short way to write a reference.

    reference = computed(y=("softmax(rows(a, u))", {"a": "x", "u": "columns"}))

A formula takes flat arrays of float64, as they are before the launch, and numbers by letter. Besides, N is the number of
elements of its output, B the threads of a block and G the blocks of the launch."""

import contextlib
import functools
import math
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import numpy as np

from tilewave.basics.tables import table_beside
from tilewave.kernel.expressions import evaluate
from tilewave.kernel.job import Job

Array = Any
"""An array of float64."""
Names = Mapping[str, Any]
LARGEST = 1 << 25
"""Most multiplications, or elements of a result, of a step of a formula."""
ANGLES = "angles("
"""What a formula calls whose angles grow with the places of rows."""
FILTER = 1 << 10
"""Most weights of a filter."""


BOUND = [LARGEST]
"""Most elements of a product or a repetition, as `value` was told."""


def _bounded(work: float, elements: float = 0) -> None:
    if work > LARGEST or elements > BOUND[0]:
        raise MemoryError(f"{work} multiplications or elements are too many")


def times(x: Array, y: Array) -> Array:
    """Return the matrix product."""
    columns = y.shape[-1] if y.ndim > 1 else 1
    _bounded(x.size * columns, x.size * columns // max(x.shape[-1], 1))
    return x @ y


def each(x: Array, count: float, axis: int) -> Array:
    """Return each element, row or column ``count`` times."""
    _bounded(x.size * count, x.size * count)
    return np.repeat(x, int(count), axis)


def small(weights: Array) -> Array:
    """Return a filter's weights, which are not many."""
    _bounded(weights.size / FILTER * LARGEST)
    return weights


def chunks(flat: Array, each: float, fill: float = 0.0) -> Array:
    """Return rows of ``each`` elements, the last one filled up."""
    padded = np.full(-(-flat.size // int(each)) * int(each), fill)
    padded[: flat.size] = flat
    return padded.reshape(-1, int(each))


def parts(flat: Array, each: float, count: float, fill: float = 0.0) -> Array:
    """Return the elements of each of ``count`` blocks that take ``each`` elements in turn, as rows."""
    _bounded(each * count)
    turns = chunks(chunks(flat, each, fill).ravel(), int(each) * int(count), fill)
    return turns.reshape(-1, int(count), int(each)).swapaxes(0, 1).reshape(int(count), -1)


def windows(x: Array, sides: tuple[float, ...], mode: str = "constant") -> Array:
    """Return what lies around each element: its windows' dimensions are the last. mode: of `numpy.pad`; empty for none."""
    whole = tuple(map(int, sides))
    _bounded(x.size * math.prod(whole))
    around = [(0, 0)] * (x.ndim - len(whole)) + [(side // 2, (side - 1) // 2) for side in whole]
    padded = np.pad(x, around, mode) if mode else x  # type: ignore[call-overload]
    axes = tuple(range(x.ndim - len(whole), x.ndim))
    return np.lib.stride_tricks.sliding_window_view(padded, whole, axis=axes)


def filtered(x: Array, weights: Array, mode: str = "constant") -> Array:
    """Return the sum of each window times the weights, which have its dimensions."""
    around = windows(x, weights.shape, mode)
    return sum(around[(..., *at)] * weights[at] for at in zip(*weights.nonzero()))


def part(mask: Array, x: Array, rest: Array) -> Array:
    """Return x where the mask is not 0, and elsewhere the rest; x has no other elements, or all."""
    inside, flat = mask > 0, x.ravel()
    whole = np.where(inside, 0.0, rest)
    whole[inside] = flat[inside] if flat.size == inside.size else flat
    return whole


def by_row(starts: Array, columns: Array, values: Array, x: Array) -> Array:
    """Return the product of a sparse matrix in CSR form and a vector."""
    terms = np.concatenate([[0.0], np.cumsum(values * x[columns.astype(int)])])
    first, last = starts[:-1].astype(int), starts[1:].astype(int)
    return np.where(last > first, terms[last] - terms[np.minimum(first, last)], 0.0)


def counted(flat: Array, count: float) -> Array:
    """Return how many elements are 0, 1, ... below ``count``."""
    inside = flat[(flat >= 0) & (flat < count)]
    return np.bincount(inside.astype(int), minlength=int(count)).astype(float)


def exchanged(x: Array, distance: float, run: float) -> Array:
    """Return a step of a bitonic sort: pairs at this distance in order, which changes after each ``run``."""
    at = np.arange(x.size)
    other = at ^ int(distance)
    pair = x[np.where(other < x.size, other, at)]
    least = (at < other) == (np.minimum(at, other) & int(run) == 0)
    return np.where(least, np.minimum(x, pair), np.maximum(x, pair))


CALLED: tuple[Callable[..., Any], ...]
CALLED = times, each, small, chunks, parts, windows, filtered, part, by_row, counted, exchanged
NUMPY = "abs exp log log1p expm1 sqrt sin cos tanh sign floor rint trunc clip where maximum minimum arange full sort"
NUMPY += " argmax argmin cumsum inf nan pi sum mean hypot tri asarray indices pad stack concatenate ravel moveaxis tensordot"
NUMPY += " argsort bincount ceil cosh cumprod exp2 log10 log2 roll sinh tan arctan prod"
FUNCTIONS: dict[str, Any] = {name: getattr(np, name) for name in NUMPY.split()}
FUNCTIONS |= {function.__name__: function for function in CALLED}
FUNCTIONS["erf"] = np.vectorize(math.erf, otypes=[float])
for _name, _code in table_beside(__file__).items():
    FUNCTIONS[_name] = eval(f"lambda {_code}", FUNCTIONS)


@functools.cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, formula, "eval")


def value(formula: str, names: Names, most: int = LARGEST) -> Array:
    """Return a formula's value, flat; NaN in those of N elements that it has not, in all where its sizes do not fit together.
    Raises MemoryError, also where a product has more than `most` elements."""
    BOUND[0] = most
    try:
        with np.errstate(all="ignore"):
            flat = np.asarray(eval(_compiled(formula), FUNCTIONS | {**names}), np.float64).ravel()
    except (ArithmeticError, LookupError, NameError, TypeError, ValueError):
        flat = np.empty(0)
    fitting = flat if flat.size <= names["N"] else np.empty(0)
    return np.concatenate([fitting, np.full(names["N"] - fitting.size, math.nan)])


def launched(operation: Any, job: Job, output: str) -> dict[str, int]:
    """Return the numbers that every formula of an output may use."""
    count = math.prod(operation.extents(job, output))
    return {"N": count, "B": math.prod(job.launch.block), "G": math.prod(job.launch.grid)}


def letter_values(letters: Names, named: Names) -> dict[str, Any]:
    """Return the value of each letter that is a name, an expression of names, a number or numbers."""
    values = dict[str, Any]()
    for letter, of in letters.items():
        is_name = isinstance(of, str) and of in named
        value = np.asarray(of) if isinstance(of, list) else of
        values[letter] = named[of] if is_name else evaluate(value, named)
    return values


def computed(**outputs: tuple[str, Names]) -> Callable[..., dict[str, Array | None]]:
    """Return a method `reference` of formulas: those of the outputs; others, what is too large, and what has no value where
    all inputs are zeros, are not judged.
    Each comes with the operand, the size, the number or the list of numbers that each of its letters is."""

    def reference(
        self: Any, job: Job, given: Mapping[str, Array], alpha: float = 1.0, beta: float = 0.0
    ) -> dict[str, Array | None]:
        arrays = {name: self.wide(job, name, of).ravel() for name, of in given.items()}
        wanted: dict[str, Array | None] = dict.fromkeys(self.outputs(job))
        for name, (formula, letters) in outputs.items():
            names = launched(self, job, name) | letter_values(letters, {**job.shape, **arrays})
            with contextlib.suppress(MemoryError):
                wanted[name] = of = value(formula, names).reshape(self.extents(job, name))
                if np.isnan(of).any() and not any(map(np.any, arrays.values())):
                    wanted[name] = None
        return wanted

    return reference
