"""What a launch hands to a kernel besides numbers; tensor maps are in `maps`."""

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
    """A struct by value: its bytes, and its members, each an argument at so many bytes from the start."""

    size: int
    members: tuple[tuple[int, Any], ...]
