"""Exactness: counters predicted by executing the machine code beside those that Nsight Compute measured.

A row is a counter that differs in some case, a mark the relative difference of one case; counters that are
equal in all cases share a row. Predicted values come from stage execute, measured ones from stage counters of
the same machine code. They are counts, not times, so environments may differ. Known causes stand in
`exactness.yaml`.
"""

import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd
import seaborn as sns
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import BAD, GREY, Style
from tilewave.records.counters.catalogue import (
    BANK_CONFLICTS,
    COPY_WAVEFRONTS,
    GLOBAL_ACCESSES,
    SCALAR_OP,
    SHARED_WAVEFRONTS,
    WARP_INSTRUCTIONS,
)

READING = (
    "A row is a counter, a dot a case whose prediction differs from ncu's measurement; right of 0 it is too high. "
    "The colour is the cause. Counters without a difference share the last row."
)
PREDICTED, MEASURED = "execute", "counters"
_STAGES = (PREDICTED, MEASURED)
_CAUSES = Path(__file__).with_suffix(".yaml")

_TENSOR = "sm__ops_path_tensor_{}.sum"
_KINDS = ("LDS", "STS", "LDSM", "STSM", "LDGSTS")
# Counter -> its name in the figure, in the figure's order.
COUNTERS: Mapping[str, str] = {
    WARP_INSTRUCTIONS: "warp instructions",
    "smsp__thread_inst_executed.sum": "thread instructions",
    **{
        SCALAR_OP.format(op): f"{op.upper()}, threads"
        for op in "ffma fadd fmul dfma dadd dmul hfma hadd hmul".split()
    },
    _TENSOR.format("src_fp16"): "tensor operations, f16",
    _TENSOR.format("src_fp16_dst_fp16"): "tensor operations, f16 sum",
    _TENSOR.format("src_fp16_dst_fp32"): "tensor operations, f32 sum",
    _TENSOR.format("src_bf16_dst_fp32"): "tensor operations, bf16",
    _TENSOR.format("src_tf32_dst_fp32"): "tensor operations, tf32",
    _TENSOR.format("src_fp64"): "tensor operations, f64",
    _TENSOR.format("op_hmma_src_fp16_sparsity_off"): "HMMA operations, f16",
    _TENSOR.format("op_hmma_src_bf16_dst_fp32_sparsity_off"): "HMMA operations, bf16",
    _TENSOR.format("op_hmma_src_tf32_dst_fp32_sparsity_off"): "HMMA operations, tf32",
    SHARED_WAVEFRONTS.format("ld"): "shared wavefronts, loads",
    SHARED_WAVEFRONTS.format("st"): "shared wavefronts, stores",
    COPY_WAVEFRONTS: "shared wavefronts, cp.async",
    BANK_CONFLICTS.format("ld"): "bank conflicts, loads",
    BANK_CONFLICTS.format("st"): "bank conflicts, stores",
    **{f"wavefronts_shared_{kind}": f"wavefronts of {kind}" for kind in _KINDS},
    **{f"wavefronts_shared_excess_{kind}": f"excess of {kind}" for kind in _KINDS},
    GLOBAL_ACCESSES.format("requests", "ld"): "global requests, loads",
    GLOBAL_ACCESSES.format("requests", "st"): "global requests, stores",
    GLOBAL_ACCESSES.format("sectors", "ld"): "global sectors, loads",
    GLOBAL_ACCESSES.format("sectors", "st"): "global sectors, stores",
}
LAUNCH = "launch"
# Column of the instruction table -> its name in the figure; equal if every instruction is.
BY_INSTRUCTION: Mapping[str, str] = {
    "executed": "executed",
    "threads_executed": "threads",
    "wavefronts_shared": "shared wavefronts",
    "wavefronts_shared_ideal": "ideal wavefronts",
    "sectors_global": "global sectors",
    "sectors_global_ideal": "ideal sectors",
}
EACH = "each instruction: "
_ORDER = [*COUNTERS.values(), *(f"{EACH}{label}" for label in BY_INSTRUCTION.values()), LAUNCH]
"""The figure's rows."""
UNEXPLAINED = "not known"
_END = 100.0
"""End of the axis in percent; larger differences stand there."""


