"""Whether kernels are sound on a GPU: the same bits every time, and nothing that compute-sanitizer finds.

    .venv/bin/python tools/sound.py [--config FILE] [--times 100] [--sanitizers memcheck racecheck] [--every 3]

Tries the cases of a config, by default those of the newest rungs by wgmma at shapes with one tile, several tiles a
block, and rows that begin anywhere. Each is launched so many times, two launches in a row each time, which overlap where
the variant does (OVERLAP). Beside that a check of each third case runs under the tools of compute-sanitizer, which watch
the kernel alone. racecheck takes what `bar.arrive` orders for a race (docs/executing.md). Prints a table in Markdown; exit
code 1 where bits differ, a result that a tool sees is wrong, or a tool other than racecheck finds something.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from tilewave import operations, project, target
from tilewave.compiling import nvrtc
from tilewave.errors import UserError
from tilewave.gpu import cards
from tilewave.gpu.buffers import Memory
from tilewave.gpu.device import gpu_lock, open_gpu
from tilewave.gpu.launch import NvrtcKernel
from tilewave.gpu.operands import fill, scratch, sizes
from tilewave.gpu.session import Session
from tilewave.home import child_environment
from tilewave.jobs import Job, write_jobs
from tilewave.stages.compiling import compile_all
from tilewave.stages.pipeline import Pipeline

NEWEST = """
kernel_folders: [kernels]
target: live
studies:
  sound:
    plot: correctness
    title: Sound
    question: Are they right, and every time the same?
    cases:
      - &all
        kernels: [matmul_wgmma_turns]
        macros: {TYPE: [f16, bf16, tf32, i8, e4m3, e5m2], ACROSS: [1, 2], OVERLAP: 1}
        shapes: [264x144x96, 2304x2944x96, 1000x1008x1008, 129x72x2064]
      - <<: *all
        kernels: [matmul_wgmma_even, matmul_wgmma_fit, matmul_wgmma_split]
        macros: each_dtype
      - {<<: *all, kernels: [matmul_wgmma_even], macros: {TYPE: [f16, bf16, tf32, i8], TILE_M: 192, OVERLAP: 1}}
      - &parts
        <<: *all
        shapes: [264x144x96, 1000x1008x1008, 129x80x8208]
        kernels: [matmul_wgmma_two_launches]
        macros: {TYPE: [f16, bf16, tf32, i8, e4m3, e5m2], OVERLAP: [0, 1]}
      - <<: *parts
        kernels: [matmul_wgmma_fit, matmul_wgmma_split, matmul_wgmma_two_launches]
        macros: each_dtype
        shapes: [129x77x8208]
      # Pairs that load for each other, blocks of a cluster that are done early.
      - {<<: *parts, kernels: [matmul_wgmma_split], macros: {TYPE: [f16, tf32, i8, e4m3], SPLITS: 2, TILE_N: 64, ROOM: 192, OVERLAP: 1}}
      - {<<: *parts, macros: {TYPE: [f16, tf32, i8, e4m3], WARPGROUPS: 2, DOWN: 2, OVERLAP: 1}}
      - {<<: *parts, macros: {TYPE: [f16, tf32, i8], ACROSS: 2, OVERLAP: 1}}
      - {<<: *parts, macros: {TYPE: [bf16, tf32], SPLITS: 2, OVERLAP: 1}}
      - {<<: *parts, kernels: [matmul_dmma_teams], macros: {SPLITS: [1, 2], OVERLAP: [0, 1]}}
      - {<<: *parts, kernels: [matmul_two_launches], macros: {TILE_M: 64, TILE_N: 64}}
      - {<<: *parts, kernels: [matmul_two_launches, matmul_cluster, matmul_balanced], macros: {TILE_N: 128}}
      - {<<: *parts, kernels: [matmul_cluster], macros: {TILE_N: 64}}
"""
SUMMARY = re.compile(r"========= (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
AT_A_TIME = 6
"""Sanitized workers, which do most of their work on the host."""
LIMIT_S = 150.0
BITS = np.dtype(np.uint8)


def jobs_of(config: dict[str, Any], where: str) -> list[Job]:
    """The checks of a config's cases that are kernels of this project and can be launched here, compiled; says which cannot.
    Raises UserError."""
    made = project.load(config, where)
    here = cards.probe(made.config, made.where)
    pipeline = Pipeline(made, target.resolve(made.config, here, made.recorded_root, made.where))
    cores = os.cpu_count() or 1
    compile_all(pipeline.tasks, pipeline.store, cores, lambda task, entry: None, pipeline.recording)
    pipeline = Pipeline(made, pipeline.target)
    found = []
    for one in pipeline.planned("check"):
        if one.job is not None and one.job.provider == "nvrtc":
            found.append(one.job)
        else:
            why = one.result["reason"] if one.result else "no kernel of this project"
            print(f"left out: {one.case.id}: {why}", file=sys.stderr)
    for name in dict.fromkeys(job.variant for job in found):
        pipeline.compilations.provide(pipeline.variants[name], pipeline.arch)
    return found


def outputs(
    session: Session, job: Job, alpha: float, beta: float, times: int
) -> Iterator[list[np.ndarray]]:
    """What a case's outputs hold after two launches in a row, so many times."""
    operation = operations.load(job.operation, job.source)
    with Memory(session.gpu) as memory:
        arrays = {name: memory.new(name, size) for name, size in sizes(job).items()}
        buffers = arrays | scratch(memory, job)
        kernel = NvrtcKernel(session.gpu, job)
        try:
            launch = kernel.prepare({n: one.pointer for n, one in buffers.items()}, alpha, beta)
            for _ in range(times):
                fill(session, job, arrays, beta)
                launch()
                launch()
                yield [arrays[name].download(BITS) for name in operation.outputs(job)]
        finally:
            kernel.close()


