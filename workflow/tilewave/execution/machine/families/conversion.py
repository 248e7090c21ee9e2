"""Conversions between types."""

from collections.abc import Mapping
from dataclasses import replace

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.operands import RZ, parse
from tilewave.execution.machine.registry import opcode

# ---- conversions
(
    C_F2F, C_F2I, C_I2F, C_ROUND, C_PACK, C_I2I, C_PACK_INT, C_TF32, C_TO_FP8, C_FROM_FP8,
) = range(10)  # fmt: skip


FLOAT_TYPES = {"F16": c.T_F16, "F32": c.T_F32, "F64": c.T_F64, "BF16": c.T_BF16}
INT_TYPES = {
    "U8": c.U8, "S8": c.S8, "U16": c.U16, "S16": c.S16, "U32": c.U32, "S32": c.S32,
    "U64": c.U64, "S64": c.S64,
}  # fmt: skip
ROUNDINGS = {
    "RN": c.NEAREST, "RM": c.DOWN, "RP": c.UP, "RZ": c.ZERO,
    "FLOOR": c.DOWN, "CEIL": c.UP, "TRUNC": c.ZERO, "ROUND": c.NEAREST,
}  # fmt: skip


def _types(form: Form, names: Mapping[str, int]) -> list[int]:
    """Take the types among the modifiers, in their order."""
    return [names[name] for name in form.take_all(*names)]


# SUB of a conversion: type to | type from << 8 | rounding << 16.
def _conversion(form: Form, to: int, origin: int, rounding: int = 0) -> None:
    form.row[c.SUB] = to | origin << 8 | rounding << 16


def _round_name(form: Form) -> int:
    return ROUNDINGS[form.take(*ROUNDINGS) or "RN"]


def _type(form: Form, names: Mapping[str, int], default: str) -> str:
    name = next((name for name in form.modifiers if name in names), default)
    if not name:
        raise form.fail()
    form.take(name)
    return name


def _scalar(
    form: Form, op: int, to_types: Mapping[str, int], from_types: Mapping[str, int], *defaults: str
) -> None:
    """Decode a conversion of one number: of types without a default both must be modifiers, and ``=`` is the type that it becomes."""
    rounding = _round_name(form)
    to_default, from_default = defaults or ("", "")
    to = _type(form, to_types, to_default)
    origin = _type(form, from_types, to if from_default == "=" else from_default)
    if form.row[c.FLAGS] & c.SATURATE and to != "F32":
        raise form.fail()
    _conversion(form, to_types[to], from_types[origin], rounding)
    form.op(c.CONVERT, op)
    form.destination(2 if to.endswith("64") else 1)
    operand, wide = form.operands.pop(0), origin.endswith("64")
    kind = origin.lower() if from_types is FLOAT_TYPES else "int"
    if wide and kind == "int" and operand.kind == "integer":  # its upper half, as of a double
        operand = replace(operand, value=int(operand.value) << 32)
    form.source(operand, kind, 2 if wide else 1)


def _float_to_byte(form: Form) -> None:
    rounding = _round_name(form)
    to = _types(form, {"U8": c.U8, "S8": c.S8})
    if len(to) != 1 or _types(form, FLOAT_TYPES) != [c.T_F32]:
        raise form.fail()
    _conversion(form, to[0], c.T_F32, rounding)


def _whole(form: Form, types: Mapping[str, int]) -> int:
    """Take the type that a conversion is to, which is returned, and the one that it is from: S32 by default."""
    to, *origin = _types(form, types)
    _conversion(form, to, (origin or [c.S32])[0])
    return to


@opcode("I2IP", "UI2IP")
def _i2ip(form: Form) -> None:
    form.need("SAT")
    to = _whole(form, {**INT_TYPES, "S4": c.S4, "U4": c.U4})
    form.op(c.CONVERT, C_PACK_INT)
    form.destination()
    while form.operands:
        operand = form.operands.pop(0)
        if to in (c.S4, c.U4) and operand.suffixes == ("24",):  # bits that are kept
            operand = replace(operand, suffixes=())
        form.source(operand)


FP8 = (c.T_E4M3, c.T_E5M2)


@opcode("F2FP", "UF2FP")
def _f2fp(form: Form) -> None:
    shape = form.take("PACK_AB", "PACK_AB_MERGE_C", "PACK_B", "MERGE_C", "UNPACK_B",
                      "UNPACK_B_MERGE_C")  # fmt: skip
    form.flag("RELU", c.RELU)
    form.flag("FTZ", c.FTZ)
    finite = form.take("SATFINITE") is not None
    rounding = _round_name(form)
    types = {**FLOAT_TYPES, "TF32": c.T_TF32, "E4M3": c.T_E4M3, "E5M2": c.T_E5M2}
    to, *origins = _types(form, types) or [c.T_F16]
    origin = origins[0] if origins else c.T_F32
    _conversion(form, to, origin, rounding)
    if shape is not None and shape.endswith("MERGE_C"):
        # The upper part comes from the last operand; other types than FP8 support only zeros.
        last = form.operands[-1]
        if last.kind != "register" or last.suffixes or (last.index != RZ and to not in FP8):
            raise form.fail()
        if to not in FP8:
            form.operands.pop()
    if finite != (to in FP8) or len(origins) > 1:
        raise form.fail()
    op, kinds = _narrowing(form, shape, to, origin, rounding)
    form.op(c.CONVERT, op)
    form.destination()
    if shape == "MERGE_C":
        form.operands.insert(0, parse("RZ"))
    for kind in kinds:
        form.source(form.operands.pop(0), kind)


def _narrowing(
    form: Form, shape: str | None, to: int, origin: int, rounding: int
) -> tuple[int, list[str]]:
    """Return the conversion that an F2FP is, and the kinds of its sources."""
    match to, origin, shape:
        case (c.T_F16 | c.T_BF16, c.T_F32, "PACK_AB" | "MERGE_C"):
            return C_PACK, ["f32", "f32"]
        case (c.T_TF32, c.T_F32, "PACK_B") if rounding in (c.NEAREST, c.ZERO):
            return C_TF32, ["f32"]
        case (c.T_E4M3 | c.T_E5M2, c.T_F32, "PACK_AB_MERGE_C") if rounding == c.NEAREST:
            return C_TO_FP8, ["f32", "f32", "int"]
        case (c.T_E4M3 | c.T_E5M2, c.T_F16, "UNPACK_B_MERGE_C") if rounding == c.NEAREST:
            return C_TO_FP8, ["f16", "int"]
        case (c.T_F16, c.T_E4M3 | c.T_E5M2, "UNPACK_B"):
            return C_FROM_FP8, ["int"]
    raise form.fail()
