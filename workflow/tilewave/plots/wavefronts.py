"""Wavefronts: instruction kinds that need more shared-memory wavefronts than their data does.

A row is a kind of instruction of a variant with excess, the largest first; variants without excess share a row.
Beside it stand the bank-conflict counters, which do not see asynchronous copies. Padded rows free ldmatrix of
conflicts and cost cp.async wavefronts, and these counters show zero.
"""

import math
from collections.abc import Mapping

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData, compact
from tilewave.plots.style import GREY, INK, Style
from tilewave.records.counters.catalogue import BANK_CONFLICTS, SHARED_WAVEFRONTS

HEADLINE = True
READING = (
    "A row is an instruction of a variant. The bar counts its excess wavefronts; the dot is its wavefronts over the "
    "ideal, and 1 means no excess. At the right are ncu's bank conflicts of the same launch."
)
_STAGES = ("counters",)

# Instruction kind -> colour; the row names the kind, so no colour alone carries it.
KINDS: Mapping[str, str] = {
    "LDS": "#332288",
    "STS": "#DDCC77",
    "LDSM": "#44AA99",
    "LDGSTS": "#CC6677",
    "STSM": "#999933",
    "HGMMA": "#88CCEE",
    "other": "#999999",
}
_NAMES = {
    "LDSM": "ldmatrix",
    "STSM": "stmatrix",
    "LDGSTS": "cp.async",
    "HGMMA": "wgmma operands",
}
_BAD = "not correct"
_PALETTE = {**KINDS, _BAD: "#DDDDDD"}
_EXACT = 1.0005
"""Largest quotient of two counts that are taken as equal."""
# The hardware's own counts. ncu's per-instruction counts come from a model of the access pattern
# that is exact for most patterns but not for all 128-bit loads: the tick shows the hardware's.
HARDWARE = {
    "load": SHARED_WAVEFRONTS.format("ld"),
    "store": SHARED_WAVEFRONTS.format("st"),
}
SIDES = {"LDS": "load", "LDSM": "load", "STS": "store", "STSM": "store"}
CONFLICTS = {
    "loads": BANK_CONFLICTS.format("ld"),
    "stores": BANK_CONFLICTS.format("st"),
}

_BOTH = ["wavefronts_shared", "wavefronts_shared_ideal"]
_COUNTS = {
    "wavefronts": "shared wavefronts",
    "ideal": "ideal shared wavefronts",
    "excess": "excess shared wavefronts",
}
_CONFLICTS = {f"bank conflicts, {side}": metric for side, metric in CONFLICTS.items()}
_HARDWARE = {side: f"hardware {side} wavefronts" for side in HARDWARE}