@dataclass(frozen=True)
class Cause:
    """The reason of a counter's difference, and where it applies (see the head of exactness.yaml)."""

    counter: re.Pattern[str]
    kinds: frozenset[str]
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
        match = self.counter.fullmatch(counter)
        ran = "any" in self.kinds or any(
            _is(kind, opcode) for kind in self.kinds for opcode in kinds
        )
        if not match or not ran:
            return False
        more = measured[counter] - predicted
        if (self.measured == "more" and more < 0) or (self.measured == "less" and more > 0):
            return False
        reference = measured.get(match.expand(self.of) if self.of else counter, 0.0)
        return abs(more) <= self.at_most * abs(reference)


def _is(kind: str, opcode: str) -> bool:
    """Return whether an opcode (``STG.E.128``) is of a kind (``STG.128``): its base, and these modifiers."""
    base_, *required = kind.split(".")
    name, *modifiers = opcode.split(".")
    return base_ == name and set(required) <= set(modifiers)


@cache
def causes() -> tuple[Cause, ...]:
    """Return the known causes."""
    listed = yaml.safe_load(_CAUSES.read_text(encoding="utf-8")) or []
    return tuple(
        Cause(
            **{
                **entry,
                "counter": re.compile(entry["counter"]),
                "kinds": frozenset(entry["kinds"]),
                "cause": " ".join(entry["cause"].split()),
            }
        )
        for entry in listed
    )


def _cause(counter: str, opcodes: set[str], predicted: float, measured: Mapping[str, float]) -> str:
    """Return the known cause of a counter's difference, UNEXPLAINED without one; "" where nothing differs."""
    if predicted == measured[counter]:
        return ""
    matches = (cause for cause in causes() if cause.explains(counter, opcodes, predicted, measured))
    return next((cause.cause for cause in matches), UNEXPLAINED)


def _values(study: StudyData, stage: str) -> pd.DataFrame:
    """Return rows of a stage's counters: case, metric, value, unit, source, environment."""
    rows = study.records
    rows = rows[(rows["stage"] == stage) & (rows["status"] == "ok") & rows["value"].notna()]
    if stage == MEASURED:  # without a GPU the execution stands in: no comparison with itself
        rows = rows[rows["source"] != "executed"]
    kept = rows["metric"].isin(list(COUNTERS)) | rows["metric"].str.startswith("launch__")
    columns = ["case", "metric", "value", "unit", "source", "environment"]
    return rows[kept][columns].drop_duplicates(["case", "metric"], keep="last")


def _instructions(study: StudyData) -> pd.DataFrame:
    """Return both sides of each instruction: case, address, opcode, column_predicted, column_measured."""
    rows = study.instructions
    if rows.empty or "stage" not in rows:
        return pd.DataFrame(columns=["case", "address", "opcode"])
    columns = [name for name in BY_INSTRUCTION if name in rows]
    keys = ["case", "address", "opcode", *(["function"] if "function" in rows else [])]
    sides = [
        rows[(rows["stage"] == stage) & ((rows["source"] == "executed") == (stage == PREDICTED))]
        for stage in _STAGES
    ]
    predicted, measured = (
        side[[*keys, *columns]].drop_duplicates([name for name in keys if name != "opcode"])
        for side in sides
    )
    return predicted.merge(measured, on=keys, suffixes=("_predicted", "_measured"))


def _kinds(study: StudyData) -> dict[str, set[str]]:
    """Return the opcodes that each case executed."""
    by_case: dict[str, set[str]] = {}
    rows = study.instructions
    if not rows.empty:
        ran = rows[pd.to_numeric(rows["executed"]).fillna(1) > 0]
        for case, opcodes in ran.groupby("case")["opcode"]:
            by_case[str(case)] = {str(opcode) for opcode in opcodes}
    return by_case


def _relative(predicted: float, measured: float) -> float:
    if predicted == measured:
        return 0.0
    return (predicted - measured) / measured if measured else math.inf


