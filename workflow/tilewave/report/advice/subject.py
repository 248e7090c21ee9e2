"""A case as the rules take it (`Subject`), from the run's tables, and their results (`Finding`)."""

import functools
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from tilewave.compiling.origins import NOWHERE, Origin
from tilewave.kernel import result
from tilewave.plots.base import present
from tilewave.records.columns import LAUNCHES
from tilewave.records.counters import catalogue, demand
from tilewave.theory import bounds
from tilewave.theory.bounds import Bound
from tilewave.theory.data_sheets import DataSheet, data_sheet
from tilewave.theory.occupancy import Occupancy, SmLimits, if_known

PIPES = tuple(catalogue.PIPE.format(pipe) for pipe in ("tensor", "fma", "fp64"))
FULL = 0.75
"""Share of the cycles from which a pipe limits a kernel."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Finding:
    """A rule's result for a case. amount: the share (0 to 1) that the sentence explains. bound: the largest
    that a fix can save, if known. origin: the line to fix, or `NOWHERE`. sampled: shape of its samples."""

    rule: str
    sentence: str
    amount: float
    bound: float | None
    origin: Origin = NOWHERE
    sampled: str = ""


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
        return float(self.metrics[name]) if present(self.metrics.get(name)) else None

    def size(self, name: str) -> int | None:
        """Return a whole number of the case's row; None where it is absent."""
        return int(self.case[name]) if present(self.case.get(name)) else None

    @property
    def elapsed(self) -> float | None:
        """Cycles of the launch in the longest pass of the profiler."""
        elapsed, busiest = self.value(catalogue.ELAPSED), self.value(catalogue.BUSIEST)
        return max(elapsed, busiest or 0.0) if elapsed else None

    def on_sms(self, cycles: float) -> float | None:
        """Return the busiest SM's part of these cycles, counted over all SMs, as a share of the launch."""
        sms = self.device.get("sms")
        if not self.elapsed or not sms:
            return None
        average, busiest = self.value(catalogue.AVERAGE), self.value(catalogue.BUSIEST)
        uneven = busiest / average if average and busiest else 1.0
        return cycles / int(sms) * uneven / self.elapsed

    @functools.cached_property
    def at_work(self) -> float:
        """Share of the time in which instructions issue or the busiest pipe multiplies; 0 if not counted."""
        if not self.elapsed or not (active := self.value(catalogue.AVERAGE)):
            return 0.0
        shares = [self.value(name) or 0.0 for name in (catalogue.ISSUED.name, *PIPES)]
        return max(shares) / 100 * active / self.elapsed

    def bounded(self, *shares: float | None, saves: Container[str] = ()) -> float | None:
        """Return the least of the known bounds and of the idle share; None where no bound is known.
        saves: the pipes of which the busiest SM has less to do after the fix; the others keep their work."""
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
        return f"No unit is full: the busiest, {self.limiter}, works {share}."

    @functools.cached_property
    def waits(self) -> dict[str, float]:
        """Share of the resident warps' time by stall state; empty if not counted."""
        stalled = catalogue.STALLED.format
        states = {state: self.value(stalled(state)) or 0.0 for state in catalogue.STATES}
        total = sum(states.values())
        return {state: value / total for state, value in states.items()} if total else {}

    @functools.cached_property
    def occupancy(self) -> Occupancy | None:
        """Occupancy by the closed form; None where a fact of the kernel or the SM is unknown."""
        sizes = (self.size(name) for name in ("block_threads", "registers", "shared_bytes"))
        return if_known(SmLimits.if_known(self.device), *sizes)


def place(origin: Origin) -> str:
    """Return `file:line`, empty if unknown."""
    return f"{origin.file}:{origin.line}" if origin.line else ""


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


def least(
    values: Mapping[str, float], rows: Iterable[Row], gpu: DataSheet | None, case: Row
) -> Bound | None:
    """Return the least cycles of a case that is a single launch (`theory.bounds`); None if not counted or unknown.
    values: its counters; rows: its instructions; case: its row of the table of cases."""
    blocks = [case[name] for name in ("working_blocks", "blocks") if present(case.get(name))]
    if gpu is None or not blocks or not values.get(catalogue.WARP_INSTRUCTIONS):
        return None
    try:
        return bounds.bound(demand.of_launch(values, rows), gpu, int(blocks[0]))
    except KeyError:  # an architecture without the instruction
        return None


def _rows(table: pd.DataFrame) -> list[Row]:
    """Return the table's rows; `DataFrame.to_dict` takes three times as long."""
    names = list(table)
    return [dict(zip(names, row)) for row in zip(*(table[name].tolist() for name in names))]


def subjects(
    target: Mapping[str, Any],
    cases: pd.DataFrame,
    records: pd.DataFrame,
    instructions: pd.DataFrame,
    compiled: Mapping[str, Any],
    stalls: pd.DataFrame | None = None,
) -> dict[str, Subject]:
    """Return the subject of each case with counters that is a single launch; an execution counts as the
    target's. target: the target document; compiled: the run's document of kernels and their variants."""
    facts, arch = target["environments"], f"sm_{target['arch']}"
    if LAUNCHES in cases:  # no rule handles sums of several launches beside percentages of one
        cases = cases[cases[LAUNCHES].isna()]
    counted, rows = (
        table[table["case"].isin(cases["case"]) & (table["stage"] == "counters")]
        if len(table)
        else pd.DataFrame(columns=["case", "status"])
        for table in (records, instructions)
    )
    counted = counted[counted["status"] == result.OK]
    by_case = {case: _rows(part) for case, part in rows.groupby("case")}
    sampled: dict[str, Sequence[Row]] = {}
    if stalls is not None and len(stalls):
        variants = stalls.groupby(stalls["case"].str.partition("@")[0])
        sampled = {name: _rows(part) for name, part in variants}
    about = {row["case"]: row for row in _rows(cases.drop_duplicates("case"))}
    by_name = dict[str, Subject]()
    for case, part in counted.groupby("case"):
        row, pairs = about[case], zip(part["metric"].tolist(), part["value"].tolist())
        values = {metric: value for metric, value in pairs if present(value)}
        device = facts.get(part["environment"].iloc[0], {})
        device = device if device.get("sms") else facts.get(target["environment"], {})
        builds = compiled.get(row["kernel"], {}).get("variants", {}).get(row["variant"], {})
        used: Mapping[str, Any] = next(iter(builds.get(arch, {}).get("resources", {}).values()), {})
        lines, samples = by_case.get(case, ()), sampled.get(row["variant"], ())
        bound = least(values, lines, data_sheet(str(device.get("gpu") or "")), row)
        subject = Subject(row, values, lines, used, device, samples)
        pipes = bound.pipes if bound and subject.elapsed else {}
        busy = {pipe: cycles / (subject.elapsed or 1.0) for pipe, cycles in pipes.items()}
        by_name[str(case)] = replace(subject, busy=busy, least=bound)
    return by_name
