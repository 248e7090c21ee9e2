"""What each family of opcodes is: its numbers, and each opcode with its rule, its class and its counters.

Plain Python without numba, so that reports can ask. What a family computes stands in the compiled modules,
which know its numbers: `tilewave.machine.integer` those of `families.integer`.
"""

from __future__ import annotations

from tilewave.machine.families import (
    control,
    conversion,
    copies,
    floating,
    halves,
    integer,
    mbarrier,
    memory,
    special,
    tensor,
    votes,
)
from tilewave.machine.registry import OPCODES

__all__ = ["ALL", "OPCODES"]

ALL = (
    integer, votes, floating, halves, conversion, special, memory, copies, mbarrier, tensor, control,
)  # fmt: skip
"""Importing them registers their opcodes."""
