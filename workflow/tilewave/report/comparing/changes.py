"""Changes between two sides. Pure: tables in, tables out.
Counts by instruction and resources are the same in every run of the same code: differences come from the code. Times
vary: a case is *slower* or *faster* where the ratio is outside the margin and its whole interval on one side of 1."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from tilewave.records.columns import with_excess
from tilewave.records.counters.catalogue import EXCESS
from tilewave.theory import ratios

OCCUPANCY = "occupancy_percent"
"""Column with the occupancy that registers, shared memory and block size allow."""
COUNTS = (
    "executed", "threads_executed", "wavefronts_shared", "wavefronts_shared_ideal",
    EXCESS, "sectors_global", "sectors_global_ideal",
)  # fmt: skip
"""Deterministic counters of instructions that access memory, synchronize or multiply matrices."""
STATIC = "counted instructions in the code"
RESOURCES = ("registers", "spill_bytes", "shared_bytes", OCCUPANCY)
FIRST = (EXCESS, "spill_bytes", "registers", OCCUPANCY)
"""Counts that come first in a table."""


@dataclass(frozen=True)
class Side:
    """Tables of a side. instructions: counts by instruction; predicted: microseconds by the model of time, of
    cases that were not timed."""

    label: str
    cases: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=["case", "verdict"]))
    instructions: pd.DataFrame = field(default_factory=pd.DataFrame)
    predicted: Mapping[str, float] = field(default_factory=dict)


TIMES = ["case", "before_us", "after_us", "ratio", "low", "high", "margin", "verdict"]


def times(samples: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each case whose kernels were timed in turn (`sides.compared`).
    A row has medians in microseconds, the ratio after over before with its interval, and the verdict."""
    rows: list[list[Any]] = []
    for case, part in samples.groupby("case") if len(samples) else ():
        series = part.sort_values("index").groupby("series")["value"]
        before = series.get_group("baseline_us").to_numpy(float)
        after = series.get_group("duration_us").to_numpy(float)
        estimate = ratios.ratio_in_turn(before, after, zlib.crc32(str(case).encode()))
        verdict = ratios.verdict(*estimate, ratios.MARGIN)
        medians = float(np.median(before)), float(np.median(after))
        rows.append([case, *medians, *estimate, ratios.MARGIN, verdict])
    return pd.DataFrame(rows, columns=TIMES)


def predicted_times(before: Side, after: Side, timed: Sequence[str]) -> pd.DataFrame:
    """Return a row for each case that was not timed and whose predicted time differs: microseconds."""
    old, new = (pd.Series(side.predicted, dtype=float) for side in (before, after))
    both = pd.DataFrame({"before_us": old, "after_us": new}).dropna().drop(timed, errors="ignore")
    both = both[both["before_us"] != both["after_us"]]
    return both.rename_axis("case").reset_index()


def instructions(side: Side) -> pd.DataFrame:
    """Return a side's rows of stage counters, or of stage execute for cases without."""
    table = side.instructions
    if table.empty:
        return pd.DataFrame(columns=["case", "file", "line", "text", *COUNTS])
    measured = table[table["stage"] == "counters"]
    rest = table[~table["case"].isin(measured["case"]) & (table["stage"] == "execute")]
    # Functions of a series share addresses.
    address = [name for name in ("case", "function", "address") if name in table]
    return with_excess(pd.concat([measured, rest]).drop_duplicates(address))


def totals(side: Side) -> pd.DataFrame:
    """Return one row per case: sums over instructions, and resources as compiled; FIRST columns first."""
    table = instructions(side)
    sums = table.groupby("case")[[name for name in COUNTS if name in table]].sum(min_count=1)
    sums[STATIC] = table.groupby("case").size()
    compiled = side.cases.drop_duplicates("case").set_index("case")
    used = compiled[[name for name in RESOURCES if name in compiled]]
    joined = sums.join(used.apply(pd.to_numeric, errors="coerce"), how="outer")
    return joined[sorted(joined, key=lambda name: [*FIRST, name].index(name))]