def differing(session: Session, job: Job, times: int) -> int:
    """Of so many times those in which a case's outputs had other bits than the first time."""
    found = 0
    for alpha, beta in operations.load(job.operation, job.source).runs(job):
        others = outputs(session, job, alpha, beta, times)
        first = next(others)
        found += sum(not all(map(np.array_equal, first, other)) for other in others)
    return found


def sanitized(tool: str, kernel: str, mine: Sequence[Job], sanitizer: str) -> tuple[str, bool]:
    """What a tool says of a kernel's checks, and whether they ran and were right."""
    with tempfile.TemporaryDirectory(prefix="tilewave-sound-") as place:
        listed, events, log = (Path(place) / name for name in ("jobs.json", "events", "log"))
        write_jobs(listed, mine)
        events.touch()
        entries = sorted({step.entry for job in mine for step in job.steps})
        watched = [word for entry in entries for word in ("--kernel-name", f"kns={entry}")]
        command = [
            sanitizer,
            "--tool",
            tool,
            *watched,
            "--log-file",
            str(log),
            "--print-limit",
            "3",
        ]
        command += [sys.executable, "-m", "tilewave.gpu.worker", "check", str(listed)]
        command += ["--events", str(events), "--cache", str(project.STORE / "cache")]
        try:
            done = subprocess.run(
                command, env=child_environment(), timeout=LIMIT_S, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return f"no end in {LIMIT_S:g} s", False
        told = log.read_text(errors="replace") if log.is_file() else done.stderr
        results = [json.loads(line) for line in events.read_text().splitlines()]
    verdicts = [one["result"].get("verdict") for one in results if one["event"] == "finished"]
    count = SUMMARY.search(told)
    right = verdicts == ["correct"] * len(mine)
    if count is None or not right or count[1] != "0":
        more = f"{verdicts}\n{told[:1500]}\n{done.stderr[-300:]}"
        print(f"{tool} of {kernel}: {more}", file=sys.stderr)
    said = f"{count[1]} found" if count else "no summary"
    said += f", {verdicts.count('correct')} of {len(mine)} right"
    print(f"{tool} of {kernel}: {said}", file=sys.stderr, flush=True)
    return said, right and count is not None


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--config", type=Path, help="whose cases are tried")
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--sanitizers", nargs="*", default=["memcheck", "racecheck"])
    parser.add_argument(
        "--every", type=int, default=3, help="of the cases that they see; default: 3"
    )
    options = parser.parse_args(arguments)
    sanitizer = shutil.which("compute-sanitizer")
    if options.sanitizers and sanitizer is None:
        raise SystemExit(
            "no compute-sanitizer in the PATH; --sanitizers without a tool leaves it out"
        )
    if why := nvrtc.available():
        raise SystemExit(why)
    config = yaml.safe_load(options.config.read_text() if options.config else NEWEST)
    by_kernel: dict[str, list[Job]] = {}
    try:
        for job in jobs_of(config, str(options.config or "NEWEST")):
            by_kernel.setdefault(job.kernel, []).append(job)
    except UserError as error:
        raise SystemExit(str(error)) from None
    if not by_kernel:
        raise SystemExit("no case that can be launched here")
    tools = list(options.sanitizers)
    print(
        "| kernel | cases | times each | times with other bits |"
        + "".join(f" {tool} |" for tool in tools)
    )
    print("|---|" + "---|" * (3 + len(tools)))
    session, bad = Session(open_gpu()), False
    with gpu_lock(session.gpu.uuid, shared=True), ThreadPoolExecutor(AT_A_TIME) as pool:
        told = {
            (kernel, tool): pool.submit(
                sanitized, tool, kernel, mine[:: options.every], str(sanitizer)
            )
            for tool in tools
            for kernel, mine in by_kernel.items()
        }
        others = {}
        for kernel, mine in by_kernel.items():
            others[kernel] = sum(differing(session, job, options.times) for job in mine)
            print(f"repeated: {kernel}, {others[kernel]} differ", file=sys.stderr, flush=True)
        for kernel, mine in by_kernel.items():
            said = [(tool, *told[kernel, tool].result()) for tool in tools]
            bad |= others[kernel] > 0 or not all(right for _, _, right in said)
            bad |= any(tool != "racecheck" and not text.startswith("0 ") for tool, text, _ in said)
            texts = "".join(f" {text} |" for _, text, _ in said)
            row = f"| {kernel} | {len(mine)} | {options.times} | {others[kernel]} |{texts}"
            print(row, flush=True)
    session.close()
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
