"""Source lines of instructions, and the machine's faults in one sentence."""

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.basics.columns import filled
from tilewave.basics.paths import relative
from tilewave.compiling import mangling, origins, sass
from tilewave.compiling.origins import CALLS, Origin
from tilewave.kernel import includes
from tilewave.kernel.result import TRAPPED

SHOWN = 4
"""Threads and addresses that a sentence names. The result's notes have all that were reported."""


class Places:
    """Lines of a kernel file and its headers by SASS address."""

    def __init__(self, source: Path, entry: str, listing: str, include: Iterable[str] = ()) -> None:
        self.source, self.entry = source, entry
        self._folders = [source.parent, *map(Path, include)]
        self.name = relative(source)
        try:
            text = source.read_text(encoding="utf-8")
        except OSError:
            text = ""
        headers = includes.kernel_headers(text, source.parent, *self._folders)
        texts = {source.name: text, **headers}
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
        """Return the origin of an instruction; its line is 0 if unknown."""
        return self._origins.get(address, origins.NOWHERE)

    def via(self, address: int) -> str:
        """Return the call sites that led to an instruction, the outermost first, inlined or called."""
        return CALLS.join(filter(None, (self._callers.get(address, ""), self(address).via)))

    def syncs_grid(self, address: int) -> bool:
        """Return whether an instruction is inlined from grid.sync(), which traps in a launch that is not cooperative."""
        chain = sass.chains(self._listing, self.entry).get(address, ())
        return any("cooperative_groups" in site.file for site in chain)

    def file(self, address: int) -> str:
        """Return the path of an instruction's file as a reader types it; the kernel's if unknown."""
        name = self(address).file or self.source.name
        included = self._included.get(name, name)
        paths = ((folder / included).resolve() for folder in self._folders)
        return relative(next((path for path in paths if path.is_file()), self.source.parent / name))

    def at(self, address: int) -> str:
        """Return ``line 57 of kernels/ladder/matmul_tiled.cu``, with call sites, or the file if unknown."""
        origin = self(address)
        return _location(origin.line, self.file(address), self.via(address))


def _location(line: int, file: str, via: str) -> str:
    called = f", called at {via}" if via else ""
    return f"line {line} of {file}{called}" if line else file


def _with_lines(message: str, places: Places) -> str:
    """Return the machine's message with the source lines of its SASS addresses."""

    def named(match: re.Match[str]) -> str:
        origin, via = places(int(match[1], 16)), places.via(int(match[1], 16))
        where = _location(origin.line, origin.file, via) if via else f"line {origin.line}"
        return f"at {where}, SASS address {match[1]}" if origin.line else match[0]

    return re.sub(r"\bat SASS address (0x[0-9a-f]+)", named, message)


def described(fault: Any, instructions: Sequence[Any], places: Places) -> dict[str, Any]:
    """Return a fault as plain data, with its file and line."""
    located = 0 <= fault.index < len(instructions)
    raced = 0 <= fault.other < len(instructions)
    threads = [{n: list(map(int, of[n])) for n in ("block", "thread")} for of in fault.threads]
    address = int(instructions[fault.index].address) if located else -1
    message = str(fault.message)
    if fault.kind == TRAPPED and places.syncs_grid(address):
        needs = "grid.sync() needs a cooperative launch (cooperative: true), which only a GPU runs"
        message = f"{message}: {needs}"
    return {
        "kind": str(fault.kind),
        "message": mangling.plain(_with_lines(message, places)),
        "kernel": places.entry,
        "file": places.file(address),
        "line": places(address).line,
        "via": places.via(address),
        "address": address,
        "opcode": str(instructions[fault.index].opcode) if located else "",
        "threads": threads,
        "addresses": [int(address) for address in fault.addresses],
        "other_line": places(int(instructions[fault.other].address)).line if raced else 0,
        "count": int(fault.count),
    }


def by_lines(faults: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge `described` faults of one kind and the same line, or pair of lines that race; add counts."""
    merged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for fault in faults:
        lines = sorted((fault["line"], fault["other_line"])) if fault["line"] else fault["address"]
        key = fault["kernel"], fault["kind"], fault["file"], fault["via"], str(lines)
        count = merged[key]["count"] if key in merged else 0
        merged[key] = {**merged.get(key, fault), "count": count + fault["count"]}
    return list(merged.values())


def _text(fault: Mapping[str, Any], short: bool) -> str:
    facts = {"where": _location(fault["line"], fault["file"], fault["via"]), "shown": SHOWN}
    function = mangling.function(fault["kernel"])
    return filled(__file__, "places", fault=fault, short=short, function=function, **facts)


in_short = functools.partial(_text, short=True)
"""Return the kind and the lines of a `described` fault."""
sentence = functools.partial(_text, short=False)
"""Return a `described` fault in a sentence."""
