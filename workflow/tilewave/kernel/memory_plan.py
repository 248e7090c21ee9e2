"""The memory of a launch in whole numbers: strides of operands, scratch, and tensor maps over both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel.expressions import Names, Sizes
from tilewave.kernel.front_matter import DeclaredTensorMap, Kernel
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
    """Return every stride of the operands by name, in elements: the front matter's, else one without gaps.

    A stride may use those before it. Raises UserError for one with which elements overlap.
    """
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


def tensor_maps(
    kernel: Kernel, placed: Mapping[str, Placement], dtypes: Mapping[str, str], whole: Whole
) -> Iterator[MapPlan]:
    """Yield the tensor maps of operands and scratch, whose placements and dtypes are given by name.

    Raises UserError for a map that reaches past its memory, and for lists not as long as its box.
    """
    for name, declared in kernel.front.tensor_maps.items():
        yield _MapPlanner(kernel, f"tensor_maps.{name}", declared, whole).plan(
            name, placed[declared.of], dtypes[declared.of]
        )


class _MapPlanner:
    """The conversion of a tensor map of front matter to whole numbers."""

    def __init__(self, kernel: Kernel, key: str, about: DeclaredTensorMap, whole: Whole) -> None:
        self.kernel, self.key, self.about, self.whole = kernel, key, about, whole

    def refuse(self, key: str, value: object, allowed: Any) -> UserError:
        return UserError(self.kernel.path, f"{self.key}.{key}", value, allowed)

    def numbers(self, key: str, texts: Sequence[Any], count: int) -> tuple[int, ...]:
        """Return the positive numbers of ``count`` expressions."""
        if len(texts) != count:
            raise self.refuse(key, list(texts), f"a list of {count} expressions")
        values = [self.whole(f"{self.key}.{key}", text, {}) for text in texts]
        if values and min(values) < 1:
            raise self.refuse(key, values, "positive sizes")
        return tuple(values)

    def choice(self, key: str, text: Any, allowed: Mapping[int, str]) -> int:
        value = self.whole(f"{self.key}.{key}", text, {})
        if value not in allowed:
            raise self.refuse(key, value, map(str, allowed))
        return value

    def plan(self, name: str, placed: Placement, dtype: str) -> MapPlan:
        about, rank = self.about, len(self.about.box)
        box = self.numbers("box", about.box, rank)
        if about.sizes is None:
            array = self.as_dimensions(placed, rank)
        else:
            array = Placement.of("", self.numbers("sizes", about.sizes, rank), "F", {})
        if about.strides is not None:
            array = Placement(array.sizes, (1, *self.numbers("strides", about.strides, rank - 1)))
        reach = 1 + sum((size - 1) * stride for size, stride in zip(array.sizes, array.strides))
        if reach > placed.count:
            sizes = "sizes" if about.sizes is not None else "box"
            problem = f"{self.key}.{sizes}: the map reaches over {reach} elements, but {about.of} has {placed.count}"
            remedy = "Make its sizes or strides smaller"
            raise UserError.because(self.kernel.path, problem, remedy, f"{self.key}.{sizes}")
        steps = self.numbers("element_strides", about.element_strides or [1] * rank, rank)
        return MapPlan(
            name=name,
            of=about.of,
            dtype=dtype,
            sizes=array.sizes,
            strides=tuple(step * SIZES[dtype] for step in array.strides[1:]),
            box=box,
            element_strides=steps if max(steps) > 1 else (),
            swizzle=self.choice("swizzle", about.swizzle, SWIZZLES),
            l2=self.choice("l2", about.l2, L2_PROMOTIONS),
        )

    def as_dimensions(self, placed: Placement, rank: int) -> Placement:
        """Return an array with so many dimensions: the outermost ones merged, or further ones of size 1."""
        sizes, steps = list(placed.sizes) or [1], list(placed.strides) or [1]
        while len(sizes) > rank:
            outer, step = sizes.pop(), steps.pop()
            if step != sizes[-1] * steps[-1]:
                allowed = f"{len(placed.sizes)} numbers, because padding separates the dimensions"
                raise self.refuse("box", self.about.box, allowed)
            sizes[-1] *= outer
        while len(sizes) < rank:
            steps.append(sizes[-1] * steps[-1])
            sizes.append(1)
        return Placement(tuple(sizes), tuple(steps))
