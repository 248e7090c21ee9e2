"""From nvdisasm's words to rows of numbers.

Every modifier of an opcode must be consumed by the rule that decodes it. What is left over is
unsupported, by name: a modifier that is ignored would give a wrong result without a sign.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tilewave.machine import codes as c
from tilewave.machine.errors import Unsupported
from tilewave.machine.operands import PT, RZ, Operand, parse, split

INT32 = 1 << 32
OWN_ADDRESS = "0x0"


@dataclass(frozen=True)
class Raw:
    """An instruction as nvdisasm's JSON gives it; the address is its byte offset in the section."""

    address: int
    opcode: str
    operands: str = ""
    predicate: str = ""


def _signed(value: int) -> int:
    """A 32-bit pattern as the int32 that a row holds."""
    value &= INT32 - 1
    return value - INT32 if value >= INT32 // 2 else value


def _float(text: str) -> float:
    word = text.strip().upper()
    if "NAN" in word:
        return float("nan")
    if "INF" in word:
        return float("-inf") if word.startswith("-") else float("inf")
    return float(word)


def _f32_bits(text: str) -> int:
    if "NAN" in text.upper():
        return 0xFFC00000 if text.strip().startswith("-") else 0x7FC00000
    with np.errstate(over="ignore"):
        return int(np.float32(_float(text)).view(np.uint32))


def _f64_bits(text: str) -> int:
    if "NAN" in text.upper():
        return 0xFFF8000000000000 if text.strip().startswith("-") else 0x7FF8000000000000
    return int(struct.unpack("<Q", struct.pack("<d", _float(text)))[0])


def _f16_bits(text: str) -> int:
    if "NAN" in text.upper():
        return 0xFE00 if text.strip().startswith("-") else 0x7E00
    with np.errstate(over="ignore"):
        return int(np.float16(_float(text)).view(np.uint16))


def _bf16_bits(text: str) -> int:
    return _f32_bits(text) >> 16


NOTHING_YET = np.zeros(c.COLUMNS, np.int32)
NOTHING_YET[[c.PD0, c.PD1, c.PIN0, c.PIN1, c.PIN2, c.GUARD]] = PT
NOTHING_YET[[c.DST, c.A_REG, c.A_UREG, c.G_REG, c.G_UREG]] = RZ
NOTHING_YET[[c.TARGET, c.MEMO, c.BANK]] = -1
NOTHING_YET[c.DST_WORDS] = 1


class Form:
    """One instruction on its way to a row."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.base, *self.modifiers = raw.opcode.split(".")
        words = raw.operands
        if words.startswith("["):  # LDGSTS of sm_80 prints its two addresses without a comma
            words = re.sub(r"^(\[[^\]]*\])\[", r"\1,[", words)
        self.operands = [parse(part) for part in split(words)]
        self.row = NOTHING_YET.copy()
        self.sources = 0
        self.predicates_in = 0
        self.far = "E" in self.modifiers and self.base not in ("LDGSTS",)
        # nvdisasm counts the PR of P2R among the predicates.
        named = raw.predicate.removesuffix("PR").strip()
        if named:
            guard = parse(named.lstrip("@"))
            self.row[c.GUARD] = self.predicate_index(guard)
            self.row[c.GUARD_NOT] = guard.inverted

    # -- modifiers
    def take(self, *names: str) -> str | None:
        """Remove and return the first of the names that is a modifier."""
        for name in names:
            if name in self.modifiers:
                self.modifiers.remove(name)
                return name
        return None

    def drop(self, *names: str) -> None:
        """Remove modifiers that change neither values nor counts."""
        for name in names:
            while name in self.modifiers:
                self.modifiers.remove(name)

    def flag(self, name: str, bit: int) -> bool:
        found = self.take(name) is not None
        if found:
            self.row[c.FLAGS] |= bit
        return found

    def set(self, bit: int) -> None:
        self.row[c.FLAGS] |= bit

    def fail(self, detail: str = "") -> Unsupported:
        return Unsupported(self.raw.opcode, self.raw.address, detail or self.raw.operands)

    # -- pieces
    @staticmethod
    def predicate_index(operand: Operand) -> int:
        return operand.index + (8 if operand.kind == "upredicate" else 0)

    def is_predicate(self, operand: Operand) -> bool:
        return operand.kind in ("predicate", "upredicate")

    def op(self, family: int, op: int, kind: str) -> None:
        self.row[c.FAMILY], self.row[c.OP] = family, op
        self.row[c.CLASS] = c.CLASSES.index(kind)

    def destination(self, words: int = 1) -> None:
        """Leading predicates, the register, further predicates: all outputs."""
        outputs = []
        while self.operands and self.is_predicate(self.operands[0]):
            outputs.append(self.operands.pop(0))
        self.register_out(words)
        while self.operands and self.is_predicate(self.operands[0]):
            outputs.append(self.operands.pop(0))
        self.predicates_out(outputs)

    def register_out(self, words: int = 1) -> None:
        if not self.operands or self.operands[0].kind not in ("register", "uniform"):
            raise self.fail()
        first = self.operands.pop(0)
        if first.suffixes:
            raise self.fail(f"destination {first.text}")
        self.row[c.DST] = first.index
        self.row[c.DST_UNIFORM] = first.kind == "uniform"
        self.row[c.DST_WORDS] = words

    def predicates_out(self, outputs: Sequence[Operand]) -> None:
        if len(outputs) > 2:
            raise self.fail()
        for column, operand in zip((c.PD0, c.PD1), outputs):
            self.row[column] = self.predicate_index(operand)

    def predicate_pair(self) -> None:
        """The two predicate outputs of a comparison."""
        self.predicates_out([self.operands.pop(0), self.operands.pop(0)])

    def predicate_in(self, operand: Operand) -> None:
        column = (c.PIN0, c.PIN1, c.PIN2)[self.predicates_in]
        self.row[column] = self.predicate_index(operand)
        self.row[column + 1] = operand.inverted
        self.predicates_in += 1

    def trailing_predicates(self) -> list[Operand]:
        """Predicate operands at the end, in order; they are inputs."""
        found: list[Operand] = []
        while self.operands and self.is_predicate(self.operands[-1]):
            found.insert(0, self.operands.pop())
        for operand in found:
            self.predicate_in(operand)
        return found

    def source(self, operand: Operand, kind: str = "int", words: int = 1) -> None:
        """The next source; kind: int, f32, f64, f16, bf16 (how modifiers and literals work)."""
        if self.sources > 3:
            raise self.fail("more than four sources")
        at = c.SOURCES + self.sources * c.SOURCE_COLUMNS
        slot = self.row[at : at + c.SOURCE_COLUMNS]
        self.sources += 1
        self.row[c.NSRC] = self.sources
        slot[c.AND] = slot[c.AND_HIGH] = -1
        slot[c.WORDS] = words
        swizzles = list(operand.suffixes)
        if "64" in swizzles and words == 2:
            swizzles.remove("64")
        for name in swizzles:
            if name not in SWIZZLES or slot[c.SWIZZLE]:
                raise self.fail(f"operand {operand.text}")
            slot[c.SWIZZLE] = SWIZZLES[name]
        if operand.kind in ("register", "uniform"):
            slot[c.KIND] = c.REGISTER if operand.kind == "register" else c.UNIFORM
            slot[c.INDEX] = operand.index
        elif operand.kind == "constant":
            if operand.terms:
                raise self.fail(f"operand {operand.text}")
            slot[c.KIND] = c.CONSTANT
            slot[c.INDEX], slot[c.VALUE] = operand.bank, operand.offset
        elif operand.kind in ("integer", "float"):
            slot[c.KIND] = c.VALUE_KIND
            low, high = self.literal(operand, kind, words)
            slot[c.VALUE], slot[c.VALUE_HIGH] = _signed(low), _signed(high)
            return
        else:
            raise self.fail(f"operand {operand.text}")
        self.masks(operand, kind, slot)

    def literal(self, operand: Operand, kind: str, words: int) -> tuple[int, int]:
        text = operand.text
        if kind == "f32":
            return (_f32_bits(text), 0)
        if kind == "f64":
            # The encoding holds the upper half of the double.
            bits = _f64_bits(text)
            return bits & 0xFFFFFFFF, bits >> 32
        if kind in ("f16", "bf16"):
            bits = _f16_bits(text) if kind == "f16" else _bf16_bits(text)
            return bits * 0x10001, 0
        if operand.kind == "float":
            if str(operand.value).lstrip("+-").isdigit():
                return int(operand.value), 0
            return _f32_bits(text), 0
        value = int(operand.value)
        high = (value >> 32) if words == 2 else 0
        return value, high

    def masks(self, operand: Operand, kind: str, slot: np.ndarray) -> None:
        if kind == "int":
            if operand.absolute:
                raise self.fail(f"operand {operand.text}")
            if operand.negated or operand.inverted:
                slot[[c.XOR, c.XOR_HIGH]] = -1
                slot[c.ADD] = int(operand.negated)
            return
        if operand.inverted:
            raise self.fail(f"operand {operand.text}")
        sign = {"f32": 0x80000000, "f64": 0x80000000, "f16": 0x80008000, "bf16": 0x80008000}[kind]
        column_and, column_xor = (c.AND_HIGH, c.XOR_HIGH) if kind == "f64" else (c.AND, c.XOR)
        if operand.absolute:
            slot[column_and] = _signed(~sign)
        if operand.negated:
            slot[column_xor] = _signed(sign)

    def pair_source(self, kind: str) -> None:
        """The next source of a half operation: a register, or two literals (high, low)."""
        first = self.operands.pop(0)
        if first.kind in ("integer", "float"):
            second = self.operands.pop(0)
            bits = _f16_bits if kind == "f16" else _bf16_bits
            value = bits(first.text) << 16 | bits(second.text)
            self.source(Operand("integer", first.text, value=value))
            return
        self.source(first, kind)

    def address(self, operand: Operand, first: int = c.A_REG) -> None:
        """Columns of an address from its terms: a register, a uniform register, an offset."""
        if operand.kind not in ("memory", "constant"):
            raise self.fail(f"operand {operand.text}")
        shift = first - c.A_REG
        far = self.far
        for term in operand.terms:
            # With E an address that does not say how wide it is has 64 bits.
            wide, scale = far and not term.uniform and not term.suffixes, 0
            for suffix in term.suffixes:
                if suffix == "64":
                    wide = True
                elif suffix == "U32":
                    wide = False
                elif suffix in ("X4", "X8", "X16"):
                    scale = {"X4": 2, "X8": 3, "X16": 4}[suffix]
                else:
                    raise self.fail(f"address {operand.text}")
            if term.uniform:
                if scale or self.row[c.A_UREG + shift] != RZ:
                    raise self.fail(f"address {operand.text}")
                self.row[c.A_UREG + shift] = term.index
                self.row[c.A_UWIDE + shift] = wide
            else:
                if self.row[c.A_REG + shift] != RZ:
                    raise self.fail(f"address {operand.text}")
                self.row[c.A_REG + shift] = term.index
                self.row[c.A_WIDE + shift] = wide
                self.row[c.A_SHIFT + shift] = scale
        self.row[c.A_OFFSET + shift] = _signed(operand.offset)

    def finish(self) -> np.ndarray:
        if self.modifiers or self.operands:
            left = [*self.modifiers, *(one.text for one in self.operands)]
            raise self.fail(f"not known here: {', '.join(left)}")
        return self.row


SWIZZLES = {
    "H0_H0": c.LOW_TWICE, "H1_H1": c.HIGH_TWICE, "B0": c.BYTE0, "B1": c.BYTE1, "B2": c.BYTE2,
    "B3": c.BYTE3, "H0": c.LOW_HALF, "H1": c.HIGH_HALF, "H1_H0": c.WHOLE, "H0_H1": c.SWAPPED,
}  # fmt: skip

Rule = Callable[[Form], None]
RULES: dict[str, Rule] = {}


def opcode(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for base opcodes."""

    def keep(rule: Rule) -> Rule:
        for name in names:
            RULES[name] = rule
        return rule

    return keep


