"""What has changed between two sides. Pure: tables in, tables out.

Counts by instruction and what ptxas says are the same in every run of the same code, so any difference is
the code's. Times are not: a case is *slower* or *faster* only where the ratio is beyond what two runs differ
by, and its whole interval on one side of 1.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tilewave.records.columns import with_excess
from tilewave.records.counters.catalogue import EXCESS
from tilewave.report.comparing.sides import OCCUPANCY, Side
from tilewave.theory import ratios
from tilewave.theory.ratios import MARGIN, NOT_COMPARABLE, TWO_RUNS

COUNTS = (
    "executed", "threads_executed", "wavefronts_shared", "wavefronts_shared_ideal",
    EXCESS, "sectors_global", "sectors_global_ideal",
)  # fmt: skip
"""Counters by instruction that do not depend on what else goes on in the GPU, of instructions that access
memory, wait for others or multiply matrices."""
STATIC = "counted instructions in the code"
RESOURCES = ("registers", "spill_bytes", "shared_bytes", OCCUPANCY)
FIRST = (EXCESS, "spill_bytes", "registers", OCCUPANCY)
"""What a reader wants to know before the rest."""


# --------------------------------------------------------------------------------------------- times


def _series(samples: pd.DataFrame) -> dict[str, dict[str, np.ndarray]]:
    """Case -> series -> its samples (us), in order."""
    if samples.empty:
        return {}
    timed = samples[samples["stage"] == "time"]
    found: dict[str, dict[str, np.ndarray]] = {}
    for (case, name), rows in timed.sort_values("index").groupby(["case", "series"]):
        found.setdefault(str(case), {})[str(name)] = rows["value"].to_numpy(float)
    return found


def _normalised(series: Mapping[str, np.ndarray]) -> tuple[np.ndarray, bool]:
    """Durations over those of the baseline timed in turn with them, and whether there are such."""
    own, other = series["duration_us"], series.get("baseline_us")
    if other is None or len(other) != len(own):
        return own, False
    return own / other, True


def _environment(side: Side, case: str) -> Mapping[str, Any]:
    rows = side.records[(side.records["case"] == case) & (side.records["stage"] == "time")]
    names = [name for name in rows["environment"].dropna().unique() if name]
    return side.environments.get(names[0], {"gpu": names[0]}) if names else {}


def _why_not(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Why times of two environments cannot be compared; empty where they can."""
    for name, word in (("gpu", "GPU"), ("uuid", "card"), ("driver", "driver")):
        one, other = before.get(name), after.get(name)
        if one != other:
            return f"another {word}: {str(one)[:12]}, then {str(other)[:12]}"
    return ""


COLUMNS = ["case", "before_us", "after_us", "ratio", "low", "high", "margin", "verdict", "why"]


def _judged(
    case: str,
    before: np.ndarray,
    after: np.ndarray,
    found: tuple[float, float, float],
    margin: float,
) -> dict[str, Any]:
    return {
        "case": case, "before_us": float(np.median(before)), "after_us": float(np.median(after)),
        **dict(zip(("ratio", "low", "high"), found)), "margin": margin, "verdict": ratios.verdict(*found, margin), "why": "",
    }  # fmt: skip


def times_in_turn(samples: pd.DataFrame) -> pd.DataFrame:
    """As `times`, of kernels that were timed in turn with each other (`sides.in_turn`)."""
    rows = []
    for case, series in _series(samples).items():
        before, after = series["baseline_us"], series["duration_us"]
        found = ratios.ratio_in_turn(before, after, zlib.crc32(case.encode()))
        rows.append(_judged(case, before, after, found, MARGIN))
    return pd.DataFrame(rows, columns=COLUMNS)


def times(before: Side, after: Side) -> pd.DataFrame:
    """A row a case that was timed twice: microseconds, ratio (after over before) with its interval, verdict,
    and why it is not comparable. Where both were timed in turn with a baseline, over that baseline."""
    one, other = _series(before.samples), _series(after.samples)
    rows: list[dict[str, Any]] = []
    for case in [case for case in one if case in other]:
        if any("duration_us" not in series[case] for series in (one, other)):
            continue
        first, second = (series[case]["duration_us"] for series in (one, other))
        if np.array_equal(first, second):
            continue  # one measurement, on both sides
        why = _why_not(_environment(before, case), _environment(after, case))
        if why:
            rows.append({"case": case, "before_us": float(np.median(first)),
                         "after_us": float(np.median(second)), "verdict": NOT_COMPARABLE, "why": why})  # fmt: skip
            continue
        (old, with_old), (new, with_new) = _normalised(one[case]), _normalised(other[case])
        paired = with_old and with_new
        compared = (old, new) if paired else (first, second)
        found = ratios.ratio(*compared, seed=zlib.crc32(case.encode()))
        rows.append(_judged(case, first, second, found, TWO_RUNS))
    return pd.DataFrame(rows, columns=COLUMNS)


# -------------------------------------------------------------------------------------------- counts


def instructions(side: Side) -> pd.DataFrame:
    """Rows of the counters' stage; of a case without, those of its execution."""
    table = side.instructions
    if table.empty:
        return pd.DataFrame(columns=["case", "file", "line", "text", *COUNTS])
    measured = table[table["stage"] == "counters"]
    rest = table[~table["case"].isin(measured["case"]) & (table["stage"] == "execute")]
    # One address is an instruction of each function of a series.
    place = [name for name in ("case", "function", "address") if name in table]
    return with_excess(pd.concat([measured, rest]).drop_duplicates(place))


