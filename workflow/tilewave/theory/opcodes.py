"""Facts about opcodes by name: class, counters, tensor operations.

An opcode has its modifiers, ``HMMA.16816.F32``; its base is the part before the first dot. Classes and
counters have Nsight Compute's names. Families (`tilewave.execution.machine.families`) have the rules that
execute opcodes. Opcodes without such a rule are only counted, where a GPU executes them.
"""

import functools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilewave.basics.tables import table_beside

Trait = Literal[
    "shared load", "shared store", "shared", "global load", "global store", "global", "alu",
    "uncounted", "no product", "asynchronous",
]  # fmt: skip
"""Properties of an opcode that select its counters."""


@dataclass(frozen=True)
class Opcode:
    """Facts about a base. kind: its class in the tables. The head of opcodes.yaml explains the others."""

    name: str
    kind: str
    counter: str = ""
    traits: tuple[Trait, ...] = ()


OPCODES: Mapping[str, Opcode] = {
    name: Opcode(name, kind, entry.get("counter", ""), tuple(entry.get("traits", ())))
    for kind, entries in table_beside(__file__).items()
    for entry in entries
    for name in entry["names"].split()
}
"""Opcodes by name."""

OTHER = "other"
"""The class of an unknown opcode."""


def _having(*traits: Trait) -> frozenset[str]:
    return frozenset(name for name, opcode in OPCODES.items() if set(traits) & set(opcode.traits))


# Base -> the op of ncu's counter `smsp__sass_thread_inst_executed_op_<op>_pred_on.sum`. It counts
# instructions: an HFMA2 on two halves counts once (ncu's roofline multiplies by four). An HFMA2 that only
# loads a constant and HADD2.F32, a conversion, count too (measured on an H200 with this project's kernels).
SCALAR: Mapping[str, str] = {
    name: opcode.counter
    for name, opcode in OPCODES.items()
    if opcode.counter and "uncounted" not in opcode.traits
}
# Two operations in one instruction (compute capability 10.0). ncu's count of them is unknown here, so a
# kernel that executes one has no figure of that op.
UNCOUNTED: Mapping[str, str] = {name: OPCODES[name].counter for name in _having("uncounted")}

LOADS = _having("shared load")
"""Opcodes that `..._mem_shared_op_ld` counts."""
STORES = _having("shared store")
SHARED = LOADS | STORES | _having("shared")
"""Opcodes whose wavefronts the machine counts."""
GLOBAL_LOADS = _having("global load")
"""Opcodes that `l1tex__t_*_mem_global_op_ld` counts, asynchronous copies among them."""
GLOBAL_STORES = _having("global store")
GLOBAL = GLOBAL_LOADS | GLOBAL_STORES | _having("global")

ALU = _having("alu")
"""Opcodes that surely use the pipe of integers and comparisons. Multiplications use the FP32 pipe."""
SPECIAL = frozenset(name for name, opcode in OPCODES.items() if opcode.kind == "special function")
WITHOUT_PRODUCTS = _having("no product")
"""Instructions of the tensor class that multiply nothing."""
ASYNCHRONOUS = _having("asynchronous")
"""Instructions that add an unknown number of wavefronts to the data pipe. For example, cuBLAS' f16 product at
4096 has 295,102 from STS and STSM and 262,524 from LDS; an H200's counters are 650,283 and 1,104,962."""


@functools.cache
def base(opcode: str) -> str:
    """Return ``LDS`` for ``LDS.U.128``."""
    return opcode.partition(".")[0]


def class_of(opcode: str) -> str:
    row = OPCODES.get(base(opcode))
    return OTHER if row is None else row.kind


# ---- numbers of operations

WARPGROUP = 4
"""Warps of a warpgroup, which share the work of its instructions."""
WARPGROUPS = ("HGMMA", "IGMMA", "QGMMA")
_SIDES = ((8, 4), (8, 16), (8, 32), (16, 4), (16, 8), (16, 16), (16, 32), (16, 64))
SHAPES: Mapping[str, tuple[int, int, int]] = {f"{m}8{k}": (m, 8, k) for m, k in _SIDES}
"""Rows, columns and depth of a warp's tensor instruction, by its modifier: `16816`."""
_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")


def tensor(opcode: str) -> tuple[str, str, int] | None:
    """Return the input type, the sum's type, and the operations of a warp's tensor instruction.

    It has 2 m n k operations, as `sm__ops_path_tensor_*` counts them, and each warp of a warpgroup a quarter
    of them. Types are f16, bf16, tf32 and f64. None if it multiplies nothing or its count is unknown (sparse and
    integer instructions).
    """
    name, modifiers, shape = _product(opcode)
    if name not in ("HMMA", "DMMA", "HGMMA") or "SP" in modifiers or shape is None:
        return None
    m, n, k = shape
    if name == "DMMA":
        return "f64", "f64", 2 * m * n * k
    source = "bf16" if "BF16" in modifiers else "tf32" if "TF32" in modifiers else "f16"
    return source, "f16" if modifiers[1:2] == ["F16"] else "f32", 2 * m * n * k


def _product(opcode: str) -> tuple[str, list[str], tuple[int, int, int] | None]:
    """Return the base, the modifiers, and rows, columns and depth of a warp's part of a tensor instruction."""
    name, *modifiers = opcode.split(".")
    match = _SHAPE.match(modifiers[0]) if modifiers else None
    shape = tuple(map(int, match.groups())) if match else SHAPES.get((modifiers or [""])[0])
    if shape is None:
        return name, modifiers, None
    m, n, k = shape
    return name, modifiers, (m // WARPGROUP if name in WARPGROUPS else m, n, k)


@functools.cache
def unit(opcode: str) -> tuple[str, int] | None:
    """Return a tensor instruction's unit and type as `theory.bounds.Rates`, and a warp's operations; else None."""
    name, _, shape = _product(opcode)
    counted, source = tensor(opcode), inputs(opcode)
    if source is None or shape is None:
        return None
    name = "wgmma" if name in WARPGROUPS else "mma 8x8x4" if shape == (8, 8, 4) else "mma"
    of_halves = counted is not None and counted[:2] == ("f16", "f16")
    return f"{name} {source}{' f16 sum' * of_halves}", 2 * math.prod(shape)


def inputs(opcode: str) -> str | None:
    """Return the type that a tensor instruction multiplies: f16, bf16, tf32, f64, i8 or fp8.
    None if it multiplies nothing or its inputs are unknown (sparse matrices, bits, half bytes)."""
    name, modifiers, shape = _product(opcode)
    if counted := tensor(opcode):
        return counted[0]
    if "SP" in modifiers or shape is None:
        return None
    if name in ("IMMA", "IGMMA") and {"S8", "U8"} & set(modifiers):
        return "i8"
    return "fp8" if name == "QGMMA" else None
