"""What a kernel of an unknown operation computes, recognised by its values: formulas that its name allows are tried."""

import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import matching
from tilewave.commands.wrapping.guessing import constant
from tilewave.commands.wrapping.host_reference import Reference
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.kernel import operations
from tilewave.kernel.inputs import to_float64
from tilewave.kernel.job import Job
from tilewave.kernel.launches import leaves
from tilewave.kernel.operations import formulas
from tilewave.kernel.operations.kernel_reference import rounding
from tilewave.kernel.padding import POISON
from tilewave.kernel.tolerance import Tolerance
from tilewave.theory.dtypes import DTYPES

TABLES: Mapping[str, Mapping[str, str]] = table_beside(__file__)
LIMIT_S, MOST, LARGEST = 4.0, 3, 1 << 16
"""Seconds of a search, most formulas that it finds, and the largest constant of the code that may be a size."""
ARRAYS, SIZES, REALS, EPS, TURNS = "abcd", "uvwr", "st", "e", "g"
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?|(?<![\w.])\.\d+(?:e-?\d+)?")
WHOLE = "{}", "trunc({})", "rint({})", "clip(trunc({}), 0, 255)", "clip(rint({}), 0, 255)"
"""How a value becomes a whole number."""
Letters = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """A job with its inputs, and the memory of its outputs after a launch."""

    job: Job
    given: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]


def references(
    samples: Sequence[Sample], function: Function, source: Source
) -> Iterator[Reference]:
    """Yield formulas that equal what a kernel gave in all samples."""
    operation, deadline = operations.load(samples[0].job.operation), time.monotonic() + LIMIT_S
    operands = operation.operands
    pure = [name for name, of in operands.items() if of.written and (of.zeroed or not of.given)]
    outputs = pure or operation.outputs(samples[0].job)
    read = [name for name, of in operands.items() if of.given and not of.zeroed]
    needed = {name for name in read if not operands[name].written}
    numbers, candidates = _numbers(function, source, samples[0].job), _candidates(function, source)
    found = []
    for output in outputs:
        shown = _shown(samples, operation, output)
        whole = DTYPES[operation.dtype(samples[0].job, output)].whole
        equal = (
            (text, formula, letters)
            for text, plain in candidates.items()
            for formula in (form.format(plain) for form in (WHOLE if whole else WHOLE[:1]))
            for letters in _letters(formula, read, numbers)
            if time.monotonic() < deadline and _equal(formula, letters, shown)
        )
        found.append(list(itertools.islice(equal, MOST)))
    for chosen in itertools.product(*found):
        if needed <= {of for *_, letters in chosen for of in letters.values()}:
            code = ", ".join(
                f"{output}=({formula!r}, {letters})"
                for output, (_, formula, letters) in zip(outputs, chosen)
            )
            texts = dict.fromkeys(text.format_map(letters) for text, _, letters in chosen)
            yield Reference(" and ".join(texts), f"computed({code})", ())


def _candidates(function: Function, source: Source) -> dict[str, str]:
    """Return the formulas that a part of the kernel's name, else of its file's, allows; all if no part says anything."""
    for label in (function.name, source.path.stem):
        text = matching.snake(label)
        words = {word.rstrip("0123456789") for word in text.split("_")}
        named = [
            entries
            for key, entries in TABLES.items()
            if any(
                part in words or (len(part) > 3 and part in text.replace("_", ""))
                for part in key.split("|")
            )
        ]
        if named:
            return {name: code for entries in named for name, code in entries.items()}
    return {name: code for entries in TABLES.values() for name, code in entries.items()}


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
        REALS: list(dict.fromkeys(reals))[:9],
        EPS: list(dict.fromkeys([*(of for of in reals if 0 < of < 0.01), 0.0])),
        TURNS: [1, 2, 4, 8, 16, 32],
    }


def _letters(
    formula: str, read: Sequence[str], numbers: Mapping[str, list[Any]]
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


def _shown(samples: Sequence[Sample], operation: Any, output: str) -> list[Any]:
    """Return of each sample the names for formulas, the output, what of it was written, and whether it is whole."""
    shown = []
    for sample in samples:
        job, memory = (
            sample.job,
            operation.without_padding(sample.job, output, sample.outputs[output]),
        )
        stored, dtype = memory.view(operation.stored(job, output)[0]), operation.dtype(job, output)
        wrote = np.any(stored.view(np.uint8).reshape(stored.size, -1) != POISON, axis=1)
        named = dict[str, Any](job.shape)
        named |= {
            name: operation.wide(job, name, flat).ravel() for name, flat in sample.given.items()
        }
        got = to_float64(stored, dtype)
        bound = rounding(operation, job, output, got[wrote]) if wrote.any() else Tolerance()
        shown.append((formulas.launched(operation, job, output), named, got, wrote, bound))
    return shown


def _equal(formula: str, letters: Letters, shown: Sequence[Any]) -> bool:
    """Return whether a formula gives, in each sample, what was written, and what it gives was written."""
    for launch, named, got, wrote, bound in shown:
        values = {letter: named.get(of, of) for letter, of in letters.items()}
        want = formulas.value(formula, launch | values)
        stated = ~np.isnan(want)
        if not stated.any() or not wrote[stated].all():
            return False
        want, have = want[stated], got[stated]
        near = np.abs(want - have) <= bound.absolute + bound.relative_out * np.abs(want)
        if not (near | (want == have)).all():
            return False
    return True