def _totals(side: Side) -> pd.DataFrame:
    """Case and count -> value: sums over instructions, and what was compiled."""
    table = instructions(side)
    columns = [name for name in COUNTS if name in table]
    sums = table.groupby("case")[columns].sum(min_count=1)
    sums[STATIC] = table.groupby("case").size()
    known = side.cases.drop_duplicates("case").set_index("case")
    used = known[[name for name in RESOURCES if name in known]].apply(
        pd.to_numeric, errors="coerce"
    )
    made = sums.join(used, how="outer")
    first = [name for name in FIRST if name in made]
    return made[[*first, *(name for name in made if name not in first)]]


def counts(before: Side, after: Side) -> pd.DataFrame:
    """A row for each count of a case that differs: case, count, before, after."""
    one, other = _totals(before), _totals(after)
    cases = [case for case in one.index if case in other.index]
    rows = []
    for name in one.columns.intersection(other.columns, sort=False):
        pairs = pd.DataFrame(
            {"before": one.loc[cases, name], "after": other.loc[cases, name]}
        ).dropna()
        differing = pairs[pairs["before"] != pairs["after"]]
        rows += [
            {"case": case, "count": name, "before": row["before"], "after": row["after"]}
            for case, row in differing.iterrows()
        ]
    found = pd.DataFrame(rows, columns=["case", "count", "before", "after"])
    return found.sort_values("case", kind="stable", ignore_index=True)


def lines(before: Side, after: Side) -> pd.DataFrame:
    """A row for each line whose excess wavefronts differ: case, place, text, before, after; the line is
    known by its text, because a change moves lines, also into another file."""

    def by_line(side: Side) -> pd.DataFrame:
        table = instructions(side)
        if EXCESS not in table or "text" not in table:
            return pd.DataFrame(columns=["excess", "place"])
        table = table.assign(
            text=table["text"].fillna("").str.strip(), file=table["file"].fillna("")
        )
        table = table.assign(place=[f"{file}:{line:.0f}" if line == line and line else str(file)
                                    for file, line in zip(table["file"], pd.to_numeric(table["line"]))])  # fmt: skip
        groups = table.groupby(["case", "text"])
        return groups.agg(excess=(EXCESS, "sum"), place=("place", "first"))

    one, other = by_line(before), by_line(after)
    cases = (
        set(one.index.get_level_values(0)) & set(other.index.get_level_values(0))
        if len(one)
        else set()
    )
    both = one.merge(
        other, left_index=True, right_index=True, how="outer", suffixes=("_before", "_after")
    )
    rows = []
    for (case, text), row in both.iterrows():
        old, new = (
            0.0 if pd.isna(row[f"excess_{side}"]) else row[f"excess_{side}"]
            for side in ("before", "after")
        )
        if case in cases and old != new:
            place = row["place_after"] if pd.notna(row["place_after"]) else row["place_before"]
            rows.append({"case": case, "place": place, "text": text, "before": old, "after": new})
    return pd.DataFrame(rows, columns=["case", "place", "text", "before", "after"])


def verdicts(before: Side, after: Side) -> pd.DataFrame:
    """A row for each case whose result is judged otherwise: case, before, after."""
    one, other = (
        side.cases.drop_duplicates("case").set_index("case")["verdict"] for side in (before, after)
    )
    pairs = pd.DataFrame({"before": one, "after": other}).dropna()
    return pairs[pairs["before"] != pairs["after"]].rename_axis("case").reset_index()


# ------------------------------------------------------------------------------------------------ all


@dataclass(frozen=True)
class Comparison:
    """Two sides, kernels that one alone has, the tables of this module, and how many cases both have.

    left_out: why files of kernels were, on either side; spoilt: of these the kernels that only the second side
    cannot use.
    """

    before: Side
    after: Side
    gone: Sequence[str]
    new: Sequence[str]
    times: pd.DataFrame
    counts: pd.DataFrame
    lines: pd.DataFrame
    verdicts: pd.DataFrame
    compared: int
    left_out: Sequence[str] = ()
    spoilt: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        before: Side,
        after: Side,
        gone: Sequence[str] = (),
        new: Sequence[str] = (),
        in_turn: pd.DataFrame | None = None,
    ) -> Comparison:
        """The comparison of two sides; in_turn: samples of kernels that were timed in turn with each other
        (`sides.in_turn`)."""
        both = set(before.cases["case"]) & set(after.cases["case"])
        return cls(
            before, after, gone, new,
            times(before, after) if in_turn is None else times_in_turn(in_turn),
            counts(before, after), lines(before, after), verdicts(before, after), len(both),
        )  # fmt: skip

    def document(self) -> dict[str, Any]:
        """The whole as JSON holds it."""
        tables = {name: getattr(self, name) for name in ("times", "counts", "lines", "verdicts")}
        return {
            "schema_version": 1, "before": self.before.label, "after": self.after.label,
            "compared": self.compared, "gone": list(self.gone), "new": list(self.new),
            "left_out": list(self.left_out),
        } | {
            name: table.astype(object).where(table.notna(), None).to_dict("records")
            for name, table in tables.items()
        }  # fmt: skip
