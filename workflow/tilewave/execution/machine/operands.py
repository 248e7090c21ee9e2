"""Parser of SASS operands as nvdisasm prints them."""

import functools
import re
from dataclasses import dataclass
from typing import Literal

from tilewave.basics.errors import Unsupported

Kind = Literal[
    "register", "uniform", "predicate", "upredicate", "integer", "float", "constant", "memory",
    "special", "barrier", "scoreboard", "label", "word",
]  # fmt: skip

RZ = 255  # index of the zero register, RZ or URZ, in either file
PT = 7

REGISTER = re.compile(r"^(U?)R(Z|\d+)$")
PREDICATE = re.compile(r"^(U?)P(T|\d+)$")
CONSTANT = re.compile(r"^c\[(?P<bank>0x[0-9a-f]+)\] ?\[(?P<inner>[^\]]*)\](?P<tail>.*)$")
INTEGER = re.compile(r"^[+-]?(0x[0-9a-f]+|\d+)$")
FLOAT = re.compile(r"^[+-]?(\d+\.?\d*(e[+-]?\d+)?|\.\d+|INF|QNAN|SNAN)$", re.I)
NESTED = re.compile(r"[\[{(]")
MEMORY = re.compile(r"^(?:desc\[(?P<desc>U?R\w+)\])?(?P<parts>(?:\[.*\])+)$")


@dataclass(frozen=True)
class Term:
    """A register inside an address; its suffixes give width and scale."""

    index: int
    uniform: bool
    suffixes: tuple[str, ...]


@dataclass(frozen=True)
class SassOperand:
    """An operand of an instruction.

    ``negated`` is a leading minus, ``inverted`` a leading ~ or !, ``absolute`` bars around it; ``suffixes`` follow it
    with dots; `reuse` is dropped, because it does not affect values. ``value`` holds an integer, a float or a name;
    ``bank``, ``offset`` and ``terms`` are the parts of a constant or a memory address.
    """

    kind: Kind
    text: str
    index: int = 0
    negated: bool = False
    inverted: bool = False
    absolute: bool = False
    suffixes: tuple[str, ...] = ()
    value: float | int | str = 0
    bank: int = 0
    offset: int = 0
    terms: tuple[Term, ...] = ()


def split(text: str) -> list[str]:
    """Split a list of operands at the commas outside brackets and braces."""
    if not NESTED.search(text):
        return [part.strip() for part in text.split(",")] if text.strip() else []
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def _register(name: str) -> tuple[int, bool] | None:
    match = REGISTER.match(name)
    if not match:
        return None
    return (RZ if match[2] == "Z" else int(match[2])), bool(match[1])


def _address(text: str) -> tuple[tuple[Term, ...], int]:
    """Parse the inside of an address' brackets: terms and constant offset."""
    terms, offset = [], 0
    for piece in re.split(r"\+", text):
        piece = piece.strip()
        if not piece:
            continue
        name, *suffixes = piece.lstrip("-").split(".")
        register = _register(name)
        if register is not None and not piece.startswith("-"):
            kept = tuple(suffix for suffix in suffixes if suffix != "reuse")
            terms.append(Term(register[0], register[1], kept))
        elif INTEGER.match(piece):
            offset += int(piece, 0)
        else:
            raise Unsupported(f"address [{text}]")
    return tuple(terms), offset


@functools.lru_cache(maxsize=16384)
def parse(text: str) -> SassOperand:
    """Parse one operand. Raises Unsupported for an unknown form."""
    raw = text.strip()
    body = raw
    if INTEGER.match(body):
        return SassOperand("integer", raw, value=int(body, 0))
    if FLOAT.match(body):
        return SassOperand("float", raw, value=body)
    negated = inverted = absolute = False
    while body and body[0] in "-~!":
        negated |= body[0] == "-"
        inverted |= body[0] in "~!"
        body = body[1:]
    tail = ""
    if body.startswith("|"):
        body, _, tail = body[1:].partition("|")
        absolute = True
    constant = CONSTANT.match(body)
    if constant:
        terms, offset = _address(constant["inner"])
        return SassOperand(
            "constant", raw, 0, negated, inverted, absolute,
            tuple(suffix for suffix in (constant["tail"] + tail).split(".") if suffix and suffix != "reuse"),
            bank=int(constant["bank"], 0), offset=offset, terms=terms,
        )  # fmt: skip
    memory = MEMORY.match(body)
    if memory:
        inner = memory["parts"]
        if inner.count("[") > 1:  # LDGSTS on sm_80: two addresses without a comma
            raise Unsupported(f"operand {raw}")
        terms, offset = _address(inner[1:-1])
        return SassOperand("memory", raw, offset=offset, terms=terms)
    name, *suffixes = body.split(".")
    suffixes += [suffix for suffix in tail.split(".") if suffix]
    kept = tuple(suffix for suffix in suffixes if suffix != "reuse")
    register = _register(name)
    if register is not None:
        kind: Kind = "uniform" if register[1] else "register"
        return SassOperand(kind, raw, register[0], negated, inverted, absolute, kept)
    predicate = PREDICATE.match(name)
    if predicate:
        index = PT if predicate[2] == "T" else int(predicate[2])
        return SassOperand(
            "upredicate" if predicate[1] else "predicate", raw, index, negated, inverted,
            suffixes=kept,
        )  # fmt: skip
    if name.startswith("SR_") or name == "SRZ":
        return SassOperand("special", raw, value=body.removesuffix(".reuse"))
    if re.match(r"^B\d+$", name):
        return SassOperand("barrier", raw, int(name[1:]), suffixes=kept)
    if re.match(r"^SB\d+$", name):
        return SassOperand("scoreboard", raw, int(name[2:]))
    if re.match(r"^[\w$.]+$", raw):
        return SassOperand("label", raw, value=raw)
    return SassOperand("word", raw, value=raw)
