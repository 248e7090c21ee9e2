"""How many thread instructions a second one core executes, for each kernel, and where time goes.

make bench                           # all of them
make bench ARGS="-k hgemm"           # those whose names have that
"""

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
PARTS, REPEATS = 4, 3


@pytest.fixture(scope="module", autouse=True)
def one_core():
    """One core is what the figures are about."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize(("kernel", "shape", "macros"), KERNELS)
def test_speed(tmp_path, kernel, shape, macros):
    """The best of several executions of one launch, and a further one that samples its opcodes."""
    words = [str(shipped(kernel)), "--shape", shape]
    words += [word for macro in macros for word in ("--macro", macro)]
    planned, _ = execute.planned(execute.options_of(words), tmp_path)
    assert planned.job is not None, planned.result
    job, machine = dataclasses.replace(planned.job, limit_s=3600.0), execution.engine()
    ran = [case.launch_once(job, machine) for _ in range(REPEATS)]
    best, threads = min(one.seconds for one in ran), ran[0].thread_instructions
    profile = case.launch_once(job, machine, profile=True).ran[0].profile or {}
    parts = sorted(profile.items(), key=lambda item: -item[1])[:PARTS]
    told = ", ".join(f"{name} {100 * share:.0f} %" for name, share in parts)
    print(f"\n{planned.case.id:<52} {threads / 1e6:>9.1f} M {best:>8.3f} s {threads / best / 1e6:>7.0f} M/s  {told}")  # fmt: skip
    assert threads and time.get_clock_info("perf_counter").resolution < best
