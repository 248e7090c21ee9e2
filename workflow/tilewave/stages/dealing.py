"""Which of several GPUs measures which kernel.

A kernel's cases stay together, in all stages: a sweep over sizes, dtypes or macros is drawn as a line,
and a line of points from two cards, which differ by a percent or two, has teeth. Rungs beside each
other may come from different cards: their shares of cuBLAS are paired with cuBLAS on their own card.
A race has all its candidates on one card. Code on the host has a batch of its own, which runs alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from tilewave.cases import Plan, Request, wants
from tilewave.counters.catalogue import OF_INSTRUCTIONS
from tilewave.stages.jobs import Planned

SECONDS = {"check": 0.02, "time": 0.18, "tune": 0.02, "counters": 0.12, "sample": 0.03}
"""What a case costs a GPU, about: only their ratios matter, to deal everyone as much."""
PATCHED_S = 0.6
"""Of a case whose instructions are counted one by one."""


def cost_s(
    request: Request, stages: Collection[str] = ("check", "time", "counters", "sample")
) -> float:
    """Seconds of these stages that a case takes, about."""
    seconds = {**SECONDS}
    if not request.counters.isdisjoint(OF_INSTRUCTIONS):
        seconds["counters"] = PATCHED_S
    return sum(seconds[stage] for stage in stages if wants(stage, request))


def dealt(plan: Plan, cards: int) -> tuple[dict[str, int], int]:
    """The card, 0 to ``cards - 1``, of each kernel, and that of the races; ``cards`` itself stands for
    the host. The dearest goes first, each to who has least: the same plan is always dealt alike."""
    host = {
        one.case.variant.kernel.name: cards
        for one in plan.requests.values()
        if one.case.variant.kernel.provider == "cpu"
    }
    costs = {"": sum(cost_s(one, ("tune",)) for one in plan.requests.values())}
    for one in plan.requests.values():
        name = one.case.variant.kernel.name
        if name not in host:
            costs[name] = costs.get(name, 0.0) + cost_s(one)
    given, loads = {}, [0.0] * cards
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        given[name] = min(range(cards), key=lambda card: loads[card])
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
