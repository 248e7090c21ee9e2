"""What each family of opcodes is: its numbers, and the rule of each opcode. Classes and counters
stand in `tilewave.theory.opcodes`.

Plain Python without numba. What a family computes stands in the compiled modules,
which know its numbers: `tilewave.execution.machine.integer` those of `families.integer`.
"""

from tilewave.execution.machine.families import (
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
from tilewave.execution.machine.registry import RULES, opcode

__all__ = ["ALL", "RULES", "opcode"]

ALL = (
    integer, votes, floating, halves, conversion, special, memory, copies, mbarrier, tensor, control,
)  # fmt: skip
"""Importing them registers their rules."""
