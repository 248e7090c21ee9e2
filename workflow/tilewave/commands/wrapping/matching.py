"""The array, size or scalar that each parameter of a kernel is, by its name, type and position."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilewave.basics.tables import table_beside
from tilewave.commands.wrapping.reading import Function, Parameter, Source
from tilewave.commands.wrapping.scopes import WHOLE
from tilewave.kernel import operations
from tilewave.kernel.operations.base import Operation

NAMES = table_beside(__file__)
NOISE, OUTPUTS, OUTER, INNER, OTHER, NEUTRAL = (
    frozenset(NAMES[key].split())
    for key in ("noise", "outputs", "outer", "inner", "other", "neutral")
)
JOINED, VECTOR, SECOND, LEADING = (
    re.compile(NAMES[key]) for key in ("joined", "vector", "second", "leading")
)
POSITIONS = {part: at for at, parts in enumerate(NAMES["inputs"]) for part in parts.split()}
"""Part of a pointer's name -> index of the input."""
SYNONYMS = {part: name for name, parts in NAMES["synonyms"].items() for part in parts.split()}
"""Part of a kernel's name -> name of the operation."""
PARTS = {("add", 3): "vector_add", ("sum", 2): "reduction"}
"""Part of a kernel's name, between underscores, and its number of arrays -> name of the operation."""
Parameters = Sequence[Parameter]
Roles = Mapping[str, str] | None
"""The array or size of each parameter of a kernel from which the operation was derived; None to guess."""
LONG = 6
"""Least letters of an operation's name that a kernel's name may have with underscores in between."""
MOST = 8
"""Most other meanings of the sizes that are tried."""


def operation_of(function: Function, source: Source) -> Operation | None:
    """Return the operation in the name of kernel or file; else matmul for three arrays or more."""
    pointers = sum(parameter.stars > 0 for parameter in function.parameters)
    named = named_operation(function, source)
    return named or (operations.load("matmul") if pointers > 2 else None)


def named_operation(function: Function, source: Source) -> Operation | None:
    """Return the operation in the name of kernel or file."""
    pointers = sum(parameter.stars > 0 for parameter in function.parameters)
    for label in (function.name, source.path.stem):
        text = _joined(label)
        if OTHER & {*text.split("_")}:
            return None
        for word, name in SYNONYMS.items():
            text = text.replace(word, name)
        for name in sorted(operations.names(), key=len, reverse=True):
            if all(word in text for word in name.split("_")):
                operation = operations.load(name)
                alone = label == function.name and in_place(function.parameters, operation)
                if len(operation.operands) == pointers or alone:
                    return operation
        for (part, count), name in PARTS.items():
            if count == pointers and part in snake(label).split("_"):
                return operations.load(name)
    return None


def _joined(label: str) -> str:
    """Return a name in snake case with each name of an operation in one piece: ``softmax`` for ``soft_max``."""
    text = snake(label)
    for name in operations.names():
        text = re.sub("_?".join(name), name, text) if len(name) >= LONG else text
    return text


def in_place(parameters: Parameters, operation: Operation) -> bool:
    """Return whether a kernel has an array less than an operation, whose output may be one of its inputs."""
    pointers = [item for item in parameters if item.stars]
    extents = [sorted(map(str, operand.extents)) for operand in operation.operands.values()]
    alike = extents.count(extents[-1]) > 1 and operation.name != "copy" if extents else False
    single = [item.constant for item in pointers].count(False) == 1
    return alike and single and len(pointers) + 1 == len(extents)


def _arrays(operation: Operation, written: bool) -> list[str]:
    return [name for name, operand in operation.operands.items() if operand.written == written]


def snake(name: str) -> str:
    """Return a name in snake case: ``norm_by_warps`` for ``normByWarps``."""
    name = re.sub(r"(?<=CUDA)(?=[A-Z][a-z])", "_", name)
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])(?!(?<=\d)D(?![a-z]))", "_", name).lower().strip("_")


def _core(name: str) -> str:
    """Return the part of a pointer's name that says which array it is."""
    core = snake(name).split("_")
    while len(core) > 1 and core[0] in NOISE:
        del core[0]
    while len(core) > 1 and core[-1] in NOISE:
        del core[-1]
    return JOINED.sub("", "".join(core))


