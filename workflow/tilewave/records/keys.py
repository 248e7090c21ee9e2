"""Content keys: two measurements with the same key measured the same code in the same way."""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilewave.kernel.job import Job
from tilewave.records.counters import catalogue
from tilewave.theory.dtypes import has_fp8

# Raised when the way of measuring changes, so that older figures are not taken for new ones.
METHOD_VERSION = {"check": 1, "time": 2, "tune": 2, "counters": 1, "sample": 1, "execute": 1}

# The fields of a job and its launch that decide a figure. Paths, case names and limits do not.
PARTS = (
    "provider", "operation", "entry", "grid", "block", "shared_bytes", "cluster", "arguments", "shape",
    "dtypes", "layouts", "probe", "seed",
)  # fmt: skip
# Parts that most jobs lack. An empty one is absent from the key, so that keys recorded before the part
# existed stay the same.
RARE_PARTS = (
    "scratch", "work", "device", "tensor_maps", "operation_code", "reads_c", "strides", "series",
    "programmatic", "cooperative",
)  # fmt: skip
STAGE_PARTS = {
    "check": (),
    "time": ("baseline", "timing"),
    # Without the rivals: an added kernel must not invalidate earlier tuning runs.
    "tune": ("timing",),
    "counters": ("instruction", "metrics", "sections", "clock_control", "cache_control"),
    "sample": ("metrics", "sections", "clock_control", "cache_control"),
    "execute": ("versions",),
}


def digest(parts: Mapping[str, Any]) -> str:
    """Return the SHA-256 of canonical JSON; dataclasses count as their fields."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), allow_nan=False, default=vars)
    return hashlib.sha256(text.encode()).hexdigest()


def key(code: str, job: Job) -> str:
    """Return a job's key, from code, launch, inputs and method. code: digest of the cubin's or the host's code."""
    parts = vars(job) | vars(job.launch)
    parts["probe"] = job.probe and job.probe.document()
    parts["tensor_maps"] = {plan.name: plan.document() for plan in job.launch.tensor_maps}
    return digest(
        {
            "stage": job.stage,
            "method_version": METHOD_VERSION[job.stage],
            "code": code,
            **{name: parts[name] for name in (*PARTS, *STAGE_PARTS[job.stage])},
            **{name: parts[name] for name in RARE_PARTS if parts[name]},
        }
    )


def of_more(job: Job) -> Iterator[str]:
    """Yield the keys of the same job with at least its counters: their results answer it too."""
    wanted = {*job.metrics, *job.sections}
    for metrics, sections in _combinations(has_fp8(job.dtypes)):
        if wanted <= {*metrics, *sections}:
            yield key(job.code, replace(job, metrics=metrics, sections=sections))


@functools.cache
def _combinations(fp8: bool) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Return metrics and sections of every combination of counter sets, each once; fp8: for an FP8 product."""
    sets = catalogue.SETS
    several = (itertools.combinations(sets, n + 1) for n in range(len(sets)))
    merged = (catalogue.merged(chosen, fp8) for chosen in itertools.chain.from_iterable(several))
    return tuple({(tuple(metrics), tuple(sections)): None for metrics, sections in merged})
