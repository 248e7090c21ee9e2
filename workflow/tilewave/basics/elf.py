"""Sizes, constants and symbols of a kernel, from its cubin.

A cubin is an ELF file. The sections that a launch needs are ``.nv.info.<entry>`` (attributes, such as
the position of the parameters), ``.nv.constant<bank>[.<entry>]``, ``.nv.shared.<entry>`` and, for device
functions and variables, the symbol table and the relocations.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tilewave.basics.errors import Unsupported

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import Section

# Attributes of .nv.info (names as `cuobjdump -elf` prints them).
PARAM_CBANK = 0x0A
KPARAM_INFO = 0x17
MAX_THREADS, REQUIRED_BLOCK, CLUSTER = 0x05, 0x10, 0x3D
MIN_STACK_SIZE = 0x12
REGCOUNT = 0x2F
ANNOTATIONS, SPILL = 0x55, 1
"""The attribute of marked instructions, and the mark of one that saves or restores a register."""
POINTERS = ".nv.constant4"  # the section of addresses that the loader writes
SIZED = 4  # format of an attribute whose value has its own length


@dataclass(frozen=True)
class Image:
    """A kernel and the data of its cubin; sizes in bytes.

    shared_size: static shared memory, with the part that the system reserves at its start. parameters: (offset in the
    parameter area, size) in the order of the arguments. constants: initial bytes of each constant bank. pointers:
    8-byte slots of bank 4 that hold an address: (offset in the bank, section of the symbol, offset in that section).
    calls: slots of functions that the cubin lacks: (offset in the bank, symbol). block: x, y and z that a launch must
    have, or at most; empty where the cubin sets none. cluster: x, y and z that a launch must have; empty where the
    cubin sets none. shared_alignment: the largest that an array in shared memory is declared with. spills: byte
    offsets of the instructions by which the compiler saves and restores registers. symbols: section of each variable,
    and its offset there.
    """

    entry: str
    arch: int
    registers: int
    parameters: tuple[tuple[int, int], ...]
    parameter_base: int
    shared_size: int
    stack_size: int
    constants: dict[int, bytes]
    globals_: dict[str, bytes] = field(default_factory=dict)
    pointers: tuple[tuple[int, str, int], ...] = ()
    calls: tuple[tuple[int, str], ...] = ()
    block: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    code: bytes = b""
    shared_alignment: int = 1
    spills: frozenset[int] = frozenset()
    symbols: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def parameter_sizes(self) -> tuple[int, ...]:
        """Size of each parameter, in the order of the arguments."""
        return tuple(size for _, size in self.parameters)


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        kind, name = data[at], data[at + 1]
        value = data[at + 2 : at + 4]
        at += 4
        if kind == SIZED:
            size = int.from_bytes(value, "little")
            value = data[at : at + size]
            at += size
        yield name, value


def _word(data: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _parameters(info: bytes) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return (offset, size) of each parameter, and the start of their area in bank 0."""
    sizes: dict[int, tuple[int, int]] = {}
    base = 0
    for name, value in _attributes(info):
        if name == KPARAM_INFO:
            # index, ordinal (16 bits), offset (16), then the size in the top 14 bits of a word
            sizes[_word(value, 4, 2)] = (_word(value, 6, 2), _word(value, 8) >> 18)
        elif name == PARAM_CBANK:
            base = _word(value, 4, 2)
    return tuple(sizes[ordinal] for ordinal in sorted(sizes)), base


def _sides(info: bytes, *wanted: int) -> tuple[int, ...]:
    """Return x, y and z of the first of these attributes that exists; empty where none does."""
    attributes = dict(_attributes(info))
    value = next((attributes[name] for name in wanted if name in attributes), b"")
    return tuple(_word(value, at) for at in range(0, len(value), 4))


def _spills(info: bytes) -> frozenset[int]:
    notes = b"".join(of for name, of in _attributes(info) if name == ANNOTATIONS)
    words = [_word(notes, at) for at in range(0, len(notes), 4)]
    return frozenset(offset for kind, offset in zip(words[::2], words[1::2]) if kind == SPILL)


MOST_RESERVED = 1 << 31
"""Limit of a section of zeros, in bytes."""


def checked(sections: list[Section], file_bytes: int) -> list[Section]:
    """Return the sections. Raises ValueError for one whose content would be larger than the file."""
    for section in sections:
        reserved = section["sh_type"] == "SHT_NOBITS"
        if section.compressed or section["sh_size"] > (MOST_RESERVED if reserved else file_bytes):
            raise ValueError(f"section {section.name!r} is compressed or too large")
    return sections