def _role(name: str, operation: Operation) -> str:
    """Return the array that a pointer's name means; empty if none."""
    if name in operation.operands:
        return name
    owner, _, name = name.rpartition(".")
    if owner:
        return _role(name, operation) or _role(owner, operation)
    parts, word = snake(name).split("_"), _core(name)
    inputs, outputs = _arrays(operation, written=False), _arrays(operation, written=True)
    if word in operation.operands:
        return word
    if POSITIONS.get(word, len(inputs)) < len(inputs):
        return inputs[POSITIONS[word]]
    # `data_out` beside `data_in`: single letters mean nothing there.
    long = {word for word in parts if len(word) > 1}
    if outputs and (word in OUTPUTS or long & OUTPUTS):
        return outputs[0]
    return inputs[0] if len(inputs) == 1 and long & POSITIONS.keys() else ""


def _roles(pointers: Sequence[Parameter], operation: Operation) -> dict[str, str]:
    """Return the array of each pointer: by name, else the outputs are those not const, or the last."""
    roles = {pointer.name: _role(pointer.name, operation) for pointer in pointers}
    inputs, outputs = _arrays(operation, written=False), _arrays(operation, written=True)
    written = {roles[pointer.name] for pointer in pointers if not pointer.constant}
    if set(operation.operands) <= set(roles.values()) and set(outputs) <= written:
        return roles
    out = [pointer for pointer in pointers if not pointer.constant]
    last = out if len(out) == len(outputs) else list(pointers[len(pointers) - len(outputs) :])
    rest = [pointer for pointer in pointers if pointer not in last]
    if len(rest) != len(inputs) - in_place(pointers, operation) or len(last) != len(outputs):
        return {}
    names = [*inputs[: len(rest)], *outputs]
    return {pointer.name: name for pointer, name in zip([*rest, *last], names)}


def dimension(name: str, operation: Operation) -> str:
    """Return the size, leading dimension or stride that a name means; empty if none."""
    if (operation.laid_out or "." in name) and (side := _side(name, operation)):
        return side
    lower = name.rpartition(".")[2].lower()
    leading = LEADING.fullmatch(lower)
    if leading and (array := _role(leading["of"], operation)):
        return f"{leading['what']}{array}"
    match = re.fullmatch(NAMES["dimension"].format("|".join(operation.dimensions)), lower)
    return match["size"] if match else usual(operation).get(lower, "")


def _side(name: str, operation: Operation) -> str:
    """Return the size that is the rows or the columns of the array in a name; empty if it is none."""
    owner, _, member = name.rpartition(".")
    text = f"{_role(owner, operation)}.{member}" if owner else name
    match = next(filter(None, (re.fullmatch(form, text.lower()) for form in NAMES["sides"])), None)
    arrays, of = dict(zip("123", operation.operands)), match["of"][-1] if match else ""
    array, side = arrays.get(of, of), match["side"] if match else ""
    if array not in operation.operands:
        return ""
    if side in ("ld", "stride", "pitch"):
        return f"ld{array}"
    return str(operation.operands[array].extents[-2 if side[0] in "rh" else -1])


def usual(operation: Operation) -> dict[str, str]:
    """Return other names for the sizes of an operation with rows and columns."""
    name = "c" if operation.laid_out else next(iter(operation.operands), "")
    extents = operation.operands[name].extents if name else ()
    if len(operation.dimensions) != 2 + operation.laid_out or len(extents) != 2:
        return {}
    return dict.fromkeys(OUTER, str(extents[0])) | dict.fromkeys(INNER, str(extents[1]))


def of_vector(function: Function, operation: Operation) -> bool:
    """Return whether a product is one with a vector, by the name of the kernel or of its second array."""
    arrays = [item.name for item in function.parameters if item.stars]
    numbers = [item for item in function.parameters if not item.stars and item.type in WHOLE]
    second = _core(arrays[1]) if len(arrays) == 3 and len(numbers) <= 2 else ""
    matrix = second and re.search(rf"\b{arrays[1]} \[[^;\]]*\*", function.text)
    named = VECTOR.search(function.name) or (SECOND.fullmatch(second) and not matrix)
    return operation.name == "matmul" and bool(named)


def innermost(operation: Operation) -> str:
    """Return the dimension along which the output, or else the input, is contiguous; empty if none."""
    named = [*_arrays(operation, written=True), *_arrays(operation, written=False)]
    last = (size for name in named for size in operation.operands[name].extents[-1:])
    return next((size for size in last if size in operation.dimensions), "")


def _sizes(parameters: Parameters, operation: Operation) -> dict[str, str]:
    sizes = {parameter.name: dimension(parameter.name, operation) for parameter in parameters}
    if len(parameters) == 1 and (operation.laid_out or not any(sizes.values())):
        return {parameters[0].name: innermost(operation)}
    names = operation.dimensions
    plain = set(sizes.values()) <= {*names, ""}
    if plain and len(parameters) == len(names) and set(sizes.values()) != set(names):
        return dict(zip(sizes, names))
    return sizes


