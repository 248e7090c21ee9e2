"""SASS listings from nvdisasm."""

import contextlib
import functools
import itertools
import operator
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# A function's label, an instruction, or the source lines of the next instruction.
ROW = re.compile(
    r"^(?:\.text\.(?P<function>\w+):|\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>.*?)\s*;|\s*//##(?P<place>.*))",
    re.M,
)
# HMMA, HGMMA, IMMA, DMMA, ..., with or without a predicate; HFMA2.MMA is of the FMA units.
TENSOR = re.compile(r"\*/\s+(?:@\S+\s+)?([A-Z]+MMA\b[\w.]*)")
# The label of a device function that was not inlined, or an instruction; and a call of such a function.
BEGINNING = re.compile(r"^(?P<label>\$\S+):$|^\s*/\*(?P<address>[0-9a-f]{4,})\*/", re.M)
CALL = re.compile(r"\bCALL\.REL\S* `\((?P<label>\$\S+)\)")
PLACE = re.compile(r'"(?P<file>[^"]+)", line (?P<line>\d+)')
BYTES = 16
"""Size of an instruction, from sm_70 on."""
MOST_S = 120
"""Limit of nvdisasm in seconds; it takes 2 s for the largest shipped kernel."""

WITHOUT_CODE = "// where instructions came from\n"
"""The first line of `places`."""


@functools.cache
def disassembler() -> str | None:
    """Return the path of nvdisasm: the wheel's, else the toolkit's."""
    with contextlib.suppress(ImportError):
        import nvidia

        for folder in nvidia.__path__:
            for path in sorted(Path(folder).glob("cu*/bin/nvdisasm")):
                return str(path)
    return shutil.which("nvdisasm") or shutil.which("/usr/local/cuda/bin/nvdisasm")


def as_text(cubin: Path) -> str:
    """Return nvdisasm's listing with source lines and inlined calls, without its slow analysis of data flow."""
    tool = disassembler()
    if tool is None:
        raise FileNotFoundError("nvdisasm is missing: install the package nvidia-cuda-nvdisasm")
    command = [tool, "-gi", "-c", "-ndf", str(cubin)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=MOST_S)
    if done.returncode:
        raise RuntimeError(f"nvdisasm {' '.join(command[1:-1])}: {done.stderr.strip()}")
    return done.stdout


def of_cubin(cubin: Path) -> str:
    """Return `as_text` of a cubin, from the file beside it that the compile stage wrote, if there is one."""
    path = cubin.with_suffix(".sass")
    return path.read_text(encoding="utf-8") if path.is_file() else as_text(cubin)


def _codes(listing: str) -> dict[str, str]:
    """Return function -> its part of `as_text`."""
    parts = (part.partition(":") for part in listing.split("\n.text.")[1:])
    return {name: code for name, _, code in parts}


def tensor_opcodes(listing: str, function: str) -> frozenset[str] | None:
    """Return the opcodes of tensor-core instructions in a function of `as_text`; None without that function."""
    code = _codes(listing).get(function)
    return None if code is None else frozenset(TENSOR.findall(code))


def functions_with(listing: str, opcode: str) -> list[str]:
    return sorted(name for name, code in _codes(listing).items() if opcode in code)


def on_tensor_cores(listing: str, *functions: str) -> bool | None:
    """Return whether one of these functions uses the tensor cores; None if none does and one is missing."""
    opcodes = [tensor_opcodes(listing, function) for function in functions]
    return True if any(opcodes) else None if None in opcodes else False


class Place(NamedTuple):
    """A line of a source file; ``file``: its name without folders."""

    file: str
    line: int


Chain = tuple[Place, ...]
"""Source lines of an instruction: its own, then those that called it, the outermost last. Empty without any."""


@functools.lru_cache(maxsize=65536)
def _place(text: str) -> Place | None:
    match = PLACE.search(text)
    return Place(match["file"].rpartition("/")[2], int(match["line"])) if match else None


class SassInstruction(NamedTuple):
    function: str
    address: int
    text: str
    chain: Chain

    @property
    def opcode(self) -> str:
        """Opcode with its modifiers, without the predicate."""
        tokens = self.text.split()
        return tokens[1] if tokens[0].startswith("@") else tokens[0]

    def line(self, source_name: str) -> int:
        """Return its line in a file, 0 if unknown; code inlined from a header counts for the calling line."""
        return next((place.line for place in self.chain if place.file == source_name), 0)


@functools.lru_cache(maxsize=4)  # requests for one listing follow each other
def parse(text: str) -> tuple[SassInstruction, ...]:
    instructions: list[SassInstruction] = []
    function, fresh = "", True
    chain: list[Place] = []
    origin: Chain = ()
    for row in ROW.finditer(text):
        name, address, code, place = row.groups()
        if address:
            if not fresh:
                origin, fresh = tuple(chain), True
            code = " ".join(code.split())
            instructions.append(SassInstruction(function, int(address, 16), code, origin))
        elif name:
            function, origin, fresh = name, (), True
        else:
            if fresh:
                chain, fresh = [], False
            if parsed := _place(place):
                chain.append(parsed)
    return tuple(instructions)


def places(text: str) -> str:
    """Return a listing's lines without its code, for `chains`: the number of instructions in a row of each."""
    lines, function = [WITHOUT_CODE.rstrip()], ""
    place = operator.attrgetter("function", "chain")
    for (name, chain), rows in itertools.groupby(parse(text), key=place):
        if name != function:
            lines.append(f".text.{name}:")
            function = name
        sites = "".join(f' "{place.file}", line {place.line}' for place in chain)
        lines.append(f"{sum(1 for _ in rows)}{sites}")
    return "\n".join(lines) + "\n"


def _of_places(text: str, function: str) -> dict[int, Chain]:
    """Return `chains` of `places`: an instruction has 16 bytes."""
    part = text.partition(f"\n.text.{function}:\n")[2].partition("\n.text.")[0]
    by_address: dict[int, Chain] = {}
    for line in part.splitlines():
        chain = tuple(Place(file, int(number)) for file, number in PLACE.findall(line))
        for _ in range(int(line.partition(" ")[0])):
            by_address[BYTES * len(by_address)] = chain
    return by_address


def chains(text: str, function: str) -> Mapping[int, Chain]:
    """Return address -> source lines, for a function of a listing or of its `places`."""
    if text.startswith(WITHOUT_CODE):
        return _of_places(text, function)
    return {row.address: row.chain for row in parse(text) if row.function == function}


def callers(text: str, function: str) -> Mapping[int, tuple[Chain, ...]]:
    """Return address -> call sites of its device function, for functions of ``function`` that were not inlined."""
    code = text.partition(f"\n.text.{function}:")[2].partition("\n.text.")[0]
    label, inside = "", {}
    for row in BEGINNING.finditer(code):
        if row["label"]:
            label = row["label"]
        elif label:
            inside[int(row["address"], 16)] = label
    calls: dict[str, list[Chain]] = {}
    for instruction in parse(text) if inside else ():
        if instruction.function == function and (call := CALL.search(instruction.text)):
            calls.setdefault(call["label"], []).append(instruction.chain)
    return {address: tuple(calls.get(label, ())) for address, label in inside.items()}


def relined(listing: str, moved: Mapping[str, Mapping[int, int]]) -> str:
    """Replace the line numbers of `as_text`; moved: file name -> old line -> new line."""
    if not moved:
        return listing

    def line(match: re.Match[str]) -> str:
        lines = moved.get(match["file"].rpartition("/")[2], {})
        number = int(match["line"])
        return f'"{match["file"]}", line {lines.get(number, number)}'

    return PLACE.sub(line, listing)
