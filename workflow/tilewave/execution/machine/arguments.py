"""Arguments of a kernel besides numbers; tensor maps are in `maps`."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Buffer:
    """A pointer argument: a C-contiguous array, which the kernel reads and writes in place."""

    name: str
    array: np.ndarray


@dataclass(frozen=True)
class Struct:
    """A struct by value: its size in bytes, and its members as (byte offset, argument)."""

    size: int
    members: tuple[tuple[int, Any], ...]
