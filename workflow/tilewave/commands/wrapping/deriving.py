"""A new operation from a kernel's signature, and from what the kernel touches when it is executed.

Each whole number is a size and each pointer an array, at first larger than needed. The kernel is executed at
a few sizes whose products differ. The end of what it reads and writes of an array gives its extents.
"""

import itertools
import math
import operator
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tilewave.commands.wrapping.arithmetic import WHOLE
from tilewave.commands.wrapping.guessing import PREFIX
from tilewave.commands.wrapping.reading import Function
from tilewave.execution.case import UnjudgedRun
from tilewave.kernel.expressions import Sizes
from tilewave.kernel.launches import MEMBERS
from tilewave.kernel.operations.base import Operand, Operation
from tilewave.kernel.padding import POISON
from tilewave.kernel.variants import DEVICE_NAMES
from tilewave.theory.dtypes import DTYPES, SIZES

ROOM, MOST = 8, 1 << 22
"""Room of an array of unknown extents: the product of all sizes times ROOM or the largest size, and no more than
MOST elements unless the product is larger."""
FACTORS = (1, 2, 3, 4, 6, 8)
SMALL = re.compile(
    r"nh|n_h|b|bs|(?:n|num)?_?(?:heads?|batch\w*|groups?|filter\w*|kernel\w*|k?size|radius|pad\w*|dilation|log\w*)"
)
"""Names of small sizes, and of heads, which divide other sizes."""
ODD = re.compile(r"n?_?(?:filter\w*|kernel\w*|k?size|radius)")
"""Names of small sizes that are odd, because they have a middle."""
PITCH = re.compile(r"\w*(?:stride|pitch)\w*|ld\w?")
"""Names of distances between rows, which are at least the length of a row."""
FEW = ((4, 3, 2, 5), (2, 5, 4, 3), (8, 3, 2, 5))
LARGE = ((5, 7, 11, 13, 17, 19), (16, 8, 4, 2, 1, 1), (80, 56, 13, 11, 7, 5))
MANY = (13, 5, 7, 11, 17, 3)
"""Sizes of the trials, the innermost first. Large sizes are multiplied by a power of two; their three sets have
products that differ, multiples of most blocks, and both (MANY: for more than two large sizes)."""
UNIT, ALONE = 16, (1200, 1024, 2048)
LARGEST = 3 << 19
"""Largest product of all sizes in a trial."""
TAKEN = frozenset({*DEVICE_NAMES, "alpha", "beta", "size", "min", "max", "ceil", "floor"})
WORDS = frozenset({*MEMBERS, "null", "true", "false"})
MOST_FACTORS = 5
TEXT, INDICES = Path(__file__).with_name("operation.txt").read_text("utf-8").split("%%\n")


@dataclass(frozen=True)
class DerivedOperation:
    """An operation that is derived from a kernel.

    sizes: the size of each whole-number parameter; operands: the arrays by the pointer's name; indices: names
    of the read-only arrays of whole numbers, which may hold indices.
    """

    name: str
    kernel: str
    file: str
    sizes: Mapping[str, str]
    operands: Mapping[str, Operand]
    indices: tuple[str, ...] = ()

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.sizes.values())

    def operation(self) -> Operation:
        body = {"dimensions": self.dimensions, "operands": dict(self.operands), "name": self.name}
        instance: Operation = type(_class_name(self.name), (Operation,), body)()
        return instance

    def text(self, reference: str = "None") -> str:
        items = self.operands.items()
        operands = (f'        "{name}": {_operand(operand)},\n' for name, operand in items)
        names = {"name": _class_name(self.name), "kernel": self.kernel, "file": self.file}
        sizes = {"dimensions": _tuple(self.dimensions), "operands": "".join(operands)}
        text = TEXT.format(**names, **sizes, reference=reference)
        return text + (INDICES.format(_tuple(self.indices)) if self.indices else "")


def _class_name(name: str) -> str:
    return string.capwords(name, "_").replace("_", "")


