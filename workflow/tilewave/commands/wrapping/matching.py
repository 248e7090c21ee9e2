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
    r"_?(?:size|dim|num|len|n|rows?|cols?)?_?(?P<size>{})_?(?:size|dim|len|total|global|count)?_?"
)
OUTER = frozenset("height h ny rows nrows num_rows n_rows".split())
INNER = frozenset("width w nx cols columns ncols num_cols n_cols".split())
"""Words for the rows and the columns of an array with two dimensions."""
LEADING = re.compile(r"(?P<what>ld|stride)_?(?P<of>[a-z]+)_?")
SYNONYMS = {
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
    pointers = sum(parameter.stars > 0 for parameter in function.parameters)
    for label in (function.name, source.path.stem):
        text = label.lower()
        for word, name in SYNONYMS.items():
            text = text.replace(word, name)
        for name in sorted(operations.names(), key=len, reverse=True):
            if all(word in text for word in name.split("_")):
                operation = operations.load(name)
                if len(operation.operands) == pointers:
                    return operation
    return operations.load("matmul") if pointers > 2 else None


def _arrays(operation: Operation, written: bool) -> list[str]:
    return [name for name, operand in operation.operands.items() if operand.written == written]


def snake(name: str) -> str:
    """``norm_by_warps`` of ``normByWarps``."""
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])", "_", name).lower().strip("_")


def _role(name: str, operation: Operation) -> str:
    """The array of a pointer's name; empty where it says nothing."""
    if name in operation.operands:
        return name
    parts = snake(name).split("_")
    core = list(parts)
    while len(core) > 1 and core[0] in NOISE:
        del core[0]
    while len(core) > 1 and core[-1] in NOISE:
        del core[-1]
    word = JOINED.sub("", "".join(core))
    inputs, outputs = _arrays(operation, written=False), _arrays(operation, written=True)
    if word in operation.operands:
        return word
    if POSITIONS.get(word, len(inputs)) < len(inputs):
        return inputs[POSITIONS[word]]
    # `data_out` beside `data_in`: no letter tells anything there.
    long = {word for word in parts if len(word) > 1}
    if outputs and (word in OUTPUTS or long & OUTPUTS):
        return outputs[0]
    return inputs[0] if len(inputs) == 1 and long & POSITIONS.keys() else ""


def _roles(pointers: Sequence[Parameter], operation: Operation) -> dict[str, str]:
    """Array of each pointer: by name, else the outputs are what is not const, or the last."""
    roles = {pointer.name: _role(pointer.name, operation) for pointer in pointers}
    inputs, outputs = _arrays(operation, written=False), _arrays(operation, written=True)
    written = {roles[pointer.name] for pointer in pointers if not pointer.constant}
    if set(operation.operands) <= set(roles.values()) and set(outputs) <= written:
        return roles
    out = [pointer for pointer in pointers if not pointer.constant]
    last = out if len(out) == len(outputs) else list(pointers[len(pointers) - len(outputs) :])
    rest = [pointer for pointer in pointers if pointer not in last]
    if len(rest) != len(inputs) or len(last) != len(outputs):
        return {}
    return {pointer.name: name for pointer, name in zip([*rest, *last], [*inputs, *outputs])}


def _dimension(name: str, operation: Operation) -> str:
    """The size, leading dimension or stride that a name tells; empty where it tells none."""
    lower = name.lower()
    leading = LEADING.fullmatch(lower)
    if leading and (of := _role(leading["of"], operation)):
        return f"{leading['what']}{of}"
    match = re.fullmatch(DIMENSION.format("|".join(operation.dimensions)), lower)
    return match["size"] if match else usual(operation).get(lower, "")


def usual(operation: Operation) -> dict[str, str]:
    """Other words for the sizes of an operation with two."""
    first = next(iter(operation.operands.values())).extents
    if len(operation.dimensions) != 2 or len(first) != 2:
        return {}
    return dict.fromkeys(OUTER, str(first[0])) | dict.fromkeys(INNER, str(first[1]))


def innermost(operation: Operation) -> str:
    """The dimension along which the output is contiguous, or the input of what has no dimension."""
    named = [*_arrays(operation, written=True), *_arrays(operation, written=False)]
    last = (size for name in named for size in operation.operands[name].extents[-1:])
    return next(size for size in last if isinstance(size, str))


