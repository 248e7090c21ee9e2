"""c[i] = a[i] + b[i]. The sum of two floats is rounded once, so it must be equal, not near."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewave.jobs import Job
from tilewave.operations._common import Judgement, Work, compare, element_bytes

DIMENSIONS = ("n",)


def work(shape: Mapping[str, int], dtypes: Mapping[str, str], beta: float = 0) -> Work:
    """n additions; a and b are read once, c is written once."""
    n = shape["n"]
    return Work(n, n * sum(element_bytes(dtypes, name) for name in ("a", "b", "c")))


def _dtype(job: Job, name: str) -> str:
    return job.dtypes.get(name) or next(iter(job.dtypes.values()))


def inputs(job: Job) -> dict[str, np.ndarray]:
    """a and b, each of n elements: streams 0 and 1 of the job's seed."""
    from tilewave.inputs import uniform

    n, seed = job.shape["n"], job.seed
    return {
        name: np.asarray(uniform(seed, stream, n, _dtype(job, name)))
        for stream, name in enumerate(("a", "b"))
    }


def outputs(job: Job) -> dict[str, tuple[np.dtype[Any], int]]:
    """c, of n elements."""
    from tilewave.inputs import storage

    return {"c": (np.dtype(storage(_dtype(job, "c"))), job.shape["n"])}


def judge(job: Job, outputs: Mapping[str, np.ndarray]) -> Judgement:
    """Verdict, reason (first wrong index, found, expected) and figures."""
    given = inputs(job)
    found = outputs["c"]
    with np.errstate(all="ignore"):
        expected = (given["a"] + given["b"]).astype(found.dtype)
    return compare("c", found, expected)
