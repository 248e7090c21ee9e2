"""Rules that decode opcodes: functions that the modules of `families` register here, and sequences of steps (registry.yaml)."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from tilewave.basics.tables import table_beside
from tilewave.execution.machine import codes
from tilewave.execution.machine.form import Form
from tilewave.theory.opcodes import OPCODES

Rule = Callable[[Form], None]
"""A function that fills the row of an instruction."""
NUMBER = re.compile(r"-?\d+$")
RULES: dict[str, Rule] = {}
"""Rules by opcode, of the families imported so far; `families` imports them all."""
STEPS: Mapping[str, Mapping[str, str]] = table_beside(__file__)
OF_MODIFIERS = ("drop", "need", "choose", "number", "wide")
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
    """Register the rules of registry.yaml for a family: its names, and the other families."""
    numbers = {**vars(codes), **family}
    for names, text in STEPS.get(family["__name__"].rpartition(".")[2], {}).items():
        rule = _in_steps([step.split() for step in text.split(";")], numbers)
        for name, *modifiers in (name.split(".") for name in names.split()):
            if modifiers:
                opcode(name)(partial(_variant, modifiers, rule, RULES.pop(name, None)))
            else:
                opcode(name)(rule)


def _variant(modifiers: list[str], rule: Rule, others: Rule | None, form: Form) -> None:
    if {*modifiers} <= {*form.modifiers}:
        for name in modifiers:
            form.take(name)
        rule(form)
    elif others is None:
        raise form.fail()
    else:
        others(form)


def _in_steps(steps: list[list[str]], names: Mapping[str, Any]) -> Rule:
    space = SimpleNamespace(**names)
    calls: list[tuple[Callable[..., Any], list[Any]]] = []
    for name, *texts in steps:
        arguments = [attrgetter(text[1:])(space) if text[0] == "." else text for text in texts]
        if name not in OF_MODIFIERS:
            arguments = [int(of) if NUMBER.match(str(of)) else of for of in arguments]
        calls.append((getattr(Form, name, None) or names[name], arguments))

    def rule(form: Form) -> None:
        for call, arguments in calls:
            call(form, *arguments)

    return rule
