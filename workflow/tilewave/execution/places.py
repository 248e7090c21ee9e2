"""Where an instruction stands in the kernel file, and what the machine found, in one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.compiling import sass

SHOWN = 4
"""Threads and addresses that a sentence names; the result's notes have all that were reported."""


def relative(path: Path) -> str:
    """A path as a reader types it: from the folder the run works in, where it lies below that."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return os.fspath(path)


class Places:
    """Lines of one kernel file by SASS address."""

    def __init__(self, source: Path, entry: str, listing: str) -> None:
        self.source, self.entry = source, entry
        self.name = relative(source)
        self._lines = sass.lines(listing, source.name, entry)
        try:
            self._texts = source.read_text(encoding="utf-8").splitlines()
        except OSError:
            self._texts = []

    def line(self, address: int) -> int:
        """Line of the kernel file that an instruction came from, 0 where it is not known."""
        return self._lines.get(address, 0)

    def __call__(self, address: int) -> tuple[int, str]:
        """Line and its text."""
        line = self.line(address)
        known = 0 < line <= len(self._texts)
        return line, self._texts[line - 1].strip() if known else ""

    def at(self, address: int) -> str:
        """``line 57 of kernels/matmul_tiled.cu``, or the file alone."""
        line = self.line(address)
        return f"line {line} of {self.name}" if line else self.name


def _three(values: Sequence[int]) -> str:
    return "(" + ", ".join(str(int(value)) for value in values) + ")"


def _threads(threads: Sequence[Mapping[str, Any]]) -> str:
    """``threads (0, 0, 0) and (1, 0, 0) of block (0, 0, 0)``, the first few."""
    blocks: dict[str, list[str]] = {}
    for one in threads[:SHOWN]:
        blocks.setdefault(_three(one["block"]), []).append(_three(one["thread"]))
    parts = [
        f"thread{'s' if len(names) > 1 else ''} {', '.join(names)} of block {block}"
        for block, names in blocks.items()
    ]
    more = len(threads) - SHOWN
    return ", ".join(parts) + (f" and {more} more" if more > 0 else "")


def _addresses(addresses: Sequence[int]) -> str:
    told = ", ".join(f"{int(address):#x}" for address in addresses[:SHOWN])
    word = "addresses" if len(addresses) > 1 else "address"
    return f"{word} {told}" + (" ..." if len(addresses) > SHOWN else "")


def _with_lines(message: str, places: Places) -> str:
    """A message of the machine, which knows SASS addresses only, with their lines."""

    def named(found: re.Match[str]) -> str:
        line = places.line(int(found[1], 16))
        return f"at line {line}, SASS address {found[1]}" if line else found[0]

    return re.sub(r"\bat SASS address (0x[0-9a-f]+)", named, message)


def described(fault: Any, instructions: Sequence[Any], places: Places) -> dict[str, Any]:
    """A fault as plain data: kind, message, kernel, file, line, opcode, address, threads,
    addresses."""
    known = 0 <= fault.index < len(instructions)
    address = int(instructions[fault.index].address) if known else -1
    return {
        "kind": str(fault.kind),
        "message": _with_lines(str(fault.message), places),
        "kernel": places.entry,
        "file": places.name,
        "line": places.line(address) if known else 0,
        "address": address,
        "opcode": str(instructions[fault.index].opcode) if known else "",
        "threads": [
            {"block": [int(i) for i in one["block"]], "thread": [int(i) for i in one["thread"]]}
            for one in fault.threads
        ],
        "addresses": [int(address) for address in fault.addresses],
    }


def sentence(found: Mapping[str, Any]) -> str:
    """`described` in one sentence."""
    place = f"line {found['line']} of {found['file']}" if found["line"] else found["file"]
    parts = [f"{found['kernel']}, {place}"]
    if found["opcode"]:
        parts.append(f"{found['opcode']} at SASS address {found['address']:#06x}")
    if found["threads"] and "thread" not in found["message"]:
        parts.append(_threads(found["threads"]))
    if found["addresses"]:
        parts.append(_addresses(found["addresses"]))
    return f"{found['kind']}: {found['message']} ({'; '.join(parts)})"