# ---------------------------------------------------------------- integer


def _plain(form: Form, op: int, count: int, words: int = 1) -> None:
    """Destination, ``count`` integer sources, predicates in."""
    form.op(c.INTEGER, op, "integer")
    form.destination(words)
    form.trailing_predicates()
    for _ in range(count):
        form.source(form.operands.pop(0), "int", words)


@opcode("MOV", "UMOV", "R2UR")
def _mov(form: Form) -> None:
    words = 2 if form.take("64") else 1
    if form.base == "R2UR":
        form.drop("BROADCAST")
    form.op(c.INTEGER, c.MOVE, "move")
    form.destination(words)
    if form.row[c.PD0] != PT:
        if form.base != "R2UR" or words != 1 or form.row[c.PD1] != PT:
            raise form.fail()
        form.flag("OR", c.BOOL_OR)
        form.op(c.LOGIC, c.L_SCALAR, "move")
    # A vector register on its way to a uniform one: the first active lane's value.
    form.source(form.operands.pop(0), "int", words)
    # MOV's mask of bytes, where all are meant.
    if form.operands and form.operands[0].kind == "integer" and form.operands[0].value == 15:
        form.operands.pop(0)


def _signs(form: Form, sources: Sequence[Operand]) -> list[Operand]:
    """Sources without their signs, which become flags: carries depend on how a sign is applied."""
    plain = []
    for operand, negated, inverted in zip(
        sources, (c.NEG0, c.NEG1, c.NEG2), (c.INV0, c.INV1, c.INV2)
    ):
        if operand.negated:
            form.set(negated)
        if operand.inverted:
            form.set(inverted)
        plain.append(
            Operand(
                operand.kind, operand.text, operand.index, suffixes=operand.suffixes,
                value=operand.value, bank=operand.bank, offset=operand.offset, terms=operand.terms,
            )
        )  # fmt: skip
    return plain


@opcode("IADD3", "UIADD3")
def _iadd3(form: Form) -> None:
    words = 2 if form.take("64") else 1
    carry = form.flag("X", c.CARRY_IN)
    form.op(c.INTEGER, c.ADD3_WIDE if words == 2 else c.ADD3, "integer")
    form.destination(words)
    pins = form.trailing_predicates()
    if pins and not carry:
        raise form.fail()
    if carry:
        for column in (c.PIN0, c.PIN1)[len(pins) :]:
            form.row[column], form.row[column + 1] = PT, 1
    sources = form.operands[:3]
    form.operands = form.operands[3:]
    for operand in _signs(form, sources):
        form.source(operand, "int", words)


PACKED = {"16x2": (16, False), "U16x2": (16, False), "S16x2": (16, True), "U8x4": (8, False),
          "S8x4": (8, True)}  # fmt: skip


def _packed(form: Form, what: int, count: int) -> bool:
    """An instruction whose words hold two or four numbers; False if this is not one."""
    found = form.take(*PACKED)
    if found is None:
        return False
    width, signed = PACKED[found]
    if signed:
        form.set(c.SIGNED)
    form.op(c.INTEGER, c.PACKED, "integer")
    form.destination()
    form.row[c.SUB] = width | what << 8
    form.trailing_predicates()
    sources, form.operands = form.operands[:count], form.operands[count:]
    for operand in _signs(form, sources):
        form.source(operand)
    return True


@opcode("IADD", "UIADD", "VIADD", "UVIADD")
def _viadd(form: Form) -> None:
    if _packed(form, c.P_ADD, 2):
        return
    form.take("S32")
    words = 2 if form.take("64") else 1
    op = c.ADD64 if words == 2 else c.ADD2
    if words == 1 and form.take("ISAT"):
        op = c.ADD_SATURATED
    _plain(form, op, 2, words=words)


@opcode("IMAD", "UIMAD")
def _imad(form: Form) -> None:
    kind = form.take("WIDE", "HI", "MOV", "IADD", "SHL")
    unsigned = form.take("U32") is not None
    carry = form.flag("X", c.CARRY_IN)
    wide = kind == "WIDE"
    op = {"WIDE": c.MUL_ADD_WIDE, "HI": c.MUL_ADD_HIGH}.get(kind or "", c.MUL_ADD)
    form.op(c.INTEGER, op, "move" if kind == "MOV" else "integer")
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


