"""Rules that decode opcodes: functions that the modules of `families` register here, and sequences of steps (registry.yaml)."""

from collections.abc import Callable, Mapping
from typing import Any

from tilewave.basics.tables import table_beside
from tilewave.execution.machine import codes
from tilewave.execution.machine.form import Form
from tilewave.theory.opcodes import OPCODES

Rule = Callable[[Form], None]
"""A function that fills the row of an instruction."""
RULES: dict[str, Rule] = {}
"""Rules by opcode, of the families imported so far; `families` imports them all."""
STEPS: Mapping[str, Mapping[str, str]] = table_beside(__file__)
OF_MODIFIERS = ("drop", "need", "choose", "wide")
"""Steps whose arguments are names, also those that look like numbers."""


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


def register_steps(family: Mapping[str, Any]) -> None:
    """Register the rules of registry.yaml for a family, a module's names."""
    numbers = {**vars(codes), **family}
    for names, text in STEPS.get(family["__name__"].rpartition(".")[2], {}).items():
        opcode(*names.split())(_in_steps([step.split() for step in text.split(";")], numbers))


def _in_steps(steps: list[list[str]], names: Mapping[str, Any]) -> Rule:
    calls: list[tuple[Callable[..., Any], list[Any]]] = []
    for name, *texts in steps:
        arguments = [names[text[1:]] if text[0] == "." else text for text in texts]
        if name not in OF_MODIFIERS:
            arguments = [
                int(of) if isinstance(of, str) and of.isdigit() else of for of in arguments
            ]
        calls.append((names[name] if name[0] == "_" else getattr(Form, name), arguments))

    def rule(form: Form) -> None:
        for call, arguments in calls:
            call(form, *arguments)

    return rule
