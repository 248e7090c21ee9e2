"""A case as the rules take it (`Subject`), and their results (`Finding`)."""

import functools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewave.compiling.origins import NOWHERE, Origin
from tilewave.plots.base import present
from tilewave.records.counters.catalogue import (
    AVERAGE,
    BUSIEST,
    ELAPSED,
    ISSUED,
    PIPE,
    STALLED,
    STATES,
)
from tilewave.theory.bounds import Bound
from tilewave.theory.occupancy import Occupancy, SmLimits, occupancy

PIPES = tuple(PIPE.format(pipe) for pipe in ("tensor", "fma", "fp64"))
FULL = 0.75
"""Share of the cycles from which a pipe limits a kernel."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """A rule's result for a case.

    amount: the share (0 to 1) that the sentence explains. bound: the largest share of the time that a fix
    can save; None where no counter bounds it. origin: the line to fix, or `NOWHERE`.
    """

    rule: str
    sentence: str
    amount: float
    bound: float | None
    origin: Origin = NOWHERE


@dataclass(frozen=True)
class Subject:
    """A case with its counters; a rule whose input is absent is skipped.

    case: its row of the table of cases. metrics: counters and derived values by name. instructions: rows
    with the columns of `Origin`. resources: those of the compiled kernel. device: facts of the counters'
    environment. samples: stall samples with the columns of `Origin`, from the one sampled case of the
    variant, whose shape may differ. busy: share of the cycles that each pipe works; empty without cycles.
    least: the bound on the case (`theory.bounds`), if its work was counted.
    """

    case: Row
    metrics: Mapping[str, float] = field(default_factory=dict)
    instructions: Sequence[Row] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    samples: Sequence[Row] = ()
    busy: Mapping[str, float] = field(default_factory=dict)
    least: Bound | None = None

    def value(self, name: str) -> float | None:
        """Return a counter; None where it is absent or NaN."""
        number = self.metrics.get(name)
        return float(number) if present(number) and number is not None else None

    def size(self, name: str) -> int | None:
        """Return a whole number of the case's row; None where it is absent."""
        number = self.case.get(name)
        return int(number) if present(number) and number is not None else None

    @property
    def elapsed(self) -> float | None:
        """Cycles of the launch in the longest pass of the profiler."""
        cycles = [value for name in (ELAPSED, BUSIEST) if (value := self.value(name))]
        return max(cycles) if cycles and self.value(ELAPSED) else None

    def on_sms(self, cycles: float) -> float | None:
        """Return the busiest SM's part of these cycles, counted over all SMs, as a share of the launch."""
        sms = self.device.get("sms")
        if not self.elapsed or not sms:
            return None
        average, busiest = self.value(AVERAGE), self.value(BUSIEST)
        uneven = busiest / average if average and busiest else 1.0
        return cycles / int(sms) * uneven / self.elapsed

    @functools.cached_property
    def at_work(self) -> float:
        """Share of the time in which instructions issue or the busiest pipe multiplies; 0 if not counted."""
        if not self.elapsed or not (active := self.value(AVERAGE)):
            return 0.0
        shares = [self.value(name) or 0.0 for name in (ISSUED.name, *PIPES)]
        return max(shares) / 100 * active / self.elapsed

    def bounded(self, *shares: float | None, saves: Container[str] = ()) -> float | None:
        """Return the least of the known bounds and of the idle share; None where no bound is known.

        saves: the pipes of which the busiest SM has less to do after the fix; the others keep their work.
        """
        least = [share for share in shares if share is not None]
        kept = max((share for pipe, share in self.busy.items() if pipe not in saves), default=0.0)
        return max(0.0, min(*least, 1 - self.at_work, 1 - kept)) if least else None

    @property
    def limiter(self) -> str:
        """The busiest pipe; empty if not counted."""
        return max(self.busy, key=lambda pipe: self.busy[pipe], default="")

    @property
    def limit(self) -> str:
        """The limiter in a sentence; empty if not counted."""
        if not self.limiter and self.least:
            time, gpu = f"{self.least.microseconds:.3g} us", self.device["gpu"]
            return f"It takes at least {time} on an {gpu}. Its limit: {self.least.limiter}."
        if not self.limiter:
            return ""
        share = f"{100 * self.busy[self.limiter]:.0f} % of the cycles"
        if self.busy[self.limiter] >= FULL:
            return f"Its limit: {self.limiter}, busy {share}."
        return f"No pipe is full: the busiest, {self.limiter}, works {share}."

    @functools.cached_property
    def waits(self) -> dict[str, float]:
        """Share of the resident warps' time by stall state; empty if not counted."""
        states = {state: self.value(STALLED.format(state)) or 0.0 for state in STATES}
        total = sum(states.values())
        return {state: value / total for state, value in states.items()} if total else {}

    @functools.cached_property
    def occupancy(self) -> Occupancy | None:
        """Occupancy by the closed form; None where a fact of the kernel or the SM is unknown."""
        threads, registers = self.size("block_threads"), self.size("registers")
        limits = SmLimits.if_known(self.device)
        if limits is None or not threads or registers is None:
            return None
        return occupancy(limits, threads, registers, self.size("shared_bytes") or 0)


def total(rows: Iterable[Row], name: str) -> float:
    """Return the sum of a column; an absent value counts as 0."""
    return sum(float(row[name]) for row in rows if present(row.get(name)))


def worst_line(rows: Sequence[Row], amount: Callable[[Row], float]) -> tuple[Origin, float]:
    """Return the line with the largest amount, and the amount; of several call chains the largest."""
    sums: dict[tuple[Any, Any], float] = {}
    for row in rows:
        location = row.get("file"), row.get("line")
        sums[location] = sums.get(location, 0.0) + amount(row)
    if not sums:
        return NOWHERE, 0.0
    location = max(sums, key=sums.__getitem__)
    worst = max((row for row in rows if (row.get("file"), row.get("line")) == location), key=amount)
    if not present(location[1]) or not location[1]:
        return NOWHERE, sums[location]
    texts = {name: worst.get(name) or "" for name in ("file", "text", "via")}
    line, kernel_line = int(worst["line"]), int(worst.get("kernel_line") or 0)
    return Origin(texts["file"], line, texts["text"], texts["via"], kernel_line), sums[location]
