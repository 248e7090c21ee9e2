"""References as formulas of NumPy: what `tilewave check` recognises a kernel by, and a short way to write a reference.

    reference = computed(y=("softmax(rows(a, u))", {"a": "x", "u": "columns"}))

A formula takes flat arrays of float64, as they are before the launch, and numbers by letter. Besides, N is the number of
elements of its output, B the threads of a block and G the blocks of the launch.
"""

import functools
import math
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import numpy as np

from tilewave.kernel.expressions import evaluate
from tilewave.kernel.job import Job

Array = Any
"""An array of float64."""
Names = Mapping[str, Any]
LARGEST = 1 << 25
"""Most multiplications, or elements of a result, of a step of a formula."""


def rows(flat: Array, width: float) -> Array:
    """Return the rows of a matrix."""
    return flat.reshape(-1, int(width))


def planes(flat: Array, height: float, width: float) -> Array:
    """Return matrices: an array of three dimensions."""
    return flat.reshape(-1, int(height), int(width))


def sums(x: Array) -> Array:
    """Return the sum of each row as a column."""
    return x.sum(-1, keepdims=True)


def most(x: Array) -> Array:
    """Return the maximum of each row as a column."""
    return x.max(-1, keepdims=True)


def _bounded(work: float) -> None:
    if work > LARGEST:
        raise ValueError(f"{work} multiplications or elements are too many")


def times(x: Array, y: Array) -> Array:
    """Return the matrix product."""
    _bounded(x.size * y.shape[-1] if y.ndim > 1 else x.size)
    return x @ y


def outer(x: Array, y: Array) -> Array:
    return times(x[:, None], y[None])


def each(x: Array, count: float, axis: int) -> Array:
    """Return each element, row or column ``count`` times."""
    _bounded(x.size * count)
    return np.repeat(x, int(count), axis)


def softmax(x: Array) -> Array:
    powers = np.exp(x - most(x))
    return powers / sums(powers)


def norm(x: Array, eps: float) -> Array:
    """Return each row with the mean 0 and the variance 1."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def rms(x: Array, eps: float) -> Array:
    """Return each row divided by the root of its mean square."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def causal(x: Array) -> Array:
    """Return scores without those of later keys."""
    return np.where(np.tri(*x.shape[-2:]) > 0, x, -np.inf)


def attention(
    q: Array, k: Array, v: Array, scale: float, mask: Callable[[Array], Array] = np.asarray
) -> Array:
    """Return softmax(mask(q k^T scale)) v of matrices."""
    return times(softmax(mask(times(q, k.swapaxes(-1, -2)) * scale)), v)


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


def before(x: Array) -> Array:
    """Return the sums of what is before each element of a row."""
    return np.cumsum(x, -1) - x


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
    axes = tuple(range(-weights.ndim, 0))
    return np.sum(windows(x, weights.shape, mode) * weights, axis=axes)


def box(weights: Array, side: float, rank: int = 2) -> Array:
    """Return the first weights as a square or cube."""
    return weights[: int(side) ** rank].reshape((int(side),) * rank)


def weights(flat: Array, height: float, width: float) -> Array:
    """Return the first weights as a matrix."""
    return flat[: int(height) * int(width)].reshape(int(height), int(width))


def inner(reach: float, *sides: float) -> Array:
    """Return an array of these sides, flat: 0 in the elements up to ``reach`` from an edge, 1 in the others."""
    inside = [int(side) - 2 * int(reach) for side in sides]
    return np.pad(np.ones(inside), int(reach)).ravel()


def part(mask: Array, x: Array, rest: Array) -> Array:
    """Return x where the mask is not 0, and elsewhere the rest; x has no other elements, or all."""
    inside, flat = mask > 0, x.ravel()
    whole = np.where(inside, 0.0, rest)
    whole[inside] = flat[inside] if flat.size == inside.size else flat
    return whole


def nearest(x: Array) -> Array:
    """Return the nearest whole numbers; halves are rounded away from 0."""
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def rounded(x: Array, to_even: int) -> Array:
    """Return the nearest whole numbers; halves are rounded to even ones, or away from 0."""
    return np.rint(x) if to_even else nearest(x)


def around(x: Array, rank: int = 2) -> Array:
    """Return the sum of the neighbours along each of the last dimensions."""
    distances = np.abs(np.indices((3,) * rank) - 1).sum(0)
    return filtered(x, np.where(distances == 1, 1.0, 0.0))


def layer(
    x: Array, kernels: Array, count: float, height: float, width: float, side: float, mode: str = ""
) -> Array:
    """Return a convolution layer: for each image, with ``count`` planes, and each kernel the sum over the planes."""
    images = x.reshape(-1, int(count), int(height), int(width))
    around_each = windows(images, (side, side), mode)
    filters = kernels.reshape(-1, int(count), int(side), int(side))
    return np.moveaxis(np.tensordot(around_each, filters, ((1, 4, 5), (1, 2, 3))), -1, 1)


