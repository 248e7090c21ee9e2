"""Values of the ``__constant__`` memory that the host fills, such as a filter."""

import contextlib
import random
import re
from collections.abc import Set

from tilewave.commands.wrapping.arithmetic import Unknown, number, outside
from tilewave.commands.wrapping.reading import WHOLE, Scope, Source, spelled
from tilewave.compiling.declarations import DEVICE_KEYWORDS, Stream, Unreadable, closing, tokens

MOST = 2048
"""Most numbers that are drawn; what follows is zero."""
COPIED = r"cudaMemcpyToSymbol (?:< .*? > )?\( (?:\( .*? \) )?(?:& )?{} (?:\[ 0 \] )*, (?:& )?(\w+)"
LIST = r"\b{} (?:\[ [^;{{}}]* \] )*(?:= )?\{{ ([^;]*) \}} ;"
"""The copy to a symbol, and an array with its numbers."""
NUMBERS = re.compile(r"[-+\d.fFeE,]+")


def values(source: Source, names: Set[str]) -> dict[str, str]:
    """Return initialisers of the constant memory with these names: the host's numbers, else drawn ones, else empty."""
    marks = {name for name, macro in source.macros.items() if "__constant__" in macro.body}
    found = dict[str, str]()
    for _, item in source.near.declarations("__constant__"):
        name, texts = item.name, [token.text for token in item.head]
        filled = {"__constant__", *marks} & {*texts} and not {"=", "constexpr"} & {*texts}
        if item.kind == "variable" and filled and name in names:
            at = texts.index(name)
            kind = " ".join(
                of for of in texts[:at] if of not in {"static", *marks, *DEVICE_KEYWORDS}
            )
            found[name] = _of_host(source, name) or _drawn(source, kind, item.head[at + 1 :])
    return found


def _of_host(source: Source, name: str) -> str:
    """Return the numbers that the host copies to a symbol; empty if it computes them."""
    for _, caller in source.declarations("cudaMemcpyToSymbol"):
        text = spelled(caller.body)
        copied = re.search(COPIED.format(name), text)
        listed = re.search(LIST.format(copied[1]), text) if copied else None
        if listed and NUMBERS.fullmatch(plain := re.sub(r"[ {}]", "", listed[1])):
            return plain
        if copied:
            scope = Scope(source, caller.body, caller.end)
            return spelled(scope.numbers(tokens(copied[1])))
    return ""


def _drawn(source: Source, kind: str, rest: Stream) -> str:
    """Return positive numbers for an array of numbers, small ones, as most filters have; empty for others."""
    words, count, i = {*source.plain(kind).split()}, 1, 0
    with contextlib.suppress(Unknown, Unreadable):
        while rest[i].text == "[":
            end = closing(rest, i)
            count, i = count * number(rest[i + 1 : end], outside(source)), end + 1
        drawn, whole = random.Random(0), words <= WHOLE
        if words <= WHOLE | {"float", "double"} and (i or not whole):
            numbers = (drawn.randint(1, 9) for _ in range(min(count, MOST)))
            return ", ".join(str(of) if whole else f".0{of}" for of in numbers)
    return ""
