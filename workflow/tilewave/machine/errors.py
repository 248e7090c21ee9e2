"""What the machine cannot do, and how it says so."""

from __future__ import annotations


class Unsupported(Exception):
    """An instruction, operand or section that the machine does not know; never a wrong figure.

    ``opcode`` is the full opcode with its modifiers (or the part of the cubin meant), ``address``
    the instruction's byte offset in its kernel, -1 where there is none.
    """

    def __init__(self, opcode: str, address: int = -1, detail: str = "") -> None:
        self.opcode, self.address, self.detail = opcode, address, detail
        place = f" at {address:#x}" if address >= 0 else ""
        super().__init__(f"{opcode}{place}{': ' if detail else ''}{detail}")


class BadLaunch(ValueError):
    """A launch that no GPU would accept: wrong number of arguments, a block that is too large."""
