"""Exactness: what executing the machine code predicts beside what Nsight Compute measured.

One mark for each counter and variant: equal at every shape, or the largest relative difference. The
predicted values are those of stage execute, made on this machine's CPU; the measured ones those of
stage counters, live or recorded, and their keys say that they are of the same machine code. These
are counts, not times, so they may be compared between environments. A difference whose cause is
known carries a letter; the causes stand in `exactness.yaml` beside this module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import INK, MM, Style

OPTIONS: Mapping[str, str] = {}
PREDICTED, MEASURED = "execute", "counters"
_STAGES = (PREDICTED, MEASURED)
_CAUSES = Path(__file__).with_suffix(".yaml")

_OP = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_TENSOR = "sm__ops_path_tensor_{}.sum"
_LSU = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_KINDS = ("LDS", "STS", "LDSM", "STSM", "LDGSTS")
# Counter -> what the figure calls it, in the figure's order.
COUNTERS: Mapping[str, str] = {
    "smsp__inst_executed.sum": "warp instructions",
    "smsp__thread_inst_executed.sum": "thread instructions",
    **{
        _OP.format(op): f"{op.upper()}, threads"
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
    _LSU.format("ld"): "shared wavefronts, loads",
    _LSU.format("st"): "shared wavefronts, stores",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum": "shared wavefronts, cp.async",
    _CONFLICTS.format("ld"): "bank conflicts, loads",
    _CONFLICTS.format("st"): "bank conflicts, stores",
    **{f"wavefronts_shared_{kind}": f"wavefronts of {kind}" for kind in _KINDS},
    **{f"wavefronts_shared_excess_{kind}": f"excess of {kind}" for kind in _KINDS},
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum": "global requests, loads",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum": "global requests, stores",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global sectors, loads",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global sectors, stores",
}
LAUNCH = "launch"
# Column of the instruction table -> what the figure calls it: equal where every instruction is.
BY_INSTRUCTION: Mapping[str, str] = {
    "executed": "executed",
    "threads_executed": "threads",
    "wavefronts_shared": "shared wavefronts",
    "wavefronts_shared_ideal": "ideal wavefronts",
    "sectors_global": "global sectors",
    "sectors_global_ideal": "ideal sectors",
}
EACH = "each instruction: "
# Relative difference up to which a mark has this colour; what is equal has the first.
SHADES: tuple[tuple[float, str, str], ...] = (
    (0.0, "#44AA99", "equal"),
    (0.01, "#DDCC77", "off by 1 % at most"),
    (0.1, "#CC6677", "by 10 % at most"),
    (math.inf, "#882255", "by more"),
)
UNKNOWN = "#F3F3F3"
UNEXPLAINED = "not known"


@dataclass(frozen=True)
class Cause:
    """Why a counter differs, and where that may be said (see the head of exactness.yaml)."""

    counter: re.Pattern[str]
    kinds: frozenset[str]
    measured: str
    at_most: float
    of: str
    cause: str

    def explains(
        self, counter: str, kinds: set[str], predicted: float, measured: Mapping[str, float]
    ) -> bool:
        """Whether it is about this counter of a case.

        kinds: opcodes that the case executes; measured: the case's counters.
        """
        match = self.counter.fullmatch(counter)
        ran = "any" in self.kinds or any(_is(kind, one) for kind in self.kinds for one in kinds)
        if not match or not ran:
            return False
        more = measured[counter] - predicted
        if (self.measured == "more" and more < 0) or (self.measured == "less" and more > 0):
            return False
        whole = measured.get(match.expand(self.of) if self.of else counter, 0.0)
        return abs(more) <= self.at_most * abs(whole)


def _is(kind: str, opcode: str) -> bool:
    """Whether an opcode (``STG.E.128``) is of a kind (``STG.128``): its base, and these modifiers."""
    base_, *words = kind.split(".")
    name, *modifiers = opcode.split(".")
    return base_ == name and set(words) <= set(modifiers)


@cache
def causes() -> tuple[Cause, ...]:
    """The known causes."""
    listed = yaml.safe_load(_CAUSES.read_text(encoding="utf-8")) or []
    return tuple(
        Cause(
            re.compile(one["counter"]),
            frozenset(one["kinds"]),
            str(one.get("measured", "either")),
            float(one.get("at_most", math.inf)),
            str(one.get("of", "")),
            " ".join(str(one["cause"]).split()),
        )
        for one in listed
    )


def _cause(counter: str, opcodes: set[str], predicted: float, measured: Mapping[str, float]) -> str:
    """The known cause of a counter's difference; empty where there is none to explain."""
    if predicted == measured[counter]:
        return ""
    found = (one for one in causes() if one.explains(counter, opcodes, predicted, measured))
    return next((one.cause for one in found), UNEXPLAINED)


