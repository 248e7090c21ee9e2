"""What a kernel of an unknown operation computes, recognised by its values: formulas that its name allows are tried."""

import functools
import itertools
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilewave.basics import memory
from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import constant_memory, matching
from tilewave.commands.wrapping.arithmetic import Unknown, number, outside
from tilewave.commands.wrapping.guessing import constant, meanings
from tilewave.commands.wrapping.host_reference import Reference, words_of
from tilewave.commands.wrapping.reading import Function, Source
from tilewave.commands.wrapping.scopes import spelled
from tilewave.compiling.declarations import tokens
from tilewave.kernel import operations
from tilewave.kernel.expressions import names_in
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.inputs import to_float64
from tilewave.kernel.job import Job
from tilewave.kernel.launches import leaves
from tilewave.kernel.operations import formulas
from tilewave.kernel.operations.kernel_reference import WITHIN, rounding
from tilewave.kernel.padding import unset
from tilewave.kernel.tolerance import Tolerance
from tilewave.theory.dtypes import DTYPES

TABLES = table_beside(__file__)
ALTERNATIVES = re.compile(r"\[\[(.*?)\]\]")
SOLE, LOOSE = (frozenset(TABLES[key].split()) for key in ("sole", "loose"))
PARTS: Mapping[str, str] = TABLES["parts"]
LIMIT_S, MOST, LARGEST, SEVERAL = 1.5, 3, 1 << 16, 10
"""Seconds of a search, most formulas that it finds, the largest constant of the code that may be a size, and how many."""
COMBINED, HUGE = 2000, 10**12
"""About the most combinations of a formula's sizes, the first of which are the kernel's own; what divisors divide."""
ARRAYS, SIZES, REALS, PRODUCT, EPS, TURNS, REACH = "abcdf", "uvwrPR", "st", "z", "e", "g", "Q"
NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?|(?<![\w.])\.\d+(?:e-?\d+)?")
TILED = re.compile(r"(?!.*(?:blockDim \. y|\* threadIdx \. y|threadIdx \. y \*)).*threadIdx \. y")
BLAS = re.compile("^[sdhcbi](?=(?:gem[mv]|axpy|dot|scal|asum|nrm2|syrk)$)")
"""The type in the name of a function of BLAS."""
CONVERTS = re.compile("(?<=[a-z])2(?=[a-z])")
"""Between the parts of a name such as rgb2gray."""
CHARACTER, IDENTIFIER = re.compile(r"'(.)'"), re.compile(r"[A-Za-z_]\w*")
SUM = re.compile(r"(?<!\* )(?:\d \* )?\b[A-Za-z_]\w* [-+*] \d+\b(?! [*/])|\d \* [A-Za-z_]\w*")
LISTED = re.compile(r"\] = (\{[^;]*\}) ;")
WEIGHTS = re.compile(r"(?:[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?(?:,|$))+")
CHANNELS = ("3", "4")
"""Last extents of images whose channels lie side by side."""
FAR, FEW = 0.25, 6
"""Part of an element, and of a typical one, by which no result is off; the elements at which that is looked at first."""
CLEAR = 16
"""Least multiple of its tolerance by which the result of an array that is changed in place says something."""
FREE, WIDER, GIB = 1 << 17, 16, 0.25
"""Most elements of a product inside a formula that is tried: so many, and so many times those of the output; its memory."""
CONSTANT, SAYING = ("full(N, 0)", "full(N, s)"), 256
"""Formulas of one value, and the least whole number that no other formula may give by chance."""
TYPED = re.compile(r"(?:b?fp?|[iu]|int|half|float|double|vec)?\d*x?\d*o?|pack(?:ed)?")
"""Part of a kernel's name that says of what type its elements are."""
Letters = dict[str, Any]
Numbers = Mapping[str, Sequence[Any]]
Form = tuple[str, str, Letters]
"""How a formula is written down, what its name ends with, and more letters."""
PLAIN: Form = ("{}", "", {})
CLIPPED: Form = ("clip({}, 0, 255)", ", between 0 and 255", {})
"""How a value becomes a whole number; a fraction may be cut off."""
Tried = tuple[str, str, Letters]
"""A formula's name, its text, and what its letters are."""


