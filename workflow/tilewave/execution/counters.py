"""Counters of an execution under Nsight Compute's names.

They are those that the machine predicts: instructions, operations, shared wavefronts, requests, sectors
and the launch. Caches, cycles and DRAM depend on time, which the machine does not simulate.
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
"""The fewest registers of a thread that ncu reports (measured on an H200)."""

# Counter -> the column of the machine's counts, and the opcodes (bases) it sums over.
SUMS: Mapping[str, tuple[str, frozenset[str] | None]] = {
    WARP_INSTRUCTIONS: ("executed", None),
    "smsp__thread_inst_executed.sum": ("threads_executed", None),
    SHARED_WAVEFRONTS.format("ld"): ("shared_wavefronts", opcodes.LOADS),
    SHARED_WAVEFRONTS.format("st"): ("shared_wavefronts", opcodes.STORES),
    BANK_CONFLICTS.format("ld"): ("shared_conflicts", opcodes.LOADS),
    BANK_CONFLICTS.format("st"): ("shared_conflicts", opcodes.STORES),
    # ncu gets this one from patched instructions; it is no counter of the pipe
    COPY_WAVEFRONTS: ("shared_attributed", frozenset({"LDGSTS"})),
    GLOBAL_ACCESSES.format("requests", "ld"): ("global_requests", opcodes.GLOBAL_LOADS),
    GLOBAL_ACCESSES.format("requests", "st"): ("global_requests", opcodes.GLOBAL_STORES),
    GLOBAL_ACCESSES.format("sectors", "ld"): ("global_sectors", opcodes.GLOBAL_LOADS),
    GLOBAL_ACCESSES.format("sectors", "st"): ("global_sectors", opcodes.GLOBAL_STORES),
}
# Columns of an instruction's row -> the machine's, for shared and for global memory. ncu attributes
# `wavefronts_shared` and `sectors_global` to an address. The hardware counts some accesses otherwise:
# `wavefronts_hardware` and `sectors_hardware`.
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
    """Return a column of the machine's counts.

    Without a model of ncu's attributed sectors it is the hardware's column.
    """
    if name == "global_attributed" and name not in counts:
        name = "global_sectors"
    numbers = counts.get(name)
    return None if numbers is None else np.asarray(numbers)


def _scalar_ops(names: Sequence[str], counts: Counts) -> dict[str, float]:
    on = np.asarray(counts["threads_on"])
    sums = dict.fromkeys(opcodes.SCALAR.values(), 0)
    unknown = set()
    for index, opcode in enumerate(names):
        name = opcodes.base(opcode)
        if name in opcodes.SCALAR:
            sums[opcodes.SCALAR[name]] += int(on[index])
        elif name in opcodes.UNCOUNTED and on[index]:
            unknown.add(opcodes.UNCOUNTED[name])
    return {SCALAR_OP.format(op): float(value) for op, value in sums.items() if op not in unknown}


def _tensor_ops(names: Sequence[str], counts: Counts, arch: int) -> dict[str, float]:
    """Return the tensor counters; none if an instruction of unknown count was executed."""
    on = np.asarray(counts["threads_on"])
    sums: dict[tuple[str, str], int] = {}
    paths: dict[tuple[str, str], int] = {}
    for index, opcode in enumerate(names):
        name = opcodes.base(opcode)
        if opcodes.class_of(opcode) != "tensor" or name in opcodes.WITHOUT_PRODUCTS:
            continue
        if not on[index]:
            continue
        product = opcodes.tensor(opcode)
        if product is None:
            return {}
        source, sum_, operations = product
        done = int(on[index]) // LANES * operations
        sums[source, sum_] = sums.get((source, sum_), 0) + done
        paths[name.lower(), source] = paths.get((name.lower(), source), 0) + done
    values = {
        TENSOR.format(DTYPES[source].tensor_source): float(
            sum(n for (s, _), n in sums.items() if s == source)
        )
        for source in ("f16", "bf16", "tf32", "f64")
    }
    for source in ("f16", "bf16", "tf32"):
        for path in ("hmma", "hgmma"):
            counted = float(paths.get((path, source), 0))
            values[TENSOR_PATH.format(path, DTYPES[source].tensor_source)] = counted
    if not architectures.of(arch).sums_alike:
        for sum_ in ("f16", "f32"):
            counted = float(sums.get(("f16", sum_), 0))
            values[TENSOR_BY_SUM.format(DTYPES[sum_].label.lower())] = counted
    return values


def values(
    names: Sequence[str],
    counts: Counts,
    *,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int = 0,
    arch: int = 90,
    registers: int | None = None,
    static_shared: int | None = None,
) -> dict[str, float]:
    """Return the value of each counter that the machine predicts.

    names: the instructions' opcodes. counts: the machine's, a number for each instruction. arch: compute
    capability times ten.
    """
    totals: dict[str, float] = {}
    bases = np.array([opcodes.base(name) for name in names])
    uncounted = np.isin(bases, list(opcodes.ASYNCHRONOUS)) & (np.asarray(counts["executed"]) > 0)
    for name, (column, among) in SUMS.items():
        if column in ("shared_wavefronts", "shared_conflicts") and uncounted.any():
            continue
        numbers = _column(counts, column)
        if numbers is not None:
            chosen = numbers if among is None else numbers[np.isin(bases, list(among))]
            totals[name] = float(chosen.sum())
    totals |= _scalar_ops(names, counts) | _tensor_ops(names, counts, arch)
    totals |= {f"launch__grid_dim_{axis}": float(size) for axis, size in zip("xyz", grid)}
    totals["launch__grid_size"] = float(np.prod([int(size) for size in grid]))
    totals["launch__block_size"] = float(np.prod([int(size) for size in block]))
    totals["launch__shared_mem_per_block_dynamic"] = float(shared_bytes)
    if reserved := architectures.of(arch).shared_reserved:
        totals["launch__shared_mem_per_block_driver"] = float(reserved)
    if registers is not None:
        totals["launch__registers_per_thread"] = float(max(registers, LEAST_REGISTERS))
    if static_shared is not None:
        totals["launch__shared_mem_per_block_static"] = float(static_shared)
    return totals


def together(launches: Sequence[Mapping[str, float]], leading: int) -> dict[str, float]:
    """Return the `values` of a case from those of its launches.

    Counters are summed; other values are those of the leading launch. Values that a launch lacks are skipped.
    """
    return {
        name: combined(name, [values[name] for values in launches], leading)
        for name in launches[0]
        if all(name in values for values in launches)
    }


def figures(
    values: Mapping[str, float], rows: Sequence[Mapping[str, Any]], operand: str = ""
) -> list[dict[str, Any]]:
    """Return the figures of a result as for a profiled kernel: counters, derived figures, sums of rows."""
    counted = [
        figure(name, values[name], metric.unit)
        for name, metric in METRICS.items()
        if name in values
    ]
    return [*counted, *derived(values, operand), *instruction_totals(rows)]


def instruction_rows(
    instructions: Sequence[Any], counts: Counts, every: bool = False
) -> list[dict[str, Any]]:
    """Return rows as `gpu.ncu.instructions.instructions_of` does, without source lines.

    They have the columns named above too. Memory, barrier and tensor instructions are kept, or ``every`` one.
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
    """Return the warp and thread instructions of each class, the most executed first.

    launches: the opcodes and counts of each.
    """
    sums: dict[str, list[int]] = {}
    for names, counts in launches:
        for index, opcode in enumerate(names):
            total = sums.setdefault(opcodes.class_of(opcode), [0, 0, 0])
            for i, column in enumerate(("executed", "threads_executed", "threads_on")):
                total[i] += int(counts[column][index])
    rows = [
        {"class": name, "executed": warps, "threads_executed": threads, "threads_on": on}
        for name, (warps, threads, on) in sums.items()
        if warps
    ]
    return sorted(rows, key=lambda row: (-int(row["executed"]), str(row["class"])))
