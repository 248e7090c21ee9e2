"""Opcode families: their numbers, and the rule of each opcode. Classes and counters are in `tilewave.theory.opcodes`.
This package is plain Python without numba. Compiled modules compute the families and import their
numbers, as `tilewave.execution.machine.integer` does from `families.integer`."""

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
from tilewave.execution.machine.registry import RULES, opcode, register_steps

__all__ = ["ALL", "RULES", "opcode"]

ALL = (
    integer, votes, floating, halves, conversion, special, memory, copies, mbarrier, tensor, control,
)  # fmt: skip
"""All families; importing them registers their rules."""
for _family in ALL:
    register_steps({**globals(), **vars(_family)})
