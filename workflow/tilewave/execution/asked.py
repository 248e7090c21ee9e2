"""What a launch asks of each pipe (`theory.bounds.Counts`), from its counters and its instructions' rows.

Both ncu's and executed ones have the same names. Left out is what neither tells: what bulk copies (TMA)
move, and which loads L1 answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilewave.counters.catalogue import SCALAR_OP
from tilewave.execution import opcodes
from tilewave.theory.bounds import WARP, Counts

_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
COUNTERS = (
    "smsp__inst_executed.sum",
    *(SCALAR_OP.format(kind + op) for kind in "fdh" for op in ("fma", "add", "mul")),
    *(_GLOBAL.format(what, op) for what in ("requests", "sectors") for op in ("ld", "st")),
    *(_SHARED.format(op) for op in ("ld", "st")),
)
"""Those of a launch that are looked at."""


def passes_l1(opcode: str) -> bool:
    """Whether an asynchronous copy goes from L2 to shared memory by itself (``cp.async.cg``). ncu attributes
    wavefronts to it that the data path's own counter does not have (measured on an H200)."""
    return opcodes.base(opcode) == "LDGSTS" and "BYPASS" in opcode


def _wavefronts(row: Mapping[str, Any]) -> float:
    found = row.get("wavefronts_hardware", row.get("wavefronts_shared"))
    return 0.0 if found is None or found != found else float(found)


def wavefronts(rows: Iterable[Mapping[str, Any]], values: Mapping[str, float]) -> float:
    """Wavefronts of shared memory; the hardware's own count of loads and stores where it is there."""
    counted = [values.get(_SHARED.format(op)) for op in ("ld", "st")]
    total = sum(n for n in counted if n is not None)
    sides = [side for n, side in zip(counted, (opcodes.LOADS, opcodes.STORES)) if n is not None]
    known = frozenset[str]().union(*sides)
    for row in rows:
        opcode = str(row["opcode"])
        if opcodes.base(opcode) not in known and not passes_l1(opcode):
            total += _wavefronts(row)
    return total


def of_launch(values: Mapping[str, float], rows: Iterable[Mapping[str, Any]]) -> Counts:
    """What a launch asks of the pipes.

    values: counters by name; one that is absent counts nothing. rows: of its instructions, all of them or
    those that are kept (`counters.instructions.KEPT`), which lack the ALU's.
    """
    rows = list(rows)
    tensor: dict[str, float] = {}
    threads = dict.fromkeys(("alu", "special"), 0.0)
    past = 0.0
    for row in rows:
        opcode, executed = str(row["opcode"]), float(row["executed"])
        if executed and (known := opcodes.unit(opcode)):
            tensor[known[0]] = tensor.get(known[0], 0.0) + executed * known[1]
        base = opcodes.base(opcode)
        for name, bases in (("alu", opcodes.ALU), ("special", opcodes.SPECIAL)):
            threads[name] += WARP * executed if base in bases else 0.0
        if passes_l1(opcode) and row.get("sectors_global") == row.get("sectors_global"):
            past += float(row.get("sectors_global") or 0)

    def total(*names: str) -> float:
        return sum(values.get(name, 0.0) for name in names)

    def scalar(kind: str) -> float:
        return total(*(SCALAR_OP.format(kind + op) for op in ("fma", "add", "mul")))

    loaded, stored = (_GLOBAL.format("sectors", op) for op in ("ld", "st"))
    return Counts(
        instructions=total("smsp__inst_executed.sum"),
        f32=scalar("f"),
        f64=scalar("d"),
        f16=scalar("h"),
        alu=threads["alu"],
        special=threads["special"],
        tensor=tensor,
        wavefronts=wavefronts(rows, values),
        requests=total(_GLOBAL.format("requests", "ld"), _GLOBAL.format("requests", "st")),
        sectors=max(0.0, total(loaded, stored) - past),
        port=past + total(stored),
    )
