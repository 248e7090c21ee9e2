"""A guess, executed: what of it holds, and for which shapes."""

import copy
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewave.commands.wrapping.guessing import STEPS, Guess
from tilewave.commands.wrapping.matching import leaves, with_leading
from tilewave.compiling import nvcc
from tilewave.compiling.nvcc import UNDEFINED
from tilewave.kernel import result
from tilewave.kernel.operations.base import Operation

Shape = dict[str, int]
Told = Mapping[str, Any]
Run = Callable[[dict[str, Any], Shape], Told]
"""Executes front matter at a shape; what `tilewave.commands.execute` tells."""
READS_C = "reads_c"
LAYOUTS = [dict.fromkeys(names, "col") for names in ("b", "a", "ab", "abc", "bc", "ac", "c")]
NEARER = 0.8
"""Times the error of the guess: with less, a change is told though the product stays wrong."""
LEAST_K, UNKNOWN_K, UNKNOWN_TILE = 16, 128, 32
FEW = 3
"""Of what each block has one."""
SEVERAL_TILES = 256
"""From it on, what a grid divides by holds several tiles, as a stride of blocks does."""


def right(told: Told) -> bool:
    """Whether nothing is wrong with it: also where nothing says what would be."""
    good = told["verdict"] in (result.CORRECT, result.NOT_CHECKED)
    return bool(told["status"] == result.OK and good)


def first_shape(guess: Guess) -> Shape:
    """Whole tiles, one to three of them a side, and sizes that differ: of equal ones any may be another."""
    operation, shape = guess.operation, Shape()
    if guess.shape:
        return shape_of(guess.shape, guess.front)
    sides = {str(side) for side in guess.front["grid"]}
    for one in operation.dimensions:
        tile = guess.tile[one]
        if one in operation.tiles[2:]:
            shape[one] = max(2 * tile, LEAST_K) if tile else UNKNOWN_K
        elif one in sides:
            shape[one] = FEW
        else:
            size = tile if tile > 1 else UNKNOWN_TILE
            shape[one] = size if size >= 64 and operation.laid_out else 2 * size
            while list(shape.values()).count(shape[one]) > 1:
                shape[one] += size
    return shape_of(shape, guess.front)


def shape_of(shape: Shape, front: Mapping[str, Any]) -> Shape:
    """The shape, with equal sizes where the front matter asks for them."""
    equal = "conditions" in front.get("requires", {})
    return dict.fromkeys(shape, max(shape.values())) if equal else shape


def settle(guess: Guess, run: Run, shape: Shape) -> tuple[dict[str, Any], Told]:
    """Front matter that is right at a shape, or the guess, and what came of it.

    Whatever the code does not say is tried: whether C is read, layouts, the order of the grid.
    """
    operation = guess.operation

    def once(front: dict[str, Any], at: Shape) -> Told:
        return run(_final(front, operation), shape_of(at, front))

    better: dict[str, Any] | None = guess.front
    while better is not None:
        front, told = better, once(better, shape)
        better = mended(front, told["reason"], guess)
    front, told = _with_c(front, told, once, shape)
    if _judged(guess, told) or told["status"] == result.FAILED_TO_COMPILE:
        return _final(front, operation), told
    nearest, words = (_final(front, operation), told), ""
    for change, what in _changes(front, guess):
        other, found = _with_c(change, once(change, shape), once, shape)
        if _judged(guess, found) or _error(found) < NEARER * _error(nearest[1]):
            nearest, words = (_final(other, operation), found), what
        if _judged(guess, found):
            break
    if words:
        guess.notes.append(
            f"it is {'right' if _judged(guess, nearest[1]) else 'less wrong'} with {words}"
        )
    return nearest


def _error(told: Told) -> float:
    """The relative error of a wrong product; infinite where there is none."""
    return float(told.get("check", {}).get("relative_error", math.inf))


def _with_c(
    front: dict[str, Any], told: Told, once: Run, shape: Shape
) -> tuple[dict[str, Any], Told]:
    """Where C was read although beta is 0: the same with that allowed."""
    if right(told) or READS_C not in told["reason"]:
        return front, told
    allowed = {**front, READS_C: True}
    return allowed, once(allowed, shape)


def mended(front: dict[str, Any], message: str, guess: Guess) -> dict[str, Any] | None:
    """Front matter with the macro or option that a message of the compiler asks for, if one is known."""
    unknown, option = UNDEFINED.search(message), nvcc.option(message)
    options = front.get("compiler", {}).get("options", [])
    if option and option not in options:
        guess.notes.append(f"the compiler gets {option}")
        return {**front, "compiler": {"options": [*options, option]}}
    macros = front.get("macros", {})
    value = guess.constant(unknown[1]) if unknown and unknown[1] not in macros else None
    if unknown is None or value is None:
        return None
    guess.notes.append(f"{unknown[1]} is defined in another file: a macro here")
    return {**front, "macros": {**macros, unknown[1]: [value]}}


