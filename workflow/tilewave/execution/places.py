"""Where an instruction stands in the source, and what the machine found, in one sentence."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.basics.paths import relative
from tilewave.compiling import mangling, origins
from tilewave.compiling.origins import CALLS, Origin

SHOWN = 4
"""Threads and addresses that a sentence names; the result's notes have all that were reported."""


class Places:
    """Lines of one kernel file and of its own headers by SASS address."""

    def __init__(self, source: Path, entry: str, listing: str, include: Iterable[str] = ()) -> None:
        self.source, self.entry = source, entry
        self._folders = [source.parent, *map(Path, include)]
        self.name = relative(source)
        try:
            text = source.read_text(encoding="utf-8")
        except OSError:
            text = ""
        texts = origins.own_texts(text, source, self._folders)
        self._included = {Path(name).name: name for name in texts}
        self._listing, self._texts = listing, texts

    # Most cases have no fault, and none of their lines is looked up.
    @functools.cached_property
    def _origins(self) -> dict[int, Origin]:
        return origins.of_listing(self._listing, self.entry, self._texts)

    @functools.cached_property
    def _callers(self) -> dict[int, str]:
        return origins.callers(self._listing, self.entry, self._texts)

    def __call__(self, address: int) -> Origin:
        """Where an instruction came from; its line is 0 where that is not known."""
        return self._origins.get(address, origins.NOWHERE)

    def via(self, address: int) -> str:
        """The call sites that led to an instruction, the outermost first: of the function that it was
        inlined from, and of a device function that is called."""
        return CALLS.join(filter(None, (self._callers.get(address, ""), self(address).via)))

    def file(self, address: int) -> str:
        """The file of an instruction's line as a reader types it; the kernel's where it is not known."""
        name = self(address).file or self.source.name
        included = self._included.get(name, name)
        places = ((folder / included).resolve() for folder in self._folders)
        return relative(next((one for one in places if one.is_file()), self.source.parent / name))

    def at(self, address: int) -> str:
        """``line 57 of kernels/ladder/matmul_tiled.cu``, with the call sites of a header's line; or the file
        alone."""
        origin = self(address)
        return _place(origin.line, self.file(address), self.via(address))


def _place(line: int, file: str, via: str) -> str:
    called = f", called at {via}" if via else ""
    return f"line {line} of {file}{called}" if line else file


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
        origin, via = places(int(found[1], 16)), places.via(int(found[1], 16))
        where = _place(origin.line, origin.file, via) if via else f"line {origin.line}"
        return f"at {where}, SASS address {found[1]}" if origin.line else found[0]

    return re.sub(r"\bat SASS address (0x[0-9a-f]+)", named, message)


def described(fault: Any, instructions: Sequence[Any], places: Places) -> dict[str, Any]:
    """A fault as plain data: kind, message, kernel, file, line, via, opcode, address, threads,
    addresses."""
    known = 0 <= fault.index < len(instructions)
    address = int(instructions[fault.index].address) if known else -1
    return {
        "kind": str(fault.kind),
        "message": mangling.plain(_with_lines(str(fault.message), places)),
        "kernel": places.entry,
        "file": places.file(address),
        "line": places(address).line,
        "via": places.via(address),
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
    parts = [
        f"{mangling.function(found['kernel'])}, {_place(found['line'], found['file'], found['via'])}"
    ]
    if found["opcode"]:
        parts.append(f"{found['opcode']} at SASS address {found['address']:#06x}")
    if found["threads"] and "thread" not in found["message"]:
        parts.append(_threads(found["threads"]))
    if found["addresses"]:
        parts.append(_addresses(found["addresses"]))
    return f"{found['kind']}: {found['message']} ({'; '.join(parts)})"
