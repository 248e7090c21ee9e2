"""Counters of an execution under Nsight Compute's names, those that the machine predicts.
Caches, cycles and DRAM depend on time, which it does not simulate."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewave.basics.tables import table_beside
from tilewave.records.counters import catalogue
from tilewave.records.counters.figures import derived, figure
from tilewave.records.counters.instructions import KEPT, instruction_totals, with_excess
from tilewave.theory import architectures, opcodes
from tilewave.theory.dtypes import DTYPES

LANES = 32
LEAST_REGISTERS = 16
"""The fewest registers of a thread that ncu reports (measured on an H200)."""

TABLES = table_beside(__file__)
SUMS: Mapping[str, tuple[str, frozenset[str] | None]] = {
    name: (column, getattr(opcodes, among[0], frozenset(among)) if among else None)
    for name, (column, *among) in TABLES["sums"].items()
}
"""The column of the machine's counts of each counter, and the opcodes (bases) that it sums over."""
SHARED_COLUMNS: Mapping[str, str] = TABLES["shared"]
GLOBAL_COLUMNS: Mapping[str, str] = TABLES["global"]
COLUMNS = (
    (opcodes.SHARED, SHARED_COLUMNS),
    (opcodes.WARPGROUPS, dict(list(SHARED_COLUMNS.items())[:2])),
    (opcodes.GLOBAL, GLOBAL_COLUMNS),
)

Counts = Mapping[str, Any]


def _column(counts: Counts, name: str) -> np.ndarray | None:
    """Return a column of the machine's counts.
    Without a model of ncu's attributed sectors it is the hardware's column."""
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
    counted = {op: float(value) for op, value in sums.items() if op not in unknown}
    return {catalogue.SCALAR_OP.format(op): value for op, value in counted.items()}


def _tensor_ops(names: Sequence[str], counts: Counts, arch: int) -> dict[str, float]:
    """Return the tensor counters; none if an instruction of unknown count was executed."""
    on = np.asarray(counts["threads_on"])
    sums: dict[tuple[str, str], int] = {}
    paths: dict[tuple[str, str], int] = {}
    for index, opcode in enumerate(names):
        name = opcodes.base(opcode)
        multiplies = opcodes.class_of(opcode) == "tensor" and name not in opcodes.WITHOUT_PRODUCTS
        if not multiplies or not on[index]:
            continue
        product = opcodes.tensor(opcode)
        if product is None:
            return {}
        source, sum_, operations = product
        done = int(on[index]) // LANES * operations
        sums[source, sum_] = sums.get((source, sum_), 0) + done
        paths[name.lower(), source] = paths.get((name.lower(), source), 0) + done
    values = dict[str, float]()
    for source in ("f16", "bf16", "tf32", "f64"):
        total = sum(count for (of, _), count in sums.items() if of == source)
        values[catalogue.TENSOR.format(DTYPES[source].tensor_source)] = float(total)
    for source in ("f16", "bf16", "tf32"):
        for path in ("hmma", "hgmma"):
            counted = float(paths.get((path, source), 0))
            values[catalogue.TENSOR_PATH.format(path, DTYPES[source].tensor_source)] = counted
    if not architectures.of(arch).sums_alike:
        for sum_ in ("f16", "f32"):
            counted = float(sums.get(("f16", sum_), 0))
            values[catalogue.TENSOR_BY_SUM.format(DTYPES[sum_].label.lower())] = counted
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
    """Return the value of each counter that the machine predicts. arch: compute capability times ten."""
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
    """Return the `values` of a case from those of its launches, without values that a launch lacks."""
    names = [name for name in launches[0] if all(name in values for values in launches)]
    every = {name: [values[name] for values in launches] for name in names}
    return {name: catalogue.combined(name, values, leading) for name, values in every.items()}


def figures(
    values: Mapping[str, float], rows: Sequence[Mapping[str, Any]], operand: str = ""
) -> list[dict[str, Any]]:
    """Return the figures of a result as for a profiled kernel: counters, derived values, sums of rows."""
    units = {name: metric.unit for name, metric in catalogue.METRICS.items() if name in values}
    counted = [figure(name, values[name], unit) for name, unit in units.items()]
    return [*counted, *derived(values, operand), *instruction_totals(rows)]


def instruction_rows(
    instructions: Sequence[Any], counts: Counts, every: bool = False
) -> list[dict[str, Any]]:
    """Return rows as `gpu.ncu.instructions.instructions_of` does, without source lines, with the columns above too."""
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
        for bases, columns in COLUMNS:
            for name, column in columns.items() if opcodes.base(opcode) in bases else ():
                if (numbers := _column(counts, column)) is not None:
                    row[name] = int(numbers[index])
        rows.append(with_excess(row))
    return rows


def by_class(launches: Iterable[tuple[Sequence[str], Counts]]) -> list[dict[str, Any]]:
    """Return the warp and thread instructions of each class, the most executed first."""
    columns = ("executed", "threads_executed", "threads_on")
    sums: dict[str, list[int]] = {}
    for names, counts in launches:
        for index, opcode in enumerate(names):
            total = sums.setdefault(opcodes.class_of(opcode), [0, 0, 0])
            for i, column in enumerate(columns):
                total[i] += int(counts[column][index])
    rows = [{"class": name, **dict(zip(columns, of))} for name, of in sums.items() if of[0]]
    return sorted(rows, key=lambda row: (-int(row["executed"]), str(row["class"])))