def _values(study: StudyData, stage: str) -> pd.DataFrame:
    """Rows of a stage that hold a counter: case, metric, value, unit, source, environment."""
    rows = study.records
    rows = rows[(rows["stage"] == stage) & (rows["status"] == "ok") & rows["value"].notna()]
    if stage == MEASURED:  # where no GPU counted, the execution stands in: not to be compared
        rows = rows[rows["source"] != "executed"]
    kept = rows["metric"].isin(list(COUNTERS)) | rows["metric"].str.startswith("launch__")
    columns = ["case", "metric", "value", "unit", "source", "environment"]
    return rows[kept][columns].drop_duplicates(["case", "metric"], keep="last")


def _instructions(study: StudyData) -> pd.DataFrame:
    """Both sides of each instruction: case, address, opcode, column_predicted, column_measured."""
    rows = study.instructions
    if rows.empty or "stage" not in rows:
        return pd.DataFrame(columns=["case", "address", "opcode"])
    columns = [name for name in BY_INSTRUCTION if name in rows]
    keys = ["case", "address", "opcode"]
    sides = [
        rows[(rows["stage"] == stage) & ((rows["source"] == "executed") == (stage == PREDICTED))]
        for stage in _STAGES
    ]
    one, other = (side[[*keys, *columns]].drop_duplicates(keys[:2]) for side in sides)
    return one.merge(other, on=keys, suffixes=("_predicted", "_measured"))


def _kinds(study: StudyData) -> dict[str, set[str]]:
    """Opcodes that each case executed."""
    found: dict[str, set[str]] = {}
    rows = study.instructions
    if not rows.empty:
        ran = rows[pd.to_numeric(rows["executed"]).fillna(1) > 0]
        for case, opcodes in ran.groupby("case")["opcode"]:
            found[str(case)] = {str(opcode) for opcode in opcodes}
    return found


def _relative(predicted: float, measured: float) -> float:
    if predicted == measured:
        return 0.0
    return (predicted - measured) / measured if measured else math.inf