def _final(front: Mapping[str, Any], operation: Operation) -> dict[str, Any]:
    """Front matter with its leading dimensions as the layouts make them."""
    made = copy.deepcopy(dict(front))
    made["arguments"] = with_leading(made["arguments"], made.get("layouts", {}), operation)
    return made


def _changes(front: Mapping[str, Any], guess: Guess) -> Iterator[tuple[dict[str, Any], str]]:
    for other in guess.others:
        keys = ("arguments", "grid", "block", "requires")
        told = [key for key in keys if other.get(key) != front.get(key)]
        words = "; ".join(f"{key} {_told(other[key])}" for key in told)
        # Another grid may write what was not written, which had seemed to be read.
        kept = {key: one for key, one in front.items() if key != READS_C or "grid" not in told}
        yield {**kept, **{key: other[key] for key in told}}, words
    for layouts in LAYOUTS if guess.operation.laid_out else ():
        words = ", ".join(f"{name} in columns" for name in layouts)
        yield {**front, "layouts": dict(layouts)}, words
    if "--grid" in guess.unknown and len(front["grid"]) == 2 and guess.operation.laid_out:
        swapped = str.maketrans("mn", "nm")
        grid = [str(one).translate(swapped) for one in front["grid"]]
        yield {**front, "grid": grid}, "the rows of C along x"
    if front["dtypes"].get("accumulate") == "f32" and front["dtypes"]["a"] == "f16":
        yield {**front, "dtypes": {**front["dtypes"], "accumulate": "f16"}}, "sums in f16"


def _told(value: Any) -> str:
    """Of front matter, for a reader."""
    if isinstance(value, dict):
        return "; ".join(map(_told, value.values()))
    return ", ".join(map(str, value))


def limits(guess: Guess, front: dict[str, Any], run: Run, shape: Shape) -> dict[str, Any]:
    """``requires``: multiples that the sizes must be, as other shapes show."""
    judged = functools.partial(_judged, guess)
    ragged = {one: size + 1 for one, size in shape.items()}
    found: dict[str, Any] = dict(front.get("requires", {}))
    if judged(run(front, ragged)):
        return found
    if "conditions" in found:
        return found | _one_limit(_named(guess, front), guess, front, run, shape)
    conditions: list[str] = []
    for one in guess.operation.dimensions:
        if len(shape) == 1 or not judged(run(front, {**shape, one: shape[one] + 1})):
            told = _one_limit(one, guess, front, run, shape)
            conditions += told.pop("conditions", [])
            found |= told
    if conditions:
        found["conditions"] = conditions
    for one in guess.operation.tiles[2:]:
        step = found.get(one, 0)
        multiples = [many * step for many in (1, 2, 3, 4) if step]
        least = next((size for size in multiples if judged(run(front, {**shape, one: size}))), step)
        if least > step:
            found["conditions"] = [f"{one} >= {least}"]
    return found


def _named(guess: Guess, front: Mapping[str, Any]) -> str:
    """The size that the kernel takes, where all must be equal."""
    return next(str(one) for one in leaves(front["arguments"]) if one in guess.operation.dimensions)


def _judged(guess: Guess, told: Told) -> bool:
    """Whether it is right, and somebody said so where there is a kernel to say it."""
    return right(told) and (guess.operation.kernel is None or told["verdict"] == result.CORRECT)


def _one_limit(
    one: str, guess: Guess, front: dict[str, Any], run: Run, shape: Shape
) -> dict[str, Any]:
    """The smallest power of two beside the tile that a size has to be a multiple of, or what is left of it where
    the size that was right is none."""
    square = "conditions" in front.get("requires", {})

    def holds(size: int) -> bool:
        return _judged(
            guess, run(front, dict.fromkeys(shape, size) if square else {**shape, one: size})
        )

    tile = guess.tile[one]
    if not guess.operation.laid_out:
        step = tile if tile > 1 else STEPS[-1]
        while step % 2 == 0 and holds(shape[one] + step // 2):
            step //= 2
        if rest := shape[one] % step:
            return {"conditions": [f"{one} % {step} == {rest}"]}
        return {one: step}
    if tile > 1:
        while tile >= SEVERAL_TILES and tile % 2 == 0 and holds(tile // 2):
            tile //= 2
        return {one: tile}
    return {one: next((step for step in STEPS if holds(3 * step)), shape[one])}
