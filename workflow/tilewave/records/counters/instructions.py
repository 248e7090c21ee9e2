"""Counters of single instructions, and their totals."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilewave.records.counters.figures import DERIVED, figure

KEPT = re.compile(r"^(LD|ST|ATOM|RED|UTMA|UBLK|BAR|[A-Z]{1,2}MMA)")
"""Opcodes of instructions that get a row: memory, barriers and tensor cores."""

SHARED_KINDS = re.compile(r"^(LDSM|LDGSTS|LDS|STSM|STS|ATOMS|REDS|UTMALDG|UBLKCP)\b")


def instruction_kind(opcode: str) -> str:
    """Return the kind of a shared-memory instruction, the first part of its opcode: LDS of LDS.64."""
    match = SHARED_KINDS.match(opcode)
    return match.group(1) if match else opcode.split(".")[0]


PLACE = frozenset("function address opcode sass line text file via kernel_line".split())
"""Columns of a row that hold no counts."""


def of_launches(
    functions: Sequence[str], launches: Sequence[Sequence[Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the rows of a case from those of its launches; ``functions``: the kernel of each launch.
    With several launches each row has its ``function``, and counts of the same kernel are added."""
    if len(launches) == 1:
        return [dict(row) for row in launches[0]]
    merged: dict[tuple[str, int], dict[str, Any]] = {}
    for function, rows in zip(functions, launches, strict=True):
        for row in rows:
            instruction = function, int(row["address"])
            if instruction not in merged:
                merged[instruction] = {**row, "function": function}
                continue
            for name in row.keys() - PLACE:
                merged[instruction][name] = merged[instruction].get(name, 0) + row[name]
    return list(merged.values())


def with_excess(row: dict[str, Any]) -> dict[str, Any]:
    """Add the excess wavefronts (counted less ideal) to a row that has both counts."""
    if "wavefronts_shared" in row and "wavefronts_shared_ideal" in row:
        excess = row["wavefronts_shared"] - row["wavefronts_shared_ideal"]
        row["wavefronts_shared_excess"] = excess
    return row


def instruction_totals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return shared wavefronts, ideal and excess, of all instructions and of each kind that has any."""
    totals: dict[str, list[float]] = {}
    for row in rows:
        counted, ideal = row.get("wavefronts_shared"), row.get("wavefronts_shared_ideal")
        if counted is None or ideal is None:
            continue
        for kind in ("", f"_{instruction_kind(str(row['opcode']))}"):
            total = totals.setdefault(kind, [0.0, 0.0])
            total[0] += counted
            total[1] += ideal
    figures = []
    for kind, (counted, ideal) in totals.items():
        if kind and not counted and not ideal:
            continue
        for part, count in (("", counted), ("_ideal", ideal), ("_excess", counted - ideal)):
            figures.append(figure(f"wavefronts_shared{part}{kind}", count, "wavefront"))
    return figures


# Counts of wavefronts that Nsight Compute attributes to a probe's instruction.
BY_INSTRUCTION: dict[str, str] = {
    "wavefronts_by_instruction": "wavefronts_shared",
    "ideal_by_instruction": "wavefronts_shared_ideal",
}
LOADS, STORES = ("LDS", "LDSM"), ("STS", "STSM")  # instructions of the op_ld and op_st counters


def probe_instruction(rows: Sequence[Mapping[str, Any]], prefix: str) -> list[Mapping[str, Any]]:
    """Return the probe's instruction among a kernel's executed ones; nothing if there is not exactly one.
    An opcode equal to the prefix has priority over those that begin with it (``STS`` must not match ``STS.64``)."""
    ran = [row for row in rows if row.get("executed") != 0]
    exact = [row for row in ran if row["opcode"] == prefix]
    chosen = exact or [row for row in ran if str(row["opcode"]).startswith(prefix + ".")]
    return chosen if len(chosen) == 1 else []


def probe_figures(
    prefix: str, rows: Sequence[Mapping[str, Any]], values: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Return the counts of a probe's instruction, without those that cannot be separated.

    If the probe is the only executed load or store, the hardware's count of the kernel (``values``) is the
    probe's. The count that ncu attributes to its address is ``wavefronts_by_instruction``: on compute capability
    9.0 it comes from a model that differs from the counter for some 128-bit loads.
    """
    chosen = probe_instruction(rows, prefix)
    if not chosen:
        return []
    counts = {name: chosen[0].get(column) for name, column in BY_INSTRUCTION.items()}
    recorded = {name: float(count) for name, count in counts.items() if count is not None}
    figures = [figure(name, count, "wavefront") for name, count in recorded.items()]
    side, kinds = ("store", STORES) if prefix.startswith("STS") else ("load", LOADS)
    ran = [row for row in rows if row.get("executed") != 0]
    alone = [row for row in ran if instruction_kind(str(row["opcode"])) in kinds]
    if len(alone) > 1:
        return figures
    for name, source in (("wavefronts", "shared_wavefronts"), ("bank_conflicts", "bank_conflicts")):
        counter = DERIVED[f"{source}_{side}"].counter
        if counter in values:
            figures.append(figure(name, values[counter], "wavefront"))
    return figures