def _sizes(parameters: Sequence[Parameter], operation: Operation) -> dict[str, str]:
    sizes = {parameter.name: _dimension(parameter.name, operation) for parameter in parameters}
    if len(parameters) == 1 and (operation.laid_out or not any(sizes.values())):
        return {parameters[0].name: innermost(operation)}
    if len(parameters) == len(operation.dimensions) and set(sizes.values()) != set(
        operation.dimensions
    ):
        return {parameter.name: size for parameter, size in zip(parameters, operation.dimensions)}
    return sizes


def arguments_of(
    parameters: Sequence[Parameter], operation: Operation, roles: Mapping[str, str] | None = None
) -> tuple[list[Any], list[str]]:
    """What each parameter is given (None where nothing tells it), and the names of those. own: what is known."""
    if roles is not None:
        values = [roles.get(parameter.name) for parameter in parameters]
        return values, [
            parameter.name for parameter, value in zip(parameters, values) if value is None
        ]
    roles = _roles([parameter for parameter in parameters if parameter.stars], operation)
    numbers = [parameter for parameter in parameters if not parameter.stars]
    scalars = {
        parameter.name: scalar
        for parameter in numbers
        for scalar in operation.scalars
        if scalar in parameter.name.lower()
    }
    numbers = [parameter for parameter in numbers if parameter.name not in scalars]
    integers = [parameter for parameter in numbers if set(parameter.type.split()) <= WHOLE]
    reals = [parameter for parameter in numbers if parameter not in integers]
    if not scalars and len(reals) == len(operation.scalars):
        scalars = dict(zip((parameter.name for parameter in reals), operation.scalars))
    meanings = {**roles, **_sizes(integers, operation), **scalars}
    values = [meanings.get(parameter.name) or None for parameter in parameters]
    return values, [parameter.name for parameter, value in zip(parameters, values) if value is None]


def with_leading(
    arguments: Sequence[Any], layouts: Mapping[str, str], operation: Operation
) -> list[Any]:
    """Arguments with each leading dimension and stride as the sizes that it is in these layouts."""
    leads: dict[str, str] = {}
    for name, operand in operation.operands.items():
        extents = [str(extent) for extent in operand.extents]
        if len(extents) > 1:
            lead = extents[-2] if layouts.get(name, "row") == "col" else extents[-1]
            leads |= {f"ld{name}": lead, f"stride{name}": lead}
        if len(extents) > 2:
            leads[f"stride{name}"] = " * ".join(extents[1:])

    def resolved(argument: Any) -> Any:
        if isinstance(argument, list):
            return [resolved(member) for member in argument]
        if isinstance(argument, dict):
            return {key: resolved(member) for key, member in argument.items()}
        return leads.get(argument, argument) if isinstance(argument, str) else argument

    return [resolved(argument) for argument in arguments]


def alternatives(
    parameters: Sequence[Parameter], arguments: Sequence[Any], operation: Operation
) -> Iterator[list[Any]]:
    """The same arguments with other meanings of sizes that no name told."""
    names = operation.dimensions
    if operation.laid_out and {"m", "n"} <= {*arguments}:
        yield [
            {"m": "n", "n": "m"}.get(argument, argument) for argument in arguments
        ]  # N rows and M columns
    positions = [i for i, argument in enumerate(arguments) if argument in names]
    plain_name = re.compile(DIMENSION.format("|".join(names)))
    if operation.laid_out or all(
        plain_name.fullmatch(parameters[i].name.lower()) for i in positions
    ):
        return
    single = [(name,) for name in (*names, " * ".join(names))]
    meanings = (
        single if len(positions) == 1 else itertools.permutations(arguments[i] for i in positions)
    )
    for meaning in itertools.islice(meanings, MOST):
        changed = list(arguments)
        for position, argument in zip(positions, meaning):
            changed[position] = argument
        if changed != list(arguments):
            yield changed


def leaves(arguments: Any) -> Iterator[str]:
    """Arguments with those that are members of structs."""
    if isinstance(arguments, list | dict):
        for member in arguments.values() if isinstance(arguments, dict) else arguments:
            yield from leaves(member)
    else:
        yield str(arguments)