def _choose(text: str, choices: Iterable[int]) -> str:
    places = iter(choices)
    return ALTERNATIVES.sub(lambda of: of[1].split("|")[next(places)], text)


def _spelled_out(entries: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield formulas, one for each choice of `[[one|another]]`, which are at the same places in name and code, and those
    of the groups that `also` names."""
    groups = {key.partition("|")[0]: group for key, group in TABLES["formulas"].items()}
    for text, code in entries.items():
        if text == "also":
            for name in code.split():
                yield from _spelled_out(groups[name])
            continue
        counts = (range(of.count("|") + 1) for of in ALTERNATIVES.findall(code))
        for choices in itertools.product(*counts):
            yield _choose(text, choices), _choose(code, choices)


FORMULAS = {key: dict(_spelled_out(entries)) for key, entries in TABLES["formulas"].items()}


@dataclass(frozen=True)
class Sample:
    """A job with its inputs, and the memory of its outputs after a launch."""

    job: Job
    given: Mapping[str, np.ndarray]
    outputs: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Seen:
    """What a sample shows of an output. launch, named: values of names; got: its numbers; old: those before, if it had some;
    wrote: which were written, as far as that can be told; some: places of a few of these; telling: whether it says much;
    loose: by how much no result is off; ends: what `near` gave; kept: the last formula and its value."""

    launch: dict[str, Any]
    named: Mapping[str, Any]
    got: np.ndarray
    old: np.ndarray | None
    wrote: np.ndarray
    some: np.ndarray
    telling: bool
    loose: float
    tolerance: Callable[..., Tolerance]
    ends: dict[Any, str | None] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)

    def value(self, formula: str, values: Letters) -> np.ndarray:
        try:
            most = FREE + WIDER * self.got.size
            with memory.limited(gib=GIB):
                return np.asarray(formulas.value(formula, self.launch | values, most))
        except MemoryError:
            return np.full(self.got.size, np.nan)

    def near(self, form: Form, formula: str, letters: Letters) -> str | None:
        """Return how near a formula is that gives all that was written, and no more; None for another one."""
        code, chosen = form[0].format(formula), letters | form[2]
        values = formulas.letter_values(chosen, self.named)
        of = (str(chosen[at]) if isinstance(of, np.ndarray) else of for at, of in values.items())
        if (key := (code, *of)) not in self.ends:
            if form[0].startswith(("part", "by_channel")):
                want = self.value(code, values)
            else:
                if self.kept[:2] != [formula, letters]:
                    self.kept[:] = formula, letters, self.value(formula, values)
                want = self.kept[2]
                if form != PLAIN and not np.isnan(want[self.some]).any():
                    want = self.value(form[0].format("X"), values | {"X": want})
            self.ends[key] = self._near(want, formulas.ANGLES in formula)
        return self.ends[key]

    @np.errstate(invalid="ignore")
    def _near(self, want: np.ndarray, turned: bool) -> str | None:
        some, have = want[self.some], self.got[self.some]
        if np.any((np.abs(some - have) > self.loose + FAR * np.abs(have)) | np.isnan(some)):
            return None
        stated = ~np.isnan(want)
        if not (stated.any() and np.array_equal(stated, self.wrote | (want == self.got))):
            return None  # -1 is as what nothing wrote
        want, have = want[stated], self.got[stated]
        bound = self.tolerance(want, turned)
        all_near = bound.absolute == WITHIN and np.ptp(have) <= 2 * WITHIN
        near = np.abs(want - have) <= bound.absolute + bound.relative_out * np.abs(want)
        if all_near or not (near | (want == have)).all():
            return None
        return f", within {WITHIN:g}" if bound.absolute == WITHIN else ""


def recognised(
    samples: Sequence[Sample], function: Function, source: Source, kernel: Kernel
) -> Iterator[Reference]:
    """Yield formulas that equal what a kernel gave in the first sample, those that equal all samples first.

    If none does, and the name of the kernel says all, yield what it says: it is exact."""
    job = samples[0].job
    flat = math.prod(job.launch.block[1:]) == 1 and "1" not in leaves(kernel.front.arguments)
    flat = flat and TILED.search(function.text) is not None
    if flat or not all(held.size for of in samples for held in of.outputs.values()):
        return  # the launch leaves most of each tile out, or an array has no element
    operation = operations.load(job.operation)
    operands = operation.operands
    pure = [name for name, of in operands.items() if of.written and (of.zeroed or not of.given)]
    read = [name for name, of in operands.items() if of.given and not of.zeroed]
    needed = {name for name in read if not operands[name].written}
    needed -= {name for name in needed if function.off and operands[name].extents == (1,)}
    passed = (of for of in leaves(kernel.front.arguments) if isinstance(of, str))
    named = ((of, names_in(of)) for of in passed if of not in job.shape)
    numbers, (candidates, sole) = _numbers(function, source, job), _candidates(function, source)
    numbers[SIZES] += [of for of, names in named if names and names <= job.shape.keys()]
    constants = [*constant_memory.values(source, {*kernel.front.compiler.constants}).values()]
    constants += [re.sub("[ {}]", "", of) for of in LISTED.findall(function.text)]
    texts = (of.replace(" ", "").rstrip(",") for of in constants)
    lists = [
        [float(of.strip("fF")) for of in text.split(",")]
        for text in filter(WEIGHTS.fullmatch, texts)
    ]
    numbers[REALS] += {of[0] for of in lists if len(of) == 1}.difference(numbers[REALS])
    changed = [name for name in operation.outputs(job) if name not in pure]
    # Zeros beside an array that is changed in place may be what the blocks tell each other.
    outputs = changed if changed and all(operands[of].zeroed for of in pure) else pure or changed
    least = len(needed) if len(outputs) == 1 else 0
    plain = {*read, *(name for name, size in job.shape.items() if size > 1)}
    reals = {of for of in leaves(job.arguments) if isinstance(of, float)}
    arrays = [*read, *lists]

    @functools.cache
    def ranked(used: frozenset[str]) -> list[tuple[int, Letters]]:
        chosen = _letters(used, arrays, numbers)
        return [(_unlikely(of, read, plain, reals, changed), of) for of in chosen]

    scored = [
        (score, (text, formula, letters))
        for text, formula in candidates.items()
        if len((used := _used(formula)).intersection(ARRAYS)) >= least
        for score, letters in ranked(used)
    ]
    tried = [of for _, of in sorted(scored, key=lambda of: of[0])]
    words = {*words_of(function.name)}
    then = [of for key, of in TABLES["then"].items() if words.intersection(key.split("|"))]
    searches = [_fitting(samples, operation, of, tried, numbers, then) for of in outputs]
    single = len(outputs) == 1  # then the next formula is sought when it is asked for
    combined: Iterator[Any] = zip(*searches) if single else itertools.product(*searches)
    first = [*itertools.islice(combined, 1)]
    exact = sole and single and not first
    for chosen in zip(tried[:1]) if exact else itertools.chain(first, combined):
        names = {of for *_, letters in chosen for of in letters.values() if isinstance(of, str)}
        if needed <= names:
            code = (f"{output}=({of[1]!r}, {of[2]})" for output, of in zip(outputs, chosen))
            names_of = dict.fromkeys(
                _named(text, letters) + _at_zeros(_seen(samples[0], operation, of), code, letters)
                for of, (text, code, letters) in zip(outputs, chosen)
            )
            reference = " and ".join(names_of), f"computed({', '.join(code)})", ()
            yield Reference(*reference, exact=exact, alike=exact)


def _fitting(
    samples: Sequence[Sample],
    operation: Any,
    output: str,
    tried: Sequence[Tried],
    numbers: Numbers,
    then: Sequence[tuple[str, str]],
) -> Iterator[Tried]:
    """Yield the formulas of an output that equal the first sample, those that equal all samples first."""
    job, begun = samples[0].job, time.process_time()
    every = [_seen(of, operation, output) for of in samples]
    # A size that is no multiple of the first may have an edge that the launch leaves out.
    shapes = [of.job.shape for of in samples]
    multiples = [all(of[at] % job.shape[at] == 0 for at in of) for of in shapes]
    whole = list(itertools.compress(every, multiples))
    kinds = [PLAIN, CLIPPED] if DTYPES[operation.dtype(job, output)].whole else [PLAIN]
    parts = (every, whole) if len(whole) < len(every) else (every,)
    plain = kinds + [(f"{code}({{}})", f", and {text} of each", {}) for code, text in then]
    if every[0].old is not None:
        plain.append(("Z + ravel({})", " plus what was there", {"Z": output}))
    last = operation.operands[output].extents[-1]
    if str(last) in CHANNELS or matching.snake(str(last)).startswith("chan"):
        text, channels = f", of each of {last} channels", {"C": last}
        by_channel = "by_channel(lambda a: {}, a, C)"
        plain += [(by_channel.format(of), end + text, channels) for of, end, _ in kinds]
    forms = [(part, [*plain, *_parts(part, kinds, output, numbers)]) for part in parts]

    edges, count = list[Tried](), 0
    for text, formula, letters in tried:
        if time.process_time() - begun > LIMIT_S:
            break
        for part, written in forms:
            telling = part[0].telling or formula in CONSTANT
            for form in written if telling else ():
                if form[2].get("Z") in letters.values() and form[0].startswith("Z"):
                    continue
                if all(of.near(form, formula, letters) is not None for of in part):
                    near = max(of.near(form, formula, letters) or "" for of in part)
                    code, end, more = form
                    edges.append((text + end + near, code.format(formula), letters | more))
                    break
            else:
                continue
            if part is every:
                paused, count = time.process_time(), count + 1
                yield edges.pop()
                begun += time.process_time() - paused
            break
        if count == MOST or count + len(edges) == SEVERAL:
            break
    yield from edges[: MOST - count]


def _parts(
    seen: Sequence[Seen], kinds: Sequence[Form], output: str, numbers: Numbers
) -> Iterator[Form]:
    """Yield how a formula of a part of an output is written, if a kernel writes a part of it, such as all but its edges."""
    pure, full = seen[0].old is None, all(of.wrote.all() for of in seen)
    rest = "Z" if not pure else "0.0" if full else "nan"
    before = [0.0 if of.old is None else of.old for of in seen]
    changed = [of.got != old if full else of.wrote for of, old in zip(seen, before)]
    if all(map(np.all, changed)):
        return
    for text, mask in PARTS.items():
        for letters in _letters(_used(mask), (), numbers):
            whole = list[bool]()
            for of, written in zip(seen, changed):
                inside = of.value(mask, formulas.letter_values(letters, of.named)) > 0
                if (written & ~inside).any():
                    break
                whole.append(bool(inside.all()))
            # A launch that takes too few elements takes all at some size, or is wrong.
            some = any(whole) or "inner" in mask
            if some and len(whole) == len(seen) and not all(whole):
                code = f"part({mask}, {{}}, {rest})"
                more = letters if pure else {**letters, "Z": output}
                named = text.format_map(letters) + ", and 0 elsewhere" * (rest == "0.0")
                yield from ((code.format(of), end + named, more) for of, end, _ in kinds)


def _at_zeros(seen: Seen, code: str, letters: Letters) -> str:
    """Return that a formula of one array has no value where all elements are zeros, if it has one elsewhere."""
    named = {
        name: np.where(of, 0, 0) if isinstance(of, np.ndarray) else of
        for name, of in seen.named.items()
    }
    values = (formulas.letter_values(letters, of) for of in (named, seen.named))
    missing = [np.isnan(seen.value(code, of)).any() for of in values]
    single = len({*letters} & {*ARRAYS}) == 1
    return " (no value for zeros)" if single and missing == [True, False] else ""


def _named(text: str, letters: Letters) -> str:
    short = {at: f"{of:g}" for at, of in letters.items() if isinstance(of, float)}
    return text.format_map({**letters, **short})


def _candidates(function: Function, source: Source) -> tuple[dict[str, str], bool]:
    """Return the formulas that a part of the kernel's name allows, or of its file's if the kernel's is a common one,
    all if no part says anything, and whether the kernel's name says all."""
    every = {text: code for entries in FORMULAS.values() for text, code in entries.items()}
    of_file = _named_groups(source.path.stem)
    more = {text: code for key in of_file for text, code in FORMULAS[key].items()}
    if named := _named_groups(function.name):
        words = _words(function.name).difference(*named.values())
        sole = all(map(SOLE.issuperset, named.values()))
        sole = sole and all(map(TYPED.fullmatch, words - matching.NEUTRAL))
        chosen = {text: code for key in named for text, code in FORMULAS[key].items()}
        loose = all(map(LOOSE.issuperset, named.values()))
        return chosen | (every if loose else {} if sole else more), sole
    plain = not {*words_of(function.name)} - matching.NEUTRAL
    return more if plain and more else every, False


def _words(label: str) -> set[str]:
    words = {BLAS.sub("", of) for of in words_of(label)} | {*words_of(label)}
    return words | {of.removesuffix("s") for word in words for of in (word, *CONVERTS.split(word))}


def _named_groups(label: str) -> dict[str, set[str]]:
    """Return the groups of formulas that a part of a name belongs to, with those parts."""
    words, named = _words(label), dict[str, set[str]]()
    joined = matching.snake(label).replace("_", "")
    for key in FORMULAS:
        parts = key.split("|")
        long = {part for part in parts if len(part) > 4 and part in joined}
        named |= {key: of} if (of := words.intersection(parts) or long) else {}
    return named


def _numbers(function: Function, source: Source, job: Job) -> dict[str, list[Any]]:
    """Return what each kind of letter may be: sizes by name, number or expression, reals, and small numbers."""
    called = function.declaration.called
    near = (spelled(of.body) for _, of in source.near.declarations() if of.name in called)
    names = sorted(function.declaration.identifiers)
    bodies = [spelled(of) for _, of in meanings([*names], source)]
    code = " ".join([function.text, *near, *bodies])
    literals = [float(of) for of in NUMBER.findall(code)]
    values = [leaf for leaf in leaves(job.arguments) if isinstance(leaf, int | float)]
    passed_reals = [of for of in values if isinstance(of, float) and of][:MOST]
    named = filter(None, (constant(source.near, name) for name in names))
    whole = [int(of) for of in (*values, *named, *literals) if of == int(of) and 1 < of <= LARGEST]
    reals = [*map(float, values), *literals]
    reals += [float(ord(of)) for of in CHARACTER.findall(code)]
    reals += filter(None, (_divisor(of, source) for of in bodies if "/" in of))
    passed = dict(zip((of.name for of in function.parameters), map(str, leaves(job.arguments))))
    leaf = zip((of.name.lower() for of in function.parameters), leaves(job.arguments))
    numbers = [(name, of) for name, of in leaf if of in job.shape or not isinstance(of, str)]
    named_numbers = {
        letter: [of for name, of in numbers if re.fullmatch(pattern, name)]
        for letter, pattern in TABLES["named"].items()
    }
    sums = (IDENTIFIER.sub(lambda of: passed.get(of[0], of[0]), of) for of in SUM.findall(code))
    sums = (of for of in dict.fromkeys(sums) if {*IDENTIFIER.findall(of)} <= job.shape.keys())
    sizes = [*job.shape, *dict.fromkeys(of for of in whole if of not in job.shape.values())]
    extents = (of.extents for of in operations.load(job.operation).operands.values())
    inner = (" * ".join(map(str, of[at:])) for of in extents for at in range(1, len(of)))
    return {
        SIZES: list(dict.fromkeys([*sizes[:SEVERAL], *inner, *itertools.islice(sums, MOST)])),
        REALS: list(dict.fromkeys([*reals, *job.shape]))[:SEVERAL],
        PRODUCT: [*map(math.prod, itertools.product(*((of, 1 / of) for of in passed_reals)))],
        EPS: list(dict.fromkeys([*(of for of in reals if 0 < of < 0.01), 0.0])),
        TURNS: [1, 2, 4, 8, 16, 32],
        REACH: [1, 2, 3, *job.shape],
        **named_numbers,
    }


def _divisor(text: str, source: Source) -> float:
    """Return by what a macro's text behind a `/` divides: by 224 for `(26 + 6) / 7`, which has no brackets; else 0."""
    try:
        return float(round(HUGE / number(tokens(f"{HUGE} / {text}"), outside(source))))
    except (Unknown, ZeroDivisionError):
        return 0.0


@functools.cache
def _used(formula: str) -> frozenset[str]:
    return frozenset(re.findall(r"\b[A-Za-z]\b", formula))


def _letters(used: frozenset[str], read: Sequence[Any], numbers: Numbers) -> Iterator[Letters]:
    """Yield what the letters of a formula may be."""
    arrays = [letter for letter in ARRAYS if letter in used]
    most = round(COMBINED ** (1 / max(len(used.intersection(SIZES)), 1)))
    others = [(at, of[:most]) for kind, of in numbers.items() for at in kind if at in used]
    for order in itertools.permutations(read, len(arrays)):
        for chosen in itertools.product(*(of for _, of in others)):
            yield dict(zip(arrays, order)) | dict(zip((letter for letter, _ in others), chosen))


def _unlikely(
    letters: Letters,
    read: Sequence[str],
    names: Set[str],
    reals: Set[float],
    changed: Sequence[str],
) -> int:
    """Return how many sizes have no name, or are real numbers, those that are passed if any are, whether arrays are not
    in their order, or one is what the kernel changes, and whether two sizes are one."""
    arrays = [of for at, of in letters.items() if at in ARRAYS and isinstance(of, str)]
    ordered = arrays == [name for name in read if name in arrays]
    unlikely = [letters[of] not in names for of in SIZES if of in letters]
    unlikely += [
        letters[of] not in reals if reals else letters[of] in names for of in REALS if of in letters
    ]
    sizes = [letters[of] for of in SIZES if of in letters]
    twice = len({*map(str, sizes)}) < len(sizes)
    return unlikely.count(True) + 2 * (not ordered) + twice + any(of in changed for of in arrays)


def _seen(sample: Sample, operation: Any, output: str) -> Seen:
    job, memory = sample.job, sample.outputs[output]
    dtype = operation.dtype(job, output)
    stored = operation.without_padding(job, output, memory).view(operation.stored(job, output)[0])
    wrote = ~unset(stored) | (output in sample.given or stored.itemsize == 1)
    arrays = {name: operation.wide(job, name, of).ravel() for name, of in sample.given.items()}
    got, old = to_float64(stored, dtype), arrays.get(output)
    wrote &= ~np.isnan(got)
    # No change says nothing, and one value little.
    finite = got[wrote & np.isfinite(got)]
    single = np.ptp(finite) == 0 if finite.size else True
    many = got.size > 1 or (DTYPES[dtype].whole and abs(got[0]) < SAYING)
    tolerance = functools.partial(rounding, operation, job, output)
    apart = np.abs(got - old)[wrote] if old is not None else np.full(1, np.inf)
    changed = np.max(apart, initial=0.0) > CLEAR * tolerance(got).absolute
    telling = not (single and many) and bool(changed)
    loose = WITHIN * DTYPES[dtype].whole + FAR * np.abs(finite).mean() if finite.size else 0.0
    names = formulas.launched(operation, job, output), {**job.shape, **arrays}
    places = np.flatnonzero(wrote)
    some = places[:: len(places) // FEW or 1]
    return Seen(*names, got, old, wrote, some, telling, loose, tolerance)
