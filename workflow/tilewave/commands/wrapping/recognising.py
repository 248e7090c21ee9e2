"""What a kernel of an unknown operation computes, recognised by its values: formulas that its name allows are tried."""

import functools
import itertools
import operator
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import constant_memory, matching
from tilewave.commands.wrapping.guessing import constant
from tilewave.commands.wrapping.host_reference import Reference
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.kernel import operations
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.inputs import to_float64
from tilewave.kernel.job import Job
from tilewave.kernel.launches import leaves
from tilewave.kernel.operations import formulas
from tilewave.kernel.operations.kernel_reference import (
    WITHIN,
    rounding,
    unset,
)
from tilewave.theory.dtypes import DTYPES

TABLES = table_beside(__file__)
FORMULAS: Mapping[str, Mapping[str, str]] = TABLES["formulas"]
SOLE = frozenset(TABLES["sole"].split())
LIMIT_S, MOST, LARGEST = 1.5, 3, 1 << 16
"""Seconds of a search, most formulas that it finds, and the largest constant of the code that may be a size."""
ARRAYS, SIZES, REALS, EPS, TURNS = "abcd", "uvwr", "st", "e", "g"
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?|(?<![\w.])\.\d+(?:e-?\d+)?")
WHOLE = "{}", "clip({}, 0, 255)"
"""How a value becomes a whole number; a fraction may be cut off."""
FAR = 0.25
"""Part of an element, and of a typical one, by which no result is off."""
CONSTANT, SAYING = ("full(N, 0)", "full(N, s)"), 256
"""Formulas of one value, and the least whole number that no other formula may give by chance."""
TYPED = re.compile(r"(?:b?fp?|[iu]|int|half|float|double|vec)?\d*x?\d*o?|pack(?:ed)?")
"""Part of a kernel's name that says of what type its elements are."""
Letters = dict[str, Any]
Tried = tuple[str, str, Letters]
"""A formula's name, its text, and what its letters are."""


@dataclass(frozen=True)
class Sample:
    """A job with its inputs, and the memory of its outputs after a launch."""

    job: Job
    given: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]


def references(
    samples: Sequence[Sample], function: Function, source: Source, kernel: Kernel
) -> Iterator[Reference]:
    """Yield formulas that equal what a kernel gave in the first sample, those that equal all samples first.

    If none does, and the name of the kernel says all, yield what it says: it is exact."""
    job = samples[0].job
    operation = operations.load(job.operation)
    operands = operation.operands
    pure = [name for name, of in operands.items() if of.written and (of.zeroed or not of.given)]
    read = [name for name, of in operands.items() if of.given and not of.zeroed]
    needed = {name for name in read if not operands[name].written}
    numbers, (candidates, sole) = _numbers(function, source, job), _candidates(function, source)
    constants = constant_memory.values(source, {*kernel.front.compiler.constants}).values()
    lists = [[float(of.strip("fF ")) for of in text.split(",")] for text in constants if text]
    outputs = pure or operation.outputs(job)
    least = len(needed) if len(outputs) == 1 else 0
    tried = [
        (text, formula, letters)
        for text, formula in candidates.items()
        if len({*re.findall(r"\b[abcd]\b", formula)}) >= least
        for letters in _letters(formula, [*read, *lists], numbers)
    ]
    fitting = [_fitting(samples, operation, output, tried) for output in outputs]
    exact = sole and len(outputs) == 1 and not fitting[0]
    for chosen in itertools.product(*([tried[:1]] if exact else fitting)):
        names = {of for *_, letters in chosen for of in letters.values() if isinstance(of, str)}
        if needed <= names:
            code = (f"{output}=({of[1]!r}, {of[2]})" for output, of in zip(outputs, chosen))
            texts = dict.fromkeys(text.format_map(letters) for text, _, letters in chosen)
            reference = " and ".join(texts), f"computed({', '.join(code)})", ()
            yield Reference(*reference, exact=exact, alike=exact)


def _fitting(
    samples: Sequence[Sample], operation: Any, output: str, tried: Sequence[Tried]
) -> list[Tried]:
    """Return the formulas of an output that equal the first sample, those that equal all samples first."""
    job, deadline = samples[0].job, time.monotonic() + LIMIT_S
    shown = [(of.job.shape, _shown(of, operation, output)) for of in samples]
    # A size that is no multiple of the first may have an edge that the launch leaves out.
    whole = [of for shape, of in shown if all(shape[at] % job.shape[at] == 0 for at in shape)]
    every = [of for _, of in shown]
    forms = WHOLE if DTYPES[operation.dtype(job, output)].whole else WHOLE[:1]

    def equal() -> Iterator[tuple[bool, Tried]]:
        for text, formula, letters in tried:
            if time.monotonic() > deadline:
                return
            as_written = [form.format(formula) for form in forms]
            for part in (every, whole) if len(whole) < len(every) else (every,):
                if form := next(_equal(as_written, letters, part), None):
                    yield part is not every, (text + form[1], form[0], letters)
                    break

    first = sorted(itertools.islice(equal(), MOST), key=operator.itemgetter(0))
    return [of for _, of in first]


