"""Arguments of a kernel besides numbers; tensor maps are in `maps`."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Buffer:
    """A pointer argument: a C-contiguous array, which the kernel reads and writes in place.
    written: whether each word was written (uint8), also updated in place; None if all may be read."""

    name: str
    array: np.ndarray
    written: np.ndarray | None = None


@dataclass(frozen=True)
class Struct:
    """A struct by value: its size in bytes, and its members as (byte offset, argument)."""

    size: int
    members: tuple[tuple[int, Any], ...]
