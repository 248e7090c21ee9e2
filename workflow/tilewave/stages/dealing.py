"""Which of several GPUs measures which kernel.

A kernel's cases stay together, in all stages: a sweep over sizes, dtypes or macros is drawn as a line,
and a line of points from two cards, which differ by a percent or two, has teeth. Rungs beside each
other may come from different cards: their shares of cuBLAS are paired with cuBLAS on their own card.
A race has all its candidates on one card, one that times before it counts, so that it waits for no counters. cuBLAS,
whose fastest algorithm is found while timing, is the first card's. Code on the host has a batch of its own, which runs
alone.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Sequence

from tilewave import operations
from tilewave.cases import Plan, Request, wants
from tilewave.counters.catalogue import OF_INSTRUCTIONS
from tilewave.expressions import ExpressionError
from tilewave.records.model import SAMPLE
from tilewave.stages.jobs import Planned

SECONDS = {"check": 0.0063, "time": 0.12, "tune": 0.013, "counters": 0.11}
"""What a case takes, about, of the whole study on an H200: only the ratios matter, to deal everyone as much."""
PATCHED_S = 0.62
"""Of a case whose instructions are counted one by one."""
SAMPLED_S = 0.9
"""Of the one case of a kernel that is sampled."""
BY_NUMPY_S = 2e-8
"""Of an element whose reference is no product: numpy's, in several processes at a time."""
SMS = 132
"""Of the GPU, where a shape asks for them: for these seconds any number will do."""


def _elements(request: Request) -> int:
    """Elements of the arrays, about; none where the shape cannot be told."""
    shape = request.case.shape
    with contextlib.suppress(ExpressionError):
        return math.prod(shape.resolve({"sms": SMS}).values()) if shape is not None else 0
    return 0


def cost_s(request: Request, stages: Collection[str] = ("check", "time", "counters")) -> float:
    """Seconds of these stages that a case takes, about."""
    seconds = {**SECONDS}
    if not request.counters.isdisjoint(OF_INSTRUCTIONS):
        seconds["counters"] = PATCHED_S
    kernel = request.case.variant.kernel
    operation = operations.load(kernel.front.operation, kernel.path)
    if not operation.of_products:
        seconds["check"] += BY_NUMPY_S * _elements(request)
    return sum(seconds[stage] for stage in stages if wants(stage, request))


def counts_first(card: int) -> bool:
    """Whether a card collects counters and samples before it times: every second one does. Sessions of Nsight Compute are
    slower beside another's; of two cards they come one after the other, of more half of them at a time."""
    return card % 2 == 1


def dealt(plan: Plan, cards: int) -> tuple[dict[str, int], int]:
    """The card, 0 to ``cards - 1``, of each kernel, and that of the races; ``cards`` itself stands for
    the host. The dearest goes first, each to who has least: the same plan is always dealt alike."""
    kernels = [one.case.variant.kernel for one in plan.requests.values()]
    host = {kernel.name: cards for kernel in kernels if kernel.provider == "cpu"}
    given = {kernel.name: 0 for kernel in kernels if kernel.provider == "cublaslt"}
    costs = {"": sum(cost_s(one, ("tune",)) for one in plan.requests.values())}
    sampled: set[str] = set()
    for one in plan.requests.values():
        name = one.case.variant.kernel.name
        if name not in host:
            costs[name] = costs.get(name, 0.0) + cost_s(one)
        if wants(SAMPLE, one):
            sampled.add(name)
    for name in sampled:
        costs[name] += SAMPLED_S
    loads = [0.0] * cards
    for name in sorted(costs, key=lambda name: (name not in given, -costs[name], name)):
        fit = [card for card in range(cards) if name or not counts_first(card)]
        given.setdefault(name, min(fit, key=lambda card: loads[card]))
        loads[given[name]] += costs[name]
    races = given.pop("")
    return {**given, **host}, races


def compared(planned: Sequence[Planned]) -> str | None:
    """Of the timed cases the one that all cards time, to tell how they differ: the largest product of
    the last kernel that is paired with cuBLAS, else of the last kernel; None without any."""
    jobs = [one.job for one in planned if one.job is not None and one.job.provider == "nvrtc"]
    jobs = [job for job in jobs if job.baseline] or jobs
    mine = [job for job in jobs if job.kernel == jobs[-1].kernel]
    return max(mine, key=lambda job: math.prod(job.shape.values())).case if mine else None