def comparisons(study: StudyData) -> pd.DataFrame:
    """Return one row a case and predicted counter: predicted, measured, difference, cause.

    Counters of each instruction have one row a column: how many instructions were compared (predicted) and how
    many are equal (measured).
    """
    both = _values(study, PREDICTED).merge(
        _values(study, MEASURED), on=["case", "metric"], how="left",
        suffixes=("_predicted", "_measured"),
    )  # fmt: skip
    kinds = _kinds(study)
    beside = {
        str(case): dict(zip(part["metric"], part["value_measured"]))
        for case, part in both.groupby("case")
    }
    rows = []
    for row in both.to_dict("records"):
        case, counter = str(row["case"]), str(row["metric"])
        predicted, measured = float(row["value_predicted"]), float(row["value_measured"])
        is_measured = not math.isnan(measured)
        relative = _relative(predicted, measured) if is_measured else math.nan
        cause = (
            _cause(counter, kinds.get(case, set()), predicted, beside[case]) if is_measured else ""
        )
        source = row["source_measured"] if is_measured else ""
        rows.append(
            (case, counter, row["unit_predicted"], predicted, measured, relative, cause, source)
        )
    sides = _instructions(study)
    for column, label in BY_INSTRUCTION.items():
        pair = [f"{column}_{side}" for side in ("predicted", "measured")]
        if any(name not in sides for name in pair):
            continue
        numbers, name = sides[["case", *pair]].dropna(), f"{EACH}{label}"
        for case, part in numbers.groupby("case", sort=False):
            predicted_counts, measured_counts = (pd.to_numeric(part[side]) for side in pair)
            total, equal = len(part), int((predicted_counts == measured_counts).sum())
            # Sums may agree by chance where single instructions do not.
            off = abs(_relative(float(predicted_counts.sum()), float(measured_counts.sum())))
            relative = 0.0 if equal == total else max(off, (total - equal) / total)
            cause = _cause(name, kinds.get(str(case), set()), total, {name: equal})
            unit = "instructions, compared and equal"
            rows.append((case, name, unit, float(total), float(equal), relative, cause, ""))
    values = ["predicted", "measured", "relative difference"]
    frame = pd.DataFrame(rows, columns=["case", "counter", "unit", *values, "cause", "source"])
    equal = (frame["relative difference"] == 0).map({True: "yes", False: "no"})
    frame.insert(6, "equal", equal.where(frame["relative difference"].notna(), ""))
    return frame


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case and counter; a case that was not executed has one row and no counter."""
    about = base.base_table(study).reset_index(drop=True).drop(columns=["source"])
    about.insert(2, "probe_case", study.cases["probe_case"].to_numpy())
    merged = about.merge(comparisons(study), on="case", how="left")
    last = ["verdict", "status", "reason"]
    return merged[[*[name for name in merged.columns if name not in last], *last]]


# ---------------------------------------------------------------------------------------- figure


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return how many counters are equal."""
    tested = _tested(table)
    differ = tested[tested["equal"] == "no"]
    if tested.empty:
        return ""
    return f"{len(tested) - len(differ)} of {len(tested)} executed counters equal ncu's measurement"


