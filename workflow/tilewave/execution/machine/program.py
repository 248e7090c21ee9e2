"""A kernel that is ready to execute: its instructions as text and as rows, and its image."""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilewave.basics import elf as cubins
from tilewave.basics.errors import Unsupported
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import exchanges, liveness
from tilewave.execution.machine.decode import Raw, decode
from tilewave.execution.machine.families import mbarrier, memory, tensor
from tilewave.execution.machine.form import signed
from tilewave.execution.machine.operands import PT
from tilewave.theory import architectures

LABEL = re.compile(r"\s*`\(([^)]+)\)")
NOTE = re.compile(r"\s*\(\*.*?\*\)")
SEPARATOR = re.compile(r"\s*,\s*|(?<=\w) (?=-?0x)")
# An instruction, or a label on its own line.
LINE = re.compile(
    r"^(?:[ \t]*/\*(?P<address>[0-9a-f]{4,})\*/[ \t]+(?P<text>.*?)[ \t]*;|(?P<label>[^\s:/]+):$)",
    re.M,
)
GUARD = re.compile(r"^@(?P<inverted>!?)(?P<uniform>U?)P(?P<index>\d|T)")
TENSOR_MEMORY = "UTC"
"""Prefix of the opcodes of sm_100's tensor memory. ptxas puts code before them that reads shared memory of the
system, so a kernel with such an opcode is refused."""
BYTES = 16  # an instruction of sm_70 and later


class Instruction(NamedTuple):
    """An instruction; ``address`` is its byte offset in the kernel's section."""

    address: int
    opcode: str
    text: str


@dataclass(frozen=True)
class Program:
    """A kernel of a cubin.

    ``rows`` is int32 (instructions, `codes.COLUMNS`); a row whose TARGET is not -1 branches to
    that index of ``instructions``. ``unsupported`` maps the index of an instruction that cannot
    be decoded to its exception: execution ends there if it is reached.
    """

    image: cubins.Image
    instructions: tuple[Instruction, ...]
    rows: np.ndarray
    unsupported: dict[int, Unsupported]

    @property
    def system_calls(self) -> tuple[str, ...]:
        """Functions of the system by number: supported ones, then others that the code names."""
        others = {name for _, name in self.image.calls} - set(c.SYSTEM_CALLS)
        return (*c.SYSTEM_CALLS, *sorted(others))

    @property
    def prints(self) -> bool:
        """The module's code calls printf."""
        return any(name == c.SYSTEM_CALLS[c.PRINT] for _, name in self.image.calls)

    @property
    def entry(self) -> str:
        return self.image.entry


def _section(listing: str, entry: str) -> list[tuple[int, str]]:
    """Return address and text of the instructions of a kernel; labels become byte offsets."""
    start = listing.find(f"\n\t.section\t.text.{entry},")
    if start < 0:
        return []
    rows: list[tuple[int, str]] = []
    labels: dict[str, int] = {}
    waiting: list[str] = []
    for match in LINE.finditer(listing[start + 1 : listing.find("\n\t.section\t", start + 1)]):
        if match["label"]:
            waiting.append(match["label"])
            continue
        address = int(match["address"], 16)
        if waiting:
            labels |= dict.fromkeys(waiting, address)
            waiting = []
        rows.append((address, match["text"]))

    def plain(text: str) -> str:
        return LABEL.sub(lambda name: f" {labels.get(name[1], -1):#x}", NOTE.sub("", text))

    return [(address, plain(text) if "(" in text else text) for address, text in rows]


def _undecoded(raw: Raw) -> np.ndarray:
    """Return a row that ends the execution if it is reached; only its guard is decoded."""
    row = np.zeros(c.COLUMNS, np.int32)
    row[c.FAMILY], row[c.GUARD] = -1, PT
    match = GUARD.match(raw.predicate)
    if match and match["index"] != "T":
        row[c.GUARD] = int(match["index"]) + (8 if match["uniform"] else 0)
        row[c.GUARD_NOT] = bool(match["inverted"])
    return row


@functools.lru_cache(maxsize=65536)  # variants of a kernel share most instructions
def _decoded(text: str) -> tuple[Raw, str, bytes, Unsupported | None]:
    """Decode an instruction of `_section` (without its address): its parts, its text and its row."""
    tokens = text.split(None, 2 if text.startswith("@") else 1)
    predicate = tokens.pop(0) if text.startswith("@") else ""
    # RET and BRX print no comma between their register and the label or offset.
    operands = SEPARATOR.sub(",", tokens[1].strip()) if len(tokens) > 1 else ""
    raw = Raw(-1, tokens[0], operands, predicate)
    text = " ".join(filter(None, (predicate, raw.opcode, operands)))
    try:
        return raw, text, decode(raw).tobytes(), None
    except Unsupported as error:
        return raw, text, _undecoded(raw).tobytes(), error


