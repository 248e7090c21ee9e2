"""f16 and bf16 arithmetic, two numbers in a register."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families import floating
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.registry import opcode


def _half_kind(form: Form) -> str:
    form.drop("MMA")  # which pipe executes it
    form.flag("FTZ", c.FTZ)
    form.flag("SAT", c.SATURATE)
    form.flag("RELU", c.RELU)
    form.drop("F16_V2")
    if form.take("BF16_V2", "BF16"):
        form.set(c.BF16)
        return "bf16"
    return "f16"


def _half(form: Form, op: int, count: int) -> None:
    widened = form.take("F32") is not None
    kind = _half_kind(form)
    if widened and (op != floating.F_ADD or form.row[c.FLAGS] & ~c.BF16):
        raise form.fail()
    form.op(c.F16, floating.F_WIDEN if widened else op)
    form.destination()
    form.pair_sources(count, kind)


@opcode("HMNMX2", "VHMNMX")
def _hmnmx2(form: Form) -> None:
    form.flag("NAN", c.NAN_ABS)
    kind = _half_kind(form)
    form.op(c.F16, floating.F_MINMAX)
    form.destination()
    form.trailing_predicates()
    if "XORSIGN" in form.modifiers:
        for operand in floating.sizes(form):
            form.source(operand, kind)
        return
    form.pair_sources(2, kind)
    if form.operands:  # VHMNMX may have three
        form.row[c.OP] = floating.F_MINMAX3
        form.pair_sources(1, kind)


@opcode("HSETP2", "HSET2")
def _compared(form: Form) -> None:
    """Decode a comparison to predicates or to numbers."""
    kind = _half_kind(form)
    form.boolean()
    form.comparison()
    if form.base == "HSETP2":
        form.flag("H_AND", c.HIGH)
        form.op(c.F16, floating.F_COMPARE)
        form.predicate_pair()
    else:
        form.flag("BF", c.TO_F32)
        form.op(c.F16, floating.F_SET)
        form.destination()
    form.trailing_predicates()
    form.pair_sources(2, kind)
