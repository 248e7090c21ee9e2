"""Exactness: counters predicted by executing the machine code beside those that Nsight Compute measured.
A row is a counter that differs in some case, and the last one all others. Both sides are counts of one
machine code, not times, so environments may differ. Known causes stand in `exactness.yaml`."""

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pandas as pd
from matplotlib.figure import Figure

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import rows_mm, stacks
from tilewave.plots.base import StudyData
from tilewave.plots.style import AREAS, RED, Style

PREDICTED, MEASURED = "execute", "counters"
_STAGES = (PREDICTED, MEASURED)
TABLES = table_beside(__file__)
COUNTERS = frozenset(TABLES["counters"])
BY_INSTRUCTION: Mapping[str, str] = TABLES["by_instruction"]
_NAMES: Mapping[str, str] = TABLES["names"]
EACH = "each instruction: "
UNEXPLAINED = "not known"


@dataclass(frozen=True)
class Cause:
    """The reason of a counter's difference, and where it applies (see the head of exactness.yaml)."""

    counter: str
    kinds: Sequence[str]
    name: str
    cause: str
    measured: str = "either"
    at_most: float = math.inf
    of: str = ""

    def explains(
        self, counter: str, kinds: set[str], predicted: float, measured: Mapping[str, float]
    ) -> bool:
        """Return whether the cause applies to this counter of a case.
        kinds: opcodes that the case executes; measured: the case's counters."""
        match = re.fullmatch(self.counter, counter)
        # An opcode (``STG.E.128``) of a kind (``STG.128``) has its base, and its modifiers.
        of_kinds, opcodes = ([name.split(".") for name in names] for names in (self.kinds, kinds))
        pairs = itertools.product(of_kinds, opcodes)
        ran = "any" in self.kinds or any(a[0] == b[0] and {*a} <= {*b} for a, b in pairs)
        if not match or not ran:
            return False
        more = measured[counter] - predicted
        if (self.measured == "more" and more < 0) or (self.measured == "less" and more > 0):
            return False
        reference = measured.get(match.expand(self.of) if self.of else counter, 0.0)
        return abs(more) <= self.at_most * abs(reference)


@cache
def causes() -> tuple[Cause, ...]:
    """Return the known causes."""
    entries = TABLES["causes"] or ()
    return tuple(Cause(**entry | {"cause": " ".join(entry["cause"].split())}) for entry in entries)


def _cause(opcodes: set[str], measured: Mapping[str, float], counter: str, predicted: float) -> str:
    """Return the known cause of a counter's difference, UNEXPLAINED without one; "" where nothing differs."""
    if predicted == measured[counter] or math.isnan(measured[counter]):
        return ""
    matches = (cause for cause in causes() if cause.explains(counter, opcodes, predicted, measured))
    return next((cause.cause for cause in matches), UNEXPLAINED)


def _values(study: StudyData, stage: str) -> pd.DataFrame:
    """Return rows of a stage's counters: case, metric, value, unit, source, environment."""
    rows = study.records
    rows = rows[(rows["stage"] == stage) & (rows["status"] == "ok") & rows["value"].notna()]
    if stage == MEASURED:  # without a GPU the execution stands in: no comparison with itself
        rows = rows[rows["source"] != "executed"]
    kept = rows["metric"].isin(COUNTERS) | rows["metric"].str.startswith("launch__")
    columns = ["case", "metric", "value", "unit", "source", "environment"]
    return rows[kept][columns].drop_duplicates(["case", "metric"], keep="last")


def _instructions(study: StudyData) -> pd.DataFrame:
    """Return both sides of each instruction: case, address, opcode, column_predicted, column_measured."""
    rows = study.instructions
    if rows.empty or "stage" not in rows:
        return pd.DataFrame(columns=["case", "address", "opcode"])
    columns = [name for name in BY_INSTRUCTION if name in rows]
    keys = ["case", "address", "opcode", *(["function"] if "function" in rows else [])]
    executed, place = rows["source"] == "executed", [name for name in keys if name != "opcode"]
    predicted, measured = (
        rows[(rows["stage"] == stage) & of_stage][[*keys, *columns]].drop_duplicates(place)
        for stage, of_stage in ((PREDICTED, executed), (MEASURED, ~executed))
    )
    return predicted.merge(measured, on=keys, suffixes=("_predicted", "_measured"))


def _kinds(study: StudyData) -> dict[str, set[str]]:
    """Return the opcodes that each case executed."""
    rows = study.instructions
    if rows.empty:
        return {}
    ran = rows[pd.to_numeric(rows["executed"]).fillna(1) > 0]
    return {str(case): {*map(str, opcodes)} for case, opcodes in ran.groupby("case")["opcode"]}