def taken(x: Array, at: Array) -> Array:
    """Return the elements, or rows, at these indices."""
    return x[at.astype(int)]


def by_row(starts: Array, columns: Array, values: Array, x: Array) -> Array:
    """Return the product of a sparse matrix in CSR form and a vector."""
    terms = np.concatenate([[0.0], np.cumsum(values * taken(x, columns))])
    first, last = starts[:-1].astype(int), starts[1:].astype(int)
    return np.where(last > first, terms[last] - terms[np.minimum(first, last)], 0.0)


def counted(flat: Array, count: float) -> Array:
    """Return how many elements are 0, 1, ... below ``count``."""
    inside = flat[(flat >= 0) & (flat < count)]
    return np.bincount(inside.astype(int), minlength=int(count)).astype(float)


def tallied(x: Array, count: float) -> Array:
    """Return the counts of each row."""
    return np.stack([counted(row, count) for row in x])


def exchanged(x: Array, distance: float, run: float) -> Array:
    """Return a step of a bitonic sort: pairs at this distance in order, which changes after each ``run``."""
    at = np.arange(x.size)
    first, second = x, x[at ^ int(distance)]
    least = (at & int(distance) == 0) == (at & int(run) == 0)
    return np.where(least, np.minimum(first, second), np.maximum(first, second))


erf = np.vectorize(math.erf, otypes=[float])
ACTIVATIONS = {
    "sigmoid": "1 / (1 + exp(-x))",
    "silu": "x / (1 + exp(-x))",
    "gelu": "0.5 * x * (1 + erf(x * 0.70710678118654752))",
    "tanh_gelu": "0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x ** 3)))",
    "relu": "maximum(x, 0)",
    "mish": "x * tanh(log1p(exp(x)))",
}
CALLED: tuple[Callable[..., Any], ...] = (
    *(rows, planes, sums, times, outer, each, most, softmax, norm, rms, causal, attention),
    *(chunks, parts, before, windows, filtered, box, weights, inner, part, nearest, rounded),
    *(around, layer, taken, by_row, counted, tallied, exchanged),
)
NUMPY = "abs exp log log1p expm1 sqrt sin cos tanh sign floor rint trunc clip where maximum minimum arange full sort"
NUMPY += " argmax argmin cumsum inf nan pi"
FUNCTIONS = {function.__name__: function for function in CALLED} | {"erf": erf}
FUNCTIONS |= {name: getattr(np, name) for name in NUMPY.split()}
FUNCTIONS |= {name: eval(f"lambda x: {code}", FUNCTIONS) for name, code in ACTIVATIONS.items()}


@functools.cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, formula, "eval")


def value(formula: str, names: Names) -> Array:
    """Return a formula's value, flat; NaN in those of N elements that it has not, in all where its sizes do not fit together."""
    try:
        with np.errstate(all="ignore"):
            flat = np.asarray(eval(_compiled(formula), FUNCTIONS | {**names}), np.float64).ravel()
    except (ValueError, IndexError, ZeroDivisionError, OverflowError, TypeError, MemoryError):
        flat = np.empty(0)
    if flat.size > names["N"]:
        flat = np.empty(0)
    return np.pad(flat, (0, names["N"] - flat.size), constant_values=math.nan)


def launched(operation: Any, job: Job, output: str) -> dict[str, int]:
    """Return the numbers that every formula of an output may use."""
    count = math.prod(operation.extents(job, output))
    return {"N": count, "B": math.prod(job.launch.block), "G": math.prod(job.launch.grid)}


def letter_values(letters: Names, named: Names) -> dict[str, Any]:
    """Return the value of each letter that is a name, an expression of names, a number or numbers."""
    values = dict[str, Any]()
    for letter, of in letters.items():
        known = isinstance(of, str) and of in named
        value = np.asarray(of) if isinstance(of, list) else of
        values[letter] = named[of] if known else evaluate(value, named)
    return values


def computed(**outputs: tuple[str, Names]) -> Callable[..., dict[str, Array | None]]:
    """Return a method `reference` of formulas: those of the outputs; others are not judged.

    Each comes with the operand, the size, the number or the list of numbers that each of its letters is.
    """

    def reference(
        self: Any, job: Job, given: Mapping[str, Array], alpha: float = 1.0, beta: float = 0.0
    ) -> dict[str, Array | None]:
        arrays = {name: self.wide(job, name, of).ravel() for name, of in given.items()}
        wanted: dict[str, Array | None] = dict.fromkeys(self.outputs(job))
        for name, (formula, letters) in outputs.items():
            names = launched(self, job, name) | letter_values(letters, {**job.shape, **arrays})
            wanted[name] = value(formula, names).reshape(self.extents(job, name))
        return wanted

    return reference