@functools.lru_cache(maxsize=4)  # one file's kernels come after each other
def _opened(cubin: bytes) -> tuple[ELFFile, list[Section], dict[str, Section]]:
    """Return the file and its sections, by number and by name."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(io.BytesIO(cubin))
    numbered = checked(list(elf.iter_sections()), len(cubin))
    return elf, numbered, {section.name: section for section in numbered}


@functools.lru_cache(maxsize=4)
def _functions(cubin: bytes) -> dict[str, dict[int, int]]:
    """Return the attributes of all functions, by name: those of one word."""
    from elftools.elf.sections import SymbolTableSection

    _, _, sections = _opened(cubin)
    attributes = dict[str, dict[int, int]]()
    table = sections.get(".symtab")
    for attribute, value in _attributes(sections[".nv.info"].data()):
        if attribute in (MIN_STACK_SIZE, REGCOUNT) and isinstance(table, SymbolTableSection):
            name = table.get_symbol(_word(value, 0)).name
            attributes.setdefault(name, {})[attribute] = _word(value, 4)
    return attributes


@functools.lru_cache(maxsize=4)
def _relocated(cubin: bytes) -> tuple[list[tuple[int, str, int]], list[tuple[int, str]]]:
    """Return the addresses that the loader writes into bank 4: `Image.pointers` and `Image.calls`."""
    from elftools.elf.relocation import RelocationSection
    from elftools.elf.sections import SymbolTableSection

    _, numbered, sections = _opened(cubin)
    section = sections.get(f".rela{POINTERS}", sections.get(f".rel{POINTERS}"))
    bank = sections.get(POINTERS)
    if not isinstance(section, RelocationSection) or bank is None:
        return [], []
    slots = bank.data()
    table = numbered[section["sh_link"]]
    if not isinstance(table, SymbolTableSection):
        return [], []
    pointers: list[tuple[int, str, int]] = []
    calls: list[tuple[int, str]] = []
    for entry in section.iter_relocations():
        symbol = table.get_symbol(entry["r_info_sym"])
        where = symbol["st_shndx"]
        if not isinstance(where, int):
            calls.append((int(entry["r_offset"]), str(symbol.name)))
            continue
        # A relocation without an addend adds to the value in the slot.
        addend = entry.entry.get("r_addend", _word(slots, int(entry["r_offset"]), 8))
        name = numbered[where].name
        pointers.append((int(entry["r_offset"]), name, int(symbol["st_value"]) + int(addend)))
    return pointers, calls


@functools.lru_cache(maxsize=4)
def _symbols(cubin: bytes) -> dict[str, tuple[str, int]]:
    """Return section and offset of each variable (`Image.symbols`)."""
    from elftools.elf.sections import SymbolTableSection

    _, numbered, sections = _opened(cubin)
    table = sections.get(".symtab")
    if not isinstance(table, SymbolTableSection):
        return {}
    variables = (of for of in table.iter_symbols() if of["st_info"]["type"] == "STT_OBJECT")
    places = ((of.name, of["st_shndx"], int(of["st_value"])) for of in variables)
    return {name: (numbered[at].name, value) for name, at, value in places if isinstance(at, int)}


@functools.lru_cache(maxsize=1024)  # a worker runs a kernel at dozens of shapes
def parameter_sizes(cubin: bytes, entry: str) -> tuple[int, ...]:
    """Return the bytes of each parameter of ``entry``. Raises as `read` does."""
    return read(cubin, entry).parameter_sizes


def read(cubin: bytes, entry: str) -> Image:
    """Read the image of ``entry``. Raises Unsupported where the cubin has no such kernel."""
    elf, _, sections = _opened(cubin)
    if f".text.{entry}" not in sections:
        there = (name.removeprefix(".text.") for name in sections if name.startswith(".text."))
        only = f"the cubin has no such kernel, only {', '.join(there)}"
        raise Unsupported(f"entry {entry}", detail=only)
    flags = int(elf.header["e_flags"])
    # Two layouts of e_flags: newer ones keep the architecture in bits 8 to 15.
    arch = (flags >> 8) & 0xFF if elf.header["e_ident"]["EI_ABIVERSION"] >= 8 else flags & 0xFF
    info = sections[f".nv.info.{entry}"].data()
    parameters, base = _parameters(info)
    attributes = _functions(cubin).get(entry, {})
    constants: dict[int, bytes] = {}
    for bank in range(5):
        for name in (f".nv.constant{bank}", f".nv.constant{bank}.{entry}"):  # the last one counts
            if name in sections:
                constants[bank] = sections[name].data()
    shared = sections.get(f".nv.shared.{entry}")
    named = [name for name in sections if name.startswith(".nv.global")]
    globals_ = {name: bytes(int(sections[name]["sh_size"])) for name in named}
    filled = [name for name in named if name.startswith(".nv.global.init")]
    globals_ |= {name: sections[name].data() for name in filled}
    pointers, calls = _relocated(cubin)
    return Image(
        entry=entry,
        arch=arch,
        registers=attributes.get(REGCOUNT, 0),
        parameters=parameters,
        parameter_base=base,
        shared_size=int(shared["sh_size"]) if shared is not None else 0,
        stack_size=attributes.get(MIN_STACK_SIZE, 0),
        constants=constants,
        globals_=globals_,
        pointers=tuple(pointers),
        calls=tuple(calls),
        block=_sides(info, REQUIRED_BLOCK, MAX_THREADS),
        cluster=_sides(info, CLUSTER),
        code=sections[f".text.{entry}"].data(),
        shared_alignment=max(int(shared["sh_addralign"]), 1) if shared is not None else 1,
        spills=_spills(info),
        symbols=_symbols(cubin),
    )
