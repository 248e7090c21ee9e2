"""The memory of a launch in whole numbers: strides of operands, scratch, and tensor maps over both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel.expressions import Names, Sizes
from tilewave.kernel.front_matter import Kernel
from tilewave.kernel.launches import MapPlan, Scratch
from tilewave.kernel.operations.base import Operation
from tilewave.kernel.padding import Placement, stride_names
from tilewave.theory.dtypes import SIZES
from tilewave.theory.tensor_map_limits import L2_PROMOTIONS, SWIZZLES

Whole = Callable[[str, Any, Names], int]
"""Evaluator of an expression of front matter to a whole number, from its key, text and names."""


def strides(
    kernel: Kernel, operation: Operation, layouts: Mapping[str, str], shape: Sizes, whole: Whole
) -> dict[str, int]:
    """Return all operands' strides in elements, by default without gaps. Raises UserError where elements overlap."""
    lengths: dict[str, int] = {}
    for operand, about in operation.operands.items():
        for axis, name in enumerate(stride_names(operand, len(about.extents)), 1):
            least = operation.placement(operand, shape, layouts, lengths).strides[axis]
            text = kernel.front.strides.get(name, least)
            lengths[name] = whole(f"strides.{name}", text, {**shape, **lengths})
            if lengths[name] < least:
                allowed = f"{least} elements at least, or elements overlap"
                raise UserError(kernel.path, f"strides.{name}", lengths[name], allowed)
    return lengths


def scratch(kernel: Kernel, dtypes: Mapping[str, str], whole: Whole) -> Iterator[Scratch]:
    """Yield the buffers beside the operands, of these dtypes."""
    for name, buffer in kernel.front.buffers.items():
        size = whole(f"buffers.{name}.size", buffer.size, {})
        if size < 0:
            raise UserError(kernel.path, f"buffers.{name}.size", size, "0 elements or more")
        yield Scratch(name, size * SIZES[dtypes[name]], buffer.zeroed)


def tensor_map(kernel: Kernel, name: str, placed: Placement, dtype: str, whole: Whole) -> MapPlan:
    """Return a tensor map in whole numbers. Raises UserError past its array's memory or for short lists."""
    about = kernel.front.tensor_maps[name]
    rank, prefix = len(about.box), f"tensor_maps.{name}"

    def refuse(key: str, value: object, allowed: Any) -> UserError:
        return UserError(kernel.path, f"{prefix}.{key}", value, allowed)

    def numbers(key: str, texts: Sequence[Any], count: int) -> tuple[int, ...]:
        if len(texts) != count:
            raise refuse(key, list(texts), f"a list of {count} expressions")
        values = [whole(f"{prefix}.{key}", text, {}) for text in texts]
        if values and min(values) < 1:
            raise refuse(key, values, "positive sizes")
        return tuple(values)

    def choice(key: str, allowed: Mapping[int, str]) -> int:
        value = whole(f"{prefix}.{key}", getattr(about, key), {})
        if value not in allowed:
            raise refuse(key, value, map(str, allowed))
        return value

    box = numbers("box", about.box, rank)
    if about.sizes is not None:
        array = Placement.of("", numbers("sizes", about.sizes, rank), "F", {})
    elif (merged := _as_dimensions(placed, rank)) is not None:
        array = merged
    else:
        allowed = f"{len(placed.sizes)} numbers, because padding separates the dimensions"
        raise refuse("box", about.box, allowed)
    if about.strides is not None:
        array = Placement(array.sizes, (1, *numbers("strides", about.strides, rank - 1)))
    reach = 1 + sum((size - 1) * stride for size, stride in zip(array.sizes, array.strides))
    if reach > placed.count:
        key = f"{prefix}.{'sizes' if about.sizes is not None else 'box'}"
        problem = f"{key}: the map reaches over {reach} elements, but {about.of} has {placed.count}"
        raise UserError.because(kernel.path, problem, "Make its sizes or strides smaller", key)
    steps = numbers("element_strides", about.element_strides or [1] * rank, rank)
    return MapPlan(
        name=name,
        of=about.of,
        dtype=dtype,
        sizes=array.sizes,
        strides=tuple(step * SIZES[dtype] for step in array.strides[1:]),
        box=box,
        element_strides=steps if max(steps) > 1 else (),
        swizzle=choice("swizzle", SWIZZLES),
        l2=choice("l2", L2_PROMOTIONS),
    )


def _as_dimensions(placed: Placement, rank: int) -> Placement | None:
    """Return an array with its dimensions merged, or more of size 1; None where padding separates two to merge."""
    sizes, steps = list(placed.sizes) or [1], list(placed.strides) or [1]
    while len(sizes) > rank:
        outer, step = sizes.pop(), steps.pop()
        if step != sizes[-1] * steps[-1]:
            return None
        sizes[-1] *= outer
    while len(sizes) < rank:
        steps.append(sizes[-1] * steps[-1])
        sizes.append(1)
    return Placement(tuple(sizes), tuple(steps))
