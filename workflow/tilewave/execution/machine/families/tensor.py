"""Matrix products of the tensor cores, and how many operations they are."""

import re

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.operands import SassOperand
from tilewave.execution.machine.registry import opcode
from tilewave.theory.opcodes import SHAPES

# ---- warpgroup instructions (of HGMMA: type and shape in SUB as HMMA has them, columns in WIDTH; of QGMMA
# the type of B besides)
G_MULTIPLY, G_MULTIPLY_BYTES, G_MULTIPLY_FP8, G_WAIT = range(4)
# ---- of SUB of the tensor cores: HMMA adds as Ampere does; IMMA of bits; DMMA cuts
TWO_STEPS, IMMA_AND, IMMA_XOR, IMMA_NARROW, DMMA_CUT = 1 << 17, 1 << 10, 1 << 11, 1 << 12, 1 << 16
NARROW = 16 | IMMA_NARROW


FACTORS = {None: c.T_F16, "BF16": c.T_BF16, "TF32": c.T_TF32}


@opcode("HMMA")
def _hmma(form: Form) -> None:
    shape, result = form.need("16816", "1688", "1684"), form.need("F32", "F16")
    kind = form.take("BF16", "TF32")
    depth = {"16816": 16, "1688": 8, "1684": 4}[shape]
    if (depth == 16 and kind == "TF32") or (depth == 4 and kind != "TF32"):
        raise form.fail()
    # SUB: depth, type of the inputs, whether the sum is f32
    form.row[c.SUB] = depth | FACTORS[kind] << 8 | (result == "F32") << 16
    form.op(c.HMMA, 0)
    form.destination(4 if result == "F32" else 2)
    form.plain_sources(3)


@opcode("DMMA")
def _dmma(form: Form) -> None:
    shape = form.need("884", "8x8x4", "1684", "16x8x4", "1688", "16x8x8", "16816", "16x8x16")
    form.drop("RN")
    rows, _, depth = SHAPES.get(shape) or map(int, shape.split("x"))
    form.row[c.SUB] = depth | rows << 8 | (DMMA_CUT if form.take("RZ") else 0)
    form.op(c.DMMA, 0)
    form.destination(2 * rows * 8 // 32)
    form.next_sources(3)


def _signs(form: Form) -> int:
    """Take the types of bytes; return whether those of A (bit 0) and of B (bit 1) are signed."""
    kinds = form.take_all("S8", "U8")
    if len(kinds) != 2:
        raise form.fail()
    return (kinds[0] == "S8") | (kinds[1] == "S8") << 1


def _bytes(form: Form, depth: int) -> None:
    form.row[c.SUB] = depth | _signs(form) << 8


def _bits(form: Form, depth: int) -> None:
    """Take how bits are combined; they lie in registers as bytes do, eight times as many."""
    form.row[c.SUB] = depth | (IMMA_XOR if form.need("AND", "XOR") == "XOR" else IMMA_AND)
    form.need("POPC")


def _by_rows(form: Form) -> None:
    """Take three matrices of one order: A by rows, B by columns."""
    form.drop("ROW", "COL")
    for _ in range(3):
        operand = form.operands.pop(0)
        suffixes = tuple(suffix for suffix in operand.suffixes if suffix not in ("ROW", "COL"))
        form.source(SassOperand(operand.kind, operand.text, operand.index, suffixes=suffixes))


MATRICES = re.compile(r"^gdesc\[UR(?P<first>\d+)\](?P<tail>(?:\.\w+)*)$")
SHAPE = re.compile(r"^64x(?P<columns>\d+)x(?P<depth>\d+)$")
GROUP = "gsb0"
TAILS = {"tnspA": c.INV0, "tnspB": c.INV1, "negA": c.NEG0, "negB": c.NEG1}


FP8 = {"E4M3": c.T_E4M3, "E5M2": c.T_E5M2}
MULTIPLY = {"HGMMA": G_MULTIPLY, "IGMMA": G_MULTIPLY_BYTES, "QGMMA": G_MULTIPLY_FP8}


@opcode("HGMMA", "IGMMA", "QGMMA")
def _gmma(form: Form) -> None:
    shape = SHAPE.match(form.modifiers[0]) if form.modifiers else None
    if shape is None:
        raise form.fail()
    form.modifiers.pop(0)
    columns, depth = int(shape["columns"]), int(shape["depth"])
    if form.base == "IGMMA":
        if depth != 32:
            raise form.fail()
        form.row[c.SUB] = depth | _signs(form) << 8
        words = 4
    elif form.base == "QGMMA":
        sum_, *types = form.modifiers
        if depth != 32 or sum_ not in ("F32", "F16") or len(types) != 2 or not {*types} <= {*FP8}:
            raise form.fail()
        form.modifiers.clear()
        form.row[c.SUB] = depth | FP8[types[0]] << 8 | FP8[types[1]] << 20 | (sum_ == "F32") << 16
        words = 4 if sum_ == "F32" else 2
    else:
        wide = form.take("F32", "F16") == "F32"
        kind = form.take("BF16", "TF32")
        if depth != (8 if kind == "TF32" else 16):
            raise form.fail()
        form.row[c.SUB] = depth | FACTORS[kind] << 8 | wide << 16
        words = 4 if wide else 2
    if columns % 8 or not 8 <= columns <= 256:
        raise form.fail()
    form.op(c.HGMMA, MULTIPLY[form.base])
    form.row[c.WIDTH] = columns
    form.register_out(words * columns // 8)
    registers = form.operands.pop(0) if form.operands[0].kind == "register" else None
    matrices = MATRICES.match(form.operands.pop(0).text)
    if matrices is None:
        raise form.fail()
    form.row[c.A_UREG] = int(matrices["first"])
    for word in matrices["tail"].split(".")[1:]:
        elsewhere = registers is not None and word.endswith("A")
        if word not in TAILS or elsewhere or (word[:4] == "tnsp" and form.base == "QGMMA"):
            raise form.fail(f"not supported: {word}")
        form.set(TAILS[word])
    form.source(form.operands.pop(0), "int", words * columns // 8)
    if registers is not None:
        form.source(registers, "int", 4)
    if form.operands and form.operands[-1].text == GROUP:
        form.set(c.HIGH)
        form.operands.pop()
    if form.operands and form.is_predicate(form.operands[0]):
        form.predicate_in(form.operands.pop(0))