@opcode("VIADDMNMX", "UVIADDMNMX")
def _viaddmnmx(form: Form) -> None:
    form.flag("RELU", c.RELU)
    if _packed(form, c.P_ADD_MINMAX, 3):
        return
    if not form.take("U32"):
        form.set(c.SIGNED)
    form.drop("S32")
    _plain(form, c.ADD_MINMAX, 3)
    _one_result(form)


def _one_result(form: Form) -> None:
    """Refuse the forms that also say which operand it was."""
    if form.row[c.PD0] != PT or form.row[c.PD1] != PT:
        raise form.fail()


@opcode("VIMNMX", "IMNMX", "UVIMNMX", "UIMNMX")
def _vimnmx(form: Form) -> None:
    form.flag("RELU", c.RELU)
    if _packed(form, c.P_MINMAX, 2):
        return
    if wide := form.take("U64", "S64"):
        if wide == "S64":
            form.set(c.SIGNED)
        _plain(form, c.MINMAX_WIDE, 2, 2)
        _one_result(form)
        return
    if not form.take("U32"):
        form.set(c.SIGNED)
    form.drop("S32")
    _plain(form, c.MINMAX, 2)
    _one_result(form)


@opcode("VIMNMX3", "UVIMNMX3")
def _vimnmx3(form: Form) -> None:
    form.flag("RELU", c.RELU)
    if _packed(form, c.P_MINMAX3, 3):
        return
    if not form.take("U32"):
        form.set(c.SIGNED)
    form.drop("S32")
    _plain(form, c.MINMAX3, 3)
    _one_result(form)


@opcode("IABS", "UIABS")
def _iabs(form: Form) -> None:
    _plain(form, c.ABSOLUTE, 1)


@opcode("LEA", "ULEA")
def _lea(form: Form) -> None:
    high = form.take("HI") is not None
    carry = form.flag("X", c.CARRY_IN)
    sign = form.flag("SX32", c.SIGNED)
    form.op(c.INTEGER, c.SHIFT_ADD_HIGH if high else c.SHIFT_ADD, "integer")
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
    a, b = form.operands.pop(0), form.operands.pop(0)
    extra = [form.operands.pop(0)] if high and not sign else []
    for operand in _signs(form, [a, b]):
        form.source(operand)
    for operand in extra:
        form.source(operand)


@opcode("LOP3", "ULOP3")
def _lop3(form: Form) -> None:
    form.drop("LUT")
    if not form.take("PAND"):
        form.set(c.BOOL_OR)
    form.op(c.INTEGER, c.LUT3, "integer")
    form.destination()
    form.trailing_predicates()
    table = form.operands.pop()
    form.row[c.SUB] = int(table.value)
    for _ in range(3):
        form.source(form.operands.pop(0))


@opcode("SHF", "USHF")
def _shf(form: Form) -> None:
    left = form.take("L", "R") == "L"
    kind = form.take("U32", "S32", "U64", "S64") or "U32"
    form.flag("W", c.WRAP)
    form.flag("HI", c.HIGH)
    if kind[0] == "S":
        form.set(c.SIGNED)
    if kind.endswith("64"):
        form.set(c.UNSIGNED64)
    form.row[c.SUB] = int(left)
    form.op(c.INTEGER, c.FUNNEL, "integer")
    form.destination()
    low, amount = form.operands.pop(0), form.operands.pop(0)
    high = form.operands.pop(0) if form.operands else parse("RZ")
    for operand in (low, amount, high):
        form.source(operand)


def _comparison(form: Form) -> None:
    found = form.take(*c.COMPARISONS)
    if found is None:
        raise form.fail()
    form.row[c.SUB] = c.COMPARISONS.index(found)


def _boolean(form: Form) -> None:
    found = form.take("AND", "OR", "XOR")
    if found == "OR":
        form.set(c.BOOL_OR)
    elif found == "XOR":
        form.set(c.BOOL_XOR)


@opcode("ISETP", "UISETP")
def _isetp(form: Form) -> None:
    _comparison(form)
    _boolean(form)
    extended = form.flag("EX", c.EXTENDED)
    kind = form.take("U32", "S32", "U64", "S64") or "S32"
    if kind[0] == "S":
        form.set(c.SIGNED)
    words = 2 if kind.endswith("64") else 1
    form.op(c.INTEGER, c.COMPARE64 if words == 2 else c.COMPARE, "integer")
    form.predicate_pair()
    pins = form.trailing_predicates()
    if len(pins) != 1 + extended:
        raise form.fail()
    for _ in range(2):
        form.source(form.operands.pop(0), "int", words)


@opcode("SEL", "USEL")
def _sel(form: Form) -> None:
    words = 2 if form.take("64") else 1
    _plain(form, c.SELECT, 2, words=words)


@opcode("PRMT", "UPRMT")
def _prmt(form: Form) -> None:
    mode = form.take("F4E", "B4E", "RC8", "ECL", "ECR", "RC16")
    form.row[c.SUB] = ("", "F4E", "B4E", "RC8", "ECL", "ECR", "RC16").index(mode or "")
    _plain(form, c.PERMUTE, 3)


@opcode("BREV", "UBREV")
def _brev(form: Form) -> None:
    _plain(form, c.REVERSE, 1)


@opcode("FLO", "UFLO")
def _flo(form: Form) -> None:
    if not form.take("U32"):
        form.set(c.SIGNED)
    form.flag("SH", c.SHIFT_AMOUNT)
    _plain(form, c.FIND_ONE, 1)


@opcode("POPC", "UPOPC")
def _popc(form: Form) -> None:
    _plain(form, c.COUNT_ONES, 1)


@opcode("BMSK", "UBMSK")
def _bmsk(form: Form) -> None:
    form.flag("W", c.WRAP)
    form.drop("C")
    _plain(form, c.MASK, 2)


@opcode("SGXT", "USGXT")
def _sgxt(form: Form) -> None:
    if not form.take("U32"):
        form.set(c.SIGNED)
    form.flag("W", c.WRAP)
    _plain(form, c.EXTEND, 2)


@opcode("IDP")
def _idp(form: Form) -> None:
    width = form.take("4A", "2A")
    if width is None:
        raise form.fail()
    kinds = [one for one in form.modifiers if one in ("S8", "U8", "S16", "U16")]
    if len(kinds) != 2:
        raise form.fail()
    for index, kind in enumerate(kinds):
        form.modifiers.remove(kind)
        form.row[c.SUB] |= (kind[0] == "S") << index
    if form.take("HI"):
        form.set(c.HIGH)
    form.drop("LO")
    _plain(form, c.DOT4 if width == "4A" else c.DOT2, 3)


@opcode("VABSDIFF")
def _vabsdiff(form: Form) -> None:
    if not form.take("U32"):
        form.set(c.SIGNED)
    _plain(form, c.ABS_DIFF, 3)


@opcode("VABSDIFF4")
def _vabsdiff4(form: Form) -> None:
    what = c.P_SUM_ABS_DIFF if form.take("ACC") else c.P_ABS_DIFF
    for plain, packed in (("U8", "U8x4"), ("S8", "S8x4")):
        if form.take(plain):
            form.modifiers.append(packed)
    if not _packed(form, what, 3):
        raise form.fail()


# ---------------------------------------------------------------- predicates, votes, lanes


@opcode("PLOP3", "UPLOP3")
def _plop3(form: Form) -> None:
    form.drop("LUT")
    form.op(c.LOGIC, c.L_PLOP3, "predicate")
    form.predicate_pair()
    second, first = form.operands.pop(), form.operands.pop()
    form.row[c.SUB] = int(first.value) | int(second.value) << 8
    if len(form.operands) != 3:
        raise form.fail()
    if all(form.is_predicate(one) for one in form.operands):
        form.trailing_predicates()
        return
    # An operand may be a register's sign.
    for bit in (c.NEG0, c.NEG1, c.NEG2):
        operand = form.operands.pop(0)
        if form.is_predicate(operand):
            form.predicate_in(operand)
            form.source(parse("RZ"))
            continue
        if operand.suffixes != ("SIGN",) or operand.negated or operand.absolute:
            raise form.fail()
        form.set(bit)
        form.predicate_in(Operand("predicate", "PT", PT, inverted=operand.inverted))
        form.source(Operand(operand.kind, operand.text, operand.index))


