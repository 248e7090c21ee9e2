"""Rules that decode opcodes; the modules of `families` register them here."""

from collections.abc import Callable

from tilewave.execution.machine.form import Form
from tilewave.theory.opcodes import OPCODES

Rule = Callable[[Form], None]
"""A function that fills the row of an instruction."""
RULES: dict[str, Rule] = {}
"""Rules by opcode, of the families imported so far; `families` imports them all."""


def opcode(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for the opcodes that it decodes, which `tilewave.theory.opcodes` lists."""

    def keep(rule: Rule) -> Rule:
        for name in names:
            if name in RULES:
                raise ValueError(f"{name} is registered twice")
            if name not in OPCODES:
                raise ValueError(f"{name} has no row in tilewave.theory.opcodes")
            RULES[name] = rule
        return rule

    return keep
