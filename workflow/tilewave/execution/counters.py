"""What an execution counted, under the names that Nsight Compute has for it.

Only what the machine predicts is here: instructions, operations, shared wavefronts, requests and
sectors, the launch. Caches, cycles and DRAM depend on time, which nothing here has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewave.records.counters.catalogue import (
    BANK_CONFLICTS,
    COPY_WAVEFRONTS,
    GLOBAL_ACCESSES,
    METRICS,
    SCALAR_OP,
    SHARED_WAVEFRONTS,
    TENSOR,
    TENSOR_BY_SUM,
    TENSOR_PATH,
    WARP_INSTRUCTIONS,
    combined,
)
from tilewave.records.counters.figures import derived, figure
from tilewave.records.counters.instructions import KEPT, instruction_totals, with_excess
from tilewave.theory import architectures, opcodes
from tilewave.theory.dtypes import DTYPES

LANES = 32
LEAST_REGISTERS = 16
"""What a thread gets that asks for fewer, as ncu reports it (measured on an H200)."""

# Counter -> the column of the machine's counts, and the opcodes (bases) it sums over.
SUMS: Mapping[str, tuple[str, frozenset[str] | None]] = {
    WARP_INSTRUCTIONS: ("executed", None),
    "smsp__thread_inst_executed.sum": ("threads_executed", None),
    SHARED_WAVEFRONTS.format("ld"): ("shared_wavefronts", opcodes.LOADS),
    SHARED_WAVEFRONTS.format("st"): ("shared_wavefronts", opcodes.STORES),
    BANK_CONFLICTS.format("ld"): ("shared_conflicts", opcodes.LOADS),
    BANK_CONFLICTS.format("st"): ("shared_conflicts", opcodes.STORES),
    # ncu finds this one by patching instructions: its own attribution, not a counter of the pipe
    COPY_WAVEFRONTS: ("shared_attributed", frozenset({"LDGSTS"})),
    GLOBAL_ACCESSES.format("requests", "ld"): ("global_requests", opcodes.GLOBAL_LOADS),
    GLOBAL_ACCESSES.format("requests", "st"): ("global_requests", opcodes.GLOBAL_STORES),
    GLOBAL_ACCESSES.format("sectors", "ld"): ("global_sectors", opcodes.GLOBAL_LOADS),
    GLOBAL_ACCESSES.format("sectors", "st"): ("global_sectors", opcodes.GLOBAL_STORES),
}
# Columns of an instruction's row -> the machine's, for shared-memory instructions and for global
# ones. `wavefronts_shared` and `sectors_global` are what ncu attributes to the address, which for
# some accesses is not what the hardware counts; that stands under the names of the second half.
SHARED_COLUMNS: Mapping[str, str] = {
    "wavefronts_shared": "shared_attributed",
    "wavefronts_shared_ideal": "shared_ideal",
    "wavefronts_hardware": "shared_wavefronts",
    "requests_shared": "shared_requests",
    "transactions_shared": "shared_transactions",
    "conflicts_shared": "shared_conflicts",
}
ATTRIBUTED_COLUMNS: Mapping[str, str] = {
    name: SHARED_COLUMNS[name] for name in ("wavefronts_shared", "wavefronts_shared_ideal")
}
GLOBAL_COLUMNS: Mapping[str, str] = {
    "sectors_global": "global_attributed",
    "sectors_global_ideal": "global_sectors_ideal",
    "sectors_hardware": "global_sectors",
    "requests_global": "global_requests",
}

Counts = Mapping[str, Any]


def _column(counts: Counts, name: str) -> np.ndarray | None:
    """A column of the machine's counts; what ncu would attribute is the hardware's where no model
    of it is known."""
    if name == "global_attributed" and name not in counts:
        name = "global_sectors"
    found = counts.get(name)
    return None if found is None else np.asarray(found)


def _scalar_ops(words: Sequence[str], counts: Counts) -> dict[str, float]:
    on = np.asarray(counts["threads_on"])
    sums = dict.fromkeys(opcodes.SCALAR.values(), 0)
    unknown = set()
    for index, opcode in enumerate(words):
        name = opcodes.base(opcode)
        if name in opcodes.SCALAR:
            sums[opcodes.SCALAR[name]] += int(on[index])
        elif name in opcodes.NOT_KNOWN and on[index]:
            unknown.add(opcodes.NOT_KNOWN[name])
    return {SCALAR_OP.format(op): float(value) for op, value in sums.items() if op not in unknown}


def _tensor_ops(words: Sequence[str], counts: Counts, arch: int) -> dict[str, float]:
    """The tensor counters; none at all where an instruction of unknown count was executed."""
    on = np.asarray(counts["threads_on"])
    sums: dict[tuple[str, str], int] = {}
    paths: dict[tuple[str, str], int] = {}
    for index, opcode in enumerate(words):
        name = opcodes.base(opcode)
        if opcodes.class_of(opcode) != "tensor" or name in opcodes.WITHOUT_PRODUCTS:
            continue
        if not on[index]:
            continue
        known = opcodes.tensor(opcode)
        if known is None:
            return {}
        source, sum_, operations = known
        done = int(on[index]) // LANES * operations
        sums[source, sum_] = sums.get((source, sum_), 0) + done
        paths[name.lower(), source] = paths.get((name.lower(), source), 0) + done
    made = {
        TENSOR.format(DTYPES[source].tensor_source): float(
            sum(n for (s, _), n in sums.items() if s == source)
        )
        for source in ("f16", "bf16", "tf32", "f64")
    }
    for source in ("f16", "bf16", "tf32"):
        for path in ("hmma", "hgmma"):
            counted = float(paths.get((path, source), 0))
            made[TENSOR_PATH.format(path, DTYPES[source].tensor_source)] = counted
    if not architectures.of(arch).one_sum:
        for sum_ in ("f16", "f32"):
            counted = float(sums.get(("f16", sum_), 0))
            made[TENSOR_BY_SUM.format(DTYPES[sum_].label.lower())] = counted
    return made


def values(
    words: Sequence[str],
    counts: Counts,
    *,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int = 0,
    arch: int = 90,
    registers: int | None = None,
    static_shared: int | None = None,
) -> dict[str, float]:
    """Counter -> value of an execution.

    words: the instructions' opcodes; counts: the machine's, one number an instruction; arch:
    compute capability times ten. What the machine does not count is left out.
    """
    found: dict[str, float] = {}
    bases = np.array([opcodes.base(word) for word in words])
    strange = np.isin(bases, list(opcodes.ASYNCHRONOUS)) & (np.asarray(counts["executed"]) > 0)
    for name, (column, among) in SUMS.items():
        if column in ("shared_wavefronts", "shared_conflicts") and strange.any():
            continue
        numbers = _column(counts, column)
        if numbers is not None:
            chosen = numbers if among is None else numbers[np.isin(bases, list(among))]
            found[name] = float(chosen.sum())
    found |= _scalar_ops(words, counts) | _tensor_ops(words, counts, arch)
    found |= {f"launch__grid_dim_{axis}": float(size) for axis, size in zip("xyz", grid)}
    found["launch__grid_size"] = float(np.prod([int(size) for size in grid]))
    found["launch__block_size"] = float(np.prod([int(size) for size in block]))
    found["launch__shared_mem_per_block_dynamic"] = float(shared_bytes)
    if reserved := architectures.of(arch).shared_reserved:
        found["launch__shared_mem_per_block_driver"] = float(reserved)
    if registers is not None:
        found["launch__registers_per_thread"] = float(max(registers, LEAST_REGISTERS))
    if static_shared is not None:
        found["launch__shared_mem_per_block_static"] = float(static_shared)
    return found


def together(each: Sequence[Mapping[str, float]], leading: int) -> dict[str, float]:
    """`values` of a case from those of its launches: sums, and of what is none that of the one that
    leads. What one of them lacks is left out."""
    return {
        name: combined(name, [one[name] for one in each], leading)
        for name in each[0]
        if all(name in one for one in each)
    }


def figures(
    found: Mapping[str, float],
    rows: Sequence[Mapping[str, Any]],
    operand: str = "",
) -> list[dict[str, Any]]:
    """Figures of a result: counters, what is derived of them, and sums of the instructions' rows, as the
    result of a profiled kernel has them."""
    made = [
        figure(name, found[name], metric.unit) for name, metric in METRICS.items() if name in found
    ]
    made += derived(found, operand)
    return made + instruction_totals(rows)


def instruction_rows(
    instructions: Sequence[Any],
    counts: Counts,
    every: bool = False,
) -> list[dict[str, Any]]:
    """Rows as `gpu.ncu.instructions.instructions_of` makes them, without places in the source, and
    the columns named above. Memory, barrier and tensor instructions are kept, or ``every`` one.
    """
    rows = []
    for index, instruction in enumerate(instructions):
        opcode = str(instruction.opcode)
        if not every and not KEPT.match(opcode):
            continue
        row: dict[str, Any] = {
            "address": int(instruction.address),
            "opcode": opcode,
            "sass": str(instruction.text).rstrip(" ;"),
            "executed": int(counts["executed"][index]),
            "threads_executed": int(counts["threads_executed"][index]),
        }
        columns: dict[str, str] = {}
        if opcodes.base(opcode) in opcodes.SHARED:
            columns |= SHARED_COLUMNS
        if opcodes.base(opcode) in opcodes.WARPGROUPS:
            columns |= ATTRIBUTED_COLUMNS
        if opcodes.base(opcode) in opcodes.GLOBAL:
            columns |= GLOBAL_COLUMNS
        for name, column in columns.items():
            numbers = _column(counts, column)
            if numbers is not None:
                row[name] = int(numbers[index])
        rows.append(with_excess(row))
    return rows


def by_class(launches: Iterable[tuple[Sequence[str], Counts]]) -> list[dict[str, Any]]:
    """Warp and thread instructions of each class, the most executed first; of launches, each with its
    opcodes and counts."""
    sums: dict[str, list[int]] = {}
    for words, counts in launches:
        for index, opcode in enumerate(words):
            total = sums.setdefault(opcodes.class_of(opcode), [0, 0, 0])
            for place, column in enumerate(("executed", "threads_executed", "threads_on")):
                total[place] += int(counts[column][index])
    rows = [
        {"class": name, "executed": warps, "threads_executed": threads, "threads_on": on}
        for name, (warps, threads, on) in sums.items()
        if warps
    ]
    return sorted(rows, key=lambda row: (-int(row["executed"]), str(row["class"])))
