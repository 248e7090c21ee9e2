"""The demand of a launch on each pipe (`theory.bounds.Counts`), from its counters and instruction rows, which
have ncu's names, also of an execution. Bytes of bulk copies (TMA) and loads that hit in L1 are absent."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tilewave.records.counters import catalogue
from tilewave.theory import opcodes
from tilewave.theory.bounds import Counts
from tilewave.theory.dtypes import DTYPES
from tilewave.theory.occupancy import WARP

INPUTS = ("f16", "bf16", "tf32", "f64", "i8")
PRODUCTS = {name: catalogue.TENSOR.format(DTYPES[name].tensor_source) for name in INPUTS}
PRODUCTS |= {"fp8": catalogue.FP8_OPS.name}
"""Operand type of the tensor cores -> the counter of operations on it."""
COUNTERS = (
    catalogue.WARP_INSTRUCTIONS,
    *(catalogue.SCALAR_OP.format(kind + op) for kind in "fdh" for op in ("fma", "add", "mul")),
    *(catalogue.GLOBAL_ACCESSES.format("requests", op) for op in ("ld", "st")),
    *(catalogue.GLOBAL_ACCESSES.format("sectors", op) for op in ("ld", "st")),
    *(catalogue.SHARED_WAVEFRONTS.format(op) for op in ("ld", "st")),
    *PRODUCTS.values(),
)
"""Counters of a launch that are used."""
COLUMNS = (
    "opcode", "executed", "wavefronts_shared", "wavefronts_hardware", "sectors_global", "sectors_hardware",
    "requests_global",
)  # fmt: skip
"""Columns of an instruction's row that are used."""


@functools.cache
def passes_l1(opcode: str) -> bool:
    """Return whether an asynchronous copy bypasses L1 (``cp.async.cg``).
    ncu attributes wavefronts to it that the data path's counter lacks (measured on an H200)."""
    return opcodes.base(opcode) == "LDGSTS" and "BYPASS" in opcode


def _number(row: Mapping[str, Any], *columns: str) -> float:
    """Return the first number in these columns; 0 if there is none."""
    cells = (row.get(name) for name in columns)
    return next((float(cell) for cell in cells if cell is not None and cell == cell), 0.0)


def through_l1(
    rows: Sequence[Mapping[str, Any]], values: Mapping[str, float]
) -> tuple[float, float]:
    """Return the wavefronts of global accesses in L1's data path, and the sectors of copies that bypass it.
    A request takes at least one wavefront, and one for each 128 bytes. The sectors of bypassing copies are those
    of all loads less those of other instructions: under a predicate ncu attributes too few to the copies."""
    requests, loaded, stored = (
        sum(values.get(catalogue.GLOBAL_ACCESSES.format(kind, op), 0.0) for op in ops)
        for kind, ops in (("requests", ("ld", "st")), ("sectors", ("ld",)), ("sectors", ("st",)))
    )
    ran = [row for row in rows if row["executed"] and opcodes.base(row["opcode"]) in opcodes.GLOBAL]
    if not ran:
        return max(requests, (loaded + stored) / 4), 0.0
    counted, bypass, other_loads = 0.0, False, 0.0
    for row in ran:
        sectors = _number(row, "sectors_hardware", "sectors_global")
        requested = _number(row, "requests_global") or min(float(row["executed"]), sectors)
        if passes_l1(row["opcode"]):
            bypass, sectors = True, 0.0
        elif opcodes.base(row["opcode"]) in opcodes.GLOBAL_LOADS:
            other_loads += sectors
        counted += max(requested, sectors / 4)
    return max(requests, counted), max(0.0, loaded - other_loads) if bypass else 0.0


def wavefronts(rows: Iterable[Mapping[str, Any]], values: Mapping[str, float]) -> float:
    """Return the wavefronts of shared memory; the hardware's count of loads and stores has priority."""
    counted = [values.get(catalogue.SHARED_WAVEFRONTS.format(op)) for op in ("ld", "st")]
    total = sum(n for n in counted if n is not None)
    sides = [side for n, side in zip(counted, (opcodes.LOADS, opcodes.STORES)) if n is not None]
    counted_opcodes = frozenset[str]().union(*sides)
    for row in rows:
        opcode = str(row["opcode"])
        if opcodes.base(opcode) not in counted_opcodes and not passes_l1(opcode):
            total += _number(row, "wavefronts_hardware", "wavefronts_shared")
    return total


def of_launch(values: Mapping[str, float], rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Return the demand of a launch on the pipes; an absent counter counts nothing.
    rows: all of its instructions, or those of `counters.instructions.KEPT`, without the ALU's."""
    rows = list(rows)
    tensor: dict[str, float] = {}
    threads = dict.fromkeys(("alu", "special"), 0.0)
    for row in rows:
        opcode, executed = str(row["opcode"]), float(row["executed"])
        if executed and (operations := opcodes.unit(opcode)):
            tensor[operations[0]] = tensor.get(operations[0], 0.0) + executed * operations[1]
        base = opcodes.base(opcode)
        for name, bases in (("alu", opcodes.ALU), ("special", opcodes.SPECIAL)):
            threads[name] += WARP * executed if base in bases else 0.0

    def total(*names: str) -> float:
        return sum(values.get(name, 0.0) for name in names)

    def scalar(kind: str) -> float:
        return total(*(catalogue.SCALAR_OP.format(kind + op) for op in ("fma", "add", "mul")))

    if not tensor:  # without rows, the fastest instruction is the best assumption
        counts = ((name, values.get(counter)) for name, counter in PRODUCTS.items())
        tensor = {f"wgmma {name}": count for name, count in counts if count}
    accesses, past = through_l1(rows, values)
    return Counts(
        instructions=total(catalogue.WARP_INSTRUCTIONS),
        f32=scalar("f"),
        f64=scalar("d"),
        f16=scalar("h"),
        alu=threads["alu"],
        special=threads["special"],
        tensor=tensor,
        wavefronts=wavefronts(rows, values),
        accesses=accesses,
        port=past + total(catalogue.GLOBAL_ACCESSES.format("sectors", "st")),
    )