def _tuple(names: Sequence[str | int]) -> str:
    inside = ", ".join(f'"{name}"' if isinstance(name, str) else str(name) for name in names)
    return f"({inside},)" if len(names) == 1 else f"({inside})"


def _operand(operand: Operand) -> str:
    options = [f"stream={operand.stream}"] if operand.stream is not None else []
    options += [f"{name}=True" for name in ("written", "zeroed") if getattr(operand, name)]
    return f"Operand({', '.join([_tuple(operand.extents), *options])})"


def first(
    function: Function, name: str, file: str, arguments: str | None = None, grid: str | None = None
) -> DerivedOperation:
    """Derive the operation: its sizes are the whole numbers, else the names in ``arguments`` and ``grid``."""
    pointers = [parameter for parameter in function.parameters if parameter.stars]
    taken = {*TAKEN, *WORDS, *(parameter.name for parameter in pointers)}
    sizes: dict[str, str] = {}
    for parameter in () if arguments else function.parameters:
        if not parameter.stars and set(parameter.type.split()) <= WHOLE:
            lower = parameter.name.lower().strip("_")
            sizes[parameter.name] = lower if lower not in taken else f"size_{lower}"
            taken.add(sizes[parameter.name])
    named = [] if sizes else re.findall(r"[A-Za-z_]\w*", f"{arguments or ''} {grid or ''}")
    sizes |= {name: name for name in named if name not in taken and not name.startswith(PREFIX)}
    operands = {}
    for at, pointer in enumerate(pointers):
        added, extents = adds(function, pointer.name), tuple(sizes.values())
        stream = None if added else at
        operands[pointer.name] = Operand(extents, stream, not pointer.constant, added)
    return DerivedOperation(name, function.name, file, sizes, operands)


def _with_extents(derived: DerivedOperation, extents: tuple[str | int, ...]) -> DerivedOperation:
    operands = derived.operands.items()
    held = {name: replace(operand, extents=extents) for name, operand in operands}
    return replace(derived, operands=held)


def with_room(derived: DerivedOperation, shape: Sizes) -> DerivedOperation:
    """Return the operation with arrays that are large enough for any extents at this shape."""
    product, largest = math.prod(shape.values()), max(shape.values())
    room = max(product, min(product * max(ROOM, largest), MOST))
    return _with_extents(derived, (room,))


def adds(function: Function, name: str) -> bool:
    """Return whether the kernel has an atomic on a pointer."""
    body = function.declaration.body
    called = (i for i, token in enumerate(body) if token.text.startswith("atomic"))
    return any(name == next((t.text for t in body[i + 1 :] if t.word), "") for i in called)


def with_indices(derived: DerivedOperation, dtypes: Mapping[str, str]) -> DerivedOperation:
    """Return the operation with its arrays of whole numbers marked as possible indices."""
    held = [name for name, operand in derived.operands.items() if operand.stream is not None]
    indices = [name for name in held if DTYPES[dtypes[name]].whole and SIZES[dtypes[name]] >= 4]
    return replace(derived, indices=tuple(indices))


def trials(dimensions: Sequence[str]) -> Iterator[dict[str, int]]:
    """Yield the shapes at which the kernel is executed."""
    small = [name for name in dimensions if SMALL.fullmatch(name) and len(dimensions) > 1]
    large = [name for name in dimensions if name not in small]
    for sizes, few, alone in zip((*LARGE[:2], LARGE[2] if len(large) < 3 else MANY), FEW, ALONE):
        small_sizes = dict(zip(reversed(small), few))
        unit, product = UNIT, math.prod((*sizes[: len(large)], *small_sizes.values()))
        while unit > 1 and product * unit ** len(large) > LARGEST:
            unit //= 2
        large_sizes = [unit * size for size in sizes] if len(large) > 1 or small else [alone]
        by_name = dict(zip(reversed(large), large_sizes)) | small_sizes
        for name in filter(PITCH.fullmatch, large):
            widest = max(large, key=lambda name: by_name.get(name, 0))
            by_name[name], by_name[widest] = by_name[widest], by_name.get(name, 2)
        shape = {name: by_name.get(name, 2) | bool(ODD.fullmatch(name)) for name in dimensions}
        if math.prod(shape.values()) <= LARGEST:
            yield shape


