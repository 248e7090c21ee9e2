"""What a case's code tells of its counters: which are 0 whatever runs, because it has none of their tensor
operations.

Each counter takes ncu a pass or two: an H200 has five of them, which are seven of the eight passes of the set
`traffic`, and no case uses more than one or two.
"""

from __future__ import annotations

import functools
from pathlib import Path

from tilewave.compiling import sass
from tilewave.kernel.job import Job
from tilewave.records.counters.catalogue import METRICS
from tilewave.theory import opcodes
from tilewave.theory.dtypes import DTYPES


def idle(job: Job) -> frozenset[str]:
    """Those of a job's metrics that count operations of the tensor cores on other operands than its own.

    Of a kernel its machine code tells. Of a library's product nobody has that: operands of a type that only
    the tensor cores take are taken as they are. Where it is not known, nothing is idle.
    """
    types = _of_code(job) if job.provider == "nvrtc" else _of_operands(job)
    metrics = (METRICS[name] for name in job.metrics if name in METRICS)
    return frozenset(
        metric.name
        for metric in metrics
        if metric.inputs and types is not None and metric.inputs not in types
    )


def _of_operands(job: Job) -> frozenset[str] | None:
    operands = [DTYPES[job.dtypes[name]] for name in "ab" if name in job.dtypes]
    only_tensor_cores = all(dtype.tensor_cores for dtype in operands)
    return (
        frozenset("fp8" if dtype.fp8 else dtype.name for dtype in operands)
        if only_tensor_cores
        else None
    )


def _of_code(job: Job) -> frozenset[str] | None:
    """The types that a kernel multiplies on the tensor cores; None where one is not known."""
    tensor_opcodes = (
        _tensor_opcodes(job.cubin, *(step.entry for step in job.steps)) if job.cubin else None
    )
    types = None if tensor_opcodes is None else set(map(opcodes.inputs, tensor_opcodes))
    return None if types is None or None in types else frozenset(filter(None, types))


@functools.cache
def _tensor_opcodes(cubin: str, *entries: str) -> frozenset[str] | None:
    """The instructions of the tensor cores in these functions of a cubin; None where that is not known."""
    try:
        listing = sass.of_cubin(Path(cubin))
    except (OSError, RuntimeError):  # no nvdisasm, or nothing that it can read
        return None
    by_entry = [sass.tensor_opcodes(listing, entry) for entry in entries]
    disassembled = [codes for codes in by_entry if codes is not None]
    return frozenset().union(*disassembled) if len(disassembled) == len(by_entry) else None
