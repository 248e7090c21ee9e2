"""One case, compiled and planned by itself: for the command line, and for a kernel that judges another."""

from __future__ import annotations

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
from tilewave.kernel.trial import TRIAL_DEVICE
from tilewave.kernel.variants import variant
from tilewave.pipeline import compiling, jobs
from tilewave.pipeline.cases import Case, Shape
from tilewave.pipeline.config import Config
from tilewave.pipeline.resolving import resolve
from tilewave.pipeline.target import FALLBACK_ARCH
from tilewave.records.store import Store


def planned(
    case: Case, arch: str, target: Mapping[str, Any], folder: Path, seed: int, limit_s: float
) -> tuple[Job | Result, dict[str, Any]]:
    """A job that executes the case (or the result that is known without one) and what was compiled, its
    files in ``folder``. target: ``device`` and ``arch``."""
    variant = case.variant
    store = Store(cache.folder("kernels"))
    known = compiling.Compilations(store, None, folder)
    missing = [compiling.Task(variant, arch)] if known.missing_cubin(variant, arch) else []
    if missing:
        cache.forget_old(store.root)
    done = compiling.compiled(missing, store, 1)
    threading.Thread(target=execution.engine).start()  # loads numba while NVRTC and nvdisasm work
    told = {task.key: made for task, made in done}
    known.provide(variant, arch)
    entry = known.entry(variant, arch) or next(iter(told.values()), None)
    assert entry is not None
    study = {"plot": "correctness", "title": "-", "cases": [{"shapes": [1]}]}
    config = Config.model_validate(
        {"studies": {"command": study}, "seed": seed, "execute": {"case_limit_s": limit_s}}
    )
    return jobs.of_case(EXECUTE, resolve(case, target), {arch: entry}, arch, config), entry


def reference(file: Path, job: Job, folder: Path) -> Job:
    """A kernel file's job at the sizes of another one (see `pipeline.reference_kernel`). Raises NoReference."""
    one = Case(variant(load_kernel(file), {}, file, "macros"), Shape(tuple(job.shape.items())))
    target = {"device": TRIAL_DEVICE, "arch": FALLBACK_ARCH}
    found, _ = planned(one, f"sm_{FALLBACK_ARCH}", target, folder, job.seed, job.limit_s)
    if not isinstance(found, Job):
        raise NoReference(f"{found.status}: {found.reason}")
    if found.operation != job.operation:
        raise NoReference(f"it is a kernel of {found.operation}, not {job.operation}")
    return found
