"""Small kernels and configs that several tests share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tilewave.compiling import nvrtc
from tilewave.kernel.job import BlockTiming, Job
from tilewave.kernel.launches import LaunchPlan
from tilewave.kernel.result import Result
from tilewave.pipeline import jobs
from tilewave.pipeline.pipeline import Compiled
from tilewave.pipeline.plan import resolved
from tilewave.pipeline.project import Project

ROOT = Path(__file__).parents[2]
WRAPPED = ROOT / "tests" / "wrapped"
"""Kernels and their launches as public ones are written, for `tilewave wrap`."""


def shipped(name: str) -> Path:
    """The file of one of Tilewave's own kernels."""
    return next((ROOT / "kernels").glob(f"*/{name}.*"))


needs_nvrtc = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available() or "NVRTC")

FRONT = """\
title: A test kernel
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
macros: {REAL: [f32, f64], TILE: [16, 32]}
tile: [TILE, TILE, 1]
block: [TILE, TILE]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
"""

BODY = """\
using f32 = float;
using f64 = double;
extern "C" __global__ void NAME(const REAL* a, const REAL* b, REAL* c, int m, int n, int k,
                                REAL alpha, REAL beta)
{
    __shared__ REAL held[TILE];
    const int column = blockIdx.x * TILE + threadIdx.x;
    const int row = blockIdx.y * TILE + threadIdx.y;
    if (threadIdx.y == 0) {
        held[threadIdx.x] = alpha;
    }
    __syncthreads();
    if (row >= m || column >= n) {
        return;
    }
    REAL sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    }
    REAL* target = c + (long long)row * n + column;
    *target = beta == 0 ? held[threadIdx.x] * sum : held[threadIdx.x] * sum + beta * *target;
}
"""


def a_job(kind: type[Job] = Job, **more: Any) -> Job:
    """A job, plain but for what is given."""
    plain = {
        "stage": "check", "case": "a@64", "kernel": "a", "variant": "a", "provider": "nvrtc",
        "operation": "matmul", "source": "a.cu", "entry": "a", "arguments": (), "shape": {},
        "dtypes": {}, "layouts": {}, "seed": 1, "limit_s": 20.0,
        "launch": LaunchPlan((1, 1, 1), (1, 1, 1), 0, None, 1), "timing": BlockTiming(2.0, 5),
        "clock_control": "none", "cache_control": "all",
    }  # fmt: skip
    return kind(**{**plain, **more})


def compiled(*variants: str, arch: str = "sm_90") -> Compiled:
    """Variants that were compiled, as the pipeline knows them."""
    entry = {"status": "ok", "reason": "", "code": "c", "cubin": "x"}
    return {one: {arch: entry} for one in variants}


def planned(
    stage: str, made: Project, known: Compiled, target: Mapping[str, Any], arch: str = "sm_90"
) -> dict[str, Job | Result]:
    """What a stage does for a project's cases on a target."""
    cases = resolved(made.plan, target).cases.values()
    return jobs.of_stage(stage, cases, known, arch, made.config)


def write_kernel(folder: Path, name: str = "sample", front: str = FRONT, body: str = BODY) -> Path:
    """A kernel file of that name in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.cu"
    path.write_text(f"/*---\n{front}---*/\n\n{body.replace('NAME', name)}")
    return path


def config(*cases: Mapping[str, Any], **top: Any) -> dict[str, Any]:
    """A config of one study with these case blocks."""
    blocks = [dict(case) for case in cases] or [{"kernels": ["matmul_naive"], "shapes": [64]}]
    study = {"plot": "correctness", "title": "A study", "cases": blocks}
    return {"studies": {"study": study}, **top}