def _tested(table: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons of whole kernels' counters that were predicted and measured."""
    rows = table[table["counter"].notna()]
    return rows[
        rows["equal"].isin(["yes", "no"]) & ~rows["counter"].astype(str).str.startswith(EACH)
    ]


def _marks() -> dict[str, tuple[str, str]]:
    """Return colour and marker of each cause, by its name."""
    names = dict.fromkeys(cause.name for cause in causes())
    looks = itertools.cycle(
        (("#332288", "o"), ("#44AA99", "s"), ("#DDCC77", "D"), ("#88CCEE", "^"))
    )
    return {**dict(zip(names, looks, strict=False)), UNEXPLAINED: (BAD, "X")}


def _compared(table: pd.DataFrame) -> pd.DataFrame:
    """Return all comparisons with the figure's row, the difference (%) and the cause's name."""
    rows = table[table["counter"].notna() & table["equal"].isin(["yes", "no"])]
    names = {cause.cause: cause.name for cause in causes()} | {UNEXPLAINED: UNEXPLAINED}
    return rows.assign(
        row=rows["counter"].astype(str).map(_row_of),
        percent=(100 * rows["relative difference"].astype(float)).clip(-_END, _END),
        why=rows["cause"].map(names),
    )


def _row_of(counter: str) -> str:
    return LAUNCH if counter.startswith("launch__") else COUNTERS.get(counter, counter)


def _differences(ax: Axes, differ: pd.DataFrame, order: list[str], style: Style) -> None:
    """Draw a mark for each case that differs, on an axis that is linear between -1 and 1 %."""
    marks = {why: mark for why, mark in _marks().items() if why in set(differ["why"])}
    if len(differ):
        sns.scatterplot(
            x=differ["percent"], y=differ["row"].map(order.index), hue=differ["why"],
            style=differ["why"], hue_order=list(marks), style_order=list(marks), s=24, alpha=0.7,
            linewidth=0.3, palette={why: color for why, (color, _) in marks.items()},
            markers={why: marker for why, (_, marker) in marks.items()}, ax=ax,
        )  # fmt: skip
    ax.axvline(0, color=GREY, linewidth=0.7)
    ax.set_xscale("symlog", linthresh=1)
    ax.set_xlim(-1.6 * _END, 1.6 * _END)
    ticks = [-100, 0, 100] if style.narrow else [-100, -10, -1, 0, 1, 10, 100]
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0")
    ax.set_xlabel(
        "predicted minus\nmeasured (%)"
        if style.narrow
        else "predicted minus measured (% of measured)"
    )
    ax.set_ylabel("")
    look.grid(ax, "both")


def _difference_text(rows: pd.DataFrame, differ: pd.DataFrame, style: Style) -> str:
    """Return how many of a row's comparisons differ, and where the largest difference is."""
    count = f"{len(differ)} of {len(rows)}"
    worst = base.variant_label(differ.loc[differ["percent"].abs().idxmax()].to_dict())
    return count if style.narrow else f"{count} differ, most {worst}".replace("\n", " ")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a row a counter that differs anywhere, a mark a case; counters equal everywhere share a row."""
    with look.apply(style):
        compared = _compared(table)
        if compared.empty:
            return look.empty_figure(study, style, "executed counters beside measured ones")
        differ = compared[compared["equal"] == "no"]
        # Unexplained differences are drawn above the rest.
        differ = differ.sort_values("why", key=lambda why: why == UNEXPLAINED, kind="stable")
        order = [row for row in _ORDER if row in set(differ["row"])]
        equal = [row for row in _ORDER if row in set(compared["row"]) - {*order}]
        same = compared[compared["row"].isin(equal)]
        fig = look.new_figure(style, (len(order) + 1) * 1.5 * style.line * 25.4 + 16)
        ax = fig.subplots()
        _differences(ax, differ, order, style)
        texts = [
            _difference_text(compared[compared["row"] == row], differ[differ["row"] == row], style)
            for row in order
        ]
        texts.append(f"{len(same)} equal")
        look.beside(ax, texts)
        look.rows_axis(ax, [*order, f"{len(equal)} others"])
        ax.set_title("Counters that differ")
        return look.finish(fig, study, style, look.entries([ax]), _notes(table, differ), _STAGES)


def _notes(table: pd.DataFrame, differ: pd.DataFrame) -> list[str]:
    """Return notes on the causes, on differences without one, and on counters that were not measured."""
    used = {cause.name: cause.cause for cause in causes() if cause.name in set(differ["why"])}
    notes = [f"{name.capitalize()}: {cause}." for name, cause in used.items()]
    unknown = sorted({*differ[differ["why"] == UNEXPLAINED]["row"]}, key=_ORDER.index)
    if unknown:
        notes.append(f"Differences without a known cause: {', '.join(unknown)}.")
    alone = int((table["equal"] == "").sum())
    return [*notes, f"Executed, not measured: {alone} counters."] if alone else notes
