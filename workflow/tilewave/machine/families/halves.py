"""f16 and bf16 arithmetic, two numbers in a register."""

from __future__ import annotations

from tilewave.machine import codes as c
from tilewave.machine.families.floating import (
    F_ADD,
    F_COMPARE,
    F_FMA,
    F_MINMAX,
    F_MINMAX3,
    F_MUL,
    F_SET,
    F_WIDEN,
    sizes,
)
from tilewave.machine.form import Form
from tilewave.machine.registry import not_executed, opcode


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
    if widened and (op != F_ADD or form.row[c.FLAGS] & ~c.BF16):
        raise form.fail()
    form.op(c.F16, F_WIDEN if widened else op)
    form.destination()
    for _ in range(count):
        form.pair_source(kind)


@opcode("HADD2", kind="f16, bf16", counter="hadd")
@opcode("UHADD2", kind="f16, bf16")
def _hadd2(form: Form) -> None:
    _half(form, F_ADD, 2)


@opcode("HMUL2", kind="f16, bf16", counter="hmul")
@opcode("UHMUL2", kind="f16, bf16")
def _hmul2(form: Form) -> None:
    _half(form, F_MUL, 2)


@opcode("HFMA2", kind="f16, bf16", counter="hfma")
@opcode("UHFMA2", kind="f16, bf16")
def _hfma2(form: Form) -> None:
    _half(form, F_FMA, 3)


@opcode("HMNMX2", "VHMNMX", kind="f16, bf16")
def _hmnmx2(form: Form) -> None:
    form.flag("NAN", c.NAN_ABS)
    kind = _half_kind(form)
    form.op(c.F16, F_MINMAX)
    form.destination()
    form.trailing_predicates()
    if "XORSIGN" in form.modifiers:
        for operand in sizes(form):
            form.source(operand, kind)
        return
    for _ in range(2):
        form.pair_source(kind)
    if form.operands:  # VHMNMX may have three
        form.row[c.OP] = F_MINMAX3
        form.pair_source(kind)


@opcode("HSETP2", kind="f16, bf16")
def _hsetp2(form: Form) -> None:
    kind = _half_kind(form)
    form.boolean()
    if form.take("H_AND"):
        form.set(c.HIGH)
    form.comparison()
    form.op(c.F16, F_COMPARE)
    form.predicate_pair()
    form.trailing_predicates()
    for _ in range(2):
        form.pair_source(kind)


@opcode("HSET2", kind="f16, bf16")
def _hset2(form: Form) -> None:
    kind = _half_kind(form)
    form.boolean()
    if form.take("BF"):
        form.set(c.TO_F32)
    form.comparison()
    form.op(c.F16, F_SET)
    form.destination()
    form.trailing_predicates()
    for _ in range(2):
        form.pair_source(kind)


not_executed("HADD2_32I", kind="f16, bf16", counter="hadd")
not_executed("HFMA2_32I", kind="f16, bf16", counter="hfma")
not_executed("HMUL2_32I", kind="f16, bf16", counter="hmul")
