"""Special functions, and special registers."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form, bits_of
from tilewave.execution.machine.operands import SassOperand
from tilewave.execution.machine.registry import opcode

# ---- MUFU
(
    M_RCP, M_RSQ, M_SQRT, M_EX2, M_LG2, M_SIN, M_COS, M_TANH, M_RCP64H, M_RSQ64H,
) = range(10)  # fmt: skip


@opcode("MUFU")
def _mufu(form: Form) -> None:
    names = ("RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH", "RCP64H", "RSQ64H")
    function = form.need(*names)
    kind = form.take("F16", "BF16") or "F32"
    form.set({"F16": c.HIGH, "BF16": c.BF16, "F32": 0}[kind])
    if kind != "F32" and function not in ("EX2", "TANH"):
        raise form.fail()
    form.op(c.MUFU, names.index(function))
    form.destination()
    operand = form.operands.pop(0)
    if function.endswith("64H") and operand.kind in ("integer", "float"):
        # The upper half of a double.
        operand = SassOperand("integer", operand.text, value=bits_of(operand.text, "f64") >> 32)
        kind = "int"
    form.source(operand, kind.lower())


def _named(form: Form) -> None:
    """Take a special register."""
    name = form.operands.pop(0)
    if name.kind != "special" or name.value not in c.SPECIAL_REGISTERS:
        raise form.fail()
    form.row[c.SUB] = c.SPECIAL_REGISTERS.index(str(name.value))
