"""Values of the ``__constant__`` memory that the host fills, such as a filter."""

import contextlib
import itertools
import math
import random
import re
from collections.abc import Collection, Iterator, Set

from tilewave.commands.wrapping.arithmetic import Unknown, number, outside
from tilewave.commands.wrapping.reading import Parameter, Source
from tilewave.commands.wrapping.scopes import WHOLE, Scope, spelled
from tilewave.compiling.declarations import DEVICE_KEYWORDS, tokens

MOST = 2048
"""Most numbers that are drawn; what follows is zero."""
COPIED = r"cudaMemcpyToSymbol (?:< .*? > )?\( (?:\( .*? \) )?(?:& )?{} (?:\[ 0 \] )*, (?:& )?(\w+)"
LIST = r"\b{} (?:\[ [^;{{}}]* \] )*(?:= )?\{{ ([^;]*) \}} ;"
"""The copy to a symbol, and an array with its numbers."""
SIDE = re.compile(r"\[ ([^\]]*) \]")
NUMBERS = re.compile(r"[-+\d.fFeE,]+")


def values(source: Source, names: Set[str]) -> dict[str, str]:
    """Return initialisers of the constant memory with these names: the host's numbers, else drawn ones, else empty."""
    return {
        name: _of_host(source, name) or _drawn(source, kind, sides)
        for name, kind, sides in _declared(source, names)
    }


def parameters(source: Source, names: Collection[str]) -> list[Parameter]:
    """Return constant memory as what a function takes."""
    declared = _declared(source, names)
    return [Parameter(name, kind, int("[" in sides), True) for name, kind, sides in declared]


def _declared(source: Source, names: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, type and sides of the constant memory without values."""
    marks = {name for name, macro in source.macros.items() if "__constant__" in macro.body}
    skipped = {"static", "extern", *marks, *DEVICE_KEYWORDS}
    for _, item in source.near.declarations("__constant__"):
        texts = [token.text for token in item.head]
        filled = {"__constant__", *marks} & {*texts} and not {"=", "constexpr"} & {*texts}
        for name in item.names if item.kind == "variable" and filled else ():
            kind = (of for of in texts[: texts.index(item.name)] if of not in skipped)
            rest = itertools.takewhile(lambda of: of not in ",;", texts[texts.index(name) + 1 :])
            if name in names:
                yield name, source.plain(" ".join(kind)), " ".join(rest)


def _of_host(source: Source, name: str) -> str:
    """Return the numbers that the host copies to a symbol; empty if it computes them."""
    for _, caller in source.declarations("cudaMemcpyToSymbol"):
        text = spelled(caller.body)
        copied = re.search(COPIED.format(name), text)
        listed = re.search(LIST.format(copied[1]), text) if copied else None
        if listed and NUMBERS.fullmatch(plain := re.sub(r"[ {}]", "", listed[1])):
            return plain
        if copied:
            return spelled(Scope(source, caller.body, caller.end).numbers(tokens(copied[1])))
    return ""


def _drawn(source: Source, kind: str, sides: str) -> str:
    """Return positive numbers for an array of numbers, small ones, as most filters have; empty for others."""
    words, drawn = {*kind.split()}, random.Random(0)
    with contextlib.suppress(Unknown):
        count = math.prod(number(tokens(of), outside(source)) for of in SIDE.findall(sides))
        if words <= WHOLE | {"float", "double"} and ("[" in sides or not words <= WHOLE):
            numbers = (drawn.randint(1, 9) for _ in range(min(count, MOST)))
            return ", ".join(str(of) if words <= WHOLE else f".0{of}" for of in numbers)
    return ""