@opcode("P2R", "UP2UR")
def _p2r(form: Form) -> None:
    half = form.take("B0", "B1", "B2", "B3")
    form.row[c.SUB] = 8 * int((half or "B0")[1])
    form.op(c.LOGIC, c.L_P2R, "predicate")
    form.register_out()
    bank = form.operands.pop(0).text if len(form.operands) > 2 else "PR"
    if bank not in ("PR", "UPR"):
        raise form.fail()
    form.row[c.BANK] = 8 if bank == "UPR" else 0
    form.source(form.operands.pop(0))
    form.source(form.operands.pop(0))


@opcode("R2P", "UR2UP")
def _r2p(form: Form) -> None:
    half = form.take("B0", "B1", "B2", "B3")
    form.row[c.SUB] = 8 * int((half or "B0")[1])
    form.op(c.LOGIC, c.L_R2P, "predicate")
    bank = form.operands.pop(0)
    if bank.text not in ("PR", "UPR"):
        raise form.fail()
    form.row[c.BANK] = 8 if bank.text == "UPR" else 0
    form.source(form.operands.pop(0))
    form.source(form.operands.pop(0))


@opcode("VOTE", "VOTEU")
def _vote(form: Form) -> None:
    mode = form.take("ALL", "ANY", "EQ")
    form.row[c.SUB] = ("ALL", "ANY", "EQ").index(mode or "ALL")
    form.op(c.LOGIC, c.L_VOTE, "warp")
    outputs = []
    if form.operands[0].kind in ("register", "uniform"):
        form.register_out()
    else:
        form.row[c.DST] = RZ
    while len(form.operands) > 1 and form.is_predicate(form.operands[0]):
        outputs.append(form.operands.pop(0))
    form.predicates_out(outputs)
    form.trailing_predicates()


@opcode("MATCH")
def _match(form: Form) -> None:
    mode = form.take("ANY", "ALL")
    words = 2 if form.take("U64") else 1
    form.row[c.SUB] = int(mode == "ALL")
    form.op(c.LOGIC, c.L_MATCH, "warp")
    form.destination()
    form.source(form.operands.pop(0), "int", words)


@opcode("REDUX", "CREDUX")
def _redux(form: Form) -> None:
    op = form.take("SUM", "MIN", "MAX", "AND", "OR", "XOR") or "AND"
    form.row[c.SUB] = ("SUM", "MIN", "MAX", "AND", "OR", "XOR").index(op)
    if form.take("S32"):
        form.set(c.SIGNED)
    form.drop("U32")
    form.op(c.LOGIC, c.L_REDUX, "warp")
    form.destination()
    form.source(form.operands.pop(0))


@opcode("ELECT")
def _elect(form: Form) -> None:
    form.op(c.LOGIC, c.L_LEADER, "warp")
    form.predicates_out([form.operands.pop(0)])
    form.register_out()
    if [operand.text for operand in form.operands] != ["PT"]:
        raise form.fail()
    form.operands.clear()


@opcode("SHFL")
def _shfl(form: Form) -> None:
    mode = form.take("IDX", "UP", "DOWN", "BFLY")
    if mode is None:
        raise form.fail()
    form.row[c.SUB] = ("IDX", "UP", "DOWN", "BFLY").index(mode)
    form.op(c.LANES, c.X_SHUFFLE, "warp")
    form.destination()
    for _ in range(3):
        form.source(form.operands.pop(0))


@opcode("MOVM")
def _movm(form: Form) -> None:
    if not (form.take("16") and form.take("MT88")):
        raise form.fail()
    form.op(c.LANES, c.X_TRANSPOSE, "warp")
    form.destination()
    form.source(form.operands.pop(0))


# ---------------------------------------------------------------- f32


def _rounding(form: Form) -> None:
    found = form.take("RN", "RM", "RP", "RZ") or "RN"
    form.row[c.SUB] = {"RN": c.NEAREST, "RM": c.DOWN, "RP": c.UP, "RZ": c.ZERO}[found]


def _arithmetic(form: Form, op: int, count: int) -> None:
    form.flag("FTZ", c.FTZ)
    form.flag("SAT", c.SATURATE)
    _rounding(form)
    form.op(c.F32, op, "f32")
    form.destination()
    for _ in range(count):
        form.source(form.operands.pop(0), "f32")


def _two(form: Form, op: int, count: int) -> None:
    """Two f32 in a pair of registers."""
    form.flag("FTZ", c.FTZ)
    _rounding(form)
    form.set(c.PAIRS)
    form.op(c.F32, op, "f32")
    form.destination(2)
    for _ in range(count):
        operand = form.operands.pop(0)
        if operand.suffixes != ("F32x2", "HI_LO") or operand.absolute:
            raise form.fail()
        at = c.SOURCES + form.sources * c.SOURCE_COLUMNS
        form.source(replace(operand, suffixes=()), "f32", 2)
        form.row[at + c.XOR_HIGH] = form.row[at + c.XOR]


@opcode("FADD2")
def _fadd2(form: Form) -> None:
    _two(form, c.F_ADD, 2)


@opcode("FMUL2")
def _fmul2(form: Form) -> None:
    _two(form, c.F_MUL, 2)


@opcode("FFMA2")
def _ffma2(form: Form) -> None:
    _two(form, c.F_FMA, 3)


@opcode("FADD", "UFADD", "FADD32I")
def _fadd(form: Form) -> None:
    _arithmetic(form, c.F_ADD, 2)


@opcode("FMUL", "UFMUL", "FMUL32I")
def _fmul(form: Form) -> None:
    _arithmetic(form, c.F_MUL, 2)


@opcode("FFMA", "UFFMA", "FFMA32I")
def _ffma(form: Form) -> None:
    _arithmetic(form, c.F_FMA, 3)


@opcode("FMNMX", "UFMNMX")
def _fmnmx(form: Form) -> None:
    form.flag("FTZ", c.FTZ)
    form.flag("NAN", c.NAN_ABS)
    form.op(c.F32, c.F_MINMAX, "f32")
    form.destination()
    form.trailing_predicates()
    for operand in _sizes(form):
        form.source(operand, "f32")


def _sizes(form: Form) -> list[Operand]:
    """Two operands; with .XORSIGN of sizes, whose signs still matter for the result's."""
    operands, form.operands = form.operands[:2], form.operands[2:]
    if not form.flag("XORSIGN", c.SIGN_PRODUCT):
        return operands
    if any(not one.absolute or one.negated or one.kind != "register" for one in operands):
        raise form.fail()
    return [replace(one, absolute=False) for one in operands]


@opcode("FMNMX3")
def _fmnmx3(form: Form) -> None:
    form.flag("FTZ", c.FTZ)
    form.flag("NAN", c.NAN_ABS)
    form.op(c.F32, c.F_MINMAX3, "f32")
    form.destination()
    form.trailing_predicates()
    for _ in range(3):
        form.source(form.operands.pop(0), "f32")


@opcode("FSETP", "UFSETP")
def _fsetp(form: Form) -> None:
    form.flag("FTZ", c.FTZ)
    _boolean(form)
    _comparison(form)
    form.op(c.F32, c.F_COMPARE, "f32")
    form.predicate_pair()
    form.trailing_predicates()
    for _ in range(2):
        form.source(form.operands.pop(0), "f32")


@opcode("FSET", "UFSET")
def _fset(form: Form) -> None:
    form.flag("FTZ", c.FTZ)
    _boolean(form)
    if form.take("BF"):
        form.set(c.TO_F32)
    _comparison(form)
    form.op(c.F32, c.F_SET, "f32")
    form.destination()
    form.trailing_predicates()
    for _ in range(2):
        form.source(form.operands.pop(0), "f32")


@opcode("FSEL", "UFSEL")
def _fsel(form: Form) -> None:
    form.flag("FTZ", c.FTZ)
    form.op(c.INTEGER, c.FLOAT_SELECT, "f32")
    form.destination()
    form.trailing_predicates()
    for _ in range(2):
        form.source(form.operands.pop(0), "f32")


@opcode("FCHK")
def _fchk(form: Form) -> None:
    form.drop("DIVIDE")
    form.op(c.F32, c.F_CHECK, "f32")
    form.predicates_out([form.operands.pop(0)])
    for _ in range(2):
        form.source(form.operands.pop(0), "f32")


# ---------------------------------------------------------------- f64


def _doubles(form: Form, count: int) -> None:
    """Sources whose signs become flags: they do not apply to a NaN, which comes out as it is."""
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


