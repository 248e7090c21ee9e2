"""Content keys: two measurements with the same key measured the same code in the same way."""

import functools
import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilewave.basics.tables import table_beside
from tilewave.kernel.job import Job
from tilewave.records.counters import catalogue
from tilewave.theory.dtypes import has_fp8

TABLES = table_beside(__file__)


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
            "method_version": TABLES["method_version"][job.stage],
            "code": code,
            **{name: parts[name] for name in (*TABLES["parts"], *TABLES["stages"][job.stage])},
            **{name: parts[name] for name in TABLES["rare"] if parts[name]},
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
