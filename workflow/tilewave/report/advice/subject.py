"""What the rules look at, and what they find."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from tilewave.theory.occupancy import Occupancy, SmLimits, occupancy

PIPES = tuple(PIPE.format(pipe) for pipe in ("tensor", "fma", "fp64"))
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """What a rule found of a case.

    amount: the share (0 to 1) that the rule looks at, its meaning in the sentence. bound: the largest
    share of the time that mending it can save, None where nothing was counted that bounds it. origin: the
    line that it means, `NOWHERE` where it means none.
    """

    rule: str
    sentence: str
    amount: float
    bound: float | None
    origin: Origin = NOWHERE


@dataclass(frozen=True)
class Subject:
    """One case, as the tables have it; what is absent leaves the rules out that need it.

    case: its row of the cases. metrics: counters and derived figures by name. instructions: its rows, with
    the columns of `Origin`. resources: of its kernel, as compiled. device: facts of the environment that
    the counters are from. samples: rows of the stall samples of its instructions, with the columns
    of `Origin`; of the one case of its variant that is sampled, which may be another shape's.
    """

    case: Row
    metrics: Mapping[str, float] = field(default_factory=dict)
    instructions: Sequence[Row] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    samples: Sequence[Row] = ()

    def value(self, name: str) -> float | None:
        """A counter; None where it is absent or NaN."""
        found = self.metrics.get(name)
        return float(found) if present(found) and found is not None else None

    def size(self, name: str) -> int | None:
        """A whole number of the case's row."""
        found = self.case.get(name)
        return int(found) if present(found) and found is not None else None

    @property
    def elapsed(self) -> float | None:
        """Cycles of the launch, the longest that any pass of the profiler counted."""
        found = [value for name in (ELAPSED, BUSIEST) if (value := self.value(name))]
        return max(found) if found and self.value(ELAPSED) else None

    def on_sms(self, cycles: float) -> float | None:
        """Cycles of all SMs together, as a share of the launch, as many as the busiest SM has of them."""
        sms = self.device.get("sms")
        if not self.elapsed or not sms:
            return None
        average, busiest = self.value(AVERAGE), self.value(BUSIEST)
        uneven = busiest / average if average and busiest else 1.0
        return cycles / int(sms) * uneven / self.elapsed

    @functools.cached_property
    def at_work(self) -> float:
        """Share of the time in which instructions issue, or the busiest pipe multiplies: what is left
        where nothing waits. 0 where that was not counted."""
        if not self.elapsed or not (active := self.value(AVERAGE)):
            return 0.0
        shares = [self.value(name) or 0.0 for name in (ISSUED.name, *PIPES)]
        return max(shares) / 100 * active / self.elapsed

    def bounded(self, *shares: float | None) -> float | None:
        """The least of these bounds that are known, and of the time that nothing works."""
        known = [share for share in shares if share is not None]
        return max(0.0, min(*known, 1 - self.at_work)) if known else None

    @functools.cached_property
    def waits(self) -> dict[str, float]:
        """State -> share of the time of the resident warps; empty where that was not counted."""
        found = {state: self.value(STALLED.format(state)) or 0.0 for state in STATES}
        total = sum(found.values())
        return {state: value / total for state, value in found.items()} if total else {}

    @functools.cached_property
    def occupancy(self) -> Occupancy | None:
        """By the closed form; None where a fact of the kernel or of the SM is not known."""
        threads, registers = self.size("block_threads"), self.size("registers")
        limits = SmLimits.if_known(self.device)
        if limits is None or not threads or registers is None:
            return None
        return occupancy(limits, threads, registers, self.size("shared_bytes") or 0)


def total(rows: Iterable[Row], name: str) -> float:
    """Sum of a column; what is absent counts nothing."""
    return sum(float(row[name]) for row in rows if present(row.get(name)))


def worst_line(rows: Sequence[Row], amount: Callable[[Row], float]) -> tuple[Origin, float]:
    """The line with the most of an amount, and how much; of several chains of calls, the one of the most."""
    sums: dict[tuple[Any, Any], float] = {}
    for row in rows:
        place = row.get("file"), row.get("line")
        sums[place] = sums.get(place, 0.0) + amount(row)
    if not sums:
        return NOWHERE, 0.0
    place = max(sums, key=lambda one: sums[one])
    first = max((row for row in rows if (row.get("file"), row.get("line")) == place), key=amount)
    if not present(place[1]) or not place[1]:
        return NOWHERE, sums[place]
    told = {name: first.get(name) or "" for name in ("file", "text", "via")}
    line, kernel_line = int(first["line"]), int(first.get("kernel_line") or 0)
    return Origin(told["file"], line, told["text"], told["via"], kernel_line), sums[place]
