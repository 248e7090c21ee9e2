"""What an opcode is, by its name: its class, the counters it is counted by, its tensor operations.

An opcode is the whole word of a listing, ``HMMA.16816.F32``; its base is the part before the first
dot. The classes are those of the tables; the counters are Nsight Compute's.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

# Class -> bases. A base in none of them is "other".
CLASSES: Mapping[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "tensor": "HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA BGMMA QGMMA WARPGROUP WARPGROUPSET",
        "f32": "FFMA FFMA32I FADD FADD32I FMUL FMUL32I FMNMX FMNMX3 FSEL FSET FSETP FCHK FSWZADD "
        "FFMA2 FADD2 FMUL2",
        "f64": "DFMA DADD DMUL DMNMX DSET DSETP",
        "f16, bf16": "HFMA2 HFMA2_32I HADD2 HADD2_32I HMUL2 HMUL2_32I HMNMX2 HSET2 HSETP2",
        "special function": "MUFU",
        "conversion": "F2F F2FP F2I F2IP I2F I2FP I2I I2IP FRND",
        "integer and logic": "IMAD IMAD32I IADD IADD3 IADD32I IMUL IMUL32I IMNMX VIMNMX VIMNMX3 "
        "VIADD VIADDMNMX IABS ISETP ISCADD IDP LEA LOP LOP3 LOP32I SHF SHL SHR BMSK BREV FLO POPC "
        "SGXT PRMT SEL XMAD BFE BFI UIMAD UIADD3 UISETP ULEA ULOP ULOP3 USHF USHL USHR UBMSK UBREV "
        "UFLO UPOPC USGXT UPRMT USEL UIMNMX UVIADD UVIMNMX UIABS",
        "move and predicate": "MOV MOV32I UMOV CS2R S2R S2UR R2UR UR2R P2R R2P PLOP3 UPLOP3 UP2UR "
        "UR2UP R2B B2R PSETP PSET UPSETP VOTE VOTEU MATCH REDUX SHFL MOVM ELECT CREDUX",
        "shared memory": "LDS STS LDSM STSM ATOMS REDS",
        "asynchronous copy": "LDGSTS LDGDEPBAR DEPBAR ARRIVES UBLKCP UBLKRED UBLKPF UTMALDG UTMASTG "
        "UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH SYNCS",
        "global memory": "LDG STG LD ST ATOMG ATOM RED REDG CCTL CCTLL LDTRAM TEX TLD TLD4 SULD SUST",
        "local memory": "LDL STL",
        "constant memory": "LDC ULDC LDCU",
        "barrier": "BAR UCGABAR_ARV UCGABAR_WAIT WARPSYNC MEMBAR ERRBAR CGAERRBAR FENCE NANOSLEEP",
        "control": "BRA BRX JMP JMX BRXU JMXU CALL RET EXIT KILL BSSY BSYNC BREAK BMOV YIELD BPT "
        "RPCMOV LEPC PREEXIT ACQBULK ENDCOLLECTIVE NOP PMTRIG SETMAXREG USETMAXREG USETSHMSZ "
        "WARPSYNC_ALL BRA_U UBRA",
    }.items()
}
OTHER = "other"
_CLASS_OF = {base: name for name, bases in CLASSES.items() for base in bases}

# Base -> the op of ncu's counter `smsp__sass_thread_inst_executed_op_<op>_pred_on.sum`. It counts
# instructions: an HFMA2 on two halves counts once (ncu's own roofline multiplies by four), so do
# HFMA2 with a constant that only load a register, and HADD2.F32, a conversion (measured on an H200
# with the kernels of this project).
SCALAR: Mapping[str, str] = {
    **dict.fromkeys(("FFMA", "FFMA32I"), "ffma"),
    **dict.fromkeys(("FADD", "FADD32I"), "fadd"),
    **dict.fromkeys(("FMUL", "FMUL32I"), "fmul"),
    "DFMA": "dfma",
    "DADD": "dadd",
    "DMUL": "dmul",
    **dict.fromkeys(("HFMA2", "HFMA2_32I"), "hfma"),
    **dict.fromkeys(("HADD2", "HADD2_32I"), "hadd"),
    **dict.fromkeys(("HMUL2", "HMUL2_32I"), "hmul"),
}
# Two operations in one instruction (compute capability 10.0): how ncu counts them is not known
# here, so a kernel that executes one has no figure of that op.
NOT_KNOWN: Mapping[str, str] = {"FFMA2": "ffma", "FADD2": "fadd", "FMUL2": "fmul"}

LOADS = frozenset({"LDS", "LDSM"})
"""Counted by `..._mem_shared_op_ld`."""
STORES = frozenset({"STS", "STSM"})
SHARED = LOADS | STORES | {"LDGSTS", "ATOMS", "REDS"}
"""What the machine counts wavefronts of."""
GLOBAL_LOADS = frozenset({"LDG", "LD", "LDGSTS"})
"""Counted by `l1tex__t_*_mem_global_op_ld`: asynchronous copies are among them."""
GLOBAL_STORES = frozenset({"STG", "ST"})
GLOBAL = GLOBAL_LOADS | GLOBAL_STORES | {"ATOMG", "ATOM", "RED", "REDG"}

# What certainly takes the pipe of whole numbers and comparisons; multiplications take that of FP32.
ALU = frozenset(
    "IADD3 IADD32I LOP3 LOP32I SHF LEA ISETP SEL PRMT IMNMX VIMNMX VIADD FMNMX FSEL FSETP PLOP3".split()
)
SPECIAL = frozenset({"MUFU"})

WARPGROUP = 4
"""Warps of a warpgroup, which one of its instructions is divided among."""
WARPGROUPS = frozenset({"HGMMA", "IGMMA"})
"""Products of a warpgroup."""
WITHOUT_PRODUCTS = frozenset({"WARPGROUP", "WARPGROUPSET"})
"""Instructions of the tensor class that multiply nothing."""
ASYNCHRONOUS = frozenset({"SYNCS", "UTMALDG", "UTMASTG", "UBLKCP"})
"""Instructions that add wavefronts of their own to the data pipe, how many is not known: cuBLAS'
product of 4096 in f16 has 295,102 of STS and STSM and 262,524 of LDS, and reads 650,283 and 1,104,962
on an H200."""
_SHAPES: Mapping[str, tuple[int, int, int]] = {
    "884": (8, 8, 4),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
}
_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")


@functools.cache
def base(opcode: str) -> str:
    """``LDS`` of ``LDS.U.128``."""
    return opcode.partition(".")[0]


def class_of(opcode: str) -> str:
    """The class of an opcode, `OTHER` where it has none."""
    return _CLASS_OF.get(base(opcode), OTHER)


def tensor(opcode: str) -> tuple[str, str, int] | None:
    """Input type, type of the sum, and operations of one warp's tensor instruction.

    2 m n k operations, as `sm__ops_path_tensor_*` counts them, and a quarter of that for each warp
    of a warpgroup (cuBLAS' kernels on an H200 count 2 m n k of the whole product); types are f16,
    bf16, tf32, f64. None where the opcode is no tensor instruction that multiplies, or one whose
    count is not known here (sparse and integer instructions).
    """
    name, words, shape = _product(opcode)
    if name not in ("HMMA", "DMMA", "HGMMA") or "SP" in words or shape is None:
        return None
    m, n, k = shape
    if name == "DMMA":
        return "f64", "f64", 2 * m * n * k
    source = "bf16" if "BF16" in words else "tf32" if "TF32" in words else "f16"
    return source, "f16" if words[1:2] == ["F16"] else "f32", 2 * m * n * k


def _product(opcode: str) -> tuple[str, list[str], tuple[int, int, int] | None]:
    """Base, modifiers, and rows, columns and depth of what a warp does of a tensor instruction."""
    name, *words = opcode.split(".")
    match = _SHAPE.match(words[0]) if words else None
    shape = tuple(map(int, match.groups())) if match else _SHAPES.get((words or [""])[0])
    if shape is None:
        return name, words, None
    m, n, k = shape
    return name, words, (m // WARPGROUP if name in WARPGROUPS else m, n, k)


@functools.cache
def unit(opcode: str) -> tuple[str, int] | None:
    """The unit and type of a tensor instruction as `theory.bounds.Rates` names them, and the operations
    of one warp. None where it multiplies nothing, or what is not known here."""
    name, words, shape = _product(opcode)
    known = tensor(opcode)
    if known is not None:
        source, sum_, operations = known
    elif name in ("IMMA", "IGMMA") and "SP" not in words and {"S8", "U8"} & set(words) and shape:
        source, sum_, operations = "i8", "i32", 2 * shape[0] * shape[1] * shape[2]
    else:
        return None
    way = "wgmma" if name in WARPGROUPS else "mma 8x8x4" if shape == (8, 8, 4) else "mma"
    return f"{way} {source}" + (" f16 sum" if (source, sum_) == ("f16", "f16") else ""), operations
