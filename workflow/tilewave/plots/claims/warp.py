"""A warp's accesses, and the rules of what they cost."""

from __future__ import annotations

from types import ModuleType

import numpy as np

LANES = np.arange(32)


def rules() -> ModuleType:
    """`tilewave.machine.memory`, loaded when somebody asks for wavefronts: numba, which it needs, takes long to
    load."""
    from tilewave.machine import memory

    return memory
