"""The memory of a launch in whole numbers: strides of its operands, scratch, and tensor maps over both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel.front_matter import DeclaredTensorMap, Kernel
from tilewave.kernel.launches import MapPlan, Scratch
from tilewave.kernel.operations.base import Operation
from tilewave.kernel.padding import Placement, stride_names
from tilewave.theory.dtypes import SIZES
from tilewave.theory.tensor_map_limits import L2_PROMOTIONS, SWIZZLES

Whole = Callable[[str, Any, Mapping[str, Any]], int]
"""The whole number of an expression of the front matter: its key, the expression, the names it may use."""


def strides(
    kernel: Kernel,
    operation: Operation,
    layouts: Mapping[str, str],
    shape: Mapping[str, int],
    whole: Whole,
) -> dict[str, int]:
    """Every stride of the operation's operands by name, in elements: the front matter's, which may use
    those before it, else what leaves no gap.

    Raises UserError for one that would lay elements over each other.
    """
    lengths: dict[str, int] = {}
    for operand, about in operation.operands.items():
        for axis, name in enumerate(stride_names(operand, len(about.extents)), 1):
            least = operation.placement(operand, shape, layouts, lengths).strides[axis]
            text = kernel.front.strides.get(name, least)
            lengths[name] = whole(f"strides.{name}", text, {**shape, **lengths})
            if lengths[name] < least:
                allowed = f"{least} elements at least, which lie there"
                raise UserError(kernel.path, f"strides.{name}", lengths[name], allowed)
    return lengths


def scratch(kernel: Kernel, dtypes: Mapping[str, str], whole: Whole) -> Iterator[Scratch]:
    """Buffers beside the operands, of these dtypes."""
    for name, buffer in kernel.front.buffers.items():
        size = whole(f"buffers.{name}.size", buffer.size, {})
        if size < 0:
            raise UserError(kernel.path, f"buffers.{name}.size", size, "no negative size")
        yield Scratch(name, size * SIZES[dtypes[name]], buffer.zeroed)


def tensor_maps(
    kernel: Kernel,
    placed: Mapping[str, Placement],
    dtypes: Mapping[str, str],
    whole: Whole,
) -> Iterator[MapPlan]:
    """Tensor maps of operands and scratch, which lie and have dtypes as given by name.

    Raises UserError for one that reaches beyond its memory, and for lists of other lengths than its box.
    """
    for name, declared in kernel.front.tensor_maps.items():
        yield _Wanted(kernel, f"tensor_maps.{name}", declared, whole).plan(
            name, placed[declared.of], dtypes[declared.of]
        )


class _Wanted:
    """A tensor map of front matter, about to get its numbers."""

    def __init__(self, kernel: Kernel, key: str, about: DeclaredTensorMap, whole: Whole) -> None:
        self.kernel, self.key, self.about, self.whole = kernel, key, about, whole

    def refuse(self, key: str, value: object, allowed: Any) -> UserError:
        return UserError(self.kernel.path, f"{self.key}.{key}", value, allowed)

    def numbers(self, key: str, texts: Sequence[Any], count: int) -> tuple[int, ...]:
        """So many positive numbers."""
        if len(texts) != count:
            raise self.refuse(key, list(texts), f"expressions, {count} of them")
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
            steps = self.numbers("strides", about.strides, rank - 1)
            array = Placement(array.sizes, (1, *steps))
        reach = 1 + sum((many - 1) * step for many, step in zip(array.sizes, array.strides))
        if reach > placed.count:
            allowed = f"an array within the {placed.count} elements of {about.of}"
            raise self.refuse("sizes", f"{array.sizes}, {reach} elements", allowed)
        every = self.numbers("element_strides", about.element_strides or [1] * rank, rank)
        return MapPlan(
            name=name,
            of=about.of,
            dtype=dtype,
            sizes=array.sizes,
            strides=tuple(step * SIZES[dtype] for step in array.strides[1:]),
            box=box,
            element_strides=every if max(every) > 1 else (),
            swizzle=self.choice("swizzle", about.swizzle, SWIZZLES),
            l2=self.choice("l2", about.l2, L2_PROMOTIONS),
        )

    def as_dimensions(self, placed: Placement, rank: int) -> Placement:
        """An array as one of so many dimensions: the outermost ones taken together, or more of 1."""
        sizes, steps = list(placed.sizes) or [1], list(placed.strides) or [1]
        while len(sizes) > rank:
            outer, step = sizes.pop(), steps.pop()
            if step != sizes[-1] * steps[-1]:
                allowed = f"{len(placed.sizes)} dimensions: there is padding between them"
                raise self.refuse("box", self.about.box, allowed)
            sizes[-1] *= outer
        while len(sizes) < rank:
            steps.append(sizes[-1] * steps[-1])
            sizes.append(1)
        return Placement(tuple(sizes), tuple(steps))