def _meanings(parameters: Parameters, operation: Operation) -> dict[str, str]:
    """Return the array, size or scalar of each parameter; empty or missing if unknown."""
    roles = _roles([parameter for parameter in parameters if parameter.stars], operation)
    numbers = [parameter for parameter in parameters if not parameter.stars]
    names, all_scalars = [number.name for number in numbers], operation.scalars
    scalars = {name: scalar for name in names for scalar in all_scalars if scalar in name.lower()}
    numbers = [number for number in numbers if number.name not in scalars]
    integers = [number for number in numbers if set(number.type.split()) <= WHOLE]
    reals = [number.name for number in numbers if number not in integers]
    if not scalars and len(reals) == len(all_scalars):
        scalars = dict(zip(reals, all_scalars))
    return {**roles, **_sizes(integers, operation), **scalars}


def unassigned(parameters: Parameters, arguments: Sequence[Any]) -> list[str]:
    return [item.name for item, argument in zip(parameters, arguments) if argument is None]


def arguments_of(parameters: Parameters, operation: Operation, roles: Roles = None) -> list[Any]:
    """Return the argument of each parameter, None if unknown."""
    roles = _meanings(parameters, operation) if roles is None else roles
    return [roles.get(parameter.name) or None for parameter in parameters]


def with_leading(
    arguments: list[Any], layouts: Mapping[str, str], operation: Operation
) -> list[Any]:
    """Replace each leading dimension and stride by its size in these layouts."""
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


def indexed(
    function: Function, arguments: Sequence[Any], operation: Operation, sizes: Sequence[str]
) -> dict[str, str]:
    """Return the sizes that the code's index expressions name: ``a[row * N + i]`` has rows of N; empty if ambiguous."""
    text, by_name = function.text, dict[str, str]()
    for pointer, argument in zip(function.parameters, arguments):
        extents = operation.operands[argument].extents if argument in operation.operands else ()
        for index in re.findall(rf"\b{pointer.name} \[ ([^;\]]*)", text):
            for factor in re.findall(r"(?<=\* )\w+|\w+(?= \*)", index):
                if factor in sizes and extents[-1:] and extents[-1] in operation.dimensions:
                    by_name.setdefault(factor, str(extents[-1]))
    return by_name if len({*by_name.values()}) == len(by_name) else {}


def _by_index(function: Function, arguments: list[Any], operation: Operation) -> list[Any]:
    """Return the arguments with the sizes that the code's index expressions name, or as they are."""
    pairs, names = list(zip(function.parameters, arguments)), operation.dimensions
    sizes = [item.name for item, of in pairs if of in names]
    by_name = indexed(function, arguments, operation, sizes)
    if not by_name or len(sizes) != len(names):
        return arguments
    rest = iter([size for size in names if size not in by_name.values()])
    by_name |= {name: next(rest) for name in sizes if name not in by_name}
    return [by_name.get(item.name, of) for item, of in pairs]


def alternatives(
    function: Function, arguments: list[Any], operation: Operation
) -> Iterator[list[Any]]:
    """Yield the arguments with other meanings of the sizes that no name decides."""
    parameters = function.parameters
    names = operation.dimensions
    if (by_index := _by_index(function, arguments, operation)) != arguments:
        yield by_index
    if {"m", "n"} <= {*arguments}:
        swapped = {"m": "n", "n": "m"}  # N rows and M columns
        yield [swapped.get(argument, argument) for argument in arguments]
    positions = [i for i, argument in enumerate(arguments) if argument in names]
    plain_name = re.compile(NAMES["dimension"].format("|".join(names)))
    labels = [parameters[i].name.lower() for i in positions]
    if operation.laid_out or all(map(plain_name.fullmatch, labels)):
        return
    meanings: Iterable[Sequence[Any]] = itertools.permutations(arguments[i] for i in positions)
    if len(positions) == 1:
        meanings = [(name,) for name in (*names, " * ".join(names))]
    for meaning in itertools.islice(meanings, MOST):
        changed = list(arguments)
        for position, argument in zip(positions, meaning):
            changed[position] = argument
        if changed != list(arguments):
            yield changed


def leaves(arguments: Any) -> Iterator[str]:
    if isinstance(arguments, list | dict):
        for member in arguments.values() if isinstance(arguments, dict) else arguments:
            yield from leaves(member)
    else:
        yield str(arguments)