def counts(before: Side, after: Side) -> pd.DataFrame:
    """Return a row for each count of a case that differs: case, count, before, after."""
    old, new = totals(before), totals(after)
    cases = [case for case in old.index if case in new.index]
    names = old.columns.intersection(new.columns, sort=False)
    old, new = (
        side.loc[cases, names].rename_axis("case").reset_index().melt("case", var_name="count")
        for side in (old, new)
    )
    pairs = old.rename(columns={"value": "before"}).assign(after=new["value"]).dropna()
    pairs = pairs[pairs["before"] != pairs["after"]]
    return pairs.sort_values("case", kind="stable", ignore_index=True)


def lines(before: Side, after: Side) -> pd.DataFrame:
    """Return a row for each line whose excess wavefronts differ: case, place, text, before, after.
    Lines are matched by their text, because a change moves lines, also into another file."""

    def by_line(side: Side) -> pd.DataFrame:
        table = instructions(side).reindex(columns=["case", "text", "file", "line", EXCESS])
        line = pd.to_numeric(table["line"]).fillna(0).astype(int).astype(str)
        place = table["file"].fillna("") + (":" + line).where(line != "0", "")
        table = table.assign(text=table["text"].fillna("").str.strip(), place=place)
        return table.groupby(["case", "text"]).agg(value=(EXCESS, "sum"), place=("place", "first"))

    old, new = by_line(before), by_line(after)
    suffixes = "_before", "_after"
    both = old.merge(new, "outer", ["case", "text"], suffixes=suffixes).reset_index()
    counted = (set(side.index.get_level_values("case")) for side in (old, new))
    both = both[both["case"].isin(set.intersection(*counted))]
    both["place"] = both["place_after"].fillna(both["place_before"])
    for name in ("before", "after"):
        both[name] = both[f"value_{name}"].fillna(0.0).astype(float)
    both = both[both["before"] != both["after"]]
    return both[["case", "place", "text", "before", "after"]].reset_index(drop=True)


def verdicts(before: Side, after: Side) -> pd.DataFrame:
    """Return a row for each case whose verdict changed: case, before, after."""
    cases = (side.cases.drop_duplicates("case").set_index("case") for side in (before, after))
    old, new = (side["verdict"] for side in cases)
    pairs = pd.DataFrame({"before": old, "after": new}).dropna()
    return pairs[pairs["before"] != pairs["after"]].rename_axis("case").reset_index()


@dataclass
class Comparison:
    """Two sides and the tables of their differences.

    gone, new: kernels of one side only; in_turn: samples of kernels timed in turn (`sides.compared`);
    skipped: why kernel files of either side were skipped; broken: these reasons for kernels that only the
    first side can use; compared: number of cases on both sides.
    """

    before: Side
    after: Side
    gone: Sequence[str] = ()
    new: Sequence[str] = ()
    in_turn: pd.DataFrame = field(default_factory=pd.DataFrame)
    skipped: Sequence[str] = ()
    broken: Sequence[str] = ()

    def __post_init__(self) -> None:
        sides = self.before, self.after
        self.times = times(self.in_turn)
        self.predicted = predicted_times(*sides, list(self.times["case"]))
        self.counts, self.lines, self.verdicts = counts(*sides), lines(*sides), verdicts(*sides)
        self.compared = len(set.intersection(*(set(side.cases["case"]) for side in sides)))

    def document(self) -> dict[str, Any]:
        names = ("times", "predicted", "counts", "lines", "verdicts")
        tables = {name: getattr(self, name) for name in names}
        return {
            "schema_version": 1, "before": self.before.label, "after": self.after.label,
            "compared": self.compared, "gone": list(self.gone), "new": list(self.new),
            "left_out": list(self.skipped),
        } | {
            name: table.astype(object).where(table.notna(), None).to_dict("records")
            for name, table in tables.items()
        }  # fmt: skip
