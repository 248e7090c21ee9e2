"""What the host does with the arrays of a launch: their sizes, and what it sets before."""

import random
import re
from collections.abc import Iterator, Mapping

from tilewave.commands.wrapping.arithmetic import SIDES, Unknown, of_tokens
from tilewave.commands.wrapping.reading import Launch, Scope, parts, spelled
from tilewave.compiling import declarations as syntax
from tilewave.compiling.declarations import Tokens
from tilewave.kernel.expressions import ExpressionError, evaluate, names_in

MALLOC = re.compile(r"cuda(?:Malloc|MallocManaged|MallocAsync)")
SETS = re.compile(r"cudaMem(?:set|cpy)\w*")
SAMPLES = 8
SIZEOF = re.compile(r" \* sizeof \( [\w ]+ \)|sizeof \( [\w ]+ \) \* ")


def _calls(launch: Launch, pointer: str) -> Iterator[tuple[str, list[Tokens], int]]:
    """Yield the calls of CUDA's functions before a launch whose first argument is a pointer: name, arguments, position."""
    body = launch.scope.body
    for i, token in enumerate(body[:-1]):
        if (
            token.at < launch.scope.at
            and token.text.startswith("cudaM")
            and body[i + 1].text == "("
        ):
            arguments = parts(body[i + 2 : syntax.closing(body, i + 1)])
            if arguments and [of.text for of in arguments[0] if of.word][-1:] == [pointer]:
                yield token.text, arguments, token.at


def _pointer(argument: Tokens) -> str:
    return argument[0].text if len(argument) == 1 and argument[0].word else ""


def elements(launch: Launch, argument: Tokens, size: int, names: Mapping[str, str]) -> str:
    """Return the number of elements that the host allocates for an argument, in sizes; empty if unknown."""
    for name, arguments, at in _calls(launch, _pointer(argument)):
        if MALLOC.fullmatch(name) and len(arguments) > 1:
            scope = Scope(launch.scope.source, launch.scope.body, at)
            value = arguments[1]
            while len(value) == 1 and value[0].word and (of := scope.value(value[0].text)):
                value = of
            text = SIZEOF.sub("", spelled(value), count=1)
            plain = text == spelled(value)
            try:
                translated = of_tokens(syntax.tokens(text), scope, names)
            except Unknown:
                return ""
            return f"({translated}) // {size}" if plain and size > 1 else translated
    return ""


def _bytes(value: Tokens, scope: Scope) -> list[int]:
    """Return the values of an expression for some values of the names in it. Raises Unknown."""
    names = dict[str, str]()
    while True:
        try:
            text = of_tokens(value, scope, names)
            break
        except Unknown as error:
            if not str(error).isidentifier() or str(error) in names:
                raise
            names[str(error)] = str(error)
    samples = (
        {of: random.Random(f"{of} {at}").choice(SIDES) for of in names_in(text)}
        for at in range(SAMPLES)
    )
    try:
        return [int(evaluate(text, sample)) for sample in samples]
    except (ExpressionError, TypeError) as error:
        raise Unknown(text) from error


def faults(launch: Launch, argument: Tokens, adds: bool) -> list[str]:
    """Return what is wrong with the memory of a launch's argument. adds: whether the kernel adds to what it holds."""
    star, *rest = (token.text for token in argument)
    read = rest[0] if star == "*" and len(rest) == 1 else ""
    if any(name == "cudaMalloc" for name, _, _ in _calls(launch, read)):
        return [
            f"the launch in {launch.place} reads *{read} on the host, but it lies on the device"
        ]
    pointer, scope, source = _pointer(argument), launch.scope, launch.scope.source
    calls = list(_calls(launch, pointer)) if adds and pointer else []
    made = [
        (arguments[1], at)
        for name, arguments, at in calls
        if name == "cudaMalloc" and arguments[1:]
    ]
    filled = [
        (arguments[-1], at)
        for name, arguments, at in calls
        if name == "cudaMemset" and arguments[2:]
    ]
    if len(made) != 1 or len(filled) != len(calls) - 1:
        return []
    try:
        (size, at), ends = (
            made[0],
            [_bytes(of, Scope(source, scope.body, at)) for of, at in filled[-1:]],
        )
        short = [
            end
            for end in ends
            if all(x < y for x, y in zip(end, _bytes(size, Scope(source, scope.body, at))))
        ]
    except Unknown:
        return []
    if short:
        sizes = f"{spelled(filled[-1][0])} of the {spelled(size)} bytes".replace(
            " ( ", "("
        ).replace(" )", ")")
        return [
            f"cudaMemset before the launch in {launch.place} sets {sizes} of {pointer}, to which the kernel adds"
        ]
    used = [token.text for token in scope.body if made[0][1] < token.at < scope.at].count(pointer)
    if not filled and used == 1:
        return [
            f"nothing sets {pointer} before the launch in {launch.place}, and the kernel adds to it"
        ]
    return []
