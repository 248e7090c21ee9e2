"""A single case, compiled and planned alone: for the command line, and for a kernel that judges another."""

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewave import execution
from tilewave.basics import cache
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.job import Job
from tilewave.kernel.operations.kernel_reference import NoReference
from tilewave.kernel.result import EXECUTE, Result
from tilewave.kernel.trial import FALLBACK_ARCH, TRIAL_DEVICE
from tilewave.kernel.variants import Variant, variant
from tilewave.pipeline import compiling, jobs
from tilewave.pipeline.cases import Case
from tilewave.pipeline.config import Config
from tilewave.pipeline.resolving import resolve
from tilewave.pipeline.shapes import Shape
from tilewave.records.store import Store


def _load_engine() -> None:
    with contextlib.suppress(Exception):  # the execution raises it again
        execution.engine()


def config(seed: int, limit_s: float) -> Config:
    study = {"plot": "correctness", "title": "-", "cases": [{"shapes": [1]}]}
    settings = {"seed": seed, "execute": {"case_limit_s": limit_s}}
    return Config.model_validate({"studies": {"command": study}, **settings})


def planned(
    case: Case, arch: str, target: Mapping[str, Any], folder: Path, seed: int, limit_s: float
) -> tuple[Job | Result, dict[str, Any]]:
    """Return the job that executes a case, or the result that says why there is none, and the compiled entry."""
    entry = compiled(case.variant, arch, folder)
    resolved, limits = resolve(case, target), config(seed, limit_s)
    return jobs.of_case(EXECUTE, resolved, {arch: entry}, arch, limits), entry


def compiled(variant: Variant, arch: str, folder: Path) -> dict[str, Any]:
    """Compile a variant, or take it from the cache, with its files in ``folder``; return its entry."""
    store = Store(cache.folder("kernels"))
    compilations = compiling.Compilations(store, None, folder)
    entry = compilations.provide(variant, arch)
    if entry is None:
        cache.forget_old(store.root)
        done = compiling.compiled([compiling.Task(variant, arch)], store, 1)
        threading.Thread(target=_load_engine).start()  # loads numba while NVRTC and nvdisasm work
        ((_, ended),) = done
        entry = compilations.provide(variant, arch) or ended
    return entry


def reference(file: Path, job: Job, folder: Path) -> Job:
    """Return a kernel file's job at another job's sizes (`pipeline.reference_kernel`). Raises NoReference."""
    shape, arch = Shape(tuple(job.shape.items())), f"sm_{FALLBACK_ARCH}"
    reference_case = Case(variant(load_kernel(file), {}, file, "macros"), shape)
    target = {"device": TRIAL_DEVICE, "arch": FALLBACK_ARCH}
    reference_job, _ = planned(reference_case, arch, target, folder, job.seed, job.limit_s)
    if not isinstance(reference_job, Job):
        raise NoReference(f"{reference_job.status}: {reference_job.reason}")
    if reference_job.operation != job.operation:
        raise NoReference(f"its operation is {reference_job.operation}, not {job.operation}")
    return reference_job
