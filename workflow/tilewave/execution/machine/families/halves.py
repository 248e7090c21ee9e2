"""f16 and bf16 arithmetic, two numbers in a register."""

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families import floating
from tilewave.execution.machine.form import Form


def _modifiers(form: Form) -> None:
    form.drop("MMA")  # which pipe executes it
    form.flag("FTZ", c.FTZ)
    form.flag("SAT", c.SATURATE)
    form.flag("RELU", c.RELU)
    form.drop("F16_V2")
    if form.take("BF16_V2", "BF16"):
        form.set(c.BF16)


def _kind(form: Form) -> str:
    return "bf16" if form.row[c.FLAGS] & c.BF16 else "f16"


def _pairs(form: Form, count: int) -> None:
    form.pair_sources(count, _kind(form))


def _half(form: Form, op: int, count: int) -> None:
    widened = form.take("F32") is not None
    _modifiers(form)
    if widened and (op != floating.F_ADD or form.row[c.FLAGS] & ~c.BF16):
        raise form.fail()
    form.op(c.F16, floating.F_WIDEN if widened else op)
    form.destination()
    _pairs(form, count)


def _smaller(form: Form) -> None:
    """Take two sources, of VHMNMX also three."""
    if "XORSIGN" in form.modifiers:
        floating.sizes(form, _kind(form))
        return
    _pairs(form, 2)
    if form.operands:
        form.row[c.OP] = floating.F_MINMAX3
        _pairs(form, 1)
