"""The least time of an executed case on a named GPU, its limiter, and the line that costs most of it."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.execution.case import CaseExecution
from tilewave.kernel import operations
from tilewave.kernel.job import Job
from tilewave.records.counters import demand
from tilewave.theory import bounds
from tilewave.theory.data_sheets import DATA_SHEETS, SHORT, DataSheet, data_sheet


def gpu_named(name: str, where_file: object) -> DataSheet:
    """Return the GPU that a command line names (``h200``). Raises UserError if it is unknown."""
    gpu = SHORT.get(name.lower().replace(" ", "").replace("_", "-"))
    if gpu is None:
        raise UserError(where_file, "--gpu", name, sorted(SHORT))
    return gpu


def gpu_of(arch: int, recorded: str) -> DataSheet | None:
    """Return the recorded GPU if it has this architecture, else the first with a data sheet, else None."""
    capability = f"{arch / 10:.1f}"
    sheet = data_sheet(recorded)
    alike = [gpu for gpu in (sheet, *DATA_SHEETS) if gpu and gpu.capability == capability]
    return alike[0] if alike and capability in bounds.RATES else None


def _of_line(
    rows: Iterable[Mapping[str, Any]], amounts: Iterable[float], kernel_file: str
) -> tuple[str, float]:
    """Return the source line (``FILE:LINE`` outside of ``kernel_file``) with the largest sum, and that sum."""
    sums: dict[tuple[str, int], float] = {}
    for row, amount in zip(rows, amounts, strict=True):
        if row.get("line"):
            line_key = str(row["file"]), int(row["line"])
            sums[line_key] = sums.get(line_key, 0.0) + amount
    if not sums:
        return "", 0.0
    (file, line), most = max(sums.items(), key=lambda pair: pair[1])
    return f"line {line}" if file in ("", kernel_file) else f"{file}:{line}", most


def of_execution(done: CaseExecution, job: Job, gpu: DataSheet) -> dict[str, Any] | None:
    """Return the bound as a document: microseconds, cycles, limiter and cycles by pipe.
    If the limiter's costliest line is known, it has that line, its share (1), and whether that is excess. None if
    nothing was counted, or if the GPU's architecture lacks a tensor instruction."""
    parts = [launch.rows(every=True) for launch in done.ran]
    rows = [row for part in parts for row in part]
    if not rows or not done.values:
        return None
    counts = [demand.of_launch(launch.values(), part) for launch, part in zip(done.ran, parts)]
    working, moved = [launch.blocks for launch in job.launch.steps], [0.0] * len(counts)
    working[job.leading] = min(working[job.leading], job.launch.working_blocks)
    moved[job.leading] = operations.work(job).bytes
    try:
        least = bounds.in_turn(
            bounds.bound(count, gpu, blocks, nbytes)
            for count, blocks, nbytes in zip(counts, working, moved, strict=True)
        )
    except KeyError:
        return None
    document: dict[str, Any] = {"gpu": gpu.name, "microseconds": least.microseconds}
    document |= {"cycles": least.cycles, "limiter": least.limiter, "pipes": dict(least.pipes)}
    if least.limiter == bounds.DATA:
        # Operands that wgmma reads have no wavefronts on the hardware's counter.
        amounts = [
            0.0
            if row.get("wavefronts_hardware") is None
            else float(row["wavefronts_hardware"]) - float(row.get("wavefronts_shared_ideal") or 0)
            for row in rows
        ]
        total, kind = sum(count.wavefronts + count.accesses for count in counts), "excess"
    elif least.limiter == bounds.ISSUE:
        amounts = [float(row["executed"]) for row in rows]
        total, kind = sum(count.instructions for count in counts), "issued"
    else:
        return document
    line, most = _of_line(rows, amounts, Path(job.source).name)
    if most > 0 and total > 0:
        document |= {"line": line, "share": most / total, "what": kind}
    return document


def duration(microseconds: float) -> str:
    """Return a duration with three digits: ``41.2 us``, ``1.23 ms``."""
    scaled, unit = (microseconds / 1e3, "ms") if microseconds >= 1e3 else (microseconds, "us")
    digits = max(0, 2 - math.floor(math.log10(scaled))) if scaled > 0 else 0
    return f"{scaled:.{digits}f} {unit}"


def named(gpu: str) -> str:
    """Return ``an H200``."""
    return f"{'an' if gpu[0] in 'AHLR8' else 'a'} {gpu}"


def sentence(document: Mapping[str, Any]) -> str:
    """Return ``at least 41.2 us on an H200: shared memory and L1, 74 % of which is excess on line 52``."""
    text = f"at least {duration(document['microseconds'])} on {named(document['gpu'])}: {document['limiter']}"
    if "line" in document:
        share = f"{100 * document['share']:.0f} %"
        text += f", {share} of which is {document['what']} on {document['line']}"
    return text
