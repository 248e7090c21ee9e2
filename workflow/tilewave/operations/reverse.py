"""An array back to front, through shared memory.

The array arguments come from the job: with one (``d``) it is reversed in place, with two the first
is read and the second is written. An output that is an input as well starts with the input's
values instead of poison.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewave.dtypes import DTYPES
from tilewave.jobs import Job
from tilewave.operations._common import Judgement, Work, compare, element_bytes

DIMENSIONS = ("n",)
SCALARS = ("n", "alpha", "beta")


def work(shape: Mapping[str, int], dtypes: Mapping[str, str], beta: float = 0) -> Work:
    """No arithmetic; every element is read once and written once."""
    return Work(0, 2 * shape["n"] * element_bytes(dtypes, next(iter(dtypes))))


def _arrays(job: Job) -> tuple[str, str]:
    """Names of the array that is read and of the one that is written."""
    arrays = [one for one in job.arguments if isinstance(one, str) and one not in SCALARS]
    if not arrays:
        raise ValueError(f"{job.case}: no array among the arguments {list(job.arguments)}")
    return arrays[0], arrays[-1]


def _dtype(job: Job, name: str) -> str:
    return job.dtypes.get(name) or next(iter(job.dtypes.values()))


def inputs(job: Job) -> dict[str, np.ndarray]:
    """The array to reverse: stream 0 of the job's seed; integers are their own index."""
    from tilewave.inputs import storage, uniform

    source, _ = _arrays(job)
    n, dtype = job.shape["n"], _dtype(job, source)
    if DTYPES[dtype].whole:
        return {source: np.arange(n, dtype=storage(dtype))}
    return {source: np.asarray(uniform(job.seed, 0, n, dtype))}


def outputs(job: Job) -> dict[str, tuple[np.dtype[Any], int]]:
    """The reversed array, of n elements."""
    from tilewave.inputs import storage

    _, target = _arrays(job)
    return {target: (np.dtype(storage(_dtype(job, target))), job.shape["n"])}


def judge(job: Job, outputs: Mapping[str, np.ndarray]) -> Judgement:
    """Verdict, reason (first wrong index, found, expected) and figures."""
    source, target = _arrays(job)
    return compare(target, outputs[target], inputs(job)[source][::-1])
