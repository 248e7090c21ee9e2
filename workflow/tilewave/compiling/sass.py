"""SASS listings through nvdisasm."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# A function's label, an instruction, or the places in the source that the next instruction came from.
ROW = re.compile(
    r"^(?:\.text\.(?P<function>\w+):|\s*/\*(?P<address>[0-9a-f]{4,})\*/\s+(?P<text>.*?)\s*;|\s*//##(?P<place>.*))",
    re.M,
)


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


def _rows(text: str, source_name: str) -> Iterator[tuple[str, int, str, int]]:
    """Function, address, text and line of each instruction of `as_text`.

    The line is the one of ``source_name`` that it came from: code inlined from a header is charged to
    the line of the kernel file that called it.
    """
    # The deepest call comes first: the first place in the kernel's own file is the one.
    own = re.compile(rf'/{re.escape(source_name)}", line (\d+)')
    function, line, fresh = "", 0, True
    for row in ROW.finditer(text):
        if row["address"]:
            yield function, int(row["address"], 16), row["text"], line
            fresh = True
        elif row["function"]:
            function, line = row["function"], 0
        else:
            if fresh:
                line, fresh = 0, False
            if not line and (place := own.search(row["place"])):
                line = int(place[1])


def parse(text: str, source_name: str) -> tuple[Instruction, ...]:
    """Instructions of `as_text`, each with the line of ``source_name`` it came from."""
    return tuple(
        Instruction(function, address, " ".join(words.split()), line)
        for function, address, words, line in _rows(text, source_name)
    )


@functools.lru_cache(maxsize=4)  # one kernel's cases come after each other
def lines(text: str, source_name: str, function: str) -> Mapping[int, int]:
    """Address -> line of the kernel file, of one function of a listing."""
    rows = _rows(text, source_name)
    return {address: line for name, address, _, line in rows if name == function}


def relined(listing: str, moved: Mapping[str, Mapping[int, int]]) -> str:
    """A listing of `as_text` with other line numbers: file name -> line in it -> line to write."""
    if not moved:
        return listing

    def line(found: re.Match[str]) -> str:
        lines = moved.get(found["file"].rpartition("/")[2], {})
        number = int(found["line"])
        return f'"{found["file"]}", line {lines.get(number, number)}'

    return re.sub(r'"(?P<file>[^"]+)", line (?P<line>\d+)', line, listing)
