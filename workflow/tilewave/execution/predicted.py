"""The predicted time of a case on a named GPU, and the lines at which its warps wait."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewave.basics.columns import filled
from tilewave.basics.errors import BadLaunch, NoTime, Unsupported
from tilewave.execution import case
from tilewave.execution.least import duration, named
from tilewave.kernel.job import Job
from tilewave.theory.data_sheets import DataSheet

CAPABILITY = "9.0"
"""The compute capability whose probes gave the model its constants."""
LEAST_SHARE = 0.02
UNKNOWN = f"the model of time knows GPUs of compute capability {CAPABILITY} only"
TYPICAL = 0.06
"""Median of the error over the recorded cases of an H200 that no constant was fitted to (docs/timing.md)."""


def of_case(job: Job, gpu: DataSheet, machine: Any = None) -> dict[str, Any] | None:
    """Return the time as a document: cycles, microseconds at the GPU's largest clock, and where its warps wait.
    waits: lines with their share (1) of the warps' time and the main reason, the largest first. None for a GPU that
    the model does not know; only ``reason`` if the case has no time."""
    if gpu.capability != CAPABILITY:
        return None
    try:
        launches = case.timed(job, gpu, machine)
    except (NoTime, Unsupported, BadLaunch, ValueError, MemoryError) as error:
        return {"gpu": gpu.name, "reason": str(error)}
    waits = by_line(launches)
    total = sum(spent.sum() for spent in waits.values()) or 1.0
    cycles = sum(launch.time.cycles for launch in launches)
    return {
        "gpu": gpu.name,
        "clock_mhz": gpu.clock_mhz,
        "cycles": round(cycles),
        "microseconds": cycles / gpu.clock_mhz,
        "waits": [
            {
                "file": file,
                "line": line,
                "share": float(spent.sum() / total),
                "reason": launches[0].time.reasons[int(spent.argmax())],
                "text": text,
            }
            for (file, line, text), spent in waits.items()
            if spent.sum() >= LEAST_SHARE * total
        ],
    }


def by_line(launches: Sequence[case.TimedLaunch]) -> dict[tuple[str, int, str], np.ndarray]:
    """Return the cycles that warps waited at each line (file, number, text) by reason, the largest first."""
    reasons = len(launches[0].time.reasons)
    lines = defaultdict[tuple[str, int, str], np.ndarray](lambda: np.zeros(reasons))
    for launch in launches:
        for instruction, spent in zip(launch.program.instructions, launch.time.stalls, strict=True):
            if spent.any():
                origin = launch.places(instruction.address)
                lines[origin.file or launch.places.source.name, origin.line, origin.text] += spent
    return dict(sorted(lines.items(), key=lambda pair: -pair[1].sum()))


def sentence(document: Mapping[str, Any]) -> str:
    """Return ``about 312 us on an H200 at 1.98 GHz: 58 % of the warps' time at line 74, for a busy pipe``."""
    time = duration(document["microseconds"]) if "microseconds" in document else ""
    facts = {"gpu": named(document["gpu"]), "time": time, "typical": 100 * TYPICAL}
    return filled(__file__, "predicted", document=document, **facts)
