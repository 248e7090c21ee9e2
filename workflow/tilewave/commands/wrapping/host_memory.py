"""What the host does with the arrays of a launch: their sizes, and what it sets before."""

import contextlib
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping.arithmetic import SIDES, Unknown, number, of_tokens, plain
from tilewave.commands.wrapping.reading import Function, Launch, signature
from tilewave.commands.wrapping.scopes import Scope, parts, spelled
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Tokens
from tilewave.kernel.expressions import ExpressionError, evaluate, names_in

SIZEOF = re.compile(r" \* sizeof \( [\w ]+ \)|sizeof \( [\w ]+ \) \* ")
TABLES = table_beside(__file__)
SAMPLES, MOST_DRAWN = 8, 1 << 12
CALLED = re.compile(r"\w \(")
APART = "apart, but the launch in"


def _calls(around: Scope, pointer: str) -> Iterator[tuple[str, list[Tokens], Scope]]:
    """Yield CUDA's functions that get a pointer first, before a position: name, arguments, scope."""
    body, source = around.body, around.source
    for i, token in enumerate(body[:-1]):
        if token.text.startswith("cudaM") and body[i + 1].text == "(" and token.at < around.at:
            passed = parts(body[i + 2 : syntax.closing(body, i + 1)]) or [()]
            if pointer and [of.text for of in passed[0] if of.word][-1:] == [pointer]:
                yield token.text, passed, Scope(source, body, token.at)


def elements(launch: Launch, argument: Tokens, size: int, names: Mapping[str, str]) -> str:
    """Return how many elements the host allocates for an argument, in sizes; empty if unknown. size: bytes of one, or 0."""
    pointer, around = spelled(argument), launch.scope
    names = {**around.compared, **names}
    if around.caller and pointer in around.given and not [*_calls(around, pointer)]:
        given = [(plain(value, around.caller), names.get(of)) for of, value in around.given.items()]
        pointer, around = spelled(around.given[pointer]), around.caller
        # What the caller passes as two sizes may be either.
        names = {
            text: of
            for text, of in given
            if of and {size for name, size in given if name == text} == {of}
        }
    tensor, counts = re.match(r"(\w+) \. (?:mutable_)?data_ptr\b", pointer), set[str]()
    before = spelled([token for token in around.body if token.at < around.at]) if tensor else ""
    if tensor and (shaped := re.search(TABLES["shaped"].format(tensor[1]), before)):
        with contextlib.suppress(Unknown):
            sides = [of_tokens(of, around, names) for of in parts(syntax.tokens(shaped[1]))]
            return " * ".join(side if side.isalnum() else f"({side})" for side in sides)
    for name, passed, scope in _calls(around, pointer):
        if name.startswith("cudaMalloc") and passed[1:]:
            written = (passed[1], scope.literal(scope.literal(passed[1])))
            many = (_many(spelled(of), scope, size, names) for of in written)
            counts.add(next(filter(None, many), ""))
    return counts.pop() if len(counts) == 1 else ""


def _many(text: str, scope: Scope, size: int, names: Mapping[str, str]) -> str:
    """Return the elements of an allocation of so many bytes; empty if unknown."""
    of_type, each, whole = SIZEOF.search(text), size, text
    with contextlib.suppress(Unknown):
        each = number(syntax.tokens(of_type[0].strip(" *")), scope) if of_type else size
    if each == size or not size:  # bytes of another type stay bytes
        text = SIZEOF.sub("", text, count=1)
    if not size and text == whole:
        return ""
    try:
        many = of_tokens(syntax.tokens(text), scope, names)
    except Unknown:
        return ""
    return f"({many}) // {size}" if text == whole and size > 1 else many


def _values(value: Tokens, scope: Scope, names: Mapping[str, str]) -> list[int]:
    """Return the values of an expression for some values of the names in it. Raises Unknown."""
    try:
        text = of_tokens(value, scope, names)
        names_of = names_in(text)
        draws = ({of: random.Random(f"{of} {at}") for of in names_of} for at in range(SAMPLES))
        sizes = ({of: draw.choice(SIDES) for of, draw in draws_of.items()} for draws_of in draws)
        return [int(evaluate(text, sizes_of)) for sizes_of in sizes]
    except Unknown as error:
        if not str(error).isidentifier() or str(error) in names:
            raise
        return _values(value, scope, {**names, str(error): str(error)})
    except (ExpressionError, TypeError, ValueError) as error:  # col is no number
        raise Unknown(spelled(value)) from error


def padded(function: Function, launch: Launch, arguments: Iterable[Any]) -> dict[str, int]:
    """Return the multiples to which the host rounds sizes up before it passes them, by argument."""
    multiples = dict[str, int]()
    for value, argument in zip(function.launch_arguments(launch.arguments), arguments):
        with contextlib.suppress(Unknown):
            several = _values(value, launch.scope, {}) if value else []
            if len({*several}) > 2 and math.gcd(*several) > 1:
                multiples[str(argument)] = math.gcd(*several)
    return multiples


