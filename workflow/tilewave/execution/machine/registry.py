"""The rules that decode opcodes, which the modules of `tilewave.execution.machine.families` register here."""

from collections.abc import Callable

from tilewave.execution.machine.form import Form
from tilewave.theory.opcodes import OPCODES

Rule = Callable[[Form], None]
"""Fills the row of an instruction."""
RULES: dict[str, Rule] = {}
"""By name, of the families imported so far; `tilewave.execution.machine.families` has them all."""


def opcode(*names: str) -> Callable[[Rule], Rule]:
    """Decorator of a rule: register the opcodes that it decodes, which `tilewave.theory.opcodes` lists."""

    def keep(rule: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} is registered twice")
            if name not in OPCODES:
                raise ValueError(f"{name} has no row in tilewave.theory.opcodes")
            RULES[name] = rule
        return rule

    return keep
