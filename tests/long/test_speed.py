"""Thread instructions a second that a core executes, for each kernel.
make bench                           # all kernels
make bench ARGS="-k hgemm"           # kernels whose names have that"""

import dataclasses
import os
import time

import pytest

from samples import shipped
from tilewave import execution
from tilewave.commands import execute
from tilewave.execution import case

KERNELS = (
    ("matmul_naive", "256", ()),
    ("matmul_tiled", "256", ()),
    ("matmul_tiled", "256", ("REAL=f64",)),
    ("matmul_tiled", "256", ("TILE=32",)),
    ("matmul_two_outputs", "256", ()),
    ("matmul_register", "256", ()),
    ("matmul_double_buffered", "256", ()),
    ("hgemm_wmma", "512", ()),
    ("hgemm_wmma_staged", "512", ()),
    ("hgemm_wmma_staged", "2048", ()),
    ("hgemm_wmma_staged", "2048", ("ACCUMULATE=f32",)),
    ("vector_add", "1048576", ()),
)
REPEATS = 3


@pytest.fixture(scope="module", autouse=True)
def single_core():
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize(("kernel", "shape", "macros"), KERNELS)
def test_speed(tmp_path, kernel, shape, macros):
    """Print the best of several executions of a launch."""
    arguments = [str(shipped(kernel)), "--shape", shape]
    arguments += [argument for macro in macros for argument in ("--macro", macro)]
    planned, job, _ = execute.planned(execute.options_of(arguments), tmp_path)
    job, machine = dataclasses.replace(job, limit_s=3600.0), execution.engine()
    ran = [case.launch_once(job, machine) for _ in range(REPEATS)]
    best = min(sum(launch.done.seconds for launch in launches) for launches in ran)
    threads = sum(int(launch.counts["threads_executed"].sum()) for launch in ran[0])
    rate = threads / best / 1e6
    print(f"\n{planned.id:<52} {threads / 1e6:>9.1f} M {best:>8.3f} s {rate:>7.0f} M/s")
    assert threads and time.get_clock_info("perf_counter").resolution < best
