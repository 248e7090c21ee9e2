"""Text of a kernel's printf: a C format and its arguments."""

import ctypes
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewave.basics.errors import printable
from tilewave.execution.machine import state as s

# A conversion in a C format: flags, width, precision, length of the value, letter.
CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L|q)?(?P<letter>[diouxXeEfFgGaAcspn%])"
)
WIDE = ("ll", "l", "j", "z", "t", "q")  # lengths of 8 bytes
PASSED: dict[str, Callable[..., Any]] = {
    "i": ctypes.c_int,
    "q": ctypes.c_longlong,
    "Q": ctypes.c_void_p,
    "d": ctypes.c_double,
}
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
    values, room = _Values(data), ctypes.create_string_buffer(MOST + 1)

    def converted(match: re.Match[str]) -> str:
        letter, wide = match["letter"], match["length"] in WIDE
        width, precision = (
            int(values.take("i")) if match[name] == "*" else int(match[name] or 0)
            for name in ("width", "precision")
        )
        if letter == "%":
            return "%"
        kind = "d" if letter in "aAeEfFgG" else "Q" if letter in "spn" else "q" if wide else "i"
        plain = f"%{match['flags']}{max(-MOST, min(width, MOST)) or ''}"
        if match["precision"] is not None and precision >= 0:
            plain += f".{min(precision, MOST)}"
        length = "ll" if kind == "q" else match["length"] if match["length"] in ("h", "hh") else ""
        value = values.take(kind)
        if letter == "n":  # it writes nothing
            return ""
        argument = string(int(value)).encode() if letter == "s" else PASSED[kind](value)
        size = ctypes.CDLL(None).snprintf(
            room, len(room), f"{plain}{length}{letter}".encode(), argument
        )
        return room.raw[: min(size, MOST)].decode("utf-8", "replace")

    return printable(CONVERSION.sub(converted, form)[:MOST])


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