def settled(
    derived: DerivedOperation,
    dtypes: Mapping[str, str],
    touch: Callable[[DerivedOperation, dict[str, int]], UnjudgedRun],
) -> tuple[DerivedOperation, dict[str, int], int]:
    """Return the operation with the touched extents, the best shape, and its number of arrays touched to their end."""
    seen: list[tuple[dict[str, int], UnjudgedRun]] = []
    for shape in trials(derived.dimensions):
        trial = touch(derived, shape)
        if not trial.fatal:
            seen.append((shape, trial))
    if not seen:
        unknown = _with_extents(derived, derived.dimensions)
        return unknown, next(trials(derived.dimensions)), -1
    operands, exact = {}, [0] * len(seen)
    blind = _as_inputs(derived, *seen[0], touch)
    for name, operand in derived.operands.items():
        size = SIZES[dtypes[name]]
        touched = [trial.touched.get(name, (0, 0)) for _, trial in seen]
        ends = [tuple(-(-end // size) for end in sides) for sides in touched]
        read, written = (max(side) for side in zip(*ends))
        last = [(shape, max(end)) for (shape, _), end in zip(seen, ends)]
        extents = _extents(derived.dimensions, last)
        for at, ((shape, _), end) in enumerate(zip(seen, ends)):
            exact[at] += max(end) == math.prod(Operand(extents).sizes(shape))
        stream = operand.stream if not written or (read and name in blind) else None
        operands[name] = Operand(extents, stream, bool(written), operand.zeroed and bool(written))
    inputs = [name for name in derived.indices if operands[name].stream is not None]
    indices = tuple(name for name in inputs if not operands[name].written)
    best = max(range(len(seen)), key=lambda at: (exact[at], -at))
    return replace(derived, operands=operands, indices=indices), seen[best][0], exact[best]


def _as_inputs(
    derived: DerivedOperation,
    shape: dict[str, int],
    trial: UnjudgedRun,
    touch: Callable[[DerivedOperation, dict[str, int]], UnjudgedRun],
) -> set[str]:
    """Return the arrays that are read and written, if their values before the launch matter; else none."""
    inputs = {name for name, operand in derived.operands.items() if operand.stream is not None}
    updated = {name for name, ends in trial.touched.items() if all(ends) and name in inputs}
    if not updated:
        return set()
    operands = {**derived.operands}
    operands |= {name: replace(operands[name], stream=None) for name in updated}
    indices = tuple({*derived.indices} - updated)
    again = touch(replace(derived, operands=operands, indices=indices), shape)
    for name, memory in again.buffers.items():
        now, before = (np.asarray(held).view(np.uint8) for held in (memory, trial.buffers[name]))
        wrote = now != POISON
        if again.fatal or not np.array_equal(now[wrote], before[wrote]):
            return updated
    return set()


def _extents(
    dimensions: Sequence[str], seen: Sequence[tuple[dict[str, int], int]]
) -> tuple[str | int, ...]:
    """Return the product of fewest sizes and a small number that equals most ends of what was touched, or is nearest."""
    best: tuple[float, ...] = ()
    extents: tuple[str | int, ...] = tuple(dimensions)
    ends = [max(end, 1) for _, end in seen]
    if len(ends) > 1 and len(set(ends)) == 1:
        return (ends[0],)
    twice = [name for name in dimensions for _ in range(2)]
    for count in range(min(len(twice), MOST_FACTORS) + 1):
        for chosen in dict.fromkeys(itertools.combinations(twice, count)):
            for factor in FACTORS:
                sizes = [factor * math.prod(shape[name] for name in chosen) for shape, _ in seen]
                exact = sum(map(operator.eq, sizes, ends))
                off = sum(abs(math.log(size / end)) for size, end in zip(sizes, ends))
                short = -count - 1.5 * (factor > 1)
                score = (exact, short, -off) if exact else (0, -off, short)
                if score > best:
                    best = score
                    extents = (*chosen, factor) if factor > 1 or not chosen else chosen
    return extents
