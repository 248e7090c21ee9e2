"""Shapes of a config: sizes that may be expressions over the number of SMs."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel.expressions import ExpressionError, integer
from tilewave.pipeline.config import LARGEST_SHAPE, LARGEST_SIZE, MOST_CASES, Range

DIMENSION = re.compile(r"^[1-9][0-9]*$")
LONGEST_SIZE = 200  # characters of an expression
MOST_SMS = 513
"""The number of SMs from which no GPU is assumed."""


@dataclass(frozen=True)
class Shape:
    """Dimensions in the operation's order; each a positive number or an expression over `sms`."""

    dimensions: tuple[tuple[str, int | str], ...]

    @cached_property
    def id(self) -> str:
        return "x".join(str(value).replace(" ", "") for _, value in self.dimensions)

    def resolve(self, device: Mapping[str, Any]) -> dict[str, int]:
        """Return whole numbers for the device. Raises ExpressionError for unknown names and sizes out of range."""
        resolved = {}
        for name, text in self.dimensions:
            value = integer(text, device)
            if not 1 <= value <= LARGEST_SIZE:
                raise ExpressionError(f"{name} = {text!r} is {value}, not a size from 1 to 2^40")
            resolved[name] = value
        if math.prod(resolved.values()) > LARGEST_SHAPE:
            raise ExpressionError(f"the sizes of {self.id}, multiplied, are over 2^62")
        return resolved


def refusal(where_file: object, key: str, problem: str, remedy: str) -> UserError:
    return UserError.because(where_file, f"{key}{problem}", remedy, key)


def _can_be_positive(text: str, where_file: object, key: str) -> None:
    """Refuse an expression without a positive whole value on any number of SMs."""
    problem = f"{text!r} is on no GPU a whole number from 1 to 2^40"
    for sms in (100, *range(1, MOST_SMS)):
        try:
            if 0 < integer(text, {"sms": sms}) <= LARGEST_SIZE:
                return
        except ExpressionError as error:
            problem = str(error) if sms == 100 else problem
    remedy = "Give a whole number or an expression over `sms`"
    raise refusal(where_file, key, f": {problem}", remedy)


def _dimension(value: Any, where_file: object, key: str) -> list[int | str]:
    """Return the values of one dimension: a number, an expression, a list or a range."""
    if isinstance(value, list):
        values: list[int | str] = []
        for item in value:
            values += _dimension(item, where_file, key)
            bounded(len(values), "sizes", where_file, key)
        return values
    if isinstance(value, Mapping):
        try:
            sweep = Range.model_validate(dict(value))
        except ValueError as error:
            allowed = f"{{from, to, step}} with positive numbers of at most {LARGEST_SIZE}"
            raise UserError(where_file, key, dict(value), allowed) from error
        sizes = range(sweep.start, sweep.stop + 1, sweep.step)
        bounded(len(sizes), "sizes", where_file, key)
        return list(sizes)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise UserError(where_file, key, value, "a positive whole number or an expression")
    if isinstance(value, str):
        if len(value) > LONGEST_SIZE:
            raise UserError(where_file, key, value, f"at most {LONGEST_SIZE} characters")
        if not DIMENSION.match(value.strip()):
            _can_be_positive(value, where_file, key)
            return [value.strip()]
    if not 1 <= int(value) <= LARGEST_SIZE:
        allowed = f"a positive whole number of at most {LARGEST_SIZE}"
        raise UserError(where_file, key, value, allowed)
    return [int(value)]


def bounded(count: int, unit: str, where_file: object, key: str, most: int = MOST_CASES) -> None:
    """Refuse more than a plan may hold."""
    if count > most:
        raise refusal(where_file, key, f" makes {count} {unit}", f"Ask for at most {most} {unit}")


def expand_shapes(
    entries: list[Any], dimensions: tuple[str, ...], where_file: object, key: str
) -> Iterator[Shape]:
    """Yield the shapes of a config list for these dimensions: a number or expression sets each,
    ``512x256x128`` all in order, a mapping gives each its values, whose product, in order, are the shapes."""
    for index, entry in enumerate(entries):
        item = f"{key}.{index}"
        combinations: list[tuple[int | str, ...]]
        if isinstance(entry, Mapping):
            unknown = sorted(set(entry) - set(dimensions))
            if unknown or set(dimensions) - set(entry):
                wrong = unknown[0] if unknown else sorted(entry)
                raise UserError(where_file, item, wrong, f"{', '.join(dimensions)}, each once")
            axes = [_dimension(entry[name], where_file, f"{item}.{name}") for name in dimensions]
            bounded(math.prod(map(len, axes)), "shapes", where_file, item)
            combinations = list(itertools.product(*axes))
        elif isinstance(entry, str) and re.fullmatch(r"[0-9]+(x[0-9]+)+", entry):
            parts = entry.split("x")
            if len(parts) != len(dimensions):
                allowed = "x".join(dimensions)
                raise UserError(where_file, item, entry, f"{len(dimensions)} sizes as {allowed}")
            combinations = [tuple(_dimension(part, where_file, item)[0] for part in parts)]
        else:
            sizes = _dimension(entry, where_file, item)
            combinations = [(size,) * len(dimensions) for size in sizes]
        for values in combinations:
            numbers = [value for value in values if isinstance(value, int)]
            if math.prod(numbers) > LARGEST_SHAPE:
                text = "x".join(map(str, values))
                raise UserError(where_file, item, text, "sizes of at most 2^62, multiplied")
            yield Shape(tuple(zip(dimensions, values)))
