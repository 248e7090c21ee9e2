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
    kind = "f32"
    if form.take("F16"):
        form.set(c.HIGH)
        kind = "f16"
    elif form.take("BF16"):
        form.set(c.BF16)
        kind = "bf16"
    if kind != "f32" and function not in ("EX2", "TANH"):
        raise form.fail()
    form.op(c.MUFU, names.index(function))
    form.destination()
    operand = form.operands.pop(0)
    if function.endswith("64H") and operand.kind in ("integer", "float"):
        # The upper half of a double.
        operand = SassOperand("integer", operand.text, value=bits_of(operand.text, "f64") >> 32)
        kind = "int"
    form.source(operand, kind)


@opcode("S2R", "S2UR", "CS2R", "CS2UR")
def _s2r(form: Form) -> None:
    narrow = form.take("32") is not None
    words = 2 if form.base in ("CS2R", "CS2UR") and not narrow else 1
    form.drop("64")
    form.op(c.SPECIAL, 0)
    form.register_out(words)
    name = form.operands.pop(0)
    if name.kind != "special" or name.value not in c.SPECIAL_REGISTERS:
        raise form.fail()
    form.row[c.SUB] = c.SPECIAL_REGISTERS.index(str(name.value))
