"""Where the elements of an array lie in memory."""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass
from typing import Literal, Self

POISON = 0xFF
"""The byte that nobody has written: a NaN in f64, f32, f16 and bf16, -1 in whole numbers."""


@dataclass(frozen=True)
class Placement:
    """sizes: elements along each dimension, the contiguous one first; strides: elements from one to
    the next along it, the first is 1."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, extents: tuple[int, ...], order: Literal["C", "F"]) -> Self:
        """An array's without gaps; extents and order: as numpy has them."""
        sizes = extents[::-1] if order == "C" else extents
        steps = itertools.accumulate((1, *sizes[:-1]), operator.mul)
        return cls(sizes, tuple(steps)[: len(sizes)])

    @property
    def count(self) -> int:
        """Elements of the memory."""
        return self.sizes[-1] * self.strides[-1] if self.sizes else 1
