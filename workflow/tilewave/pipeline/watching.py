"""What the lanes of a kernel's accesses to shared memory do, for the pages.

Addresses are the same in every block and at every size, or nearly: one case of each variant is
watched, and every case of a probe that counts one instruction. It holds on every machine, like the
execution whose key it has: the store knows it, or a recording, or the case is executed once more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tilewave.execution import cost
from tilewave.gpu.failure import Measure
from tilewave.kernel import operations, result
from tilewave.kernel.job import Job
from tilewave.kernel.result import Result
from tilewave.pipeline import jobs
from tilewave.pipeline.pipeline import Pipeline

KIND = "accesses"
ACCESSES = re.compile(r"\b(?:LDS|STS|LDSM|STSM|LDGSTS|ATOMS|LD|ST|ATOM)\b")
"""Opcodes whose lanes may have addresses in shared memory."""
ENOUGH = 256**3
"""Elements of m x n x k from which on the tiles of every kernel are full."""

Rows = list[dict[str, Any]]


def _best(cases: Iterable[Job]) -> Job:
    """Of an operation with tiles the smallest that is large enough, else the largest; of another the smallest."""

    def size(job: Job) -> int:
        return math.prod(job.shape.values())

    found = sorted(cases, key=size)
    if not operations.load(found[0].operation, found[0].source).tiles:
        return found[0]
    return next((job for job in found if size(job) >= ENOUGH), found[-1])


def chosen(pipeline: Pipeline) -> list[Job]:
    """The cases that are watched."""
    config, every = pipeline.project.config, pipeline.plan.cases.values()
    planned = jobs.of_stage(result.EXECUTE, every, pipeline.compiled, pipeline.arch, config)
    variants: dict[str, list[Job]] = {}
    for job in planned.values():
        if isinstance(job, Job) and job.provider == "nvrtc":
            variants.setdefault(job.variant, []).append(job)
    found: list[Job] = []
    for cases in variants.values():
        found += [job for job in cases if job.instruction] or [_best(cases)]
    return [replace(job, watch=True) for job in found]


def foremost(wanted: Iterable[Job]) -> list[Job]:
    """Those of the variants that a kernel has by default, and of probes."""
    return [job for job in wanted if job.variant == job.kernel or job.instruction]


def _may_access(pipeline: Pipeline, job: Job) -> bool:
    """Whether a job's code has an instruction that may access shared memory, as far as is known."""
    entry = pipeline.compiled[job.variant][pipeline.arch] or {}
    code = pipeline.compilations.as_compiled(entry)
    return code is None or bool(ACCESSES.search(code[0]))


def known(pipeline: Pipeline, job: Job) -> Rows | None:
    """What is known of a case's accesses; None where it has to be executed."""
    found = pipeline.store.read(pipeline.store.blob(KIND, job.key, ".json"))
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        return found
    return pipeline.deterministic.accesses.get(job.key) if pipeline.deterministic else None


def watch(pipeline: Pipeline, wanted: Iterable[Job], measure: Measure) -> None:
    """Execute those that are not known, once each, and keep what they did."""
    waiting = [job for job in wanted if known(pipeline, job) is None and not job.no_cubin]
    waiting = [job for job in waiting if cost.predicted_s(job) < job.limit_s]
    waiting = [job for job in waiting if _may_access(pipeline, job)]
    pipeline.provide({job.variant for job in waiting})

    def finished(made: Result) -> None:
        if made.status == result.OK:
            pipeline.store.write(pipeline.store.blob(KIND, made.key, ".json"), made.accesses)

    if waiting:
        measure(waiting, finished)


def drawn(pipeline: Pipeline) -> dict[str, Any]:
    """Of `document` what pages draw: every case of a probe, of another kernel the first."""
    known, first = document(pipeline, chosen(pipeline)), dict[str, str]()
    for case, one in known.items():
        first.setdefault(one["kernel"], case)
    return {
        case: one
        for case, one in known.items()
        if first[one["kernel"]] == case
        or pipeline.variants[one["variant"]].kernel.front.operation == "probe"
    }


def document(pipeline: Pipeline, wanted: Iterable[Job]) -> dict[str, Any]:
    """What is known, by case: its kernel and variant, of a probe the ``instruction`` that it is about,
    and its accesses (see `execution.lanes.captured.patterns`)."""
    found = {job.case: (job, known(pipeline, job)) for job in wanted}
    return {
        case: {
            "kernel": job.kernel,
            "variant": job.variant,
            "instruction": job.instruction,
            "key": job.key,
            "accesses": rows,
        }
        for case, (job, rows) in found.items()
        if rows
    }
