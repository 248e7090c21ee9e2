"""A new operation from a kernel's signature, and from what the kernel touches when it is executed.
Each whole number is a size and each pointer an array, at first larger than needed. The kernel is executed at
a few sizes whose products differ. The end of what it reads and writes of an array gives its extents."""

import contextlib
import itertools
import keyword
import math
import re
import string
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping import scopes
from tilewave.commands.wrapping.arithmetic import Unknown, number, of_tokens, outside, plain
from tilewave.commands.wrapping.guessing import PREFIX, ROWS
from tilewave.commands.wrapping.host_memory import CALLED, begun, elements
from tilewave.commands.wrapping.reading import Function, Launch, Source
from tilewave.commands.wrapping.scopes import EXTENT, Scope, spelled
from tilewave.compiling.declarations import Tokens, tokens
from tilewave.execution.case import UnjudgedRun
from tilewave.kernel.expressions import Sizes, evaluate, names_in
from tilewave.kernel.launches import BLOCK_LIMIT, MEMBERS
from tilewave.kernel.operations.base import Operand, Operation
from tilewave.kernel.result import TIMED_OUT
from tilewave.kernel.variants import DEVICE_NAMES
from tilewave.theory.dtypes import SIZES

ROOM, SOME, MOST, LIMIT = 8, 1 << 16, 1 << 22, 1 << 25
"""Room of an array of unknown extents: the product of all sizes times the square of ROOM or of the largest size, and
at most SOME elements, or MOST where those end a trial, or the product; a kernel that takes no size gets up to LIMIT."""
FACTORS = (1, 2, 3, 4, 6, 8)
TABLES = table_beside(__file__)
SMALL, ODD, PITCH, COLOURS, ENDS, DIFFER, ASSERTED = (
    re.compile(TABLES[key]) for key in "small odd pitch colours ends differ asserted".split()
)
ELEMENT, WINDOW, NUMBER, BITS, ZERO_POINT, EXPONENT, SUM, ROW = (
    re.compile(TABLES[key])
    for key in "element window number bits zero_point exponent sum row".split()
)
FEW = ((4, 3, 2, 5), (2, 5, 4, 3), (8, 3, 2, 5))
LARGE = ((5, 7, 11, 13, 17, 19), (16, 8, 4, 2, 1, 1), (80, 56, 13, 11, 7, 5))
MANY = (13, 5, 7, 11, 17, 3)
"""Sizes of the trials, the innermost first. Large sizes are multiplied by a power of two; their three sets have
products that differ, multiples of most blocks, and both (MANY: for more than two large sizes)."""
UNITS, ALONE = (16, 8, 4, 2, 1), (1200, 1024, 2048)
SOUGHT, AMONG = "3", (2, 3)
"""A number that a kernel looks for, or an exponent, and the first of those among which it is, with their count."""
SWITCH = r"\bif \( (?:! )?{0} (?:\)|& &|\| \|)|(?:!|& &|\| \|) {0} (?:\)|& &|\| \|)|[=(,] {0} \?|\b{0} [=!] = [01]\b"
END, BOUNDS = re.compile("(?i)min|max"), r"(?:min|max|clamp|clip)f? \([^;]*?\b{}\b"
VALUES = {"min": "-2", "max": "1"}
"""Names of bounds of values, where a kernel takes them as such, and values that others, of 1 divided by 0.5, exceed."""
BYTE, MOST_SWITCHES = "8", 2  # bits in trials, and switches that are tried with 0, too
SMALLEST = 64
"""Largest constant of a launch that is small beside other sizes: a radius, a number of heads."""
LARGEST, THREADS = 1 << 16, (1 << 19, 1 << 14, 1 << 12, 1 << 9)
"""Largest product of all sizes in a trial, and most threads of its launch, fewer where trials are too slow."""
TAKEN = frozenset(
    {*DEVICE_NAMES, *keyword.kwlist, "alpha", "beta", "size", "min", "max", "ceil", "floor"}
)
WORDS = frozenset({*MEMBERS, "null", "true", "false"})
UNSIZED, OUTSIDE = "the size of", re.compile(rf"^{TIMED_OUT}|\) of \w+, which has ")
PAST = re.compile(r"\) of (\w+), which has ")
"""Message for an access behind the end of an array."""
ROOMLESS = re.compile(rf"{TIMED_OUT}|[^;]* of shared memory, which has ")
"""Message for an end of a trial that no larger array would prevent."""
Extents = tuple[str | int, ...]
MOST_FACTORS, NEAR = 5, 1.5
"""Most sizes of a product, and largest multiple of what was touched that may be an array's size: its last rows may be skipped."""
TEXT, INDICES = Path(__file__).with_name("operation.txt").read_text("utf-8").split("%%\n")


