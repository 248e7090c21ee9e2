"""The placement of an array's elements in memory: without gaps, or with padding between them. Padding holds
`POISON` before a launch, so that reading it gives a wrong result, and must hold it afterwards."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

POISON = 0xFF
"""The byte of unwritten memory: a NaN in f64, f32, f16 and bf16, -1 in whole numbers."""


def unset(memory: np.ndarray) -> np.ndarray:
    """Return which elements hold what lies in memory before a launch."""
    same: np.ndarray = np.all(
        memory.view(np.uint8).reshape(memory.size, memory.itemsize) == POISON, axis=1
    )
    return same


def stride_names(operand: str, dimensions: int) -> list[str]:
    """Return the names of an operand's strides: ``lda``, and in a batch ``stride_a`` from matrix to matrix."""
    return [f"ld{operand}", f"stride_{operand}"][: max(dimensions - 1, 0)]


@dataclass(frozen=True)
class Placement:
    """sizes: elements along each dimension, the contiguous one first; strides: from one to the next, first 1."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(
        cls,
        operand: str,
        extents: tuple[int, ...],
        order: Literal["C", "F"],
        strides_by_name: Mapping[str, int],
    ) -> Self:
        """Return an operand's placement. A stride that is not given leaves no gap. extents and order: as in numpy."""
        sizes = extents[::-1] if order == "C" else extents
        names = ["", *stride_names(operand, len(sizes))]
        strides: list[int] = []
        for axis in range(len(sizes)):
            plain = strides[-1] * sizes[axis - 1] if axis else 1
            name = names[axis] if axis < len(names) else ""
            strides.append(strides_by_name.get(name, plain))
        return cls(sizes, tuple(strides))

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def count(self) -> int:
        return self.sizes[-1] * self.strides[-1] if self.sizes else 1

    def _view(self, memory: np.ndarray) -> np.ndarray:
        """Return a view of the elements without padding, the contiguous dimension last."""
        steps = [memory.itemsize * stride for stride in self.strides]
        return np.lib.stride_tricks.as_strided(memory, self.sizes[::-1], steps[::-1])

    def put(self, values: np.ndarray) -> np.ndarray:
        """Return memory that holds these values, which have no gaps, and poison between them."""
        memory = np.full(self.count * values.itemsize, POISON, np.uint8).view(values.dtype)
        view = self._view(memory)
        view[...] = values.reshape(view.shape)
        return memory

    def take(self, memory: np.ndarray) -> np.ndarray:
        return self._view(memory).flatten()

    def overwritten(self, memory: np.ndarray) -> np.ndarray:
        """Return the indices of the padding elements that were overwritten."""
        changed = (memory.view(np.uint8).reshape(-1, memory.itemsize) != POISON).any(axis=1)
        self._view(changed)[...] = False
        return np.flatnonzero(changed)
