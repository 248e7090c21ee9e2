"""Kernels on a GPU give the same bits every time, and compute-sanitizer has no findings.

Each case is launched a hundred times, two launches in a row each time; they overlap if the variant does (OVERLAP).
Each third case is checked under the tools of compute-sanitizer, which watch only the kernel. racecheck reports
accesses that `bar.arrive` orders as races (docs/executing.md), so its findings are printed. TILEWAVE_SOUND=FILE
tries the cases of another config.
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
BLOCK = {"macros": "one_at_a_time", "providers": ["nvrtc"], "shapes": SHAPES}
MATMUL = config(BLOCK, target="live")
TIMES, EVERY, AT_A_TIME, LIMIT_S = 100, 3, 6, 150.0
SUMMARY = re.compile(r"========= (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
BITS = np.dtype(np.uint8)


@pytest.fixture(scope="module")
def by_kernel():
    """Kernel -> compiled checks of its cases that this GPU can launch."""
    named = os.environ.get("TILEWAVE_SOUND")
    settings = yaml.safe_load(Path(named).read_text()) if named else MATMUL
    run = rules.begin(project.load(settings, named or "MATMUL"))
    cores = os.cpu_count() or 1
    compiled = rules.compile_part(run, ALL, cores)
    pipeline = Pipeline(run.project, run.target, compiled, cores=cores)
    jobs_of = {}
    for job in pipeline.planned("check").values():
        if isinstance(job, Job) and job.provider == "nvrtc":
            jobs_of.setdefault(job.kernel, []).append(job)
    pipeline.provide({job.variant for jobs in jobs_of.values() for job in jobs})
    assert jobs_of
    return jobs_of


def outputs(session, job, alpha, beta):
    """Yield a case's outputs after two launches in a row, each time."""
    operation = operations.load(job.operation, job.source)
    with DeviceMemory(session.gpu) as memory:
        arrays = {name: memory.new(name, size) for name, size in sizes(job).items()}
        buffers = arrays | scratch(memory, job)
        kernel = NvrtcKernel(session.gpu, job)
        try:
            pointers = {name: buffer.pointer for name, buffer in buffers.items()}
            launch = kernel.prepare(pointers, alpha, beta)
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
        for job in (job for jobs in by_kernel.values() for job in jobs):
            for scalars in operations.load(job.operation, job.source).runs(job):
                first, *rest = outputs(session, job, *scalars)
                if not all(all(map(np.array_equal, first, again)) for again in rest):
                    differing[job.case] = scalars
    assert not differing


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_a_sanitizer_finds_nothing(session, by_kernel, tool, tmp_path):
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("no compute-sanitizer in the PATH")

    def sanitized(kernel):
        """Return the number of the tool's findings in a kernel's checks, and their text."""
        jobs = by_kernel[kernel][::EVERY]
        listed, events, log = (tmp_path / f"{kernel}.{name}" for name in ("jobs", "events", "log"))
        write_jobs(listed, jobs)
        events.touch()
        entries = sorted({step.entry for job in jobs for step in job.steps})
        command = [sanitizer, "--tool", tool, "--log-file", str(log), "--print-limit", "3"]
        command += [argument for entry in entries for argument in ("--kernel-name", f"kns={entry}")]
        command += [sys.executable, "-m", "tilewave.gpu.worker", "check", str(listed)]
        command += ["--events", str(events), "--cache", str(project.STORE / "cache")]
        subprocess.run(command, env=child_environment(), timeout=LIMIT_S, capture_output=True)
        text = log.read_text(errors="replace")
        results = [json.loads(line) for line in events.read_text().splitlines()]
        ended = [event["result"] for event in results if event["event"] == "finished"]
        verdicts = [outcome.get("verdict") for outcome in ended]
        count = SUMMARY.search(text)
        print(f"{tool} of {kernel}: {count and count[1]} found, {verdicts}")
        assert verdicts == ["correct"] * len(jobs) and count, text[:1500]
        return int(count[1]), text[:1500]

    with ThreadPoolExecutor(AT_A_TIME) as pool:
        reports = dict(zip(by_kernel, pool.map(sanitized, by_kernel)))
    assert tool == "racecheck" or not [text for count, text in reports.values() if count]
