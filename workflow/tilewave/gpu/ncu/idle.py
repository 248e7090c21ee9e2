"""Idle counters: those that are always 0 for a case, because its code lacks their tensor operations.
An H200 has five of them, in seven of the eight passes of the set `traffic`; no case uses more than two."""

import functools
from pathlib import Path

from tilewave.compiling import sass
from tilewave.kernel.job import Job
from tilewave.records.counters.catalogue import METRICS
from tilewave.theory import opcodes
from tilewave.theory.dtypes import DTYPES


def idle(job: Job) -> frozenset[str]:
    """Return those of a job's metrics that count tensor-core operations on types that it does not use; in
    doubt none. Its machine code decides, or a library's operand types, if only the tensor cores take them."""
    if job.provider == "nvrtc":
        types = _of_code(job)
    else:
        operands = [DTYPES[job.dtypes[name]] for name in "ab" if name in job.dtypes]
        on_tensor = all(dtype.tensor_cores for dtype in operands)
        types = {"fp8" if of.fp8 else of.name for of in operands} if on_tensor else None
    if types is None:
        return frozenset()
    metrics = (METRICS[name] for name in job.metrics if name in METRICS)
    inputs = {metric.name: metric.inputs for metric in metrics if metric.inputs}
    return frozenset(name for name, dtype in inputs.items() if dtype not in types)


def _of_code(job: Job) -> set[str] | None:
    """Return the types that a kernel multiplies on the tensor cores; None if one is unknown."""
    entries = [step.entry for step in job.steps]
    tensor_opcodes = _tensor_opcodes(job.cubin, *entries) if job.cubin else None
    types = set(map(opcodes.inputs, tensor_opcodes or ()))
    return None if tensor_opcodes is None or None in types else set(filter(None, types))


@functools.cache
def _tensor_opcodes(cubin: str, *entries: str) -> frozenset[str] | None:
    """Return the tensor-core opcodes in these functions of a cubin; None if unknown."""
    try:
        listing = sass.of_cubin(Path(cubin))
    except (OSError, RuntimeError):  # no nvdisasm, or a file that it cannot read
        return None
    by_entry = [sass.tensor_opcodes(listing, entry) for entry in entries]
    disassembled = [codes for codes in by_entry if codes is not None]
    return frozenset().union(*disassembled) if len(disassembled) == len(by_entry) else None