def by_kind(study: StudyData) -> pd.DataFrame:
    """Return sums over a case's instructions, else the records of the same sums.
    Columns: case, kind, wavefronts, ideal, excess (counts)."""
    rows = study.instructions.reindex(columns=["case", "opcode", *_BOTH])
    rows = rows[rows["wavefronts_shared"].fillna(0) > 0]
    kind = rows["opcode"].astype(str).str.split(".").str[0]
    rows = rows.assign(kind=kind.where(kind.isin(list(KINDS)), "other"))
    sums = rows.groupby(["case", "kind"])[_BOTH].sum().astype(float)
    recorded = {
        name: base.pivot(study, [f"wavefronts_shared_{name}", f"wavefronts_shared_ideal_{name}"])
        .set_axis(_BOTH, axis=1)
        .dropna()
        for name in KINDS
    }
    recorded_sums = pd.concat(recorded, names=["kind", "case"]).swaplevel()
    counted = recorded_sums.index.get_level_values("case").isin(sums.index.get_level_values("case"))
    sums = pd.concat([sums, recorded_sums[~counted & (recorded_sums["wavefronts_shared"] > 0)]])
    order = pd.MultiIndex.from_product([base.case_order(study), KINDS], names=["case", "kind"])
    frame = sums.reindex(order[order.isin(sums.index)]).set_axis(["wavefronts", "ideal"], axis=1)
    return frame.assign(excess=frame["wavefronts"] - frame["ideal"]).reset_index()


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case and kind; a case without shared-memory instructions has one row, kind empty."""
    frame = base.with_columns(
        base.base_table(study),
        {name: base.value_of(study, metric) for name, metric in _CONFLICTS.items()},
    )
    for side, metric in HARDWARE.items():
        frame[_HARDWARE[side]] = frame["case"].map(base.value_of(study, metric))
    kinds = by_kind(study).rename(columns=_COUNTS)
    kinds["wavefronts / ideal"] = kinds["shared wavefronts"] / kinds["ideal shared wavefronts"]
    merged = frame.merge(kinds, on="case", how="left")
    shape = list(merged.columns[: merged.columns.get_loc(next(iter(_CONFLICTS)))])
    first = [*shape, *kinds.columns[1:]]
    return merged[[*first, *[c for c in merged.columns if c not in first]]]


def burdened(table: pd.DataFrame) -> pd.DataFrame:
    """Return rows of a case and kind with excess wavefronts, the most of correct cases first.
    A column `of all` is their excess as a share of the case's shared wavefronts (%)."""
    total = table.groupby("case")["shared wavefronts"].transform("sum")
    rows = table.assign(**{"of all": 100 * table[_COUNTS["excess"]] / total})
    rows = rows[rows["wavefronts / ideal"].between(_EXACT, math.inf, inclusive="neither")]
    ranks = rows["verdict"] == "correct"
    rows = rows.assign(ranks=ranks, shown=rows["kind"].where(ranks, _BAD))
    return rows.sort_values(["ranks", _COUNTS["excess"]], ascending=False, kind="stable")


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return how many variants have excess wavefronts."""
    with_kind = table[table["kind"].notna() & (table["verdict"] == "correct")]
    rows = burdened(with_kind)
    if with_kind.empty:
        return ""
    excess, total = rows["case"].nunique(), with_kind["case"].nunique()
    return f"{excess} of {total} variants need more shared-memory wavefronts than the ideal"


def _labels(study: StudyData, rows: pd.DataFrame, narrow: bool) -> list[str]:
    """Return variant and kind of each row, with an uncommon shape and a bad verdict."""
    shapes, labels = base.uncommon_shapes(study.cases), []
    for row in rows.to_dict("records"):
        shape = shapes[row["case"]]
        name = base.variant_label(row).replace("\n", " ")
        parts = [name, *([shape] if shape else []), str(row["kind"])]
        if row["verdict"] != "correct":
            parts.append(f"({row['verdict']})")
        labels.append(f"{parts[0]}\n{' '.join(parts[1:])}" if narrow else " ".join(parts))
    return labels


def _bars(ax: Axes, rows: pd.DataFrame, style: Style) -> None:
    sns.barplot(
        x=rows[_COUNTS["excess"]].to_numpy(), y=range(len(rows)), hue=rows["shown"].to_numpy(),
        orient="h", palette=_PALETTE, saturation=1, width=0.66, dodge=False, errorbar=None,
        legend=False, ax=ax,
    )  # fmt: skip
    most = float(rows[_COUNTS["excess"]].max())
    for index, row in enumerate(rows.to_dict("records")):
        excess, ratio = float(row[_COUNTS["excess"]]), float(row["wavefronts / ideal"])
        text = compact(excess) + (
            f", {ratio:.2f}×" if style.narrow else f" ({row['of all']:.0f} %)"
        )
        ax.annotate(text, (excess, index), xytext=(3, 0), textcoords="offset points", va="center",
                    size=style.small, color=INK if row["ranks"] else GREY)  # fmt: skip
    ax.set_xlim(0, most * (2.1 if style.narrow else 1.5))
    ax.xaxis.set_major_formatter(lambda value, _: compact(value))
    ax.locator_params(axis="x", nbins=4)
    ax.set_xlabel("excess wavefronts" + ("" if style.narrow else " (share of all)"))
    ax.set_title("Wavefronts over the ideal")
    look.grid(ax, "x")


def _ratios(ax: Axes, rows: pd.DataFrame, table: pd.DataFrame) -> None:
    """Draw counted over ideal wavefronts; a tick where the hardware's counter of that side differs."""
    ratio = rows["wavefronts / ideal"].to_numpy()
    sns.scatterplot(
        x=ratio, y=range(len(rows)), hue=rows["shown"].to_numpy(), palette=_PALETTE, s=26,
        edgecolor=INK, linewidth=0.4, legend=False, ax=ax,
    )  # fmt: skip
    alone = table.assign(side=table["kind"].map(SIDES)).groupby(["case", "side"]).size()
    for index, row in enumerate(rows.to_dict("records")):
        side = SIDES.get(str(row["kind"]))
        exact = row[_HARDWARE[side]] if side and alone[row["case"], side] == 1 else None
        counted = row[_COUNTS["wavefronts"]]
        if base.present(exact) and exact and not 2 - _EXACT < exact / counted < _EXACT:
            ax.plot([exact / row[_COUNTS["ideal"]]], [index], "|", color=INK, markersize=8,
                    markeredgewidth=1.4)  # fmt: skip
    ax.set_xlim(0.8, 1.1 * max(2.0, float(ratio.max())))
    ax.axvline(1, color=GREY, linewidth=0.7)
    ax.locator_params(axis="x", integer=True)
    ax.set_xlabel("counted / ideal")
    ax.set_title("Times the ideal")
    look.grid(ax, "both")


