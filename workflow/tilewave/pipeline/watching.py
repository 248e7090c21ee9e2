"""The shared-memory accesses of a kernel's lanes, for the pages.

Addresses are nearly the same in every block and at every size, so one case of each variant is watched,
and every case of a probe that counts one instruction. Accesses are the same on every machine. They come
from the store or a recording, by the key of the execution; otherwise the case is executed again.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tilewave.execution import cost
from tilewave.execution.lanes.captured import are_patterns
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
"""m x n x k from which the tiles of every kernel are full."""

Rows = list[dict[str, Any]]


def _best(cases: Iterable[Job]) -> Job:
    """Return the smallest job; for an operation with tiles, the smallest that fills them, or the largest."""

    def size(job: Job) -> int:
        return math.prod(job.shape.values())

    ordered = sorted(cases, key=size)
    if not operations.load(ordered[0].operation, ordered[0].source).tiles:
        return ordered[0]
    return next((job for job in ordered if size(job) >= ENOUGH), ordered[-1])


def chosen(pipeline: Pipeline) -> list[Job]:
    config, cases = pipeline.project.config, pipeline.plan.cases.values()
    planned = jobs.of_stage(result.EXECUTE, cases, pipeline.compiled, pipeline.arch, config)
    variants: dict[str, list[Job]] = {}
    for job in planned.values():
        if isinstance(job, Job) and job.provider == "nvrtc":
            variants.setdefault(job.variant, []).append(job)
    picked: list[Job] = []
    for group in variants.values():
        picked += [job for job in group if job.instruction] or [_best(group)]
    return [replace(job, watch=True) for job in picked]


def default_variants(wanted: Iterable[Job]) -> list[Job]:
    return [job for job in wanted if job.variant == job.kernel or job.instruction]


def _may_access(pipeline: Pipeline, job: Job) -> bool:
    """Return whether a job's code may access shared memory; True if its listing is not known."""
    entry = pipeline.compiled[job.variant][pipeline.arch] or {}
    code = pipeline.compilations.as_compiled(entry)
    return code is None or bool(ACCESSES.search(code[0]))


def look_up(pipeline: Pipeline, job: Job) -> Rows | None:
    """Return a case's known accesses, None if it must be executed."""
    rows = pipeline.store.read(pipeline.store.blob(KIND, job.key, ".json"))
    if not are_patterns(rows) and pipeline.deterministic:
        rows = pipeline.deterministic.accesses.get(job.key)
    return rows if are_patterns(rows) else None


def watch(pipeline: Pipeline, wanted: Iterable[Job], measure: Measure) -> None:
    """Execute the jobs whose accesses are not known, once each, and store the accesses."""
    waiting = [job for job in wanted if look_up(pipeline, job) is None and not job.no_cubin]
    waiting = [job for job in waiting if cost.predicted_s(job) < job.limit_s]
    waiting = [job for job in waiting if _may_access(pipeline, job)]
    pipeline.provide({job.variant for job in waiting})

    def finished(outcome: Result) -> None:
        if outcome.status == result.OK:
            pipeline.store.write(pipeline.store.blob(KIND, outcome.key, ".json"), outcome.accesses)

    if waiting:
        measure(waiting, finished)


def drawn(pipeline: Pipeline) -> dict[str, Any]:
    """Return what pages draw of `document`: every case of a probe, and other kernels' first case."""
    shown, kernels = dict[str, Any](), set[str]()
    for case, entry in document(pipeline, chosen(pipeline)).items():
        kernel = pipeline.variants[entry["variant"]].kernel
        if kernel.front.operation == "probe" or entry["kernel"] not in kernels:
            shown[case] = entry
        kernels.add(entry["kernel"])
    return shown


def document(pipeline: Pipeline, wanted: Iterable[Job]) -> dict[str, Any]:
    """Return the known accesses (`captured.patterns`) by case, with kernel, variant and a probe's ``instruction``."""
    rows_of, about = dict[str, Any](), ("kernel", "variant", "instruction", "key")
    for job in wanted:
        if rows := look_up(pipeline, job):
            rows_of[job.case] = {**{name: getattr(job, name) for name in about}, "accesses": rows}
    return rows_of