def comparisons(study: StudyData) -> pd.DataFrame:
    """One row a case and counter that was predicted: predicted, measured, difference, cause.

    Counters of each instruction have one row a column: how many instructions were compared
    (predicted) and how many are equal (measured).
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
    for one in both.to_dict("records"):
        case, counter = str(one["case"]), str(one["metric"])
        predicted, measured = float(one["value_predicted"]), float(one["value_measured"])
        known = not math.isnan(measured)
        relative = _relative(predicted, measured) if known else math.nan
        cause = _cause(counter, kinds.get(case, set()), predicted, beside[case]) if known else ""
        rows.append(
            {
                "case": one["case"],
                "counter": one["metric"],
                "unit": one["unit_predicted"],
                "predicted": predicted,
                "measured": measured,
                "relative difference": relative,
                "equal": "" if not known else "yes" if relative == 0 else "no",
                "cause": cause,
                "source": one["source_measured"] if known else "",
            }
        )
    sides = _instructions(study)
    for column, words in BY_INSTRUCTION.items():
        pair = [f"{column}_{side}" for side in ("predicted", "measured")]
        if any(name not in sides for name in pair):
            continue
        numbers = sides[["case", *pair]].dropna()
        for case, part in numbers.groupby("case", sort=False):
            predicted, measured = (pd.to_numeric(part[name]) for name in pair)
            equal, name = int((predicted == measured).sum()), f"{EACH}{words}"
            relative = _relative(float(predicted.sum()), float(measured.sum()))
            rows.append(
                {
                    "case": case,
                    "counter": name,
                    "unit": "instructions, compared and equal",
                    "predicted": float(len(part)),
                    "measured": float(equal),
                    # Sums may agree by chance where single instructions do not.
                    "relative difference": 0.0
                    if equal == len(part)
                    else max(abs(relative), (len(part) - equal) / len(part)),
                    "equal": "yes" if equal == len(part) else "no",
                    "cause": _cause(name, kinds.get(str(case), set()), len(part), {name: equal}),
                    "source": "",
                }
            )
    columns = [
        "case", "counter", "unit", "predicted", "measured", "relative difference", "equal", "cause",
        "source",
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=columns)


def table(study: StudyData) -> pd.DataFrame:
    """One row a case and counter; a case that was not executed has one row and no counter."""
    about = base.base_table(study).reset_index(drop=True).drop(columns=["source"])
    about.insert(2, "probe_case", study.cases["probe_case"].to_numpy())
    merged = about.merge(comparisons(study), on="case", how="left")
    last = ["verdict", "status", "reason"]
    return merged[[*[name for name in merged.columns if name not in last], *last]]


# ---------------------------------------------------------------------------------------- figure


def _row_of(counter: str) -> str:
    if counter.startswith("launch__"):
        return LAUNCH
    return COUNTERS.get(counter, counter)


def _grid(study: StudyData, compared: pd.DataFrame) -> tuple[list[str], list[str], dict[Any, Any]]:
    """Row names, column names (variants) and (row, column) -> the comparisons of that cell."""
    about = study.cases.set_index("case")
    labels = {
        case: base.variant_label(row).replace("\n", " ")
        if not base.present(row.get("probe_case"))
        else str(row["kernel"])
        for case, row in zip(about.index, about.to_dict("records"))
    }
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one in compared.to_dict("records"):
        cells.setdefault((_row_of(str(one["counter"])), labels[one["case"]]), []).append(one)
    order = [*COUNTERS.values(), *(f"{EACH}{words}" for words in BY_INSTRUCTION.values()), LAUNCH]
    measured = bool((compared["equal"] != "").any())
    useful = {
        row
        for (row, _), members in cells.items()
        if any(
            (one["equal"] or not measured) and (one["predicted"] or one["measured"] > 0)
            for one in members
        )
    }
    columns = [name for name in dict.fromkeys(labels.values()) if any(c == name for _, c in cells)]
    return [row for row in order if row in useful], columns, cells


def _shade(relative: float) -> str:
    return next(color for limit, color, _ in SHADES if abs(relative) <= limit)


def _told(relative: float) -> str:
    """A difference in few characters: per cent (+0.5, -12), or a multiple."""
    if math.isinf(relative):
        return "≠0"
    if relative >= 1:
        return f"×{1 + relative:.2g}"
    percent = 100 * relative
    return f"{percent:+.0f}" if abs(percent) >= 1 else f"{percent:+.1g}".replace("0.", ".")


def _draw_cell(
    ax: Axes, x: int, y: int, members: Sequence[Mapping[str, Any]], letters: Mapping[str, str],
    style: Style,
) -> None:  # fmt: skip
    size = (0.62 if style.narrow else 0.75) * style.font_size
    known = [one for one in members if one["equal"]]
    if not known:
        ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=UNKNOWN, edgecolor="white"))
        ax.text(x, y, "?", ha="center", va="center", size=size, color="#AAAAAA")
        return
    worst = max(known, key=lambda one: abs(float(one["relative difference"])))
    relative = float(worst["relative difference"])
    nothing = not any(one["predicted"] or one["measured"] for one in known)
    color = UNKNOWN if nothing else _shade(relative)
    explained = bool(worst["cause"]) and worst["cause"] in letters
    ax.add_patch(
        Rectangle(
            (x - 0.5, y - 0.5), 1, 1, facecolor=look.lighter(color, 0.35), edgecolor="white",
            linewidth=0.6, hatch="////" if relative and explained else None,
        )
    )  # fmt: skip
    text = "0" if nothing else "="
    if relative:
        letter = letters.get(str(worst["cause"]), "")
        if style.narrow:
            text = letter or "≠"
        elif str(worst["counter"]).startswith(EACH):
            text = f"{int(worst['predicted'] - worst['measured'])}≠{letter}"
        else:
            text = f"{_told(relative)}{letter}"
    tint = "#AAAAAA" if nothing else INK
    size *= min(1.0, 4 / len(text))  # no wider than the cell
    ax.text(x, y, text, ha="center", va="center", size=size, color=tint)


def _compared(table: pd.DataFrame) -> pd.DataFrame:
    """The table's comparisons, first those of counters, then those of instructions by column."""
    rows = table[table["counter"].notna()]
    columns = [f"{EACH}{words}" for words in BY_INSTRUCTION.values()]
    place = rows["counter"].map(lambda name: columns.index(name) if name in columns else -1)
    return rows.loc[place.sort_values(kind="stable").index]


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A matrix of counters and variants, one mark a cell."""
    with look.apply(style):
        compared = _compared(table)
        rows, columns, cells = _grid(study, compared)
        if not rows:
            return look.empty_figure(study, style, "executed counters")
        known = [c for c in dict.fromkeys(compared["cause"]) if c and c != UNEXPLAINED]
        letters = {cause: chr(ord("a") + i) for i, cause in enumerate(known)}
        longest = max(map(len, columns))
        row_mm = max(3.2, 0.9 * style.line * 25.4)
        below = 0.55 * longest * style.small / 72 / MM + 4
        fig = look.new_figure(style, len(rows) * row_mm + below)
        ax = fig.subplots()
        for y, row in enumerate(rows):
            for x, column in enumerate(columns):
                if (row, column) in cells:
                    _draw_cell(ax, x, y, cells[row, column], letters, style)
        ax.set_xlim(-0.5, len(columns) - 0.5)
        look.rows_axis(ax, rows)
        ax.set_xticks(np.arange(len(columns)), columns, rotation=90)
        ax.tick_params(axis="both", length=0)
        for side in ("left", "bottom"):
            ax.spines[side].set_visible(False)
        tested = compared[(compared["equal"] != "") & ~compared["counter"].str.startswith(EACH)]
        equal = int((tested["equal"] == "yes").sum())
        ax.set_title(
            f"{equal} of {len(tested)} counters equal" if len(tested) else "Nothing measured"
        )
        used = {SHADES[0][1]} | {
            _shade(float(r)) for r in compared["relative difference"].dropna() if r
        }
        handles = [
            Patch(facecolor=look.lighter(color, 0.35), label=words)
            for _, color, words in SHADES
            if color in used
        ]
        if compared["equal"].eq("").any():
            handles.append(Patch(facecolor=UNKNOWN, label="? executed, not measured"))
        shapes = list(
            dict.fromkeys(
                base.shape_label(row)
                for row in study.cases.to_dict("records")
                if not base.present(row.get("probe_case"))
            )
        )
        notes = [
            f"Shapes: {', '.join(shapes)}. A mark holds for all of a variant's cases: = equal, "
            "0 nothing counted on either side, "
            + (
                "≠ or a letter different: the table says by how much."
                if style.narrow
                else "else the largest difference of predicted from measured in per cent, with the "
                "letter of its cause, or how many instructions differ (≠)."
            ),
            *(f"{letter}: {cause}." for cause, letter in letters.items()),
        ]
        unknown = tested[tested["cause"] == UNEXPLAINED]
        if len(unknown):
            names = list(dict.fromkeys(_row_of(str(one)) for one in unknown["counter"]))
            notes.append(f"Differences without a known cause: {', '.join(names)}.")
        return look.finish(
            fig, study, style, handles, [str(h.get_label()) for h in handles], notes, _STAGES
        )
