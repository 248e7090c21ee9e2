"""Which words of a wide shared load nobody reads.

ptxas joins reads of neighbouring words into LDS.64 and LDS.128 and may load a word beside them that
the program never asked for. Such a word must not count as a read of what is there.
"""

from __future__ import annotations

import numpy as np

from tilewave.machine import codes as c
from tilewave.machine.operands import PT, RZ

TENSOR = (c.HMMA, c.DMMA, c.IMMA)
WIDEST = 8  # registers of a tensor operand, at most
ADDRESSED = (c.LOAD, c.STORE, c.ATOMIC, c.MATRIX, c.COPY, c.MBARRIER)


def _reads(row: np.ndarray, register: int) -> bool:
    """Whether an instruction may read a register."""
    family = int(row[c.FAMILY])
    if family < 0:
        return True

    def within(first: int, words: int) -> bool:
        return first != RZ and first <= register < first + words

    for slot in range(int(row[c.NSRC])):
        at = c.SOURCES + slot * c.SOURCE_COLUMNS
        words = WIDEST if family in TENSOR else max(1, int(row[at + c.WORDS]))
        if row[at + c.KIND] == c.REGISTER and within(int(row[at + c.INDEX]), words):
            return True
    if family in ADDRESSED:
        for first, wide in ((c.A_REG, c.A_WIDE), (c.G_REG, c.G_WIDE)):
            if within(int(row[first]), 1 + int(row[wide])):
                return True
        if family == c.STORE:
            return within(int(row[c.DST]), max(1, int(row[c.WIDTH]) // 4))
        if family == c.MATRIX and row[c.OP] == 1:
            return within(int(row[c.DST]), int(row[c.WIDTH]))
    return False


def _overwrites(row: np.ndarray, register: int) -> bool:
    """Whether an instruction writes a register in every lane that executes it."""
    family = int(row[c.FAMILY])
    keeps = family in (c.STORE, c.CONTROL, c.COPY, c.ATOMIC, c.MBARRIER) or row[c.DST_UNIFORM]
    keeps = keeps or (family == c.MATRIX and row[c.OP] == 1)
    if keeps or row[c.GUARD] != PT or row[c.GUARD_NOT]:
        return False
    first = int(row[c.DST])
    return first != RZ and first <= register < first + int(row[c.DST_WORDS])


def _following(row: np.ndarray, index: int) -> list[int] | None:
    """Where an instruction may go on; None where that is not known."""
    if row[c.FAMILY] != c.CONTROL:
        return [index + 1]
    op = row[c.OP]
    sure = row[c.GUARD] == PT and not row[c.GUARD_NOT]
    if op in (c.RETURN, c.BRANCH_INDEXED):
        return None
    if op == c.EXIT and sure and row[c.PIN0] == PT:
        return []
    if op == c.BRANCH and sure and row[c.PIN0] == PT and row[c.PIN1] == PT:
        return [int(row[c.TARGET])]
    return [index + 1] if row[c.TARGET] < 0 else [index + 1, int(row[c.TARGET])]


def _dead(rows: np.ndarray, index: int, register: int) -> bool:
    """Whether no path from after an instruction reads a register before writing it."""
    waiting, seen = [index + 1], set()
    while waiting:
        at = waiting.pop()
        if at in seen or at >= len(rows):
            continue
        seen.add(at)
        row = rows[at]
        if _reads(row, register):
            return False
        if _overwrites(row, register):
            continue
        following = _following(row, at)
        if following is None:
            return False
        waiting.extend(following)
    return True


def mark(rows: np.ndarray) -> None:
    """Fill the DEAD column of wide shared loads, in place: bit i for word i."""
    wide = (rows[:, c.FAMILY] == c.LOAD) & (rows[:, c.WIDTH] >= 8)
    wide &= np.isin(rows[:, c.OP], (c.SHARED, c.GENERIC)) & (rows[:, c.DST] != RZ)
    for index in np.flatnonzero(wide):
        first = int(rows[index, c.DST])
        for word in range(int(rows[index, c.WIDTH]) // 4):
            if _dead(rows, int(index), first + word):
                rows[index, c.DEAD] |= 1 << word