def _double(form: Form, op: int, count: int) -> None:
    _rounding(form)
    form.op(c.F64, op, "f64")
    form.destination(2)
    _doubles(form, count)


@opcode("DADD")
def _dadd(form: Form) -> None:
    _double(form, c.F_ADD, 2)


@opcode("DMUL")
def _dmul(form: Form) -> None:
    _double(form, c.F_MUL, 2)


@opcode("DFMA")
def _dfma(form: Form) -> None:
    _double(form, c.F_FMA, 3)


@opcode("DMNMX")
def _dmnmx(form: Form) -> None:
    form.op(c.F64, c.F_MINMAX, "f64")
    form.destination(2)
    form.trailing_predicates()
    _doubles(form, 2)


@opcode("DSETP")
def _dsetp(form: Form) -> None:
    _boolean(form)
    which = form.take("MIN", "MAX")
    if which is None:
        _comparison(form)
    form.op(c.F64, c.F_COMPARE if which is None else c.F_CHOOSE, "f64")
    form.predicate_pair()
    pins = form.trailing_predicates()
    if which is not None:
        # Which of two is the smaller or larger one: nothing is combined with it.
        if form.row[c.FLAGS] or [one.text for one in pins] != ["PT"]:
            raise form.fail()
        form.row[c.SUB] = int(which == "MIN")
    _doubles(form, 2)


# ---------------------------------------------------------------- f16 and bf16, two in a register


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
    if widened and (op != c.F_ADD or form.row[c.FLAGS] & ~c.BF16):
        raise form.fail()
    form.op(c.F16, c.F_WIDEN if widened else op, "f16")
    form.destination()
    for _ in range(count):
        form.pair_source(kind)


@opcode("HADD2", "UHADD2")
def _hadd2(form: Form) -> None:
    _half(form, c.F_ADD, 2)


@opcode("HMUL2", "UHMUL2")
def _hmul2(form: Form) -> None:
    _half(form, c.F_MUL, 2)


@opcode("HFMA2", "UHFMA2")
def _hfma2(form: Form) -> None:
    _half(form, c.F_FMA, 3)


@opcode("HMNMX2", "VHMNMX")
def _hmnmx2(form: Form) -> None:
    form.flag("NAN", c.NAN_ABS)
    kind = _half_kind(form)
    form.op(c.F16, c.F_MINMAX, "f16")
    form.destination()
    form.trailing_predicates()
    if "XORSIGN" in form.modifiers:
        for operand in _sizes(form):
            form.source(operand, kind)
        return
    for _ in range(2):
        form.pair_source(kind)


@opcode("HSETP2")
def _hsetp2(form: Form) -> None:
    kind = _half_kind(form)
    _boolean(form)
    if form.take("H_AND"):
        form.set(c.HIGH)
    _comparison(form)
    form.op(c.F16, c.F_COMPARE, "f16")
    form.predicate_pair()
    form.trailing_predicates()
    for _ in range(2):
        form.pair_source(kind)


@opcode("HSET2")
def _hset2(form: Form) -> None:
    kind = _half_kind(form)
    _boolean(form)
    if form.take("BF"):
        form.set(c.TO_F32)
    _comparison(form)
    form.op(c.F16, c.F_SET, "f16")
    form.destination()
    form.trailing_predicates()
    for _ in range(2):
        form.pair_source(kind)


# ---------------------------------------------------------------- conversions


FLOAT_TYPES = {"F16": c.T_F16, "F32": c.T_F32, "F64": c.T_F64, "BF16": c.T_BF16}
INT_TYPES = {
    "U8": c.U8, "S8": c.S8, "U16": c.U16, "S16": c.S16, "U32": c.U32, "S32": c.S32,
    "U64": c.U64, "S64": c.S64,
}  # fmt: skip


def _types(form: Form, names: Mapping[str, int]) -> list[int]:
    """Types among the modifiers, in their order."""
    found = [one for one in form.modifiers if one in names]
    for name in found:
        form.modifiers.remove(name)
    return [names[name] for name in found]


def _float_source(form: Form, kind: int) -> None:
    name = {c.T_F16: "f16", c.T_F32: "f32", c.T_F64: "f64", c.T_BF16: "bf16"}[kind]
    form.source(form.operands.pop(0), name, 2 if kind == c.T_F64 else 1)


# The type from and the type to of a conversion share SUB: to | from << 8 | rounding << 16.
def _conversion(form: Form, to: int, origin: int, rounding: int = 0) -> None:
    form.row[c.SUB] = to | origin << 8 | rounding << 16


def _round_name(form: Form) -> int:
    found = form.take("RN", "RM", "RP", "RZ", "FLOOR", "CEIL", "TRUNC", "ROUND")
    names = {"RN": c.NEAREST, "RM": c.DOWN, "RP": c.UP, "RZ": c.ZERO}
    words = {"FLOOR": c.DOWN, "CEIL": c.UP, "TRUNC": c.ZERO, "ROUND": c.NEAREST}
    return c.NEAREST if found is None else {**names, **words}[found]


@opcode("F2F")
def _f2f(form: Form) -> None:
    form.flag("FTZ", c.FTZ)
    form.flag("SAT", c.SATURATE)
    rounding = _round_name(form)
    kinds = _types(form, FLOAT_TYPES)
    if len(kinds) != 2:
        raise form.fail()
    to, origin = kinds
    if form.row[c.FLAGS] & c.SATURATE and to != c.T_F32:
        raise form.fail()
    _conversion(form, to, origin, rounding)
    form.op(c.CONVERT, c.C_F2F, "conversion")
    form.destination(2 if to == c.T_F64 else 1)
    _float_source(form, origin)


@opcode("FRND")
def _frnd(form: Form) -> None:
    form.flag("FTZ", c.FTZ)
    rounding = _round_name(form)
    kinds = _types(form, FLOAT_TYPES) or [c.T_F32]
    _conversion(form, kinds[0], kinds[-1], rounding)
    form.op(c.CONVERT, c.C_ROUND, "conversion")
    form.destination(2 if kinds[0] == c.T_F64 else 1)
    _float_source(form, kinds[-1])


@opcode("F2IP", "UF2IP")
def _f2ip(form: Form) -> None:
    """Two floats to bytes: below what the third source's low half becomes."""
    form.flag("FTZ", c.FTZ)
    form.drop("NTZ")
    rounding = _round_name(form)
    to = _types(form, {"U8": c.U8, "S8": c.S8})
    if len(to) != 1 or _types(form, FLOAT_TYPES) != [c.T_F32]:
        raise form.fail()
    _conversion(form, to[0], c.T_F32, rounding)
    form.op(c.CONVERT, c.C_PACK_INT, "conversion")
    form.destination()
    for kind in ("f32", "f32", "int"):
        form.source(form.operands.pop(0), kind)


@opcode("F2I", "UF2I")
def _f2i(form: Form) -> None:
    form.flag("FTZ", c.FTZ)
    form.drop("NTZ")
    rounding = _round_name(form)
    to = (_types(form, INT_TYPES) or [c.S32])[0]
    origin = (_types(form, FLOAT_TYPES) or [c.T_F32])[0]
    _conversion(form, to, origin, rounding)
    form.op(c.CONVERT, c.C_F2I, "conversion")
    form.destination(2 if to in (c.U64, c.S64) else 1)
    _float_source(form, origin)


@opcode("I2F", "UI2F", "I2FP", "UI2FP")
def _i2f(form: Form) -> None:
    rounding = _round_name(form)
    to = (_types(form, FLOAT_TYPES) or [c.T_F32])[0]
    origin = (_types(form, INT_TYPES) or [c.S32])[0]
    _conversion(form, to, origin, rounding)
    form.op(c.CONVERT, c.C_I2F, "conversion")
    form.destination(2 if to == c.T_F64 else 1)
    form.source(form.operands.pop(0), "int", 2 if origin in (c.U64, c.S64) else 1)


@opcode("I2I", "UI2I")
def _i2i(form: Form) -> None:
    form.flag("SAT", c.SATURATE)
    to, *origin = _types(form, INT_TYPES)
    _conversion(form, to, (origin or [c.S32])[0])
    form.op(c.CONVERT, c.C_I2I, "conversion")
    form.destination()
    form.source(form.operands.pop(0))