def _conflicts(ax: Axes, rows: pd.DataFrame) -> None:
    """Write the conflict counters at the right of the rows."""
    texts = rows[list(_CONFLICTS)].map(lambda n: compact(n) if base.present(n) else "–")
    look.beside(ax, texts.agg(", ".join, axis=1), label="ncu's bank conflicts: loads, stores")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw excess, counted over ideal and conflict counters of each kind with excess; narrow: the first alone."""
    with look.apply(style):
        kinds = table[table["kind"].notna()]
        if kinds.empty:
            return look.empty_figure(study, style, "shared-memory wavefronts")
        rows = burdened(table)
        clean = kinds[~kinds["case"].isin(rows["case"])]
        folded = f"no excess: {clean['case'].nunique()} variants"
        labels = [*_labels(study, rows, style.narrow), folded]
        row_mm = (2.0 if style.narrow else 1.2) * style.line * 25.4 + 0.6
        fig = look.new_figure(style, len(labels) * row_mm + 16)
        widths = [1] if style.narrow or rows.empty else [3, 2.2]
        axes = fig.subplots(1, len(widths), squeeze=False, gridspec_kw={"width_ratios": widths})[0]
        if len(rows):
            _bars(axes[0], rows, style)
        if len(axes) > 1:
            _ratios(axes[1], rows, kinds)
            _conflicts(axes[1], rows)
        for ax in axes:
            look.rows_axis(ax, labels if ax is axes[0] else [""] * len(labels))
        handles: list[Artist] = [
            Patch(color=color, label=f"{kind} ({_NAMES[kind]})" if kind in _NAMES else kind)
            for kind, color in _PALETTE.items()
            if kind in set(rows["shown"])
        ]
        if len(axes) > 1:
            handles.append(Line2D([], [], linestyle="", color=INK, marker="|", markersize=8,
                                  label="hardware counter, where different"))  # fmt: skip
        return look.finish(fig, study, style, handles, _notes(study, table), _STAGES)


def _notes(study: StudyData, table: pd.DataFrame) -> list[str]:
    """Return the shape, and the number of cases that are not drawn."""
    notes = [
        f"Shape {base.shapes_text(study.cases)}, where no other is named. Counts are by instruction."
    ]
    states = base.statuses(study, _STAGES)
    none = [case for case in table[table["kind"].isna()]["case"] if states[case].status == "ok"]
    return [*notes, f"{len(none)} cases without a shared-memory instruction."] if none else notes
