"""Where the elements of an array lie in memory: one behind the other, or with padding between.

Padding holds `POISON` before a launch, so that a kernel which reads it computes something wrong, and
must hold it afterwards.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

POISON = 0xFF
"""The byte that nobody has written: a NaN in f64, f32, f16 and bf16, -1 in whole numbers."""


def stride_names(operand: str, dimensions: int) -> list[str]:
    """What the strides of an operand are called, from its second dimension in memory on: the leading
    dimension ``lda``, and of a batch ``stride_a`` from matrix to matrix."""
    return [f"ld{operand}", f"stride_{operand}"][: max(dimensions - 1, 0)]


@dataclass(frozen=True)
class Placement:
    """sizes: elements along each dimension, the contiguous one first; strides: elements from one to
    the next along it, the first is 1."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(
        cls,
        operand: str,
        extents: tuple[int, ...],
        order: Literal["C", "F"],
        given: Mapping[str, int],
    ) -> Self:
        """An operand's, from the strides that are given by name; those that are not leave no gap.

        extents and order: as numpy has them.
        """
        sizes = extents[::-1] if order == "C" else extents
        names = ["", *stride_names(operand, len(sizes))]
        strides: list[int] = []
        for axis in range(len(sizes)):
            plain = strides[-1] * sizes[axis - 1] if axis else 1
            name = names[axis] if axis < len(names) else ""
            strides.append(given.get(name, plain))
        return cls(sizes, tuple(strides))

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def count(self) -> int:
        """Elements of the memory, padding and all."""
        return self.sizes[-1] * self.strides[-1] if self.sizes else 1

    def _view(self, memory: np.ndarray) -> np.ndarray:
        """The elements among their padding, the contiguous dimension last."""
        steps = [memory.itemsize * stride for stride in self.strides]
        return np.lib.stride_tricks.as_strided(memory, self.sizes[::-1], steps[::-1])

    def put(self, values: np.ndarray) -> np.ndarray:
        """Memory of this many elements that holds the values, which lie one behind the other."""
        memory = np.full(self.count * values.itemsize, POISON, np.uint8).view(values.dtype)
        view = self._view(memory)
        view[...] = values.reshape(view.shape)
        return memory

    def take(self, memory: np.ndarray) -> np.ndarray:
        """The values, one behind the other."""
        return self._view(memory).flatten()

    def overwritten(self, memory: np.ndarray) -> np.ndarray:
        """Places of the elements of padding that hold something else than before."""
        changed = (memory.view(np.uint8).reshape(-1, memory.itemsize) != POISON).any(axis=1)
        self._view(changed)[...] = False
        return np.flatnonzero(changed)
