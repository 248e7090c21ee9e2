"""Kernels of the CPU provider: function, operands and wall-clock time."""

import functools
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from tilewave.basics.plugins import of_file
from tilewave.gpu.failure import over_limit
from tilewave.kernel import operations
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.records.counters.figures import figure

MIN_RUNS, MAX_RUNS, ENOUGH_S = 3, 9, 1.0
CpuFunction = Callable[..., object]
"""A function of the operands with their dimensions, then alpha and beta."""


@functools.cache  # another module would compile the function again
def cpu_function(source: str, entry: str) -> CpuFunction:
    path = Path(source)
    function: CpuFunction = getattr(of_file(path, f"tilewave_kernel_{path.stem}"), entry)
    return function


def cpu_arrays(job: Job, inputs: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Return the operands with their dimensions, in the job's layouts and with the GPU's numbers, as views."""
    operation = operations.load(job.operation, job.source)
    inputs = operation.inputs(job) if inputs is None else inputs
    arrays = {}
    for name in operation.arrays(job):
        dtype, count = operation.stored(job, name)
        flat = inputs[name] if name in inputs else np.empty(count, dtype)
        arrays[name] = flat.reshape(operation.extents(job, name), order=operation.order(job, name))
    return arrays


def time_cpu(job: Job) -> Result:
    """Time at least three runs, after a run on small matrices that compiles the function. The figure is their median."""
    function = cpu_function(job.source, job.entry)
    small = cpu_arrays(replace(job, shape=dict.fromkeys(job.shape, 8)))
    function(*small.values(), 1.0, 0.0)
    arrays = cpu_arrays(job)
    work = operations.work(job)
    samples: list[float] = []
    while len(samples) < MIN_RUNS or (len(samples) < MAX_RUNS and sum(samples) < ENOUGH_S * 1e6):
        start = time.perf_counter()
        function(*arrays.values(), 1.0, 0.0)
        samples.append(1e6 * (time.perf_counter() - start))
        if len(samples) == 1 and (refused := over_limit(job, MIN_RUNS * samples[0] * 1e-6)):
            return refused
    low, duration, high = (float(x) for x in np.percentile(samples, (25, 50, 75)))
    figures = [
        figure("duration", duration, "us"),
        figure("duration_spread", high - low, "us"),
        figure("tflops", work.flops / duration * 1e-6, "TFLOP/s"),
    ]
    notes = {"rounds": len(samples), "clock": "perf_counter"}
    return Result.of_job(job, figures=figures, samples={"duration_us": samples}, notes=notes)