def _candidates(function: Function, source: Source) -> tuple[dict[str, str], bool]:
    """Return the formulas that a part of the kernel's name allows, or of its file's if the kernel's is a common one,
    all if no part says anything, and whether the kernel's name says all."""
    for label in (function.name, source.path.stem):
        text = matching.snake(label)
        words = {word.rstrip("0123456789") or word for word in text.split("_")}
        joined, named = text.replace("_", ""), dict[str, set[str]]()
        for key in FORMULAS:
            parts = key.split("|")
            long = {part for part in parts if len(part) > 4 and part in joined}
            named |= {key: of} if (of := words.intersection(parts) or long) else {}
        if named:
            left = words.difference(*named.values()) - matching.NEUTRAL
            sole = all(map(SOLE.issuperset, named.values())) and all(map(TYPED.fullmatch, left))
            chosen = {text: code for key in named for text, code in FORMULAS[key].items()}
            return chosen, sole and label == function.name
        if words - matching.NEUTRAL:
            break
    return {text: code for entries in FORMULAS.values() for text, code in entries.items()}, False


def _numbers(function: Function, source: Source, job: Job) -> dict[str, list[Any]]:
    """Return what each kind of letter may be: sizes by name or number, reals, and small numbers."""
    literals = [float(of) for of in NUMBER.findall(function.text)]
    values = [leaf for leaf in leaves(job.arguments) if isinstance(leaf, int | float)]
    named = filter(
        None, (constant(source.near, name) for name in sorted(function.declaration.identifiers))
    )
    whole = [int(of) for of in (*values, *named, *literals) if of == int(of) and 1 < of <= LARGEST]
    reals = [*(of for of in values if isinstance(of, float)), *literals]
    return {
        SIZES: [*job.shape, *dict.fromkeys(of for of in whole if of not in job.shape.values())][:9],
        REALS: list(dict.fromkeys([*reals, *job.shape]))[:9],
        EPS: list(dict.fromkeys([*(of for of in reals if 0 < of < 0.01), 0.0])),
        TURNS: [1, 2, 4, 8, 16, 32],
    }


def _letters(
    formula: str, read: Sequence[Any], numbers: Mapping[str, list[Any]]
) -> Iterator[Letters]:
    """Yield what the letters of a formula may be."""
    used = {*re.findall(r"\b[a-z]\b", formula)}
    arrays = [letter for letter in ARRAYS if letter in used]
    others = [letter for letter in (*SIZES, *REALS, EPS, TURNS) if letter in used]
    kinds = [
        next(values for kind, values in numbers.items() if letter in kind) for letter in others
    ]
    for order in itertools.permutations(read, len(arrays)):
        for chosen in itertools.product(*kinds):
            yield dict(zip(arrays, order)) | dict(zip(others, chosen))


def _shown(sample: Sample, operation: Any, output: str) -> tuple[Any, ...]:
    """Return the names for formulas, the output, what of it was written, whether it says much, and its tolerance."""
    job, memory = sample.job, sample.outputs[output]
    stored = operation.without_padding(job, output, memory).view(operation.stored(job, output)[0])
    wrote = ~unset(stored) | (output in sample.given or stored.itemsize == 1)
    arrays = {name: operation.wide(job, name, of).ravel() for name, of in sample.given.items()}
    got = to_float64(stored, operation.dtype(job, output))
    # No change says nothing, and one value little.
    single = np.ptp(got[wrote]) == 0 if wrote.any() else True
    many = got.size > 1 or (DTYPES[operation.dtype(job, output)].whole and abs(got[0]) < SAYING)
    telling = not (single and many) and not np.array_equal(got, arrays.get(output, ()))
    names = formulas.launched(operation, job, output), {**job.shape, **arrays}
    finite = got[wrote & np.isfinite(got)]
    loose = (
        WITHIN * DTYPES[operation.dtype(job, output)].whole + FAR * np.abs(finite).mean()
        if finite.size
        else 0.0
    )
    tolerance = functools.partial(rounding, operation, job, output)
    return *names, got, wrote, telling, loose, tolerance


def _equal(
    forms: Iterable[str], letters: Letters, shown: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[str, str]]:
    """Yield the first form that gives, in each sample, all that was written, and no more, and how near it is."""
    for formula in forms:
        nearest = ""
        for launch, named, got, wrote, telling, loose, tolerance in shown:
            want = formulas.value(formula, launch | formulas.letter_values(letters, named))
            stated = ~np.isnan(want)
            if not np.array_equal(stated, wrote) or not (telling or formula in CONSTANT):
                break
            want, have = want[stated], got[stated]
            if np.any(np.abs(want[:4] - have[:4]) > loose + FAR * np.abs(have[:4])):
                break
            bound = tolerance(want)
            with np.errstate(invalid="ignore"):
                near = np.abs(want - have) <= bound.absolute + bound.relative_out * np.abs(want)
            if not (near | (want == have)).all():
                break
            nearest = f", within {WITHIN:g}" if bound.absolute == WITHIN else nearest
        else:
            yield formula, nearest
            return
