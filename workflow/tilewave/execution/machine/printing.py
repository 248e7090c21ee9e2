"""Text of a kernel's printf: a C format and its arguments."""

import re
import struct
from collections.abc import Callable

import numpy as np

from tilewave.basics.errors import printable
from tilewave.execution.machine import state as s

# A conversion in a C format: flags, width, precision, length of the value, letter.
CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L|q)?(?P<letter>[diouxXeEfFgGaAcspn%])"
)
WIDE = ("ll", "l", "j", "z", "t", "q")  # lengths of 8 bytes
MOST = 4096  # characters of a string, of a width and of the text of a call


class _Values:
    """Arguments in memory, each at a multiple of its size."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, kind: str) -> int | float:
        """Return the next value; kind as in `struct`. 0 after the end."""
        size = struct.calcsize(kind)
        self.at = -(-self.at // size) * size
        data = self.data[self.at : self.at + size].ljust(size, b"\0")
        self.at += size
        value: int | float = struct.unpack(f"<{kind}", data)[0]
        return value


def formatted(form: str, data: bytes, string: Callable[[int], str]) -> str:
    """Format arguments as printf does. data: the arguments in memory; string: returns the text at an address."""
    values = _Values(data)

    def converted(match: re.Match[str]) -> str:
        letter, length = match["letter"], match["length"] or ""
        if letter == "%":
            return "%"
        width, precision = (
            int(values.take("i")) if match[name] == "*" else match[name] and int(match[name])
            for name in ("width", "precision")
        )
        plain = f"%{match['flags']}{'' if width is None else max(-MOST, min(width, MOST))}"
        if precision is not None and (precision or 0) >= 0:
            plain += f".{min(precision or 0, MOST)}"
        if letter in "di":
            value = int(values.take("q" if length in WIDE else "i"))
            return f"{plain}d" % (_cut(value, length, True))
        if letter in "ouxX":
            value = int(values.take("Q" if length in WIDE else "I"))
            return _octal_or_hex(plain, letter, _cut(value, length, False))
        if letter in "aA":
            digits = re.sub(r"\.?0+p", "p", float(values.take("d")).hex())
            return digits.upper() if letter == "A" else digits
        if letter in "eEfFgG":
            return f"{plain}{letter}" % values.take("d")
        if letter == "c":
            return f"{plain}c" % chr(int(values.take("i")) & 255)
        if letter == "s":
            return f"{plain}s" % string(int(values.take("Q")))
        address = int(values.take("Q"))  # p; n writes nothing
        return f"{plain}s" % (f"{address:#x}" if address else "(nil)") if letter == "p" else ""

    return printable(CONVERSION.sub(converted, form)[:MOST])


def _cut(value: int, length: str, signed: bool) -> int:
    """Cut a value of h or hh to its low bits."""
    bits = {"h": 16, "hh": 8}.get(length)
    if bits is None:
        return value
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _octal_or_hex(plain: str, letter: str, value: int) -> str:
    if letter == "o" and "#" in plain:  # C writes the sign of an octal number as 0, Python as 0o
        return f"{plain.replace('#', '')}s" % f"0{value:o}"
    if value == 0:
        plain = plain.replace("#", "")
    return f"{plain}{'d' if letter == 'u' else letter}" % value


def text_at(state: s.State, address: int) -> str:
    """Return the string at an address of global memory, or a text that says why there is none."""
    offset = address - int(state.origin[0])
    memory = state.memory.view(np.uint8)
    if address == 0:
        return "(null)"
    if not 0 <= offset < len(memory):
        return f"(a string at {address:#x}, which is not in global memory)"
    data = memory[offset : offset + MOST].tobytes()
    return data.split(b"\0", 1)[0].decode("utf-8", "replace")


def printed(state: s.State) -> tuple[tuple[str, ...], int]:
    """Return the texts of the calls that are kept, in order, and the number of all calls."""
    calls = int(state.control[s.PRINTED])
    texts = tuple(
        formatted(text_at(state, int(row[0])), row[1:].tobytes(), lambda at: text_at(state, at))
        for row in state.prints[:calls]
    )
    return texts, calls


def assertion(state: s.State, warp: int, lane: int) -> str:
    """Describe a failed assertion: expression, function, line and file."""

    def word(register: int) -> int:
        low, high = state.registers[warp, register : register + 2, lane].tolist()
        return int(low) | int(high) << 32

    expression, file, function = (text_at(state, word(register)) for register in (4, 6, 10))
    line = int(state.registers[warp, 8, lane])
    return f"`{expression}` does not hold in {function}, line {line} of {file}"
