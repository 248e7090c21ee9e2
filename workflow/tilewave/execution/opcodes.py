"""What an opcode is, by its name: its class, the counters it is counted by, its tensor operations.

An opcode is the whole word of a listing, ``HMMA.16816.F32``; its base is the part before the first
dot. What is known of each stands in its family (`tilewave.machine.families`); here it is put together as
tables and counters ask for it, under Nsight Compute's names.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tilewave.machine.families import OPCODES
from tilewave.machine.families.tensor import inputs, tensor, unit
from tilewave.machine.registry import Trait

__all__ = ["base", "class_of", "inputs", "tensor", "unit"]

OTHER = "other"
"""The class of an opcode that is not known."""


def _having(*traits: Trait) -> frozenset[str]:
    return frozenset(name for name, one in OPCODES.items() if set(traits) & set(one.traits))


# Base -> the op of ncu's counter `smsp__sass_thread_inst_executed_op_<op>_pred_on.sum`. It counts
# instructions: an HFMA2 on two halves counts once (ncu's own roofline multiplies by four), so do
# HFMA2 with a constant that only load a register, and HADD2.F32, a conversion (measured on an H200
# with the kernels of this project).
SCALAR: Mapping[str, str] = {
    name: one.counter
    for name, one in OPCODES.items()
    if one.counter and "uncounted" not in one.traits
}
# Two operations in one instruction (compute capability 10.0): how ncu counts them is not known
# here, so a kernel that executes one has no figure of that op.
NOT_KNOWN: Mapping[str, str] = {name: OPCODES[name].counter for name in _having("uncounted")}

LOADS = _having("shared load")
"""Counted by `..._mem_shared_op_ld`."""
STORES = _having("shared store")
SHARED = LOADS | STORES | _having("shared")
"""What the machine counts wavefronts of."""
GLOBAL_LOADS = _having("global load")
"""Counted by `l1tex__t_*_mem_global_op_ld`: asynchronous copies are among them."""
GLOBAL_STORES = _having("global store")
GLOBAL = GLOBAL_LOADS | GLOBAL_STORES | _having("global")

ALU = _having("alu")
"""What certainly takes the pipe of whole numbers and comparisons; multiplications take that of FP32."""
SPECIAL = frozenset(name for name, one in OPCODES.items() if one.kind == "special function")
WITHOUT_PRODUCTS = _having("no product")
"""Instructions of the tensor class that multiply nothing."""
ASYNCHRONOUS = _having("asynchronous")
"""Instructions that add wavefronts of their own to the data pipe, how many is not known: cuBLAS'
product of 4096 in f16 has 295,102 of STS and STSM and 262,524 of LDS, and reads 650,283 and 1,104,962
on an H200."""


@functools.cache
def base(opcode: str) -> str:
    """``LDS`` of ``LDS.U.128``."""
    return opcode.partition(".")[0]


def class_of(opcode: str) -> str:
    """The class of an opcode, `OTHER` where it has none."""
    known = OPCODES.get(base(opcode))
    return OTHER if known is None else known.kind
