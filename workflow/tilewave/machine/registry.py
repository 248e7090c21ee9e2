"""What is known of each opcode: the rule that decodes it, its class, what counters ask about it.

The modules of `tilewave.machine.families` register theirs here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tilewave.machine.form import Form

Kind = Literal[
    "tensor", "f32", "f64", "f16, bf16", "special function", "conversion", "integer and logic",
    "move and predicate", "shared memory", "asynchronous copy", "global memory", "local memory",
    "constant memory", "barrier", "control",
]  # fmt: skip
"""The class of an opcode in the tables."""
Trait = Literal[
    "shared load", "shared store", "shared", "global load", "global store", "global", "alu",
    "uncounted", "no product", "asynchronous",
]  # fmt: skip
"""What counters ask about an opcode, see `tilewave.execution.opcodes`."""
Rule = Callable[[Form], None]


@dataclass(frozen=True)
class Opcode:
    """What is known of an opcode by its name, the part before the first dot.

    rule: fills the row of an instruction, None where it cannot be executed; counter: the op of ncu's
    `smsp__sass_thread_inst_executed_op_<op>_pred_on.sum`.
    """

    name: str
    kind: Kind
    rule: Rule | None
    counter: str = ""
    traits: tuple[Trait, ...] = ()


OPCODES: dict[str, Opcode] = {}
"""By name, of the families imported so far; `tilewave.machine.families` has them all."""


def opcode(
    *names: str, kind: Kind, counter: str = "", traits: Sequence[Trait] = ()
) -> Callable[[Rule], Rule]:
    """Decorator of a rule: register the opcodes that it decodes."""

    def keep(rule: Rule) -> Rule:
        for name in names:
            _register(Opcode(name, kind, rule, counter, tuple(traits)))
        return rule

    return keep


def not_executed(names: str, kind: Kind, counter: str = "", traits: Sequence[Trait] = ()) -> None:
    """Register opcodes, separated by spaces, that are counted where a GPU executes them and no more."""
    for name in names.split():
        _register(Opcode(name, kind, None, counter, tuple(traits)))


def _register(one: Opcode) -> None:
    if one.name in OPCODES:
        raise ValueError(f"{one.name} is registered twice")
    OPCODES[one.name] = one
