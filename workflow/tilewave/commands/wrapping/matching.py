"""What each parameter of a kernel is, among the arrays, sizes and scalars of an operation, by its name, its
type and its place."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewave.commands.wrapping.arithmetic import WHOLE
from tilewave.commands.wrapping.reading import Function, Parameter, Source
from tilewave.kernel import operations
from tilewave.kernel.operations.base import Operation

NOISE = frozenset("d g dev device gpu gmem global p ptr mat matrix in input h".split())
"""Words of a pointer's name that say nothing where another word does."""
JOINED = re.compile(r"(?:d|dev|g|mat|matrix)(?=[a-d]$)")
POSITIONS = {
    "a": 0, "lhs": 0, "left": 0, "x": 0, "in": 0, "inp": 0, "input": 0, "src": 0, "idata": 0,
    "b": 1, "rhs": 1, "right": 1,
}  # fmt: skip
"""Word -> which of the inputs."""
OUTPUTS = frozenset("c d y out output result res dst dest odata".split())
DIMENSION = (
    r"_?(?:size|dim|num|len|n|rows?|cols?)?_?(?P<one>{})_?(?:size|dim|len|total|global|count)?_?"
)
OUTER = frozenset("height h ny rows nrows num_rows n_rows".split())
INNER = frozenset("width w nx cols columns ncols num_cols n_cols".split())
"""Words for the rows and the columns of an array with two dimensions."""
LEADING = re.compile(r"(?P<what>ld|stride)_?(?P<of>[a-z]+)_?")
WORDS = {
    "gemm": "matmul",
    "bmm": "batched_matmul",
    "reduce": "reduction",
    "vecadd": "vector_add",
    "vec_add": "vector_add",
}
"""Word of a kernel's name -> what the operation is called here."""
MOST = 8
"""Other meanings of the sizes that are tried."""


def operation_of(function: Function, source: Source) -> Operation | None:
    """The operation that the names of kernel and file tell, where it has as many arrays as the kernel has
    pointers; else a product, of three arrays or more; else None."""
    pointers = sum(one.stars > 0 for one in function.parameters)
    for text in (function.name, source.path.stem):
        told = text.lower()
        for word, meant in WORDS.items():
            told = told.replace(word, meant)
        for name in sorted(operations.names(), key=len, reverse=True):
            if all(word in told for word in name.split("_")):
                found = operations.load(name)
                if len(found.operands) == pointers:
                    return found
    return operations.load("matmul") if pointers > 2 else None


def _arrays(operation: Operation, written: bool) -> list[str]:
    return [name for name, one in operation.operands.items() if one.written == written]


def snake(name: str) -> str:
    """``norm_by_warps`` of ``normByWarps``."""
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name).lower().strip("_")


def _role(name: str, operation: Operation) -> str:
    """The array of a pointer's name; empty where it says nothing."""
    if name in operation.operands:
        return name
    every = snake(name).split("_")
    words = list(every)
    while len(words) > 1 and words[0] in NOISE:
        del words[0]
    while len(words) > 1 and words[-1] in NOISE:
        del words[-1]
    word = JOINED.sub("", "".join(words))
    inputs, outputs = _arrays(operation, written=False), _arrays(operation, written=True)
    if word in operation.operands:
        return word
    if POSITIONS.get(word, len(inputs)) < len(inputs):
        return inputs[POSITIONS[word]]
    # `data_out` beside `data_in`: no letter tells anything there.
    long = {one for one in every if len(one) > 1}
    if outputs and (word in OUTPUTS or long & OUTPUTS):
        return outputs[0]
    return inputs[0] if len(inputs) == 1 and long & POSITIONS.keys() else ""


def _roles(pointers: Sequence[Parameter], operation: Operation) -> dict[str, str]:
    """Array of each pointer: by name, else the outputs are what is not const, or the last."""
    roles = {one.name: _role(one.name, operation) for one in pointers}
    inputs, outputs = _arrays(operation, written=False), _arrays(operation, written=True)
    written = {roles[one.name] for one in pointers if not one.constant}
    if set(operation.operands) <= set(roles.values()) and set(outputs) <= written:
        return roles
    out = [one for one in pointers if not one.constant]
    last = out if len(out) == len(outputs) else list(pointers[len(pointers) - len(outputs) :])
    rest = [one for one in pointers if one not in last]
    if len(rest) != len(inputs) or len(last) != len(outputs):
        return {}
    return {one.name: name for one, name in zip([*rest, *last], [*inputs, *outputs])}


