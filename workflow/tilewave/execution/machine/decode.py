"""Decode operands of nvdisasm to rows of numbers: each opcode by its family's rule."""

import numpy as np

from tilewave.basics.errors import Unsupported
from tilewave.execution.machine.families import RULES
from tilewave.execution.machine.form import Form, Raw

__all__ = ["Raw", "decode"]


def decode(raw: Raw) -> np.ndarray:
    """Decode one instruction to its row (int32, codes.COLUMNS).
    Raises Unsupported for an unknown opcode, modifier or operand."""
    try:
        form = Form(raw)
    except (Unsupported, ArithmeticError, ValueError) as error:
        raise Unsupported(raw.opcode, raw.address, str(error)) from None
    rule = RULES.get(form.base)
    if rule is None:
        raise Unsupported(raw.opcode, raw.address)
    try:
        rule(form)
        return form.finish()
    except (ArithmeticError, LookupError, ValueError) as error:
        raise Unsupported(raw.opcode, raw.address, f"operands {raw.operands}") from error
