"""Wall-clock time of the CPU baselines."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from tilewave import operations
from tilewave.counters.figures import figure
from tilewave.gpu.failure import too_dear
from tilewave.gpu.launch import cpu_arrays, cpu_function
from tilewave.jobs import Job
from tilewave.processes import Result, result

MIN_RUNS, MAX_RUNS, ENOUGH_S = 3, 9, 1.0


def time_cpu(job: Job) -> Result:
    """Median of at least three runs with alpha = 1, beta = 0, after one on small matrices that
    lets the function compile. *not measured* where three runs would exceed the limit."""
    function = cpu_function(job)
    small = cpu_arrays(replace(job, shape=dict.fromkeys(job.shape, 8)))
    function(*small.values(), 1.0, 0.0)
    arrays = cpu_arrays(job)
    work = operations.work(job)
    samples: list[float] = []
    while len(samples) < MIN_RUNS or (len(samples) < MAX_RUNS and sum(samples) < ENOUGH_S * 1e6):
        start = time.perf_counter()
        function(*arrays.values(), 1.0, 0.0)
        samples.append(1e6 * (time.perf_counter() - start))
        if len(samples) == 1 and (dear := too_dear("time", job, MIN_RUNS * samples[0] * 1e-6)):
            return dear
    low, duration, high = (float(x) for x in np.percentile(samples, (25, 50, 75)))
    figures = [
        figure("duration", duration, "us"),
        figure("duration_spread", high - low, "us"),
        figure("tflops", work.flops / duration * 1e-6, "TFLOP/s"),
    ]
    notes = {"rounds": len(samples), "clock": "perf_counter"}
    return result(job, "time", figures=figures, samples={"duration_us": samples}, notes=notes)