LOOK_BACK = 12  # instructions between the load and the swap of a compare-and-swap loop


def _mark_swap_loops(rows: np.ndarray) -> None:
    """Flag (POPC) shared loads of compare-and-swap loops, which ptxas writes for missing atomics."""
    compared = c.SOURCES + c.INDEX
    swaps = (rows[:, c.FAMILY] == c.ATOMIC) & (rows[:, c.OP] == memory.A_CAS)
    loads = (rows[:, c.FAMILY] == c.LOAD) & (rows[:, c.OP] == c.SHARED)
    for swap in np.flatnonzero(swaps).tolist():
        for number in range(swap - 1, max(-1, swap - LOOK_BACK), -1):
            if loads[number] and rows[number, c.DST] == rows[swap, compared]:
                rows[number, c.FLAGS] |= c.POPC
                break


def _mark_tests(rows: np.ndarray) -> None:
    """Flag (MAY_TEST) the shared loads that may test an mbarrier: on sm_80 they are ordinary ones."""
    plain = np.isin(rows[:, c.OP], (mbarrier.B_PLAIN_ARRIVE, mbarrier.B_PLAIN_COPIES))
    if np.any(plain & (rows[:, c.FAMILY] == c.MBARRIER)):
        loads = (rows[:, c.FAMILY] == c.LOAD) & np.isin(rows[:, c.OP], (c.SHARED, c.GENERIC))
        rows[loads & np.isin(rows[:, c.WIDTH], (4, 8)), c.FLAGS] |= c.MAY_TEST


LITERAL = slice(4, 8)  # bytes of an instruction that hold its 32-bit literal


def _exact_nans(rows: np.ndarray, lines: Sequence[tuple[int, str]], code: bytes) -> None:
    """Restore the bits of NaN literals, in place.
    nvdisasm prints all of them as QNAN or SNAN, but FSEL may move an integer, or half of a double."""
    for number, (address, text) in enumerate(lines):
        if "NAN" not in text:
            continue
        bits = signed(int.from_bytes(code[address:][LITERAL], "little"))
        for slot in rows[number, c.SOURCES :].reshape(4, c.SOURCE_COLUMNS):
            if slot[c.KIND] == c.VALUE_KIND:
                slot[c.VALUE_HIGH if slot[c.WORDS] == 2 else c.VALUE] = bits


@functools.lru_cache(maxsize=4)  # a kernel is executed several times
def load(cubin: bytes, entry: str, listing: str) -> Program:
    """Decode a kernel, ``entry`` of an ELF file, by nvdisasm's listing. Raises Unsupported if it is missing
    or uses tensor memory. Another unknown instruction ends the execution only if it is reached."""
    image = cubins.read(cubin, entry)
    lines = _section(listing, image.entry)
    if not lines:
        raise Unsupported(f"entry {entry}", detail="the listing does not contain this kernel")
    decoded = [_decoded(text) for _, text in lines]
    rows = np.frombuffer(b"".join(row for _, _, row, _ in decoded), np.int32)
    rows = rows.reshape(-1, c.COLUMNS).copy()
    _exact_nans(rows, lines, image.code)
    unsupported: dict[int, Unsupported] = {}
    for number, (raw, _, _, problem) in enumerate(decoded):
        if problem is not None:
            unsupported[number] = Unsupported(raw.opcode, lines[number][0], problem.detail)
            if raw.opcode.startswith(TENSOR_MEMORY):
                raise unsupported[number]
    index = {address: number for number, (address, _) in enumerate(lines)}
    for number in np.flatnonzero((rows[:, c.FAMILY] >= 0) & (rows[:, c.TARGET] >= 0)).tolist():
        target = index.get(int(rows[number, c.TARGET]) * BYTES)
        if target is None:
            raw = decoded[number][0]
            detail = f"target {raw.operands}"
            unsupported[number] = Unsupported(raw.opcode, lines[number][0], detail)
            rows[number] = _undecoded(raw)
        else:
            rows[number, c.TARGET] = target
    if architectures.of(image.arch).hmma_two_steps:
        rows[rows[:, c.FAMILY] == c.HMMA, c.SUB] |= tensor.TWO_STEPS
    for number, (raw, _, _, _) in enumerate(decoded):
        if raw.opcode == "LEPC" and "," not in raw.operands:
            rows[number, c.SOURCES + c.VALUE] = lines[number][0]
    _mark_swap_loops(rows)
    _mark_tests(rows)
    exchanges.mark_exposed(rows)
    liveness.mark(rows)
    # A restored register may be undefined: then nothing that counts depends on it, as on one that stays.
    rows[[index[at] for at in image.spills if at in index], c.DEAD] = liveness.EVERY
    instructions = tuple(
        Instruction(address, raw.opcode, text)
        for (address, _), (raw, text, _, _) in zip(lines, decoded)
    )
    return Program(image, instructions, rows, unsupported)
