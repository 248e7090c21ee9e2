"""The least time of an executed case on a GPU by name, its limiter, and the line that it is spent on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.execution.case import CaseExecution
from tilewave.kernel import operations
from tilewave.kernel.job import Job
from tilewave.kernel.launches import LaunchPlan
from tilewave.records.counters import demand
from tilewave.theory import bounds
from tilewave.theory.bounds import Bound, Counts
from tilewave.theory.data_sheets import KNOWN, SHORT, DataSheet, data_sheet


def gpu_named(name: str, where_file: object) -> DataSheet:
    """The GPU of a command line's name (``h200``). Raises UserError for one that is not known."""
    found = SHORT.get(name.lower().replace(" ", "").replace("_", "-"))
    if found is None:
        raise UserError(where_file, "--gpu", name, sorted(SHORT))
    return found


def gpu_of(arch: int, recorded: str) -> DataSheet | None:
    """The recorded GPU where it has the architecture, else the first of it that is known; None where
    none is."""
    capability = f"{arch / 10:.1f}"
    mine = data_sheet(recorded)
    alike = [one for one in (mine, *KNOWN) if one and one.capability == capability]
    return alike[0] if alike and capability in bounds.RATES else None


def _of_line(
    rows: Iterable[Mapping[str, Any]], amounts: Iterable[float], own: str
) -> tuple[str, float]:
    """The source line with the largest sum (``FILE:LINE`` of another file than the ``own``), and that sum."""
    sums: dict[tuple[str, int], float] = {}
    for row, amount in zip(rows, amounts, strict=True):
        if row.get("line"):
            place = str(row["file"]), int(row["line"])
            sums[place] = sums.get(place, 0.0) + amount
    if not sums:
        return "", 0.0
    (file, line), most = max(sums.items(), key=lambda pair: pair[1])
    return f"line {line}" if file in ("", own) else f"{file}:{line}", most


def _bound(counts: Counts, launch: LaunchPlan, gpu: DataSheet, leads: bool, moved: float) -> Bound:
    """Of one launch; the one that leads has the case's idle blocks and its compulsory bytes."""
    working = min(launch.blocks, launch.working_blocks) if leads else launch.blocks
    return bounds.bound(counts, gpu, working, moved if leads else 0)


def of_execution(done: CaseExecution, job: Job, gpu: DataSheet) -> dict[str, Any] | None:
    """The bound as a document: microseconds, cycles, limiter, cycles by pipe, and where the limiter's line is
    known its share (1) and whether that is excess. Of several launches in a row each has its own bound,
    whose pipes are added up. None where nothing was counted or a tensor instruction is one of another
    architecture."""
    parts = [one.rows(every=True) for one in done.ran]
    rows = [row for part in parts for row in part]
    if not rows or not done.values:
        return None
    counts = [demand.of_launch(one.values(), part) for one, part in zip(done.ran, parts)]
    work = operations.work(job)
    try:
        least = bounds.in_turn(
            _bound(one, launch, gpu, at == job.leading, work.bytes)
            for at, (one, launch) in enumerate(zip(counts, job.launch.steps, strict=True))
        )
    except KeyError:
        return None
    told: dict[str, Any] = {
        "gpu": gpu.name,
        "microseconds": least.microseconds,
        "cycles": least.cycles,
        "limiter": least.limiter,
        "pipes": dict(least.pipes),
    }
    if least.limiter == bounds.DATA:
        # What wgmma reads by itself has no wavefronts of its own.
        excess = [
            0.0
            if row.get("wavefronts_hardware") is None
            else float(row["wavefronts_hardware"]) - float(row.get("wavefronts_shared_ideal") or 0)
            for row in rows
        ]
        place, most = _of_line(rows, excess, Path(job.source).name)
        whole, kind = sum(one.wavefronts + one.accesses for one in counts), "excess"
    elif least.limiter == bounds.ISSUE:
        place, most = _of_line(
            rows, (float(row["executed"]) for row in rows), Path(job.source).name
        )
        whole, kind = sum(one.instructions for one in counts), "issued"
    else:
        return told
    if most > 0 and whole > 0:
        told |= {"line": place, "share": most / whole, "what": kind}
    return told


def _duration(microseconds: float) -> str:
    """Three digits: ``41.2 us``, ``1.23 ms``."""
    scaled, unit = (microseconds / 1e3, "ms") if microseconds >= 1e3 else (microseconds, "us")
    digits = max(0, 2 - math.floor(math.log10(scaled))) if scaled > 0 else 0
    return f"{scaled:.{digits}f} {unit}"


def sentence(told: Mapping[str, Any]) -> str:
    """``at least 41.2 us on an H200: shared memory and L1, 74 % of which is excess on line 52``."""
    article = "an" if str(told["gpu"])[0] in "AHLR8" else "a"
    made = (
        f"at least {_duration(told['microseconds'])} on {article} {told['gpu']}: {told['limiter']}"
    )
    if "line" in told:
        made += f", {100 * told['share']:.0f} % of which is {told['what']} on {told['line']}"
    return made
