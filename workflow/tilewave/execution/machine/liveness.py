"""Dead words of wide loads, which must not count as read.
ptxas joins reads of neighbouring words into LDS.64 and LDS.128, also over a word that is not used."""

import numpy as np

from tilewave.execution.machine import codes as c
from tilewave.execution.machine.families import control as ops
from tilewave.execution.machine.operands import PT, RZ

TENSOR = (c.HMMA, c.DMMA, c.IMMA)
WIDEST = 8  # registers of a tensor operand, at most
ADDRESSED = (c.LOAD, c.STORE, c.ATOMIC, c.MATRIX, c.COPY, c.MBARRIER)
EVERY = -1  # all registers, as bits


def _bits(first: np.ndarray, words: np.ndarray) -> list[int]:
    """Return registers as bits, for each row: ``words`` registers from ``first`` in each column."""
    words = np.where(first == RZ, 0, words)
    most = int(words.max(initial=0))
    bits = np.zeros((len(first), RZ + most + 1), np.uint8)
    for word in range(most):
        row, column = np.nonzero(words > word)
        bits[row, first[row, column] + word] = 1
    packed = np.packbits(bits, 1, bitorder="little")
    return [int.from_bytes(of_row, "little") for of_row in packed]


def _reads(rows: np.ndarray) -> list[int]:
    """Return the registers that each instruction may read."""
    family, width = rows[:, c.FAMILY, None], rows[:, c.WIDTH, None]
    sources = rows[:, c.SOURCES :].reshape(len(rows), 4, c.SOURCE_COLUMNS)
    wide = np.where(np.isin(family, TENSOR), WIDEST, np.maximum(1, sources[..., c.WORDS]))
    is_register = (sources[..., c.KIND] == c.REGISTER) & (np.arange(4) < rows[:, c.NSRC, None])
    address = np.isin(family, ADDRESSED) * (1 + rows[:, [c.A_WIDE, c.G_WIDE]])
    stored = (family == c.STORE) * np.maximum(1, width // 4)
    stored += ((family == c.MATRIX) & (rows[:, c.OP, None] == 1)) * width
    first = np.hstack([sources[..., c.INDEX], rows[:, [c.A_REG, c.G_REG, c.DST]]])
    registers = _bits(first, np.hstack([is_register * wide, address, stored]))
    return [EVERY if unknown else read for unknown, read in zip(rows[:, c.FAMILY] < 0, registers)]


def _overwrites(rows: np.ndarray) -> list[int]:
    """Return the registers that each instruction writes in every lane that executes it."""
    family = rows[:, c.FAMILY]
    keeps = np.isin(family, (c.STORE, c.CONTROL, c.COPY, c.ATOMIC, c.MBARRIER))
    keeps |= ((family == c.MATRIX) & (rows[:, c.OP] == 1)) | (rows[:, c.DST_UNIFORM] != 0)
    keeps |= (rows[:, c.GUARD] != PT) | (rows[:, c.GUARD_NOT] != 0)
    return _bits(rows[:, [c.DST]], np.where(keeps, 0, rows[:, c.DST_WORDS])[:, None])


def _following(row: np.ndarray, index: int) -> list[int] | None:
    """Return the possible successors of a control instruction; None if they are unknown."""
    op = row[c.OP]
    sure = row[c.GUARD] == PT and not row[c.GUARD_NOT]
    if op in (ops.RETURN, ops.BRANCH_INDEXED):
        return None
    if op == ops.EXIT and sure and row[c.PIN0] == PT:
        return []
    if op == ops.BRANCH and sure and row[c.PIN0] == PT and row[c.PIN1] == PT:
        return [int(row[c.TARGET])]
    return [index + 1] if row[c.TARGET] < 0 else [index + 1, int(row[c.TARGET])]


def _live(rows: np.ndarray) -> list[int]:
    """Return the live registers before each instruction, and none after the last."""
    reads, overwrites = _reads(rows), _overwrites(rows)
    control = np.flatnonzero(rows[:, c.FAMILY] == c.CONTROL).tolist()
    ways = {index: _following(rows[index], index) for index in control}
    live, before = [0] * (len(rows) + 1), None
    while live != before:
        before = list(live)
        for index in reversed(range(len(rows))):
            after = live[index + 1]
            if index in ways:
                following = ways[index]
                after = EVERY if following is None else 0
                for successor in following or ():
                    after |= live[successor]
            live[index] = reads[index] | (after & ~overwrites[index])
    return live


def mark(rows: np.ndarray) -> None:
    """Fill the DEAD column of wide loads, in place: bit i for word i."""
    wide = (rows[:, c.FAMILY] == c.LOAD) & (rows[:, c.WIDTH] >= 8)
    wide &= (rows[:, c.OP] != c.CONST_BANK) & (rows[:, c.DST] != RZ)
    if not wide.any():
        return
    live = _live(rows)
    for index in np.flatnonzero(wide).tolist():
        first, words = int(rows[index, c.DST]), int(rows[index, c.WIDTH]) // 4
        rows[index, c.DEAD] = (~live[index + 1] >> first) & ((1 << words) - 1)
