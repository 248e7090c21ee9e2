"""What the model of time needs of each instruction: control bits, pipe, registers, and what it does.

An instruction of sm_70 and later has 128 bits. From bit 105 on: stall count (4 bits), yield, write barrier and read
barrier (3 bits each, 7: none), mask of the barriers that it waits for (6 bits), reuse flags (4 bits). Z. Jia et al.,
"Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018), chapter 2.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tilewave.basics.tables import table_beside
from tilewave.execution.machine import codes as c
from tilewave.execution.machine import sm
from tilewave.execution.machine.families import control, copies, tensor
from tilewave.execution.machine.families import mbarrier as mbarriers
from tilewave.execution.machine.program import BYTES, Instruction, Program

TABLES = table_beside(__file__)
READING = (sm.FMA, sm.IMAD, sm.ALU, sm.FP64)
"""Pipes whose instructions read registers through the ports that `cycles` models."""
NAMED = re.compile(r"[-~|!]*R(\d+)")
PREDICATE = re.compile(r"!?U?P(\d|T)")
PREDICATES_ONLY = ("ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3")
MEETINGS = (control.BLOCK_SYNC, control.BLOCK_ARRIVE, control.BLOCK_REDUCE)
SCOREBOARD = re.compile(r"SB(\d)(?:,\s*0x([0-9a-f]+))?")


def _row_of(rows: Iterable[Mapping[str, Any]], opcode: str) -> Mapping[str, Any]:
    return next(row for row in rows if opcode.startswith(tuple(row["names"])))


def _registers(instruction: Instruction, reuse: int, row: np.ndarray) -> None:
    """Fill the registers of the first three source operands; -1 for another operand."""
    text = instruction.text
    operands = text.split(" ", 2 if text.startswith("@") else 1)[-1].split(",")
    while operands and PREDICATE.fullmatch(operands[0].strip()):
        operands.pop(0)
    if not instruction.opcode.startswith(PREDICATES_ONLY):
        operands = operands[1:]
    sources = [text.strip() for text in operands if not PREDICATE.fullmatch(text.strip())]
    for slot, source in enumerate(sources[:3]):
        if match := NAMED.match(source):
            row[sm.REGISTER + slot], row[sm.REUSED + slot] = int(match[1]), reuse >> slot & 1


def _wgmma(code: np.ndarray) -> tuple[int, float, float]:
    """Return kind, X and Y of a product of a warpgroup, or of the wait for its groups."""
    if code[c.OP] == tensor.G_WAIT:
        return sm.GROUPS, float(code[c.SUB]), 0
    width, first = int(code[c.WIDTH]), c.SOURCES + c.SOURCE_COLUMNS + c.KIND
    lines = width / 4 + (0 if code[first] == c.REGISTER else 16)
    return sm.WGMMA, width / 2, -lines if code[c.FLAGS] & c.HIGH else lines


def _kind(code: np.ndarray, instruction: Instruction) -> tuple[int, float, float]:
    """Return an instruction's kind with X and Y."""
    family, op, base = code[c.FAMILY], code[c.OP], instruction.opcode.split(".")[0]
    if family in (c.HMMA, c.IMMA, c.DMMA):
        return sm.PRODUCT, 0, 0
    if family == c.HGMMA:
        return _wgmma(code)
    if family in (c.LOAD, c.STORE, c.ATOMIC):
        space = code[c.SUB] >> 8 & 255 if family == c.ATOMIC else op
        if space == c.CONST_BANK:
            return sm.PLAIN, 0, 0
        what = {c.LOAD: sm.LOAD, c.STORE: sm.STORE, c.ATOMIC: sm.ATOMIC}[int(family)]
        if space == c.SHARED:
            return sm.SHARED_ACCESS, what == sm.STORE, 0
        return sm.GLOBAL_ACCESS, sm.REDUCTION if base == "REDG" else what, abs(int(code[c.WIDTH]))
    if family == c.MATRIX:
        return sm.SHARED_ACCESS, op == 1, 0
    if family == c.MBARRIER:
        kinds = {mbarriers.B_CHECK: sm.TEST, mbarriers.B_STORE: sm.REMOTE}
        idle = op in (mbarriers.B_INIT, mbarriers.B_INVALIDATE)
        return sm.PLAIN if idle else kinds.get(int(op), sm.ARRIVAL), 0, 0
    if family == c.BULK and op <= copies.Y_BYTES_OUT:
        return sm.BULK, op in (copies.Y_STORE, copies.Y_BYTES_OUT), 0
    if family == c.CONTROL and op in MEETINGS:
        return sm.MEETING, 0, 0
    if base == "DEPBAR" and (match := SCOREBOARD.search(instruction.text)):
        return sm.COPIES, int(match[1]), int(match[2] or "0", 16)
    plain = {"SHFL": sm.SHUFFLE, "LDGDEPBAR": sm.COMMIT, "BRA": sm.JUMP, "NANOSLEEP": sm.SLEEP}
    if family == c.COPY:
        return sm.COPY, 0, 0
    if family == c.CLUSTER:
        return sm.CLUSTER, base == "UCGABAR_WAIT", 0
    return plain.get(base, sm.PLAIN), 0, 0


def table(program: Program) -> np.ndarray:
    """Return float64 (instructions, sm.COLUMNS) of a program."""
    rows = np.zeros((len(program.instructions), sm.COLUMNS))
    rows[:, sm.REGISTER : sm.REUSED] = -1
    for row, code, instruction in zip(rows, program.rows, program.instructions):
        at = instruction.address
        bits = int.from_bytes(program.image.code[at : at + BYTES], "little") >> 105
        write, read = bits >> 5 & 7, bits >> 8 & 7
        row[[sm.STALL, sm.WRITES, sm.READS, sm.WAITS]] = (
            bits & 15, -1 if write == 7 else write, -1 if read == 7 else read, bits >> 11 & 63,
        )  # fmt: skip
        row[[sm.KIND, sm.X, sm.Y]] = _kind(code, instruction)
        matched = _row_of(TABLES["opcodes"], instruction.opcode)
        pipe = sm.PIPE_NAMES.index(matched["pipe"])
        if row[sm.KIND] == sm.PRODUCT:
            pipe, matched = sm.TENSOR_PIPE, _row_of(TABLES["products"], instruction.opcode)
        elif row[sm.KIND] in (sm.SHARED_ACCESS, sm.GLOBAL_ACCESS, sm.COPY):
            pipe = sm.LSU
        elif row[sm.KIND] in (sm.WGMMA, sm.GROUPS):
            pipe = sm.NONE
        row[[sm.PIPE, sm.LATENCY]] = pipe, matched["latency"]
        row[sm.INTERVAL] = 2 if pipe == sm.LSU else 0 if pipe == sm.NONE else matched["interval"]
        if pipe in READING or row[sm.KIND] == sm.PRODUCT:
            _registers(instruction, bits >> 17 & 15, row)
    return rows
