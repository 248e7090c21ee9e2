"""Kernels on a GPU: the same bits every time, and nothing that compute-sanitizer finds.

Each case is launched a hundred times, two launches in a row each time, which overlap where the variant does (OVERLAP).
Each third one is checked under the tools of compute-sanitizer, which watch the kernel alone. racecheck takes what
`bar.arrive` orders for a race (docs/executing.md): what it finds is printed. TILEWAVE_SOUND=FILE tries the cases of
another config.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml

from live_gpu import live
from samples import config
from tilewave.basics.paths import child_environment
from tilewave.gpu.buffers import DeviceMemory
from tilewave.gpu.device import gpu_lock
from tilewave.gpu.launch import NvrtcKernel
from tilewave.gpu.operands import fill, scratch, sizes
from tilewave.kernel import operations
from tilewave.kernel.job import Job, write_jobs
from tilewave.pipeline import project, rules
from tilewave.pipeline.pipeline import ALL, Pipeline

pytestmark = live
SHAPES = ["1000x1008x1008", "777x1001x333"]
MATMUL = config(
    {"macros": "one_at_a_time", "providers": ["nvrtc"], "shapes": SHAPES}, target="live"
)
TIMES, EVERY, AT_A_TIME, LIMIT_S = 100, 3, 6, 150.0
SUMMARY = re.compile(r"========= (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
BITS = np.dtype(np.uint8)


@pytest.fixture(scope="module")
def by_kernel():
    """Kernel -> checks of its cases that can be launched here, compiled."""
    named = os.environ.get("TILEWAVE_SOUND")
    asked = yaml.safe_load(Path(named).read_text()) if named else MATMUL
    made = project.load(asked, named or "MATMUL")
    run = rules.begin(made)
    cores = os.cpu_count() or 1
    known = rules.compile_part(run, ALL, cores)
    pipeline = Pipeline(run.project, run.target, known, cores=cores)
    found = {}
    for job in pipeline.planned("check").values():
        if isinstance(job, Job) and job.provider == "nvrtc":
            found.setdefault(job.kernel, []).append(job)
    pipeline.provide({job.variant for jobs in found.values() for job in jobs})
    assert found
    return found


def outputs(session, job, alpha, beta):
    """What a case's outputs hold after two launches in a row, each time."""
    operation = operations.load(job.operation, job.source)
    with DeviceMemory(session.gpu) as memory:
        arrays = {name: memory.new(name, size) for name, size in sizes(job).items()}
        buffers = arrays | scratch(memory, job)
        kernel = NvrtcKernel(session.gpu, job)
        try:
            launch = kernel.prepare({n: one.pointer for n, one in buffers.items()}, alpha, beta)
            for _ in range(TIMES):
                fill(session, job, arrays, beta)
                launch()
                launch()
                yield [arrays[name].download(BITS) for name in operation.outputs(job)]
        finally:
            kernel.close()


def test_the_same_bits_every_time(session, by_kernel):
    differing = {}
    with gpu_lock(session.gpu.uuid, shared=True):
        for job in (job for mine in by_kernel.values() for job in mine):
            for scalars in operations.load(job.operation, job.source).runs(job):
                first, *others = outputs(session, job, *scalars)
                if not all(all(map(np.array_equal, first, other)) for other in others):
                    differing[job.case] = scalars
    assert not differing


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_a_sanitizer_finds_nothing(session, by_kernel, tool, tmp_path):
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("no compute-sanitizer in the PATH")

    def sanitized(kernel):
        """What the tool says of a kernel's checks: how many it found, and which went wrong."""
        mine = by_kernel[kernel][::EVERY]
        listed, events, log = (tmp_path / f"{kernel}.{name}" for name in ("jobs", "events", "log"))
        write_jobs(listed, mine)
        events.touch()
        entries = sorted({step.entry for job in mine for step in job.steps})
        command = [sanitizer, "--tool", tool, "--log-file", str(log), "--print-limit", "3"]
        command += [word for one in entries for word in ("--kernel-name", f"kns={one}")]
        command += [sys.executable, "-m", "tilewave.gpu.worker", "check", str(listed)]
        command += ["--events", str(events), "--cache", str(project.STORE / "cache")]
        subprocess.run(command, env=child_environment(), timeout=LIMIT_S, capture_output=True)
        told = log.read_text(errors="replace")
        results = [json.loads(line) for line in events.read_text().splitlines()]
        verdicts = [one["result"].get("verdict") for one in results if one["event"] == "finished"]
        count = SUMMARY.search(told)
        print(f"{tool} of {kernel}: {count and count[1]} found, {verdicts}")
        assert verdicts == ["correct"] * len(mine) and count, told[:1500]
        return int(count[1]), told[:1500]

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        found = dict(zip(by_kernel, pool.map(sanitized, by_kernel)))
    assert tool == "racecheck" or not [told for count, told in found.values() if count]
