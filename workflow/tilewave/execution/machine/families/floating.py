"""f32 and f64 arithmetic."""

from dataclasses import replace

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form

# ---- float operations (f32, f64, f16 families)
(
    F_ADD, F_MUL, F_FMA, F_MINMAX, F_COMPARE, F_CHECK, F_SET, F_WIDEN, F_MINMAX3, F_CHOOSE,
) = range(10)  # fmt: skip


def _rounding(form: Form) -> None:
    form.choose("=RN", "RM", "RP", "RZ")  # NEAREST, DOWN, UP, ZERO


def _two(form: Form, op: int, count: int) -> None:
    """Decode an operation on two f32 in a pair of registers."""
    form.flag("FTZ", c.FTZ)
    _rounding(form)
    form.set(c.PAIRS)
    form.op(c.F32, op)
    form.destination(2)
    for _ in range(count):
        operand = form.operands.pop(0)
        if operand.suffixes != ("F32x2", "HI_LO") or operand.absolute:
            raise form.fail()
        at = c.SOURCES + form.sources * c.SOURCE_COLUMNS
        form.source(replace(operand, suffixes=()), "f32", 2)
        form.row[at + c.XOR_HIGH] = form.row[at + c.XOR]


def sizes(form: Form, kind: str) -> None:
    """Take two sources; .XORSIGN compares magnitudes, and the signs still affect the result."""
    operands, form.operands = form.operands[:2], form.operands[2:]
    if form.flag("XORSIGN", c.SIGN_PRODUCT):
        if any(not o.absolute or o.negated or o.kind != "register" for o in operands):
            raise form.fail()
        operands = [replace(operand, absolute=False) for operand in operands]
    for operand in operands:
        form.source(operand, kind)


def _doubles(form: Form, count: int) -> None:
    """Add sources whose signs become flags: a NaN keeps its own sign."""
    for number in range(count):
        operand = form.operands.pop(0)
        if operand.kind in ("integer", "float"):
            form.source(operand, "f64", 2)
            continue
        if operand.absolute:
            form.set((c.INV0, c.INV1, c.INV2)[number])
        if operand.negated:
            form.set((c.NEG0, c.NEG1, c.NEG2)[number])
        form.source(replace(operand, absolute=False, negated=False), "f64", 2)