def drawn(launch: Launch, argument: Tokens) -> tuple[int, int] | None:
    """Return the least value and the number of values with which the host fills an array of whole numbers, as `rand() % 10 - 5`;
    None if it has no such bound, or if the bound is a size of the launch."""
    around, given = launch.scope, launch.scope.given if launch.scope.caller else {}
    passed = {token.text for of in (*launch.arguments, *given.values()) for token in of}
    calls = _calls(around, spelled(argument))
    copied = [of[1] for called, of, _ in calls if called.startswith("cudaMemcpy") and of[1:]]
    places = [(_name(of), around) for of in (argument, *copied)]
    places += [(_name(given[of]), around.caller or around) for of, _ in places if of in given]
    values = [value for name, scope in places if name for value in _filled(name, scope)]
    matches = [(re.fullmatch(TABLES["drawn"], text), scope) for text, scope in values]
    ends = list[tuple[int, int]]()
    for match, scope in matches:
        try:
            if match is None or match["count"] in passed:
                return None
            count = number(syntax.tokens(match["count"]), scope) + (match["sign"] == "&")
            first = number(syntax.tokens(f"0 {match['first'] or ''}"), scope)
        except Unknown:
            return None
        ends.append((first, first + count))
    first, end = min(ends, default=(0, 0))[0], max((end for _, end in ends), default=0)
    return (first, end - first) if 1 < end - first <= MOST_DRAWN else None


def _name(argument: Tokens) -> str:
    return next((token.text for token in argument if token.word), "")


def _filled(name: str, scope: Scope, inside: bool = False) -> Iterator[tuple[str, Scope]]:
    """Yield the values that the host gives an array's elements, and where, also in a function that it passes the array to."""
    text = spelled(scope.body)
    yield from ((of, scope) for of in re.findall(TABLES["value"].format(re.escape(name)), text))
    calls = re.findall(TABLES["called"].format(re.escape(name)), text)
    for called, passed in () if inside else calls:
        parts_of = passed.split(" , ")
        at = next((i for i, of in enumerate(parts_of) if name in of.split()), len(parts_of))
        for path, item in scope.source.declarations(called):
            taken = signature(path, item).parameters if item.name == called and item.body else ()
            if at < len(taken):
                yield from _filled(taken[at].name, Scope(scope.source, item.body, item.end), True)


def together(function: Function, launch: Launch) -> Iterator[str]:
    """Yield which two arrays are one in a launch; in trials they are apart, so no race between them is seen."""
    names = dict[str, str]()
    for at, argument in zip(function.tree, launch.arguments):
        if isinstance(at, int) and function.parameters[at].stars:
            item, array = function.parameters[at].name, spelled(argument)
            if other := array.isidentifier() and names.get(array):
                yield f"trials keep {other} and {item} {APART} {launch.place} passes {array} for both"
            names[array] = item


def faults(function: Function, launch: Launch) -> Iterator[str]:
    """Yield what is wrong with the memory that a launch passes to a kernel: not the device's, or not set."""
    for at, argument in zip(function.tree, launch.arguments):
        name = spelled(argument)
        if (
            any(of == "cudaMalloc" for of, _, _ in _calls(launch.scope, name.removeprefix("* ")))
            and "*" in name
        ):
            text = f"the launch in {launch.place} reads {name.replace(' ', '')} on the host"
            yield f"{text}, but it lies on the device"
        adds = isinstance(at, int) and function.adds(function.parameters[at].name)
        calls = list(_calls(launch.scope, name)) if adds else []
        (allocation, *filled) = calls or [("", [()], launch.scope)]
        if allocation[0] != "cudaMalloc" or any(of != "cudaMemset" for of, _, _ in filled):
            continue
        first, last = allocation[2].at, launch.scope.at
        mentions = [of.text for of in launch.scope.body if first < of.at < last]
        pointer = re.escape(function.parameters[at].name) if adds else ""
        stores = re.search(rf"(?:\* {pointer}|\b{pointer} \[ [^;=]* \]) = ", function.text)
        if not filled and mentions.count(name) == 1 and not stores:
            yield f"nothing sets {name} before the launch in {launch.place}, and the kernel adds to it"
        for _, passed, scope in filled[-1:]:
            sizes = [
                spelled(of).replace(" ( ", "(").replace(" )", ")")
                for of in (passed[-1], allocation[1][1])
            ]
            try:
                allocated = _values(allocation[1][1], allocation[2], {})
                ends = zip(_values(passed[-1], scope, {}), allocated)
            except Unknown:
                continue
            if all(end < size for end, size in ends):
                text = f"sets {sizes[0]} of the {sizes[1]} bytes of {name}"
                at = f"cudaMemset before the launch in {launch.place}"
                yield f"{at} {text}, to which the kernel adds"


def begun(launch: Launch, argument: Tokens) -> float | None:
    """Return what the host sets each element of an argument to before a launch, by its last call or as a tensor."""
    calls = [
        call
        for call in _calls(launch.scope, spelled(argument))
        if not call[0].startswith("cudaMalloc")
    ]
    name, passed, _ = calls[-1] if calls else ("", [], None)
    if name.startswith("cudaMemset") and spelled(passed[1]) == "0":
        return 0.0
    text = spelled([of for of in launch.scope.body if of.at < launch.scope.at])
    tensor = TABLES["tensor"].format(re.escape(_name(argument)))
    match = re.search(tensor, text) if "data_ptr" in spelled(argument) else None
    value = (match[1] or "0").rstrip("f").replace(" ", "") if match else "unknown"
    with contextlib.suppress(ValueError):
        return float(TABLES["values"].get(value, value))
    return None
