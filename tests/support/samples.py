"""Small kernels and configs that several tests share."""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tilewave.basics.errors import UserError
from tilewave.compiling import nvrtc
from tilewave.kernel.job import BlockTiming, Job
from tilewave.kernel.launches import LaunchPlan
from tilewave.kernel.result import Result
from tilewave.pipeline import jobs
from tilewave.pipeline import project as projects
from tilewave.pipeline.cases import Plan
from tilewave.pipeline.pipeline import Compiled
from tilewave.pipeline.plan import resolved
from tilewave.pipeline.project import Project

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "kernels"


def table(name: str) -> Any:
    """Return a table of test cases, a file of tests/data."""
    return yaml.safe_load((DATA.parent / f"{name}.yaml").read_text("utf-8"))


WRAPPED = ROOT / "tests" / "wrapped"
"""Kernels and launches in the style of public ones, for `tilewave wrap`."""


def shipped(name: str) -> Path:
    return next((ROOT / "kernels").glob(f"*/{name}.*"))


@functools.cache
def shipped_plan() -> Plan:
    """Return the plan of the shipped config, for no target yet."""
    path = ROOT / "config" / "config.yaml"
    return projects.load(yaml.safe_load(path.read_text()), str(path), thorough=False).plan


def refused(data: dict[str, Any], where_file: str, place: object) -> str:
    """Return the one-line message that ends a run with this config; it begins with a place."""
    with pytest.raises(UserError, match=r"\. [A-Z]") as caught:
        projects.load(data, where_file)
    message = str(caught.value)
    assert message.startswith(f"{place}: ") and "\n" not in message
    return message


def kernel_parts(name: str) -> tuple[str, str]:
    """Return front matter and code of a kernel in tests/data/kernels, whose name there is NAME."""
    front, _, body = (DATA / f"{name}.cu").read_text().partition("---*/\n\n")
    return front.removeprefix("/*---\n"), body


FRONT, BODY = kernel_parts("sample")
HOPPER = {
    "compute_capability": "9.0", "max_warps_per_sm": 64, "max_blocks_per_sm": 32, "registers_per_sm": 65536,
    "shared_per_sm": 233472, "shared_per_block_optin": 232448, "shared_reserved_per_block": 1024,
}  # fmt: skip
"""Facts of an SM in the environment of an H200."""
HERE = {"device": {"sms": 132, "shared_per_block_optin": 232448, "arch": 90}, "arch": 90}
needs_nvrtc = pytest.mark.skipif(bool(nvrtc.available()), reason=nvrtc.available() or "NVRTC")


def statuses(results: Iterable[Result]) -> list[str]:
    return [result.status for result in results]


def until(condition: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait until a condition is true. Raises AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def a_job(kind: type[Job] = Job, **more: Any) -> Job:
    """Return a plain job with these fields."""
    plain = {
        "stage": "check", "case": "a@64", "kernel": "a", "variant": "a", "provider": "nvrtc",
        "operation": "matmul", "source": "a.cu", "entry": "a", "arguments": (), "shape": {},
        "dtypes": {}, "layouts": {}, "seed": 1, "limit_s": 20.0,
        "launch": LaunchPlan((1, 1, 1), (1, 1, 1), 0, None, 1), "timing": BlockTiming(2.0, 5),
        "clock_control": "none", "cache_control": "all",
    }  # fmt: skip
    return kind(**{**plain, **more})


def compiled(*variants: str, arch: str = "sm_90") -> Compiled:
    """Return compilations of these variants."""
    entry = {"status": "ok", "reason": "", "code": "c", "cubin": "x"}
    return {variant: {arch: entry} for variant in variants}


def planned(
    stage: str,
    project: Project,
    compilations: Compiled,
    target: Mapping[str, Any],
    arch: str = "sm_90",
) -> dict[str, Job | Result]:
    """Return the jobs of a stage for a project's cases on a target."""
    cases = resolved(project.plan, target).cases.values()
    return jobs.of_stage(stage, cases, compilations, arch, project.config)


def write_kernel(folder: Path, name: str = "sample", front: str = FRONT, body: str = BODY) -> Path:
    """Write a kernel file of that name in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.cu"
    path.write_text(f"/*---\n{front}---*/\n\n{body.replace('NAME', name)}")
    return path


def config(*cases: Mapping[str, Any], **top: Any) -> dict[str, Any]:
    """Return a config of a study with these case blocks."""
    blocks = [dict(case) for case in cases] or [{"kernels": ["matmul_naive"], "shapes": [64]}]
    study = {"plot": "correctness", "title": "A study", "cases": blocks}
    return {"studies": {"study": study}, **top}


def target(live: bool = True) -> dict[str, Any]:
    """Return the target of a machine with the GPU ``gpu1``, or of a laptop that shows its recording."""
    return {
        "live": live, "environment": "gpu1", "host": "laptop", "label": "NVIDIA H200", "arch": 90,
        "reason": "no NVIDIA GPU on this machine", "recorded": None,
        "environments": {"gpu1": {"ncu": "2025.3.1"}, "laptop": {"ncu": None}},
        "device": {"sms": 132, "arch": 90, "shared_per_block_optin": 232448},
    }  # fmt: skip
