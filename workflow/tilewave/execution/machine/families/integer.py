"""Whole numbers: arithmetic, logic, comparisons, moves."""

from collections.abc import Sequence
from dataclasses import replace

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families.votes import L_SCALAR
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.operands import PT, SassOperand, parse
from tilewave.execution.machine.registry import opcode

# ---- integer operations
(
    MOVE, ADD3, ADD2, MUL_ADD, MUL_ADD_WIDE, MUL_ADD_HIGH, MINMAX, ADD_MINMAX, ABSOLUTE,
    SHIFT_ADD, SHIFT_ADD_HIGH, LUT3, FUNNEL, COMPARE, SELECT, PERMUTE, REVERSE, FIND_ONE, COUNT_ONES,
    MASK, EXTEND, DOT4, DOT2, ABS_DIFF, COMPARE64, ADD64, FLOAT_SELECT, ADD3_WIDE, MINMAX3, SPACE_OF,
    ADD_SATURATED, PACKED, MINMAX_WIDE,
) = range(33)  # fmt: skip
# ---- PACKED: two or four numbers in a word (in SUB, above the numbers' width in bits)
P_ADD, P_MINMAX, P_MINMAX3, P_ADD_MINMAX, P_ABS_DIFF, P_SUM_ABS_DIFF = range(6)


def _plain(form: Form, op: int, count: int, words: int = 1) -> None:
    """Decode destination, ``count`` integer sources, and input predicates."""
    form.op(c.INTEGER, op)
    form.destination(words)
    form.trailing_predicates()
    form.next_sources(count, "int", words)


@opcode("MOV", "UMOV", "R2UR")
def _mov(form: Form) -> None:
    words = 2 if form.take("64") else 1
    if form.base == "R2UR":
        form.drop("BROADCAST")
    form.op(c.INTEGER, MOVE)
    form.destination(words)
    if form.row[c.PD0] != PT:
        if form.base != "R2UR" or words != 1 or form.row[c.PD1] != PT:
            raise form.fail()
        form.flag("OR", c.BOOL_OR)
        form.op(c.LOGIC, L_SCALAR)
    # A move from a vector to a uniform register takes the first active lane's value.
    form.source(form.operands.pop(0), "int", words)
    # MOV's byte mask, here with all bytes.
    if form.operands and form.operands[0].kind == "integer" and form.operands[0].value == 15:
        form.operands.pop(0)


def _signs(form: Form, sources: Sequence[SassOperand]) -> list[SassOperand]:
    """Return sources without their signs, which become flags: carries depend on the signs."""
    plain = []
    for operand, negated, inverted in zip(
        sources, (c.NEG0, c.NEG1, c.NEG2), (c.INV0, c.INV1, c.INV2)
    ):
        if operand.negated:
            form.set(negated)
        if operand.inverted:
            form.set(inverted)
        plain.append(replace(operand, negated=False, inverted=False, absolute=False))
    return plain


@opcode("IADD3", "UIADD3")
def _iadd3(form: Form) -> None:
    words = 2 if form.take("64") else 1
    carry = form.flag("X", c.CARRY_IN)
    form.op(c.INTEGER, ADD3_WIDE if words == 2 else ADD3)
    form.destination(words)
    pins = form.trailing_predicates()
    if pins and not carry:
        raise form.fail()
    if carry:
        for column in (c.PIN0, c.PIN1)[len(pins) :]:
            form.row[column], form.row[column + 1] = PT, 1
    form.operands[:3] = _signs(form, form.operands[:3])
    form.next_sources(3, "int", words)


PACKINGS = {"16x2": (16, False), "U16x2": (16, False), "S16x2": (16, True), "U8x4": (8, False),
          "S8x4": (8, True)}  # fmt: skip


def _packed(form: Form, what: int, count: int) -> bool:
    """Decode an instruction of two or four numbers a word; return False if this is none."""
    packing = form.take(*PACKINGS)
    if packing is None:
        return False
    width, signed = PACKINGS[packing]
    if signed:
        form.set(c.SIGNED)
    form.op(c.INTEGER, PACKED)
    form.destination()
    form.row[c.SUB] = width | what << 8
    form.trailing_predicates()
    form.operands[:count] = _signs(form, form.operands[:count])
    form.next_sources(count)
    return True


@opcode("IADD", "UIADD", "UVIADD", "VIADD")
def _viadd(form: Form) -> None:
    if _packed(form, P_ADD, 2):
        return
    form.take("S32")
    words = 2 if form.take("64") else 1
    op = ADD64 if words == 2 else ADD2
    if words == 1 and form.take("ISAT"):
        op = ADD_SATURATED
    _plain(form, op, 2, words=words)