@dataclass(frozen=True)
class DerivedOperation:
    """An operation that is derived from a kernel.

    sizes: the size of each whole-number parameter; operands: the arrays by the pointer's name; indices: names
    of the read-only arrays of whole numbers, which may hold indices. roles: expressions of other parameters; loose:
    sizes that the launch computes by an expression that cannot be translated; allocated: elements that the host
    allocates by the pointer's name; letters: the first character and the number of characters of arrays of text, or the
    value that all elements begin with, and 1;
    overrun: arrays behind whose allocation each trial reached a little."""

    name: str
    kernel: str
    file: str
    sizes: Mapping[str, str]
    operands: Mapping[str, Operand]
    indices: tuple[str, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    loose: tuple[str, ...] = ()
    allocated: Mapping[str, str] = field(default_factory=dict)
    letters: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    overrun: Set[str] = frozenset()

    @property
    def dimensions(self) -> tuple[str, ...]:
        return tuple(self.sizes.values())

    def states(self, name: str, operand: Operand) -> bool:
        """Return whether the host allocates as many elements as an array has."""
        return (*map(str, operand.extents),) == (self.allocated.get(name),)

    def exceeds(self, failure: str, tested: Set[str] | None = None) -> bool:
        """Return whether an access is behind what the host allocates; tested: which is no size but one that the kernel tests."""
        past = PAST.search(failure)
        if past is None or not self.states(past[1], self.operands[past[1]]):
            return False
        many, others = self.allocated[past[1]], {*self.indices} - {past[1]}
        sure = not names_in(many) or past[1] in self.overrun
        return tested is None or sure or (many in tested and not others)

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
        others = [of.extents for name, of in self.operands.items() if name not in self.indices]
        constant = [of[0] for of in others if len(of) == 1 and isinstance(of[0], int)]
        least = min(constant) if len(constant) == len(others) > 0 else 0
        least = least if least < SOME else 0  # it is the room of an array whose extents are unknown
        drawn = _tuple(self.indices), least, str(dict(self.letters)).replace("inf", 'float("inf")')
        return text + (INDICES.format(*drawn) if self.indices or self.letters else "")


def _class_name(name: str) -> str:
    return string.capwords(name, "_").replace("_", "")


def _tuple(names: Sequence[str | int]) -> str:
    return repr((*names,)).replace("'", '"')


def _operand(operand: Operand) -> str:
    options = [f"stream={operand.stream}"] if operand.stream is not None else []
    options += [f"{name}=True" for name in ("written", "zeroed") if getattr(operand, name)]
    return f"Operand({', '.join([_tuple(operand.extents), *options])})"


def label(pointer: str) -> str:
    """Return the name of a pointer's array: that of a struct's member has no dot."""
    return pointer.replace(".", "_")


def modes(function: Function) -> dict[str, str]:
    """Return the first letter that a kernel compares a parameter of one byte with, which is a choice and no size."""
    letters = (item for item in function.parameters if item.type == "char" and not item.stars)
    compared = ((of.name, rf"\b{of.name} = = '(\w)'") for of in letters)
    tests = ((name, re.search(pattern, function.text)) for name, pattern in compared)
    return {name: test[1] for name, test in tests if test}


def sought(function: Function) -> dict[str, str]:
    """Return the array of the elements that a kernel compares with a whole number which it takes for nothing else."""
    pattern = r"\b(\w+) \[ [^]]* \] = = %s\b"
    compared = ((of, re.findall(pattern % of, function.text)) for of in function.whole)
    uses = re.findall(r"\w+", function.text)
    return {of: arrays[0] for of, arrays in compared if len(arrays) == uses.count(of) == 1}


def fixed(function: Function) -> dict[str, str]:
    """Return the value that whole numbers which are no sizes have in all trials: exponents (the number of a step), switches
    that a kernel only compares with 0, a zero point, bounds of values, and numbers of bits."""
    text, whole = function.text, function.whole
    powers, uses = EXPONENT.findall(text), re.findall(r"\w+", text)
    points = list(filter(ZERO_POINT.fullmatch, whole))
    numbers = dict.fromkeys(points if len(points) == 1 else (), SOUGHT)
    numbers |= dict.fromkeys(filter(BITS.fullmatch, whole), BYTE)
    for name in whole:
        end = END.search(name)
        bound = VALUES[end[0].lower()] if end else SOUGHT
        bounds = re.findall(BOUNDS.format(name), text) if end else []
        tests = re.findall(SWITCH.format(name), text)
        power = powers.count(name), numbers.get(name, SOUGHT)
        on = len(tests), str(int(name != function.off))
        for times, value in (power, (len(bounds), bound), on):
            if 0 < times == uses.count(name):
                numbers[name] = value
    return numbers


def switches(function: Function, source: Source) -> list[str]:
    """Return what a kernel only tests, whole numbers and bools, and no launch gives a value."""
    bools = {of.name for of in function.parameters if of.type == "bool" and not of.stars}
    tested = bools | {of for of in fixed(function) if re.search(SWITCH.format(of), function.text)}
    for launch in source.launches(function.name):
        given = zip(function.parameters, function.launch_arguments(launch.arguments))
        tested -= {of.name for of, to in given if NUMBER.fullmatch(_line(to, launch.scope))}
    return sorted(filter(function.mentions, tested))[:MOST_SWITCHES]


def first(
    function: Function, name: str, source: Source, arguments: str | None, grid: str | None
) -> DerivedOperation:
    """Derive the operation: its sizes are whole numbers and names of the launch, ``arguments`` or ``grid``."""
    pointers = [parameter for parameter in function.parameters if parameter.stars]
    taken = {*TAKEN, *WORDS, *(parameter.name for parameter in pointers)}
    sizes, roles, allocated = dict[str, str](), dict[str, str](), dict[str, str]()
    loose = list[str]()

    def add(key: str) -> str:
        label = key.lower().strip("_") if key.isupper() or key in numbers else key
        label = re.sub(r"\W+", "_", label.replace("-", "last")).strip("_")
        key += " of the host" * (key in sizes)
        sizes[key] = label if label not in taken else f"size_{label}"
        taken.add(sizes[key])
        return sizes[key]

    launch = next(iter(source.launches(function.name)), None)
    passed = function.launch_arguments(launch.arguments) if launch else ()
    given = list(zip(function.parameters, passed))
    geometry = launch.scope.names((*launch.grid, *launch.block, *launch.shared)) if launch else ()
    needed = {item.name for item in function.parameters if not function.ignores(item.name)}
    needed |= {of.name for of, to in given if {token.text for token in to} & {*geometry}}
    whole = (item for item in function.parameters if {*item.type.split()} <= scopes.WHOLE)
    numbers = [of.name for of in whole if of.name in needed and not (arguments or of.stars)]
    chosen = {of: str(ord(letter)) for of, letter in modes(function).items()}
    chosen |= dict.fromkeys(sought(function), SOUGHT) | fixed(function)
    numbers = [name for name in numbers if name not in chosen]
    filled = {
        of.name: begins
        for of, to in given
        if launch and not of.constant and (begins := begun(launch, to)) is not None
    }
    if launch and not (arguments or grid):
        roles, loose, host = _at_launch(function, launch, numbers, add)
        texts = {of.name: spelled(to) for of, to in given}
        for key in numbers:
            if key not in {*sizes, *roles}:
                size, text = add(key), texts[key]
                bound = CALLED.search(spelled(launch.scope.value(text) or ()))  # as a power of two
                if not bound and [*texts.values()].count(text) == 1:
                    host.setdefault(text, size)
        for item, value in given:
            kind = scopes.DTYPES.get(source.plain(item.type), "")
            typed = kind or item.type in {of.name for of in function.template if of.is_type}
            many = elements(launch, value, SIZES.get(kind, 0), host) if item.stars and typed else ""
            many = many if names_in(many or "n") else str(int(evaluate(many)))
            if many and names_in(many) <= {*sizes.values()} and "// 0" not in many:
                allocated[label(item.name)] = many
    roles |= chosen
    for key in numbers:
        if key not in {*sizes, *roles}:
            add(key)
    unknown = launch is None or ELEMENT.fullmatch(spelled(launch.scope.literal(launch.grid)))
    if unknown and not (arguments or grid) and ROWS not in taken and _by_rows(function, numbers):
        add(ROWS)
    sizes = {key: sizes[key] for key in (*numbers, *sizes) if key in sizes}
    named = re.findall(r"[A-Za-z_]\w*", f"{'' if sizes else arguments or ''} {grid or ''}")
    named = [name for name in named if name.lower() not in taken and name not in source.macros]
    sizes |= {name: name for name in named if not name.startswith(PREFIX)}
    operands, extents = {}, tuple((sizes or {"": "n"}).values())
    for at, pointer in enumerate(pointers):
        added = function.adds(pointer.name) or pointer.name in filled
        stream = None if added else at
        operands[label(pointer.name)] = Operand(extents, stream, not pointer.constant, added)
    names = (name, function.name, source.path.name)
    real = {
        label(of.name): filled.get(of.name) for of in pointers if of.type in ("float", "double")
    }
    letters = {of: (value, 1) for of, value in real.items() if value}
    return DerivedOperation(
        *names, sizes or {"": "n"}, operands, (), roles, (*loose,), allocated, letters
    )


def _by_rows(function: Function, numbers: Sequence[str]) -> bool:
    """Return whether each block of a kernel has a row of an array, and no number says how many there are."""
    text, row = function.text, r"blockIdx \. x"
    aliases = re.findall(rf"\b(\w+) = {row} ;", text)
    rows = f"(?:{'|'.join([row, *aliases])})"
    size = f"(?:{'|'.join(numbers)})"
    across = re.search(rf"{row} \* blockDim|blockDim \. x \* {row}|blockIdx \. [yz]", text)
    along = numbers and re.search(
        rf"\b{rows} \* (?:\( \w+ \) )?{size}\b|\b{size} \* {rows}\b", text
    )
    return bool(along and not across and not re.search(rf"\b{rows} (?:<|> =)", text))


def _at_launch(
    function: Function, launch: Launch, numbers: Sequence[str], add: Callable[[str], str]
) -> tuple[dict[str, str], list[str], dict[str, str]]:
    """Return the numbers that are constants, or that the launch computes from sizes, those whose expression cannot be
    translated, and the sizes by the host's names.
    A constant is small beside other sizes, or has its name also in the kernel, or that of several in block or shared memory,
    or is a number of blocks."""
    scope, values = launch.scope, function.launch_arguments(launch.arguments)
    passed = dict(zip((item.name for item in function.parameters), values))
    lines = {key: _line(passed[key], scope) for key in numbers}
    threads = {**scope.names(launch.block), **dict.fromkeys(scope.names(launch.shared), False)}
    threads |= {name: True for name in threads if name == spelled(launch.block)}
    sides = 1 + spelled(scope.literal(launch.block)).count(",")
    wide = any(int(of) ** sides > BLOCK_LIMIT for of in lines.values() if of.isdigit())
    near = function.declaration.identifiers - passed.keys()
    near = near | threads.keys() if numbers[1:] or wide else near
    small = {key for key, line in lines.items() if line.isdigit() and int(line) <= SMALLEST}
    constants = {of.text for key in small for of in passed[key]}
    others = (scope.names(passed[key]).keys() for key in numbers if key not in small)
    # What is computed from small constants is none of the sizes beside which they are small.
    kept = small if not all(constants & names for names in others) else set()
    unread = {of.text for key in numbers if not function.mentions(key) for of in passed[key]}
    near |= unread - scope.names(launch.grid).keys()
    kept |= {key for key in numbers if lines[key].isdigit() and passed[key][0].text in near}
    blocks = {of for of in scope.names(launch.grid) if "/" in spelled(scope.value(of) or ())}
    kept |= {key for key in numbers if lines[key].isdigit() and spelled(passed[key]) in blocks}
    kept |= {of for of in numbers if spelled(passed[of]).strip("( )") in scope.compared.values()}
    sizes, computed = {name: "" for name, free in threads.items() if free}, list[str]()
    sizes |= {token.text: "" for value in values for token in value}
    alike = _alike(scope)
    for key in numbers:
        name = passed[key][0].text if len(passed[key]) == 1 else ""
        name = name or plain(passed[key], scope) * bool(EXTENT.fullmatch(lines[key]))
        named = lines[key] == name or not re.search("[A-Za-z_]", EXTENT.sub("", lines[key]))
        free = scope.value(name) is None or name in scope.passed if name.isidentifier() else False
        same = alike.get(name, name)
        there = sizes.get(same) and (free or PITCH.fullmatch(key))
        if name and named and key not in kept and not there:
            sizes[same] = sizes[name] = add(key)
        elif passed[key]:
            computed.append(key)
    sizes |= {name: sizes.get(of, "") for name, of in alike.items() if not sizes.get(name)}
    expressions, loose = dict[str, str](), list[str]()
    for key in computed:
        names = scope.names(passed[key])
        depends = any(sizes.get(name) for name in names)
        for name in (name for name, free in names.items() if free):
            sizes[name] = sizes.get(name) or (add(name) if depends else "")
        with contextlib.suppress(Unknown):
            text = of_tokens(passed[key], scope, {name: of for name, of in sizes.items() if of})
            if names_in(text) or key in kept or (text.isdigit() and int(text) <= SMALLEST):
                expressions[key] = text
        unsized = not (depends or threads.keys() & names) and any(names.values())
        if key not in expressions and not unsized:
            loose.append(key)
    grid = spelled(scope.literal(launch.grid))
    direct = () if len(launch.grid) == 1 and EXTENT.fullmatch(grid) else EXTENT.finditer(grid)
    extents = (plain(tokens(match[0]), scope) for match in direct)
    of_grid = {} if function.repeats else scope.names(launch.grid)
    names = of_grid | scope.names(launch.shared) | dict.fromkeys(extents, True)
    nodes = zip(function.tree, launch.arguments)
    structs = (scope.given.get(spelled(of), ()) for node, of in nodes if isinstance(node, tuple))
    member = "|".join(rf"\b{re.escape(spelled(of))} \. \w" for of in structs if of) or "(?!)"
    for name, free in names.items():
        given = scope.caller.literal(scope.given.get(name, ())) if scope.caller else ()
        if free and name not in sizes and not re.search(member, spelled(given)):
            sizes[name] = add(name)
    return expressions, loose, {name: of for name, of in sizes.items() if of}


def _alike(scope: Scope) -> dict[str, str]:
    """Return the names that equal another one, because the host ends before the position where they differ."""
    alike, text = dict[str, str](), spelled([token for token in scope.body if token.at < scope.at])
    pairs = [pair for test in ENDS.findall(text) for pair in DIFFER.findall(test)]
    for first, second in (*pairs, *ASSERTED.findall(text)):
        alike[second] = alike.get(first, first)
    return alike


def _line(argument: Tokens, scope: Scope) -> str:
    """Return an argument, or the value of a name, which may be a number of macros and constants outside of functions."""
    value = scope.literal(argument)
    with contextlib.suppress(Unknown):
        named = any(token.word for token in value)
        return str(number(value, outside(scope.source))) if named else spelled(value)
    return spelled(value)


def room(shape: Sizes, least: int = 0, most: int = MOST) -> int:
    """Return a number of elements that is large enough for any extents at this shape."""
    product, largest = math.prod(shape.values()), max(shape.values())
    return max(product, least, min(product * max(ROOM, largest) ** 2, most))


def trials(
    dimensions: Sequence[str],
    threads: Callable[[Sizes], int] = lambda sizes: 0,
    aligned: bool = False,
    fit: Callable[[dict[str, int]], dict[str, int]] = dict,
    most: float = THREADS[0],
    times: int = 1,
    parts: Mapping[str, bool] | None = None,
) -> Iterator[dict[str, int]]:
    """Yield shapes for trials, the aligned one first or second; ``threads`` of a launch bounds the work.
    fit: makes a shape one that the launch takes; times: multiplies a kernel's only size; parts: smaller sizes, and whether they are odd."""
    odd = {name for name in dimensions if (parts or {}).get(name) or ODD.fullmatch(name)}
    windows = odd or any(name.startswith("pad") for name in dimensions)
    steps = {name for name in dimensions if windows and name.startswith("stride")}
    names = dimensions[1:] and dimensions
    small = [name for name in names if SMALL.fullmatch(name) or name in {*steps, *(parts or ())}]
    large = [name for name in dimensions if name not in small]
    yielded = list[dict[str, int]]()
    last = (LARGE[2], FEW[2]) if len(large) < 3 else (MANY, FEW[1])  # small sizes divide the others
    sets = list(zip((*LARGE[:2], last[0]), (*FEW[:2], last[1]), ALONE))
    fewest = threads(fit(dict.fromkeys(dimensions, 1)))
    for sizes, few, alone in sets[1::-1] + sets[2:] if aligned else sets:
        small_sizes = dict(zip(reversed(small), few))
        for unit in UNITS:
            large_sizes = [unit * size for size in sizes]
            if len(large) == 1 and not small:
                large_sizes = [times * alone * unit**2 // UNITS[0] ** 2]
            by_name = dict(zip(reversed(large), large_sizes)) | small_sizes
            for name in filter(PITCH.fullmatch, large):
                widest = max(large, key=lambda name: by_name.get(name, 0))
                by_name[name], by_name[widest] = by_name[widest], by_name.get(name, 2)
            shape = {name: by_name.get(name, 2) | (name in odd) for name in dimensions}
            shape |= dict.fromkeys(filter(COLOURS.fullmatch, small), 3)
            product, many = math.prod(shape.values()), threads(fit(shape))
            many = min(many, product) if many == fewest else many  # the same for each shape
            if product <= LARGEST and many <= most:
                part = 2 if shape in yielded else 1
                shape = {name: max(size // part, 1) for name, size in shape.items()}
                yielded.append(shape)
                yield fit(shape)
                break


def settled(
    derived: DerivedOperation,
    dtypes: Mapping[str, str],
    touch: Callable[[DerivedOperation, dict[str, int]], UnjudgedRun],
    shapes: Callable[[float], Iterator[dict[str, int]]],
    aligned: bool,
    roomy: bool,
    blocks: str,
    sums: Sequence[str] = (),
) -> tuple[DerivedOperation, dict[str, int], int, list[str], bool]:
    """Return the operation with the touched extents, the best shape, its number of arrays touched to their end, notes,
    and whether each shape touches each array to its end.
    roomy: an array that is touched outside of its extents at this shape has the size that was touched instead; blocks: of the
    launch, as many as an array may have elements; sums: of sizes and numbers, which may be extents as well."""
    seen: list[tuple[dict[str, int], UnjudgedRun]] = []
    first, notes = next(itertools.chain(shapes(sys.maxsize - 1), shapes(math.inf))), list[str]()
    ended, slow = list[dict[str, int]](), math.inf
    for most in THREADS:
        for shape in () if len(seen) > 1 else (of for of in shapes(most) if of not in ended):
            if 2 * math.prod(shape.values()) > slow:
                continue
            trial = touch(derived, shape)
            if not trial.fatal:
                seen.append((shape, trial))
            elif OUTSIDE.search(trial.problem):
                kind, names = trial.problem.partition(":")[0], ", ".join(derived.operands)
                notes = [f"{UNSIZED} {names} is a guess: {kind} in each trial"]
            if trial.problem.startswith(TIMED_OUT):
                slow = math.prod(shape.values())
                break
            ended += [shape] * trial.fatal
    if not seen:
        sole = derived.allocated if "" in derived.sizes and not derived.indices else {}
        stated = {of: int(many) for of, many in sole.items() if many.isdigit()}
        operands = {
            of: replace(operand, extents=(stated.get(of, room(first)),))
            for of, operand in derived.operands.items()
        }
        return replace(derived, operands=operands), first, -1, notes, False
    operands, exact, notes, overrun = {}, [0] * len(seen), [], set[str]()
    for name, operand in derived.operands.items():
        size = SIZES[dtypes[name]]
        touched = [trial.touched.get(name, (0, 0)) for _, trial in seen]
        ends = [tuple(-(-end // size) for end in sides) for sides in touched]
        read, written = (max(side) for side in zip(*ends))
        last = [(shape, max(end)) for (shape, _), end in zip(seen, ends)]
        extents, many = _extents(derived.dimensions, last, sums), derived.allocated.get(name)
        for text in (*derived.roles.values(), blocks) if len(seen) > 1 else ():
            if names_in(text) and names_in(text) <= {*derived.dimensions}:
                exactly = all(end == int(evaluate(text, shape)) for shape, end in last)
                extents = (text,) if exactly else extents
        constant = len({end for _, end in last}) == 1 and (len(seen) > 1 or "" in derived.sizes)
        constant = constant and not (derived.indices or names_in(many or ""))
        ratios = [end / max(int(evaluate(many, shape)), 1) for shape, end in last] if many else []
        # Each trial reaches a little past what the host allocates, or some do not.
        near = bool(names_in(many or "")) and max(ratios) < NEAR
        within = bool(ratios) and (min(ratios) <= 1 or near)
        # As many elements of a wider type are more than it needs: `n * sizeof(int)` for characters.
        widths = {
            int(evaluate(many or "0", at)) * size / (end or 1)
            for at, end in last
            if within and many
        }
        spare = len(widths) == 1 and widths <= {4, 8} - {size}
        if many and not spare and (names_in(many) if within else constant):
            extents = (many if within else int(many),)
            overrun |= {name} if within and min(ratios) > 1 and not derived.indices else set()
        for at, ((shape, _), end) in enumerate(zip(seen, ends)):
            exact[at] += max(end) == math.prod(Operand(extents).sizes(shape))
        stream = operand.stream if not written or read else None
        if not written and stream is None:  # another kernel fills what the host sets to zeros
            stream = len(operands)
        operands[name] = Operand(extents, stream, bool(written), operand.zeroed and bool(written))
    inputs = [name for name in derived.indices if operands[name].stream is not None]
    indices = tuple(name for name in inputs if not operands[name].written)
    best = 0 if aligned else max(range(len(seen)), key=lambda at: (exact[at], -at))
    shape, trial = seen[best]
    for name, operand in operands.items() if roomy else ():
        reached = -(-max(trial.touched.get(name, (0, 0))) // SIZES[dtypes[name]])
        if reached > math.prod(operand.sizes(shape)) and not derived.states(name, operand):
            operands[name] = replace(operand, extents=(reached,))
            notes.append(f"{UNSIZED} {name} could not be found out: {reached} elements are touched")
    sure = len(seen) > 1 and min(exact) == len(operands)
    derived = replace(derived, operands=operands, indices=indices, overrun=overrun)
    return derived, shape, exact[best], notes, sure


def sums_of(function: Function, sizes: Mapping[str, str]) -> list[str]:
    """Return the sums of a size and a number in a kernel's code, those that are the length of a row if there are any."""
    for pattern in (ROW, SUM):
        matches = (of.groups() for of in pattern.finditer(function.text))
        if sums := [f"{sizes[of]} + {many}" for of, many in matches if of in sizes]:
            return list(dict.fromkeys(sums))[:2]
    return []


def parts_of(function: Function, sizes: Mapping[str, str]) -> dict[str, bool]:
    """Return the sizes by which a kernel divides a place that another size bounds, and no divisor does: ``i % channels``; and those of windows, which are odd: ``h - k + 1``."""
    dividing = {name for name in sizes if re.search(rf"[/%] {name}\b", function.text)}
    bounds = {name for name in sizes if re.search(rf"< {name}\b|> = {name}\b", function.text)}
    dividing = dividing if len(bounds) == 1 and not bounds & dividing else set()
    windows = [of for over, of in WINDOW.findall(function.text) if {over, of} <= sizes.keys()]
    return {sizes[of]: of in windows for of in (*dividing, *windows)}


def _extents(
    dimensions: Sequence[str], seen: Sequence[tuple[dict[str, int], int]], sums: Sequence[str] = ()
) -> Extents:
    """Return the product of fewest sizes and a small number that equals most ends of what was touched, or is nearest.
    sums: are taken for sizes, too, if no product is near."""
    best: tuple[float, ...] = ()
    extents: Extents = tuple(dimensions)
    ends = [max(end, 1) for _, end in seen]
    alike = not dimensions[1:] and all(shape == seen[0][0] for shape, _ in seen)
    if len(ends) > 1 and len(set(ends)) == 1 and not alike:
        return (ends[0],)
    powers = [name for name in dimensions for _ in range(2 + (len(dimensions) < 3))]
    for count in range(min(len(powers), MOST_FACTORS) + 1):
        for chosen in dict.fromkeys(itertools.combinations(powers, count)):
            products = [math.prod(shape[name] for name in chosen) for shape, _ in seen]
            ratio, *more = {end / product for product, end in zip(products, ends)}
            always = [int(ratio)] if len(seen) > 1 and not more and ratio.is_integer() else []
            for factor in (*FACTORS, *always):
                pairs = [(factor * product, end) for product, end in zip(products, ends)]
                exact = sum(size == end for size, end in pairs)
                off = sum(abs(math.log(size / end)) for size, end in pairs)
                short = -count - 1.5 * (factor > 1)
                near = all(end <= size < NEAR * end for size, end in pairs)
                close = all(size < NEAR * end and end < NEAR * size for size, end in pairs)
                score = (exact, close, short, -off) if exact else (0, near, -off, short)
                if score > best:
                    best = score
                    extents = (*chosen, factor) if factor > 1 or not chosen else chosen
    if sums and best[:2] == (0, False):
        wider = [{**shape, **{of: int(evaluate(of, shape)) for of in sums}} for shape, _ in seen]
        return _extents((*dimensions, *sums), list(zip(wider, (end for _, end in seen))))
    return extents