def comparisons(study: StudyData) -> pd.DataFrame:
    """Return one row per case and predicted counter: predicted, measured, difference, cause.
    Counters of each instruction: a row per column, with how many were compared (predicted), and are equal."""
    both = _values(study, PREDICTED).merge(
        _values(study, MEASURED), on=["case", "metric"], how="left",
        suffixes=("_predicted", "_measured"),
    )  # fmt: skip
    sides = ["unit_predicted", "value_predicted", "value_measured", "source_measured"]
    columns = ["case", "counter", "unit", "predicted", "measured", "source"]
    frame = both[["case", "metric", *sides]].set_axis(columns, axis=1)
    off = frame["predicted"] - frame["measured"]
    frame["relative difference"] = (off / frame["measured"]).mask(off == 0, 0.0)
    frame = pd.concat([frame, _by_instruction(study, columns)], ignore_index=True)
    kinds, groups = _kinds(study), frame.groupby("case")
    beside = {case: dict(zip(part["counter"], part["measured"])) for case, part in groups}
    rows = frame[["case", "counter", "predicted"]].itertuples(index=False, name=None)
    causes_ = [_cause(kinds.get(case, set()), beside[case], *of) for case, *of in rows]
    frame.insert(6, "cause", causes_)
    equal = (frame["relative difference"] == 0).map({True: "yes", False: "no"})
    frame.insert(6, "equal", equal.where(frame["measured"].notna(), ""))
    last = ["predicted", "measured", "relative difference", "equal", "cause", "source"]
    return frame[["case", "counter", "unit", *last]].fillna({"source": ""})


def _by_instruction(study: StudyData, columns: list[str]) -> pd.DataFrame:
    sides, rows = _instructions(study), []
    for column, label in BY_INSTRUCTION.items():
        pair = [f"{column}_predicted", f"{column}_measured"]
        numbers = sides.reindex(columns=["case", *pair]).dropna()
        for case, part in numbers.groupby("case", sort=False):
            predicted, measured = (pd.to_numeric(part[side]) for side in pair)
            total, equal = len(part), int((predicted == measured).sum())
            # Sums may agree by chance where single instructions do not.
            sums = predicted.sum(), measured.sum()
            off = abs(sums[0] - sums[1]) / sums[1] if sums[1] else math.inf
            relative = 0.0 if equal == total else max(off, (total - equal) / total)
            unit = "instructions, compared and equal"
            rows.append((case, f"{EACH}{label}", unit, float(total), float(equal), "", relative))
    return pd.DataFrame(rows, columns=[*columns, "relative difference"])


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case and counter; a case that was not executed has one row and no counter."""
    about = base.base_table(study).reset_index(drop=True).drop(columns=["source"])
    about.insert(2, "probe_case", study.cases["probe_case"].to_numpy())
    merged = about.merge(comparisons(study), on="case", how="left")
    last = ["verdict", "status", "reason"]
    return merged[[*[name for name in merged.columns if name not in last], *last]]


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return how many counters are equal."""
    tested = _tested(table)
    differ = tested[tested["equal"] == "no"]
    if tested.empty:
        return ""
    share = 100 * (1 - len(differ) / len(tested))
    exact = f"{min(round(share, 1), 99.9) if len(differ) else 100:.4g} %"  # 100 only if all are
    return f"Executing on a CPU predicts {exact} of ncu's counters exactly"


def _tested(table: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of whole kernels' counters that were predicted and measured."""
    rows = table[table["counter"].notna() & table["equal"].isin(["yes", "no"])]
    return rows[~rows["counter"].astype(str).str.startswith(EACH)]


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a bar for each counter that differs in some case, by cause, and one for all others."""
    tested = _tested(table)
    look.stop_if(tested.empty, "executed counters beside measured ones")
    exact, names = "exact", {cause.cause: f"differs, {cause.name}" for cause in causes()}
    names[UNEXPLAINED] = f"differs, {UNEXPLAINED}"
    outcomes = tested["cause"].map(names).mask(tested["equal"] == "yes", exact)
    counters, off = tested["counter"], tested["equal"] == "no"
    apart = counters.isin(counters[off].value_counts().index[: look.MOST_ROWS - 1])
    rest = f"{counters[~apart].nunique()} other counters"
    counts = pd.crosstab(counters.map(_NAMES).fillna(counters).where(apart, rest), outcomes)
    counts = counts.reindex(columns=[exact, *outcomes[off].value_counts().index], fill_value=0)
    counts = counts.loc[counts[exact].div(counts.sum(axis=1)).sort_values(kind="stable").index]
    total, texts = counts.sum(axis=1), pd.DataFrame("", counts.index, counts.columns)
    colors = dict(zip(counts, itertools.cycle(AREAS))) | {names[UNEXPLAINED]: RED}
    fig, (ax,) = look.panels(style, [rows_mm(len(counts)) + 4])
    handles = stacks(ax, 100 * counts.div(total, axis=0), colors, texts)
    differ = total - counts[exact]
    sums = [f"{n:,} of {of:,}" for n, of in zip(differ, total, strict=True)]
    look.beside(ax, sums, heading=f"differ: {differ.sum():,} of {total.sum():,}")
    ax.set_xlabel("share of the cases (%)")
    return look.finish(fig, study, style, handles, _notes(table), _STAGES)


def _notes(table: pd.DataFrame) -> list[str]:
    """Return notes on the causes, on differences of single instructions, and on counters that were not measured."""
    differ = table[table["equal"] == "no"]
    counters, used = differ["counter"].astype(str), set(differ["cause"])
    facts = {
        "causes": [cause for cause in causes() if cause.cause in used],
        "unknown": dict.fromkeys(counters[differ["cause"] == UNEXPLAINED]),
        "each": counters.str.startswith(EACH).sum(), "alone": (table["equal"] == "").sum(),
    }  # fmt: skip
    return filled(__file__, "exactness", **facts).splitlines()
