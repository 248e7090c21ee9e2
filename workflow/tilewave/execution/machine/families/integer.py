"""Whole numbers: arithmetic, logic, comparisons, moves."""

from dataclasses import replace

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families.votes import L_SCALAR
from tilewave.execution.machine.form import Form
from tilewave.execution.machine.operands import PT, parse
from tilewave.execution.machine.registry import opcode

# ---- integer operations
(
    MOVE, ADD3, ADD2, MUL_ADD, MUL_ADD_WIDE, MUL_ADD_HIGH, MINMAX, ADD_MINMAX, ABSOLUTE,
    SHIFT_ADD, SHIFT_ADD_HIGH, LUT3, FUNNEL, COMPARE, SELECT, PERMUTE, REVERSE, FIND_ONE, COUNT_ONES,
    MASK, EXTEND, DOT4, DOT2, ABS_DIFF, COMPARE64, ADD64, FLOAT_SELECT, ADD3_WIDE, MINMAX3, SPACE_OF,
    ADD_SATURATED, PACKED, MINMAX_WIDE,
) = range(33)  # fmt: skip
SIGNED64 = c.SIGNED | c.UNSIGNED64
# ---- PACKED: two or four numbers in a word (in SUB, above the numbers' width in bits)
P_ADD, P_MINMAX, P_MINMAX3, P_ADD_MINMAX, P_ABS_DIFF, P_SUM_ABS_DIFF = range(6)


def _plain(form: Form, op: int, count: int, words: int = 1) -> None:
    """Decode destination, ``count`` integer sources, and input predicates."""
    form.op(c.INTEGER, op)
    form.destination(words)
    form.trailing_predicates()
    form.next_sources(count, "int", words)


def _of_lanes(form: Form) -> None:
    """Decode an R2UR that also combines predicates of the lanes."""
    if form.row[c.PD0] != PT:
        if form.words != 1 or form.row[c.PD1] != PT:
            raise form.fail()
        form.flag("OR", c.BOOL_OR)
        form.op(c.LOGIC, L_SCALAR)


def _all_bytes(form: Form) -> None:
    """Take MOV's byte mask, here with all bytes."""
    if form.operands and form.operands[0].kind == "integer" and form.operands[0].value == 15:
        form.operands.pop(0)


def _signs(form: Form, count: int) -> None:
    """Turn the signs of the next sources into flags: carries depend on the signs."""
    signs = zip((c.NEG0, c.NEG1, c.NEG2)[:count], (c.INV0, c.INV1, c.INV2))
    for at, (negated, inverted) in enumerate(signs):
        operand = form.operands[at]
        form.set(negated * operand.negated | inverted * operand.inverted)
        form.operands[at] = replace(operand, negated=False, inverted=False, absolute=False)


def _carries(form: Form) -> None:
    carry, pins = form.flag("X", c.CARRY_IN), form.trailing_predicates()
    if pins and not carry:
        raise form.fail()
    for column in (c.PIN0, c.PIN1)[len(pins) :] if carry else ():
        form.row[column], form.row[column + 1] = PT, 1


def _carry(form: Form) -> None:
    carry = form.flag("X", c.CARRY_IN)
    if bool(form.trailing_predicates()) != carry:
        raise form.fail()
    form.row[c.PIN0_NOT] = not carry


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
    _signs(form, count)
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


def _wide_addend(form: Form) -> None:
    """Take a sum's addend of two words; a literal is zero-extended where the product is unsigned."""
    form.next_sources(1, "int", 2)
    slot = form.row[c.SOURCES + 2 * c.SOURCE_COLUMNS :]
    if slot[c.KIND] == c.VALUE_KIND:
        slot[c.VALUE_HIGH] = -1 if slot[c.VALUE] < 0 and form.row[c.FLAGS] & c.SIGNED else 0


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


def _order(form: Form) -> None:
    """Take the predicate that a comparison combines with, and EX's: of the lower words."""
    if len(form.trailing_predicates()) != 1 + form.flag("EX", c.EXTENDED):
        raise form.fail()


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
