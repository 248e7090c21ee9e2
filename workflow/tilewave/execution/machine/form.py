"""Conversion of an instruction to a row of numbers, column by column. A modifier that an opcode's rule does
not consume makes it unsupported: ignored, it could give a wrong result."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewave.basics.errors import Unsupported
from tilewave.execution.machine import codes as c
from tilewave.execution.machine.operands import PT, RZ, SassOperand, parse, split

INT32 = 1 << 32


@dataclass(frozen=True)
class Raw:
    """An instruction as nvdisasm prints it; the address is its byte offset in the section."""

    address: int
    opcode: str
    operands: str = ""
    predicate: str = ""


def signed(value: int) -> int:
    """Return a 32-bit pattern as the int32 of a row."""
    value &= INT32 - 1
    return value - INT32 if value >= INT32 // 2 else value


FORMATS = {"f16": "f2", "f32": "f4", "bf16": "f4", "f64": "f8"}


def bits_of(text: str, kind: str) -> int:
    """Return the pattern of a literal: a NaN is quiet, and a number too large is infinite."""
    with np.errstate(over="ignore"):
        number = float(re.sub("[QS]NAN", "NAN", text.strip(), flags=re.I))
        value = np.array(number, FORMATS[kind])
    bits = int.from_bytes(value.tobytes(), "little")
    return bits >> 16 if kind == "bf16" else bits


NOTHING_YET = np.zeros(c.COLUMNS, np.int32)
NOTHING_YET[[c.PD0, c.PD1, c.PIN0, c.PIN1, c.PIN2, c.GUARD]] = PT
NOTHING_YET[[c.DST, c.A_REG, c.A_UREG, c.G_REG, c.G_UREG]] = RZ
NOTHING_YET[[c.TARGET, c.MEMO, c.BANK]] = -1
NOTHING_YET[c.DST_WORDS] = 1


class Form:
    """An instruction while its row is being filled."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.base, *self.modifiers = raw.opcode.split(".")
        text = raw.operands
        if text.startswith("["):  # LDGSTS of sm_80 prints its two addresses without a comma
            text = re.sub(r"^(\[[^\]]*\])\[", r"\1,[", text)
        self.operands = [parse(part) for part in split(text)]
        self.row = NOTHING_YET.copy()
        self.sources = 0
        self.words = 1
        self.predicates_in = 0
        self.far = "E" in self.modifiers and self.base not in ("LDGSTS",)
        # nvdisasm prints the PR of P2R as a predicate.
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

    def need(self, *names: str) -> str:
        """Remove and return the first of the names that is a modifier. Raises Unsupported without one."""
        if (name := self.take(*names)) is None:
            raise self.fail()
        return name

    def number(self, *names: str) -> int:
        """Remove one of these modifiers, and return its number. A default has a ``=`` before it. Raises Unsupported for none."""
        plain = [name.lstrip("=") for name in names]
        default = next((at for at, name in enumerate(names) if name[0] == "="), None)
        name = self.take(*plain) if default is not None else self.need(*plain)
        return plain.index(name) if name else default or 0

    def choose(self, *names: str) -> None:
        """Set SUB to the `number` of one of these modifiers."""
        self.row[c.SUB] = self.number(*names)

    def bits(self, *choices: Any) -> None:
        """Set the bits of one of these modifiers: each name before its bits, a default with a ``=``."""
        self.set(choices[1::2][self.number(*choices[::2])])

    def wide(self, *names: str) -> None:
        """Give the next outputs and sources two words if one of these is a modifier."""
        self.words = 2 if self.take(*names) else 1

    def drop(self, *names: str) -> None:
        """Remove modifiers that change neither values nor counts."""
        for name in names:
            while name in self.modifiers:
                self.modifiers.remove(name)

    def take_all(self, *names: str) -> list[str]:
        """Remove and return all modifiers that are among the names, in their order."""
        taken = [name for name in self.modifiers if name in names]
        self.drop(*taken)
        return taken

    def ignore(self) -> None:
        """Drop all modifiers and operands: they change neither values nor counts."""
        self.modifiers.clear()
        self.operands.clear()

    def flag(self, name: str, bit: int) -> bool:
        present = self.take(name) is not None
        if present:
            self.set(bit)
        return present

    def unless(self, name: str, bit: int) -> None:
        if not self.take(name):
            self.set(bit)

    def set(self, bit: int) -> None:
        self.row[c.FLAGS] |= bit

    def fail(self, detail: str = "") -> Unsupported:
        detail = detail or f"operands {self.raw.operands}"
        return Unsupported(self.raw.opcode, self.raw.address, detail)

    # -- pieces
    @staticmethod
    def predicate_index(operand: SassOperand) -> int:
        return operand.index + (8 if operand.kind == "upredicate" else 0)

    def is_predicate(self, operand: SassOperand) -> bool:
        return operand.kind in ("predicate", "upredicate")

    def op(self, family: int, op: int) -> None:
        """Set the family that executes it, and its operation in that family."""
        self.row[c.FAMILY], self.row[c.OP] = family, op

    def destination(self, words: int = 0) -> None:
        """Take all outputs: leading predicates, the register, further predicates."""
        outputs = self.leading_predicates()
        self.register_out(words)
        self.predicates_out(outputs + self.leading_predicates())

    def leading_predicates(self) -> list[SassOperand]:
        predicates = []
        while self.operands and self.is_predicate(self.operands[0]):
            predicates.append(self.operands.pop(0))
        return predicates

    def whole(self, at: int = 0) -> int:
        """Take an operand, by default the next one, which must be a whole number."""
        operand = self.operands.pop(at)
        if operand.kind != "integer":
            raise self.fail()
        return int(operand.value)

    def plain(self, kind: str = "register") -> SassOperand:
        """Take the next operand, which must have this kind and no suffix or sign."""
        operand = self.operands.pop(0)
        if operand.kind != kind or operand.suffixes or operand.negated or operand.inverted:
            raise self.fail()
        return operand

    def register_out(self, words: int = 0) -> None:
        if not self.operands or self.operands[0].kind not in ("register", "uniform"):
            raise self.fail()
        first = self.operands.pop(0)
        if first.suffixes:
            raise self.fail(f"destination {first.text}")
        self.row[c.DST] = first.index
        self.row[c.DST_UNIFORM] = first.kind == "uniform"
        self.row[c.DST_WORDS] = words or self.words

    def predicates_out(self, outputs: Sequence[SassOperand]) -> None:
        if len(outputs) > 2:
            raise self.fail()
        for column, operand in zip((c.PD0, c.PD1), outputs):
            self.row[column] = self.predicate_index(operand)

    def predicate_out(self, count: int = 1) -> None:
        """Take so many output predicates."""
        self.predicates_out([self.operands.pop(0) for _ in range(count)])

    def predicate_in(self, operand: SassOperand) -> None:
        column = (c.PIN0, c.PIN1, c.PIN2)[self.predicates_in]
        self.row[column] = self.predicate_index(operand)
        self.row[column + 1] = operand.inverted
        self.predicates_in += 1

    def trailing_predicates(self) -> list[SassOperand]:
        """Take the predicates at the end as inputs, in order."""
        predicates: list[SassOperand] = []
        while self.operands and self.is_predicate(self.operands[-1]):
            predicates.insert(0, self.operands.pop())
        for operand in predicates:
            self.predicate_in(operand)
        return predicates

    def source(self, operand: SassOperand, kind: str = "int", words: int = 1) -> None:
        """Add a source; kind: int, f32, f64, f16, bf16 (how modifiers and literals work)."""
        if self.sources > 3:
            raise self.fail("more than four sources")
        at = c.SOURCES + self.sources * c.SOURCE_COLUMNS
        slot = self.row[at : at + c.SOURCE_COLUMNS]
        self.sources += 1
        self.row[c.NSRC] = self.sources
        slot[c.AND] = slot[c.AND_HIGH] = -1
        slot[c.WORDS] = words
        swizzles, turned = list(operand.suffixes), 0
        if "64" in swizzles and words == 2:
            swizzles.remove("64")
        for name in swizzles:
            if kind in ("f16", "bf16") and (halves := HALVES.match(name)):
                turned = bool(halves[1]) << 31 | bool(halves[2]) << 15
                name = name.replace("N", "")
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
            slot[c.VALUE], slot[c.VALUE_HIGH] = signed(low), signed(high)
            return
        else:
            raise self.fail(f"operand {operand.text}")
        self.masks(operand, kind, slot)
        slot[c.XOR] ^= signed(turned)

    def literal(self, operand: SassOperand, kind: str, words: int) -> tuple[int, int]:
        text = operand.text
        if kind != "int":
            bits = bits_of(text, kind) * (0x10001 if "16" in kind else 1)
            return bits & 0xFFFFFFFF, bits >> 32
        if operand.kind == "float":
            if str(operand.value).lstrip("+-").isdigit():
                return int(operand.value), 0
            return bits_of(text, "f32"), 0
        value = int(operand.value)
        high = (value >> 32) if words == 2 else 0
        return value, high

    def next_sources(self, count: int, kind: str = "int", words: int = 0) -> None:
        """Take the next ``count`` operands as sources."""
        for _ in range(count):
            self.source(self.operands.pop(0), kind, words or self.words)

    def filled(self, count: int, text: str) -> None:
        """Add operands with this text up to their number."""
        self.operands += [parse(text)] * (count - len(self.operands))

    def last_number(self) -> None:
        """Set SUB to the last operand."""
        self.row[c.SUB] = self.whole(-1)

    def put(self, column: int, number: int) -> None:
        self.row[column] = number

    def exact(self, text: str) -> None:
        """Take the next operand, which must have this text."""
        if self.operands.pop(0).text != text:
            raise self.fail()

    def always(self, text: str) -> None:
        """Add a source that is not printed."""
        self.source(parse(text))

    def plain_sources(self, count: int, kind: str = "register", words: int = 1) -> None:
        for _ in range(count):
            self.source(self.plain(kind), "int", words)

    def place(self, first: int = c.A_REG) -> None:
        """Take the next operand as the address."""
        self.address(self.operands.pop(0), first)

    def index(self, column: int, kind: str = "") -> None:
        """Set a column to the number of the next operand, which must be `plain` if it has a kind."""
        self.row[column] = (self.plain(kind) if kind else self.operands.pop(0)).index

    def masks(self, operand: SassOperand, kind: str, slot: np.ndarray) -> None:
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
            slot[column_and] = signed(~sign)
        if operand.negated:
            slot[column_xor] = signed(sign)

    def pair_sources(self, count: int, kind: str) -> None:
        """Take sources of a half operation: each a register, or two literals (high, low)."""
        for _ in range(count):
            first = self.operands.pop(0)
            if first.kind in ("integer", "float"):
                second = self.operands.pop(0)
                value = bits_of(first.text, kind) << 16 | bits_of(second.text, kind)
                self.source(SassOperand("integer", first.text, value=value))
            else:
                self.source(first, kind)

    def address(self, operand: SassOperand, first: int = c.A_REG) -> None:
        """Fill an address' columns from its terms: register, uniform register, offset."""
        if operand.kind not in ("memory", "constant"):
            raise self.fail(f"operand {operand.text}")
        shift = first - c.A_REG
        far = self.far
        for term in operand.terms:
            # With E an address without a width has 64 bits.
            wide, scale = far and not term.uniform and not term.suffixes, 0
            for suffix in term.suffixes:
                if suffix in ("64", "U32"):
                    wide = suffix == "64"
                elif suffix in SCALES:
                    scale = SCALES[suffix]
                else:
                    raise self.fail(f"address {operand.text}")
            register, width = (c.A_UREG, c.A_UWIDE) if term.uniform else (c.A_REG, c.A_WIDE)
            if self.row[register + shift] != RZ or (term.uniform and scale):
                raise self.fail(f"address {operand.text}")
            self.row[register + shift], self.row[width + shift] = term.index, wide
            self.row[c.A_SHIFT + shift] |= scale
        self.row[c.A_OFFSET + shift] = signed(operand.offset)

    def comparison(self) -> None:
        """Take the comparison, into SUB."""
        self.row[c.SUB] = self.number(*c.COMPARISONS)

    def boolean(self) -> None:
        """Take how a comparison combines with the input predicate: AND by default."""
        self.set((0, c.BOOL_OR, c.BOOL_XOR)[self.number("=AND", "OR", "XOR")])

    def finish(self) -> np.ndarray:
        if self.modifiers or self.operands:
            unknown = [*self.modifiers, *(operand.text for operand in self.operands)]
            raise self.fail(f"not supported: {', '.join(unknown)}")
        return self.row


SCALES = {"X4": 2, "X8": 3, "X16": 4}
HALVES = re.compile(r"(N?)H[01]_(N?)H[01]$")
"""The upper half of an operand, then the lower one; N: negated."""
SWIZZLES = {
    "H0_H0": c.LOW_TWICE, "H1_H1": c.HIGH_TWICE, "B0": c.BYTE0, "B1": c.BYTE1, "B2": c.BYTE2,
    "B3": c.BYTE3, "H0": c.LOW_HALF, "H1": c.HIGH_HALF, "H1_H0": c.WHOLE, "H0_H1": c.SWAPPED,
}  # fmt: skip