@opcode("I2IP", "UI2IP")
def _i2ip(form: Form) -> None:
    if not form.take("SAT"):
        raise form.fail()
    to, *origin = _types(form, {**INT_TYPES, "S4": c.S4, "U4": c.U4})
    _conversion(form, to, (origin or [c.S32])[0])
    form.op(c.CONVERT, c.C_PACK_INT, "conversion")
    form.destination()
    while form.operands:
        operand = form.operands.pop(0)
        if to in (c.S4, c.U4) and operand.suffixes == ("24",):  # the bits that are kept of it
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
        # The upper part comes from the last operand: elsewhere than with FP8 only zeros are known here.
        last = form.operands[-1]
        if last.kind != "register" or last.suffixes or (last.index != RZ and to not in FP8):
            raise form.fail()
        if to not in FP8:
            form.operands.pop()
    if finite != (to in FP8) or len(origins) > 1:
        raise form.fail()
    op, kinds = _narrowing(form, shape, to, origin, rounding)
    form.op(c.CONVERT, op, "conversion")
    form.destination()
    if shape == "MERGE_C":
        form.operands.insert(0, parse("RZ"))
    for kind in kinds:
        form.source(form.operands.pop(0), kind)


def _narrowing(
    form: Form, shape: str | None, to: int, origin: int, rounding: int
) -> tuple[int, list[str]]:
    """Which conversion an F2FP is, and the kinds of its sources."""
    match to, origin, shape:
        case (c.T_F16 | c.T_BF16, c.T_F32, "PACK_AB" | "MERGE_C"):
            return c.C_PACK, ["f32", "f32"]
        case (c.T_TF32, c.T_F32, "PACK_B") if rounding in (c.NEAREST, c.ZERO):
            return c.C_TF32, ["f32"]
        case (c.T_E4M3 | c.T_E5M2, c.T_F32, "PACK_AB_MERGE_C") if rounding == c.NEAREST:
            return c.C_TO_FP8, ["f32", "f32", "int"]
        case (c.T_E4M3 | c.T_E5M2, c.T_F16, "UNPACK_B_MERGE_C") if rounding == c.NEAREST:
            return c.C_TO_FP8, ["f16", "int"]
        case (c.T_F16, c.T_E4M3 | c.T_E5M2, "UNPACK_B"):
            return c.C_FROM_FP8, ["int"]
    raise form.fail()


@opcode("MUFU")
def _mufu(form: Form) -> None:
    names = ("RCP", "RSQ", "SQRT", "EX2", "LG2", "SIN", "COS", "TANH", "RCP64H", "RSQ64H")
    found = form.take(*names)
    if found is None:
        raise form.fail()
    kind = "f32"
    if form.take("F16"):
        form.set(c.HIGH)
        kind = "f16"
    elif form.take("BF16"):
        form.set(c.BF16)
        kind = "bf16"
    if kind != "f32" and found not in ("EX2", "TANH"):
        raise form.fail()
    form.op(c.MUFU, names.index(found), "special function")
    form.destination()
    operand = form.operands.pop(0)
    if found.endswith("64H") and operand.kind in ("integer", "float"):
        # The upper half of a double.
        operand = Operand("integer", operand.text, value=_f64_bits(operand.text) >> 32)
        kind = "int"
    form.source(operand, kind)


# ---------------------------------------------------------------- special registers and constants


@opcode("S2R", "S2UR", "CS2R", "CS2UR")
def _s2r(form: Form) -> None:
    narrow = form.take("32") is not None
    words = 2 if form.base in ("CS2R", "CS2UR") and not narrow else 1
    form.drop("64")
    form.op(c.SPECIAL, 0, "move")
    form.register_out(words)
    name = form.operands.pop(0)
    if name.kind != "special" or name.value not in c.SPECIAL_REGISTERS:
        raise form.fail()
    form.row[c.SUB] = c.SPECIAL_REGISTERS.index(str(name.value))


WIDTHS = {"U8": 1, "S8": -1, "U16": 2, "S16": -2, "32": 4, "64": 8, "128": 16}


def _width(form: Form) -> int:
    """Bytes a lane, negative where a narrow load extends the sign."""
    # LDS.U.64 of sm_75: U says nothing about 64 bits.
    if "64" in form.modifiers or "128" in form.modifiers:
        form.drop("U")
    found = form.take(*WIDTHS)
    return WIDTHS[found] if found else 4