@opcode("IMAD", "UIMAD")
def _imad(form: Form) -> None:
    kind = form.take("WIDE", "HI", "MOV", "IADD", "SHL")
    unsigned = form.take("U32") is not None
    carry = form.flag("X", c.CARRY_IN)
    wide = kind == "WIDE"
    op = {"WIDE": MUL_ADD_WIDE, "HI": MUL_ADD_HIGH}.get(kind or "", MUL_ADD)
    form.op(c.INTEGER, op)
    if not unsigned:
        form.set(c.SIGNED)
    form.destination(2 if wide else 1)
    pins = form.trailing_predicates()
    if bool(pins) != carry:
        raise form.fail()
    if not carry:
        form.row[c.PIN0_NOT] = 1
    for words in (1, 1, 2 if kind in ("WIDE", "HI") else 1):
        form.source(form.operands.pop(0), "int", words)
    last = c.SOURCES + 2 * c.SOURCE_COLUMNS
    if kind in ("WIDE", "HI") and form.row[last + c.KIND] == c.VALUE_KIND:
        # a literal addend: zero-extended where the product is unsigned
        value = int(form.row[last + c.VALUE])
        form.row[last + c.VALUE_HIGH] = -1 if value < 0 and not unsigned else 0


def _minmax(form: Form, packed: int, op: int, count: int) -> None:
    """Decode a minimum or maximum, of one number a word or of packed ones."""
    form.flag("RELU", c.RELU)
    if _packed(form, packed, count):
        return
    if wide := form.take("U64", "S64") if op == MINMAX else None:
        op = MINMAX_WIDE
    if wide == "S64" or not (wide or form.take("U32")):
        form.set(c.SIGNED)
    if not wide:
        form.drop("S32")
    _plain(form, op, count, 2 if wide else 1)
    if any(form.row[column] % (PT + 1) != PT for column in (c.PD0, c.PD1)):  # UPT follows UP6
        raise form.fail()  # an output would also name the chosen operand


@opcode("LEA", "ULEA")
def _lea(form: Form) -> None:
    high = form.take("HI") is not None
    carry = form.flag("X", c.CARRY_IN)
    sign = form.flag("SX32", c.SIGNED)
    form.op(c.INTEGER, SHIFT_ADD_HIGH if high else SHIFT_ADD)
    form.destination()
    pins = form.trailing_predicates()
    if not carry:
        form.row[c.PIN0_NOT] = 1
        if pins:
            raise form.fail()
    shift = form.operands.pop()
    if shift.kind != "integer":
        raise form.fail()
    form.row[c.SUB] = int(shift.value)
    form.operands[:2] = _signs(form, form.operands[:2])
    form.next_sources(3 if high and not sign else 2)


@opcode("SHF", "USHF")
def _shf(form: Form) -> None:
    form.choose("=R", "L")
    kind = form.take("U32", "S32", "U64", "S64") or "U32"
    form.flag("W", c.WRAP)
    form.flag("HI", c.HIGH)
    if kind[0] == "S":
        form.set(c.SIGNED)
    if kind.endswith("64"):
        form.set(c.UNSIGNED64)
    form.op(c.INTEGER, FUNNEL)
    form.destination()
    form.filled(3, "RZ")
    form.next_sources(3)


@opcode("ISETP", "UISETP")
def _isetp(form: Form) -> None:
    form.comparison()
    form.boolean()
    extended = form.flag("EX", c.EXTENDED)
    kind = form.take("U32", "S32", "U64", "S64") or "S32"
    if kind[0] == "S":
        form.set(c.SIGNED)
    words = 2 if kind.endswith("64") else 1
    form.op(c.INTEGER, COMPARE64 if words == 2 else COMPARE)
    form.predicate_pair()
    pins = form.trailing_predicates()
    if len(pins) != 1 + extended:
        raise form.fail()
    form.next_sources(2, "int", words)


def _dot(form: Form, op: int) -> None:
    kinds = form.take_all("S8", "U8", "S16", "U16")
    if len(kinds) != 2:
        raise form.fail()
    form.row[c.SUB] = (kinds[0][0] == "S") | (kinds[1][0] == "S") << 1
    if form.take("HI"):
        form.set(c.HIGH)
    form.drop("LO")
    _plain(form, op, 3)


def _of_bytes(form: Form) -> None:
    for plain, packed in (("U8", "U8x4"), ("S8", "S8x4")):
        if form.take(plain):
            form.modifiers.append(packed)


def _whole_address(form: Form) -> None:
    address = form.operands.pop(0)  # no object spans two spaces: its offset does not matter
    if len(address.terms) != 1 or address.terms[0].uniform:
        raise form.fail()
    form.source(parse(f"R{address.terms[0].index}"), "int", 2)
