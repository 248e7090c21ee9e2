"""The source line of an instruction, in the kernel file or one of its headers, and the calls that led there."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewave.compiling import sass
from tilewave.kernel.front_matter import Kernel

CALLS = " < "
"""Separator of the call sites in `Origin.via`."""


@dataclass(frozen=True)
class Origin:
    """The origin of an instruction.

    file: name of the kernel file or one of its headers, empty if unknown; line: its number in that file, from 1; text:
    the line. via: the call sites that inlined it, the outermost first (``matmul_async.cu:39 < sgemm_tile.cuh:380``),
    empty if it was not inlined. kernel_line: the line of the kernel file that the instruction counts for: ``line``
    itself, or the line that called the header. Code inlined from CUDA's headers belongs to the line that called it.
    """

    file: str = ""
    line: int = 0
    text: str = ""
    via: str = ""
    kernel_line: int = 0


NOWHERE = Origin()


def kernel_texts(kernel: Kernel) -> dict[str, str]:
    return {kernel.path.name: kernel.text, **kernel.headers}


def by_last_name(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts by their file names without folders, as in line tables and `Origin.file`."""
    return {Path(name).name: text for name, text in texts.items()}


def _origin(chain: sass.Chain, kernel: str, lines: Mapping[str, list[str]]) -> Origin:
    sites = [site for site in chain if site.file in lines]
    if not sites:
        return NOWHERE
    (file, line), *calls = sites
    text = lines[file][line - 1].strip() if 0 < line <= len(lines[file]) else ""
    via = CALLS.join(f"{site.file}:{site.line}" for site in reversed(calls))
    of_kernel = next((site.line for site in sites if site.file == kernel), 0)
    return Origin(file, line, text, via, of_kernel)


def of_listing(listing: str, function: str, texts: Mapping[str, str]) -> dict[int, Origin]:
    """Return address -> origin of a function's instructions. listing: `sass.as_text` or `sass.places`."""
    kernel = next(iter(texts))
    lines = {name: text.splitlines() for name, text in by_last_name(texts).items()}
    origins: dict[sass.Chain, Origin] = {}
    by_address = {}
    for address, chain in sass.chains(listing, function).items():
        if chain not in origins:
            origins[chain] = _origin(chain, kernel, lines)
        if origins[chain] is not NOWHERE:
            by_address[address] = origins[chain]
    return by_address


def callers(listing: str, function: str, texts: Mapping[str, str]) -> dict[int, str]:
    """Return address -> call sites of a device function that was not inlined: ``k.cu:7 or k.cu:9``."""
    texts_by_name = by_last_name(texts)
    by_address = {}
    for address, chains in sass.callers(listing, function).items():
        sites = [[site for site in chain if site.file in texts_by_name] for chain in chains]
        calls = [CALLS.join(f"{at.file}:{at.line}" for at in reversed(chain)) for chain in sites]
        by_address[address] = " or ".join(dict.fromkeys(filter(None, calls)))
    return by_address