@opcode("LDC", "ULDC", "LDCU")
def _ldc(form: Form) -> None:
    width = _width(form)
    words = max(1, abs(width) // 4)
    place = form.operands[1]
    if place.kind != "constant":
        raise form.fail()
    if not place.terms and width in (4, 8):
        form.op(c.INTEGER, c.MOVE, "constant load")
        form.destination(words)
        form.source(form.operands.pop(0), "int", words)
        return
    form.op(c.LOAD, c.CONST_BANK, "constant load")
    form.row[c.WIDTH] = width
    form.destination(words)
    form.row[c.BANK] = place.bank
    form.address(form.operands.pop(0))


# ---------------------------------------------------------------- memory


HINTS = (
    "E", "CONSTANT", "STRONG", "WEAK", "GPU", "SYS", "CTA", "SM", "VC", "EF", "EL", "LU", "EU", "NA",
    "LTC64B", "LTC128B", "LTC256B", "PRIVATE", "MMIO", "VCPRIVATE",
)  # fmt: skip
SPACES = {"G": c.GLOBAL, "S": c.SHARED, "L": c.LOCAL}
LOAD_CLASS = {c.GLOBAL: "global load", c.SHARED: "shared load", c.LOCAL: "local",
              c.GENERIC: "global load"}  # fmt: skip
STORE_CLASS = {c.GLOBAL: "global store", c.SHARED: "shared store", c.LOCAL: "local",
               c.GENERIC: "global store"}  # fmt: skip


def _space(form: Form) -> int:
    return SPACES.get(form.base[2:3], c.GENERIC)


@opcode("LDG", "LDS", "LDL", "LD")
def _load(form: Form) -> None:
    form.drop(*HINTS)
    width = _width(form)
    space = _space(form)
    form.op(c.LOAD, space, LOAD_CLASS[space])
    form.row[c.WIDTH] = width
    form.register_out(max(1, abs(width) // 4))
    if form.operands and form.is_predicate(form.operands[0]):
        raise form.fail()
    form.address(form.operands.pop(0))
    if form.operands and form.is_predicate(form.operands[-1]):
        form.trailing_predicates()


@opcode("STG", "STS", "STL", "ST")
def _store(form: Form) -> None:
    form.drop(*HINTS)
    width = abs(_width(form))
    space = _space(form)
    form.op(c.STORE, space, STORE_CLASS[space])
    form.row[c.WIDTH] = width
    form.address(form.operands.pop(0))
    data = form.operands.pop(0)
    if data.kind != "register" or data.suffixes or data.negated:
        raise form.fail()
    form.row[c.DST] = data.index  # what is stored


@opcode("LDSM", "STSM")
def _ldsm(form: Form) -> None:
    if not form.take("16"):
        raise form.fail()
    layout = form.take("M88", "MT88")
    if layout is None:
        raise form.fail()
    if layout == "MT88":
        form.set(c.TRANSPOSED)
    count = int(form.take("2", "4") or 1)
    store = form.base == "STSM"
    form.op(c.MATRIX, int(store), "shared store" if store else "ldmatrix")
    form.row[c.WIDTH] = count
    if store:
        form.address(form.operands.pop(0))
        form.row[c.DST] = form.operands.pop(0).index
    else:
        form.register_out(count)
        form.address(form.operands.pop(0))


@opcode("LDGSTS")
def _ldgsts(form: Form) -> None:
    bypass = form.flag("BYPASS", c.BYPASS)
    form.drop(*HINTS)
    if form.take("ZFILL"):
        form.set(c.HIGH)  # the low bits of the source address: bytes at the end that are zeros
    width = _width(form)
    form.op(c.COPY, int(bypass), "asynchronous copy")
    form.row[c.WIDTH] = abs(width)
    form.address(form.operands.pop(0))
    form.address(form.operands.pop(0), c.G_REG)
    if form.trailing_predicates():
        form.set(c.ZERO_FILL)


ATOMICS = ("ADD", "MIN", "MAX", "AND", "OR", "XOR", "EXCH", "CAS", "INC", "DEC")


# Numbers side by side: their type, and the words that they fill.
VECTORS = {
    "F16x2": (c.T_F16, 1), "F16x4": (c.T_F16, 2), "F16x8": (c.T_F16, 4),
    "BF16x2": (c.T_BF16, 1), "BF16_V2": (c.T_BF16, 1), "BF16x4": (c.T_BF16, 2),
    "BF16x8": (c.T_BF16, 4), "F32x2": (c.T_F32, 2), "F32x4": (c.T_F32, 4),
}  # fmt: skip


@opcode("ATOM", "ATOMG", "ATOMS", "RED", "REDG", "REDS")
def _atomic(form: Form) -> None:
    form.drop(*HINTS)
    returns = form.base.startswith("ATOM")
    if form.base == "ATOMS" and form.take("ARRIVE"):
        # An arrival at an mbarrier of sm_80; the word before it comes back.
        if not form.take("64"):
            raise form.fail()
        form.op(c.MBARRIER, c.B_PLAIN_ARRIVE, "barrier")
        form.register_out(2)
        form.address(form.operands.pop(0))
        form.source(parse("RZ"))
        return
    spins = form.take("CAST")
    form.drop("SPIN")
    extra = form.take("POPC")
    name = "CAS" if spins else form.take(*ATOMICS)
    if spins:
        form.set(c.SATURATE)  # what comes back is whether it swapped
    if extra:
        name = "ADD"  # one for each lane: POPC.INC
    if name is None:
        raise form.fail()
    kinds = {
        "S32": c.S32, "U32": c.U32, "U64": c.U64, "S64": c.S64, "64": c.U64, "32": c.U32,
    }  # fmt: skip
    kind, words = c.U32, 1
    if form.take("F32"):
        kind = c.T_F32
        if not form.take("FTZ"):
            form.drop("RN")
        else:
            form.set(c.FTZ)
            form.drop("RN")
    elif form.take("F64"):
        kind = c.T_F64
        form.drop("RN")
    elif vector := form.take(*VECTORS):
        kind, words = VECTORS[vector]
        form.drop("RN")
        form.flag("FTZ", c.FTZ)
        if name != "ADD":
            raise form.fail()
    else:
        found = form.take(*kinds, "128")
        kind = kinds.get(found, c.U32) if found else c.U32
        words = 4 if found == "128" else 1
    if extra:
        form.set(c.POPC)
    space = {"S": c.SHARED, "G": c.GLOBAL}.get(form.base[-1], c.GENERIC)
    form.op(c.ATOMIC, ATOMICS.index(name), "atomic")
    form.row[c.SUB] = kind | space << 8 | int(returns) << 16
    if kind in (c.U64, c.S64, c.T_F64):
        words = 2
    elif words > 1:
        form.set(c.PAIRS)
        if name not in ("ADD", "EXCH", "CAS"):
            raise form.fail()
    form.row[c.WIDTH] = 4 * words
    if returns:
        outputs = []
        while form.operands and form.is_predicate(form.operands[0]):
            outputs.append(form.operands.pop(0))
        # The predicate says whether a compare-and-swap swapped, or that the address was not
        # shared: a generic access here always finds its place.
        form.predicates_out(outputs)
        if form.operands[0].kind == "register":
            form.register_out(words)
    form.row[c.DST_WORDS] = words
    form.address(form.operands.pop(0))
    if name == "CAS":
        # compare and new value
        form.source(form.operands.pop(0), "int", words)
        form.source(form.operands.pop(0), "int", words)
    elif not extra:
        form.source(form.operands.pop(0), "int", words)
    if form.row[c.FLAGS] & c.PAIRS:  # several words of a lane come straight from its registers
        kinds_of_sources = form.row[c.SOURCES + c.KIND :: c.SOURCE_COLUMNS][: form.sources]
        if not all(kinds_of_sources == c.REGISTER):
            raise form.fail()


# ---------------------------------------------------------------- tensor cores


@opcode("HMMA")
def _hmma(form: Form) -> None:
    shape = form.take("16816", "1688", "1684")
    result = form.take("F32", "F16")
    kind = form.take("BF16", "TF32")
    if shape is None or result is None:
        raise form.fail()
    origin = {None: c.T_F16, "BF16": c.T_BF16, "TF32": c.T_TF32}[kind]
    depth = {"16816": 16, "1688": 8, "1684": 4}[shape]
    if (depth == 16 and kind == "TF32") or (depth == 4 and kind != "TF32"):
        raise form.fail()
    # SUB: depth, type of the inputs, whether the sum is f32
    form.row[c.SUB] = depth | origin << 8 | (result == "F32") << 16
    form.op(c.HMMA, 0, "tensor")
    form.destination(4 if result == "F32" else 2)
    for _ in range(3):
        operand = form.operands.pop(0)
        if operand.kind != "register" or operand.negated or operand.suffixes:
            raise form.fail()
        form.source(operand)


@opcode("DMMA")
def _dmma(form: Form) -> None:
    shape = form.take("884", "8x8x4", "1684", "16x8x4", "1688", "16x8x8", "16816", "16x8x16")
    form.drop("RN")
    shapes = {"884": 4, "8x8x4": 4, "1684": 16 + 4, "16x8x4": 16 + 4, "1688": 16 + 8,
              "16x8x8": 16 + 8, "16816": 16 + 16, "16x8x16": 16 + 16}  # fmt: skip
    if shape is None:
        raise form.fail()
    rows = 16 if shapes[shape] > 16 else 8
    depth = shapes[shape] - (16 if rows == 16 else 0)
    form.row[c.SUB] = depth | rows << 8 | (c.DMMA_CUT if form.take("RZ") else 0)
    form.op(c.DMMA, 0, "tensor")
    form.destination(2 * rows * 8 // 32)
    for _ in range(3):
        form.source(form.operands.pop(0))


@opcode("IMMA")
def _imma(form: Form) -> None:
    shape = form.take("16832", "16816", "8816")
    kinds = [one for one in form.modifiers if one in ("S8", "U8")]
    for one in kinds:
        form.modifiers.remove(one)
    form.flag("SAT", c.SATURATE)
    form.drop("ROW", "COL")
    if shape is None or len(kinds) != 2:
        raise form.fail()
    depth = int(shape[-2:])
    signs = (kinds[0] == "S8") | (kinds[1] == "S8") << 1
    form.row[c.SUB] = depth | signs << 8 | (c.IMMA_NARROW if shape == "8816" else 0)
    _integer_matrices(form, 2 if shape == "8816" else 4)


@opcode("BMMA")
def _bmma(form: Form) -> None:
    shape, how = form.take("168128", "168256", "88128"), form.take("AND", "XOR")
    form.drop("ROW", "COL")
    if shape is None or how is None or form.take("POPC") is None:
        raise form.fail()
    # Bits lie in registers as bytes do, eight times as many.
    narrow = c.IMMA_NARROW if shape == "88128" else 0
    form.row[c.SUB] = int(shape[-3:]) // 8 | (c.IMMA_AND if how == "AND" else c.IMMA_XOR) | narrow
    _integer_matrices(form, 2 if narrow else 4)


def _integer_matrices(form: Form, words: int) -> None:
    form.op(c.IMMA, 0, "tensor")
    form.destination(words)
    for _ in range(3):
        operand = form.operands.pop(0)
        suffixes = tuple(one for one in operand.suffixes if one not in ("ROW", "COL"))
        form.source(Operand(operand.kind, operand.text, operand.index, suffixes=suffixes))


# ---------------------------------------------------------------- control


def _control(form: Form, op: int, kind: str = "control") -> None:
    form.op(c.CONTROL, op, kind)


def _target(form: Form, operand: Operand) -> None:
    """A byte address or a label; the loader turns labels and addresses into rows."""
    if operand.kind == "integer":
        form.row[c.TARGET] = int(operand.value) // 16
    else:
        raise form.fail(f"target {operand.text}")


@opcode("BRA")
def _bra(form: Form) -> None:
    form.drop("U")
    kind = form.take("DIV", "CONV")
    divergent = kind is not None
    _control(form, c.BRANCH_DIVERGENT if divergent else c.BRANCH)
    if not divergent and form.take("ANY"):
        form.row[c.SUB] = 1  # all lanes go where one wants to
    target = form.operands.pop()
    if divergent:
        mask = form.operands.pop(0)
        form.source(Operand(mask.kind, mask.text, mask.index))
        form.row[c.SUB] = int(mask.inverted) | (2 if kind == "CONV" else 0)
    while form.operands:
        form.predicate_in(form.operands.pop(0))
    _target(form, target)


@opcode("BRX", "JMX", "BRXU")
def _brx(form: Form) -> None:
    _control(form, c.BRANCH_INDEXED)
    form.source(form.operands.pop(0), "int", 2)
    base = form.operands.pop(0) if form.operands else parse("0x0")
    if base.kind == "integer":
        form.row[c.SUB] = _signed(int(base.value))
    form.operands.clear()


@opcode("EXIT")
def _exit(form: Form) -> None:
    form.drop("KEEPREFCOUNT", "PREEMPTED", "NO_ATEXIT")
    _control(form, c.EXIT)
    form.trailing_predicates()


@opcode("BSSY")
def _bssy(form: Form) -> None:
    form.drop("RECONVERGENT", "RELIABLE")
    _control(form, c.SET_CONVERGE)
    form.row[c.BARRIER] = form.operands.pop(0).index
    _target(form, form.operands.pop(0))


@opcode("BSYNC")
def _bsync(form: Form) -> None:
    form.drop("RECONVERGENT", "RELIABLE")
    _control(form, c.CONVERGE)
    form.row[c.BARRIER] = form.operands.pop(0).index


@opcode("BREAK")
def _break(form: Form) -> None:
    form.drop("RELIABLE")
    _control(form, c.BREAK)
    form.trailing_predicates()
    while form.operands and form.is_predicate(form.operands[0]):
        form.predicate_in(form.operands.pop(0))
    form.row[c.BARRIER] = form.operands.pop(0).index


@opcode("BMOV")
def _bmov(form: Form) -> None:
    form.drop("32", "CLEAR", "PQUAD")
    to, origin = form.operands.pop(0), form.operands.pop(0)
    _control(form, c.BARRIER_MOVE)
    if to.kind == "barrier":
        form.row[c.BARRIER] = to.index
        form.source(origin)
        form.row[c.SUB] = 1
    else:
        form.row[c.BARRIER] = origin.index
        form.row[c.DST] = to.index
        form.row[c.SUB] = 0


@opcode("WARPSYNC")
def _warpsync(form: Form) -> None:
    _control(form, c.WARP_SYNC)
    form.row[c.SUB] = form.take("EXCLUSIVE") is not None  # lanes of other masks go on by themselves
    collective = form.take("COLLECTIVE") is not None
    if form.take("ALL"):
        form.source(parse("0xffffffff"))
    else:
        form.source(form.operands.pop(0))
    if collective:
        _target(form, form.operands.pop())


@opcode("ENDCOLLECTIVE")
def _endcollective(form: Form) -> None:
    _control(form, c.END_COLLECTIVE)


@opcode("CALL")
def _call(form: Form) -> None:
    form.drop("NOINC")
    kind = form.take("REL", "ABS")
    target = form.operands.pop()
    if kind == "ABS" and target.kind == "register" and not form.operands:
        # A function of the system, whose address was loaded.
        _control(form, c.RETURN)
        form.row[c.SUB] = 0
        form.source(target, "int", 2)
        return
    if kind is None or len(form.operands) > 1:
        raise form.fail()
    if form.operands:
        # Through a register, which counts from the function named: the jump that RET is.
        _control(form, c.RETURN)
        form.row[c.SUB] = kind == "REL"
        form.source(form.operands.pop(0), "int", 2)
    else:
        _control(form, c.CALL)
    _target(form, target)


@opcode("RET")
def _ret(form: Form) -> None:
    form.drop("NODEC")
    form.row[c.SUB] = form.take("REL", "ABS") == "REL"
    _control(form, c.RETURN)
    form.source(form.operands.pop(0), "int", 2)
    if form.operands:  # the function that the return address counts from
        base = form.operands.pop(0)
        _target(form, base)


@opcode("LEPC")
def _lepc(form: Form) -> None:
    """An address in the code: the one that is named, else its own, which `program.load` puts in."""
    form.op(c.INTEGER, c.MOVE, "move")
    form.register_out(2)
    form.source(form.operands.pop(0) if form.operands else parse(OWN_ADDRESS), "int", 2)


@opcode("BAR")
def _bar(form: Form) -> None:
    form.drop("DEFER_BLOCKING")
    kind = form.take("SYNC", "ARV", "RED")
    if kind is None:
        raise form.fail()
    _control(form, {"SYNC": c.BLOCK_SYNC, "ARV": c.BLOCK_ARRIVE, "RED": c.BLOCK_REDUCE}[kind],
             "barrier")  # fmt: skip
    if kind == "RED":
        op = form.take("AND", "OR", "POPC")
        form.row[c.SUB] = ("AND", "OR", "POPC").index(op or "AND")
    form.trailing_predicates()
    form.source(form.operands.pop(0))
    if form.operands:
        form.source(form.operands.pop(0))


@opcode("QSPC")
def _qspc(form: Form) -> None:
    """Whether a generic address lies in a space: G global, S shared, L local, D another block's."""
    form.drop("E")
    space = form.take("G", "S", "L", "D")
    if space is None:
        raise form.fail()
    form.op(c.INTEGER, c.SPACE_OF, "predicate")
    form.row[c.SUB] = "GSLD".index(space)
    form.destination()
    place = form.operands.pop(0)  # no object spans two spaces: its offset does not matter
    if len(place.terms) != 1 or place.terms[0].uniform:
        raise form.fail()
    form.source(parse(f"R{place.terms[0].index}"), "int", 2)


@opcode("B2R")
def _b2r(form: Form) -> None:
    if not form.take("RESULT"):
        raise form.fail()
    _control(form, c.B2R)
    form.row[c.DST] = form.operands.pop(0).index
    if form.operands:
        form.row[c.PD0] = form.predicate_index(form.operands.pop(0))


@opcode("LDGDEPBAR")
def _commit(form: Form) -> None:
    _control(form, c.COPY_COMMIT, "asynchronous copy")


@opcode("DEPBAR")
def _depbar(form: Form) -> None:
    if not form.take("LE"):
        # DEPBAR {n,...}: the order of older loads, which are done at once here
        _control(form, c.NOTHING)
        form.operands.clear()
        return
    scoreboard, count = form.operands.pop(0), form.operands.pop(0)
    if scoreboard.kind != "scoreboard" or count.kind != "integer":
        raise form.fail()
    form.operands.clear()
    if scoreboard.index == 0:
        _control(form, c.COPY_WAIT, "asynchronous copy")
    else:
        _control(form, c.NOTHING)
    form.row[c.SUB] = int(count.value)


@opcode("NOP", "MEMBAR", "ERRBAR", "CCTL", "CCTLL", "WARPARRIVE", "CGAERRBAR", "PMTRIG")
def _nop(form: Form) -> None:
    """What orders or prefetches: nothing to do where every access is done at once."""
    form.modifiers.clear()
    form.operands.clear()
    _control(form, c.NOTHING)


@opcode("YIELD", "NANOSLEEP", "WARPSLEEP")
def _yield(form: Form) -> None:
    form.modifiers.clear()
    form.operands.clear()
    _control(form, c.PAUSE)


@opcode("BPT")
def _bpt(form: Form) -> None:
    form.modifiers.clear()
    form.operands.clear()
    _control(form, c.TRAP)


def decode(raw: Raw) -> np.ndarray:
    """The row (int32, codes.COLUMNS) of one instruction.

    Raises Unsupported where the opcode, a modifier or an operand is not known.
    """
    try:
        form = Form(raw)
    except (Unsupported, ArithmeticError, ValueError) as error:
        raise Unsupported(raw.opcode, raw.address, str(error)) from None
    rule = RULES.get(form.base)
    if rule is None:
        raise Unsupported(raw.opcode, raw.address)
    try:
        rule(form)
        return form.finish()
    except (ArithmeticError, LookupError, ValueError) as error:
        raise Unsupported(raw.opcode, raw.address, f"operands {raw.operands}") from error


from tilewave.machine import decode_hopper  # noqa: E402, F401 (its rules register themselves)
