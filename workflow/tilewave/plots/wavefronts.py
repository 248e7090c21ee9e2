"""Wavefronts: the kernels with most excess wavefronts of shared memory; the table has all, with bank
conflicts. Those miss asynchronous copies: padded rows free ldmatrix of them, and cost cp.async wavefronts."""

import math
from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import bars, rows_mm
from tilewave.plots.base import StudyData
from tilewave.plots.options import Named
from tilewave.plots.style import BLUE, GREY, Style
from tilewave.records.counters.catalogue import BANK_CONFLICTS, SHARED_WAVEFRONTS

HEADLINE = True
Options = Named
_STAGES = ("counters",)

KINDS = ("LDS", "STS", "LDSM", "LDGSTS", "STSM", "HGMMA", "other")
"""Kinds of instructions that access shared memory."""
_MOST = 10
"""The most rows of the figure."""
_EXACT = 1.0005
"""Largest quotient of two counts that are taken as equal."""
# The hardware's own counts. ncu's counts of an instruction are a model's, not exact for all 128-bit loads.
HARDWARE = {"load": SHARED_WAVEFRONTS.format("ld"), "store": SHARED_WAVEFRONTS.format("st")}
CONFLICTS = {"loads": BANK_CONFLICTS.format("ld"), "stores": BANK_CONFLICTS.format("st")}

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
    metrics = {name: [f"{column}_{name}" for column in _BOTH] for name in KINDS}
    tables = {name: base.pivot(study, both) for name, both in metrics.items()}
    recorded = {name: table.set_axis(_BOTH, axis=1).dropna() for name, table in tables.items()}
    recorded_sums = pd.concat(recorded, names=["kind", "case"]).swaplevel()
    counted = recorded_sums.index.get_level_values("case").isin(sums.index.get_level_values("case"))
    sums = pd.concat([sums, recorded_sums[~counted & (recorded_sums["wavefronts_shared"] > 0)]])
    order = pd.MultiIndex.from_product([base.case_order(study), KINDS], names=["case", "kind"])
    frame = sums.reindex(order[order.isin(sums.index)]).set_axis(["wavefronts", "ideal"], axis=1)
    return frame.assign(excess=frame["wavefronts"] - frame["ideal"]).reset_index()


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case and kind; a case without shared-memory instructions has one row, kind empty."""
    frame = base.table_of(study, _CONFLICTS)
    for side, metric in HARDWARE.items():
        frame[_HARDWARE[side]] = frame["case"].map(base.value_of(study, metric))
    kinds = by_kind(study).rename(columns=_COUNTS)
    kinds["wavefronts / ideal"] = kinds["shared wavefronts"] / kinds["ideal shared wavefronts"]
    merged = frame.merge(kinds, on="case", how="left")
    shape = list(merged.columns[: merged.columns.get_loc(next(iter(_CONFLICTS)))])
    first = [*shape, *kinds.columns[1:]]
    return merged[[*first, *[c for c in merged.columns if c not in first]]]


def burdened(table: pd.DataFrame) -> pd.DataFrame:
    """Return the correct cases with excess wavefronts, the largest share first, and their kind with most of these.
    A column `of all` is the excess of all kinds as a share of the case's shared wavefronts (%)."""
    rows = table[table["verdict"] == "correct"]
    rows = rows[rows["wavefronts / ideal"].between(_EXACT, math.inf, inclusive="neither")]
    total = table.groupby("case")[_COUNTS["wavefronts"]].sum()
    share = 100 * rows.groupby("case")[_COUNTS["excess"]].sum() / total
    rows = rows.sort_values(_COUNTS["excess"], ascending=False, kind="stable")
    rows = rows.drop_duplicates("case").assign(**{"of all": rows["case"].map(share)})
    return rows.sort_values("of all", ascending=False, kind="stable")


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the largest share of a variant's wavefronts that is excess, its name and its shape."""
    rows = burdened(table)
    if rows.empty:
        return ""
    worst = rows.iloc[0].to_dict()
    name = f"{base.plain_label(study, worst)} at {base.shape_label(worst)}"
    return f"Up to {worst['of all']:.0f} % of the shared-memory wavefronts are excess: {name}"


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a bar for each of the kernels with most excess, the worst on top."""
    rows = burdened(table).drop_duplicates(["kernel", "kind"]).head(_MOST)
    look.stop_if(rows.empty, "excess wavefronts")
    fig, (ax,) = look.panels(style, [rows_mm(len(rows)) + 6 * style.narrow])
    vendor = rows["kernel"].isin(base.vendors(study))
    labels = [
        f"{base.operand_dtype(row['dtype'])}: {base.plain_label(study, row)}"
        for row in rows.to_dict("records")
    ]
    shares = rows["of all"]
    colors = vendor.map({True: GREY, False: BLUE})
    bars(ax, labels, shares, shares.map("{:.0f} %, ".format) + rows["kind"], colors)
    look.head(ax, "main opcode")
    excess = "excess (% of all of the kernel's shared-memory wavefronts)"
    ax.set_xlabel(f"{excess}, worst {len(rows)} kernels")
    part_of = replace(study, cases=study.cases[study.cases["case"].isin(rows["case"])])
    return look.finish(fig, part_of, style, notes=_notes(study, table, rows), stages=_STAGES)


def _notes(study: StudyData, table: pd.DataFrame, rows: pd.DataFrame) -> list[str]:
    """Return the shape, that of each drawn row with another, and how many variants have excess wavefronts."""
    shapes = rows["case"].map(base.uncommon_shapes(study.cases))
    others = [f"; {name} {shape}" for name, shape in zip(rows["variant"], shapes) if shape]
    of_shared = table[table["kind"].notna() & (table["verdict"] == "correct")]
    excess = burdened(of_shared)["case"].nunique()
    counted = f"{excess} of {of_shared['case'].nunique()} cases have excess wavefronts"
    return [f"Shape {base.shapes_text(study.cases)}{''.join(others)}. {counted}."]