def _dimension(name: str, operation: Operation) -> str:
    """The size, leading dimension or stride that a name tells; empty where it tells none."""
    lower = name.lower()
    leading = LEADING.fullmatch(lower)
    if leading and (of := _role(leading["of"], operation)):
        return f"{leading['what']}{of}"
    found = re.fullmatch(DIMENSION.format("|".join(operation.dimensions)), lower)
    return found["one"] if found else usual(operation).get(lower, "")


def usual(operation: Operation) -> dict[str, str]:
    """Other words for the sizes of an operation with two."""
    first = next(iter(operation.operands.values())).extents
    if len(operation.dimensions) != 2 or len(first) != 2:
        return {}
    return dict.fromkeys(OUTER, str(first[0])) | dict.fromkeys(INNER, str(first[1]))


def innermost(operation: Operation) -> str:
    """The dimension along which the output is contiguous, or the input of what has no dimension."""
    named = [*_arrays(operation, written=True), *_arrays(operation, written=False)]
    last = (size for one in named for size in operation.operands[one].extents[-1:])
    return next(size for size in last if isinstance(size, str))


def _sizes(whole: Sequence[Parameter], operation: Operation) -> dict[str, str]:
    sizes = {one.name: _dimension(one.name, operation) for one in whole}
    if len(whole) == 1 and (operation.laid_out or not any(sizes.values())):
        return {whole[0].name: innermost(operation)}
    if len(whole) == len(operation.dimensions) and set(sizes.values()) != set(operation.dimensions):
        return {one.name: size for one, size in zip(whole, operation.dimensions)}
    return sizes


def arguments(
    parameters: Sequence[Parameter], operation: Operation, own: Mapping[str, str] | None = None
) -> tuple[list[Any], list[str]]:
    """What each parameter is given (None where nothing tells it), and the names of those. own: what is known."""
    if own is not None:
        made = [own.get(one.name) for one in parameters]
        return made, [one.name for one, word in zip(parameters, made) if word is None]
    roles = _roles([one for one in parameters if one.stars], operation)
    plain = [one for one in parameters if not one.stars]
    scalars = {
        one.name: word for one in plain for word in operation.scalars if word in one.name.lower()
    }
    plain = [one for one in plain if one.name not in scalars]
    whole = [one for one in plain if set(one.type.split()) <= WHOLE]
    real = [one for one in plain if one not in whole]
    if not scalars and len(real) == len(operation.scalars):
        scalars = dict(zip((one.name for one in real), operation.scalars))
    known = {**roles, **_sizes(whole, operation), **scalars}
    made = [known.get(one.name) or None for one in parameters]
    return made, [one.name for one, word in zip(parameters, made) if word is None]


def with_leading(
    words: Sequence[Any], layouts: Mapping[str, str], operation: Operation
) -> list[Any]:
    """Arguments with each leading dimension and stride as the sizes that it is in these layouts."""
    leads: dict[str, str] = {}
    for name, operand in operation.operands.items():
        extents = [str(one) for one in operand.extents]
        if len(extents) > 1:
            lead = extents[-2] if layouts.get(name, "row") == "col" else extents[-1]
            leads |= {f"ld{name}": lead, f"stride{name}": lead}
        if len(extents) > 2:
            leads[f"stride{name}"] = " * ".join(extents[1:])

    def meant(word: Any) -> Any:
        if isinstance(word, list):
            return [meant(one) for one in word]
        if isinstance(word, dict):
            return {key: meant(one) for key, one in word.items()}
        return leads.get(word, word) if isinstance(word, str) else word

    return [meant(word) for word in words]


def others(
    parameters: Sequence[Parameter], words: Sequence[Any], operation: Operation
) -> Iterator[list[Any]]:
    """The same arguments with other meanings of sizes that no name told."""
    names = operation.dimensions
    if operation.laid_out and {"m", "n"} <= {*words}:
        yield [{"m": "n", "n": "m"}.get(word, word) for word in words]  # N rows and M columns
    places = [i for i, word in enumerate(words) if word in names]
    own = re.compile(DIMENSION.format("|".join(names)))
    if operation.laid_out or all(own.fullmatch(parameters[i].name.lower()) for i in places):
        return
    one = [(name,) for name in (*names, " * ".join(names))]
    meanings = one if len(places) == 1 else itertools.permutations(words[i] for i in places)
    for meant in itertools.islice(meanings, MOST):
        made = list(words)
        for place, word in zip(places, meant):
            made[place] = word
        if made != list(words):
            yield made


def leaves(words: Any) -> Iterator[str]:
    """Arguments with those that are members of structs."""
    if isinstance(words, list | dict):
        for one in words.values() if isinstance(words, dict) else words:
            yield from leaves(one)
    else:
        yield str(words)
