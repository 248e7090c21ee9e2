"""SASS listings through nvdisasm."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FUNCTION = re.compile(r"^\.text\.(?P<name>\w+):", re.M)
PLACE = re.compile(r'//## File "(?P<file>[^"]+)", line (?P<line>\d+)')
INLINED = re.compile(r'inlined at "(?P<file>[^"]+)", line (?P<line>\d+)')
INSTRUCTION = re.compile(r"^\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>.*?)\s*;")


@dataclass(frozen=True)
class Instruction:
    """One instruction of a function; ``line`` is the kernel file's own line, 0 if unknown."""

    function: str
    address: int
    text: str
    line: int

    @property
    def opcode(self) -> str:
        """Opcode with its modifiers, the predicate left out."""
        words = self.text.split()
        return words[1] if words[0].startswith("@") else words[0]


@functools.cache
def disassembler() -> str | None:
    """Path of nvdisasm: the wheel's, else the toolkit's."""
    try:
        import nvidia

        for folder in nvidia.__path__:
            for path in sorted(Path(folder).glob("cu*/bin/nvdisasm")):
                return str(path)
    except ImportError:
        pass
    return shutil.which("nvdisasm") or (
        "/usr/local/cuda/bin/nvdisasm" if Path("/usr/local/cuda/bin/nvdisasm").exists() else None
    )


def _run(arguments: list[str], cubin: Path) -> str:
    tool = disassembler()
    if tool is None:
        raise FileNotFoundError("nvdisasm: install the package nvidia-cuda-nvdisasm")
    done = subprocess.run([tool, *arguments, str(cubin)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"nvdisasm {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def as_text(cubin: Path) -> str:
    """nvdisasm's listing with source lines, calls that were inlined included.

    Without its analysis of data flow, which takes a third of its time and adds but remarks.
    """
    return _run(["-gi", "-c", "-ndf"], cubin)


@functools.lru_cache(maxsize=4)  # one kernel's cases come after each other
def parse(text: str, source_name: str) -> tuple[Instruction, ...]:
    """Instructions of `as_text`, each with the line of ``source_name`` it came from.

    Code inlined from a header is charged to the line of the kernel file that called it.
    """
    found: list[Instruction] = []
    function, line = "", 0
    fresh = True
    for row in text.splitlines():
        start = FUNCTION.match(row.strip())
        if start:
            function, line = start["name"], 0
            continue
        instruction = INSTRUCTION.match(row)
        if instruction:
            text_ = re.sub(r"\s+", " ", instruction["text"])
            found.append(Instruction(function, int(instruction["address"], 16), text_, line))
            fresh = True
            continue
        if "//##" in row:
            if fresh:
                line, fresh = 0, False
            # The deepest call comes first: the first place in the kernel's own file is the one.
            for place in (PLACE.search(row), INLINED.search(row)):
                if not line and place and place["file"].endswith("/" + source_name):
                    line = int(place["line"])
    return tuple(found)


def lines(text: str, source_name: str, function: str) -> dict[int, int]:
    """Address -> line of the kernel file, of one function of a listing."""
    return {one.address: one.line for one in parse(text, source_name) if one.function == function}


def relined(listing: str, moved: Mapping[str, Mapping[int, int]]) -> str:
    """A listing of `as_text` with other line numbers: file name -> line in it -> line to write."""
    if not moved:
        return listing

    def line(found: re.Match[str]) -> str:
        lines = moved.get(found["file"].rpartition("/")[2], {})
        number = int(found["line"])
        return f'"{found["file"]}", line {lines.get(number, number)}'

    return re.sub(r'"(?P<file>[^"]+)", line (?P<line>\d+)', line, listing)
