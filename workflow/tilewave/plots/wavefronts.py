"""Wavefronts: where a kernel's shared-memory wavefronts go, by instruction kind.

The per-instruction table gives each instruction's wavefronts and what they would be with every bank
used (ideal). Three readings of it, with a row for each variant: the share of each kind in all
wavefronts with the excess hatched; the absolute counts, from the ideal (hollow) to the counted
(full); and the two bank-conflict counters, which are blind to asynchronous copies: a kernel whose
padded rows free ldmatrix and burden cp.async has conflicts of zero there.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import NullLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData, compact
from tilewave.plots.style import GREY, INK, Style

OPTIONS: Mapping[str, str] = {}
_STAGES = ("counters",)

KINDS: Mapping[str, tuple[str, str]] = {
    "LDS": ("LDS (loads)", "#332288"),
    "STS": ("STS (stores)", "#DDCC77"),
    "LDSM": ("LDSM (ldmatrix)", "#44AA99"),
    "LDGSTS": ("LDGSTS (cp.async)", "#CC6677"),
    "STSM": ("STSM (stmatrix)", "#999933"),
    "HGMMA": ("HGMMA (wgmma operands)", "#88CCEE"),
    "other": ("other", "#999999"),
}
# The hardware's own counts. ncu's per-instruction counts come from a model of the access pattern
# that is exact for most patterns but not for all 128-bit loads: the tick shows the hardware's.
HARDWARE = {
    "load": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "store": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
SIDES = {"LDS": "load", "LDSM": "load", "STS": "store", "STSM": "store"}
CONFLICTS = {
    "loads": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "stores": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}

_COUNTS = {
    "wavefronts": "shared wavefronts",
    "ideal": "ideal shared wavefronts",
    "excess": "excess shared wavefronts",
}
_HARDWARE = {side: f"hardware {side} wavefronts" for side in HARDWARE}


def by_kind(study: StudyData) -> pd.DataFrame:
    """Sums over a case's instructions: columns case, kind, wavefronts, ideal, excess (counts).

    A case without rows in the instruction table takes the records of the same sums
    (`wavefronts_shared_LDS`, `wavefronts_shared_ideal_LDS` ...), where there are any.
    """
    found: dict[tuple[str, str], tuple[float, float]] = {}
    rows = study.instructions
    if not rows.empty:
        rows = rows[rows["wavefronts_shared"].fillna(0) > 0].copy()
        kind = rows["opcode"].astype(str).str.partition(".")[0]
        rows["kind"] = kind.where(kind.isin(list(KINDS)), "other")
        sums = rows.groupby(["case", "kind"])[["wavefronts_shared", "wavefronts_shared_ideal"]]
        for (case, name), counted in sums.sum().iterrows():  # type: ignore[misc]
            found[str(case), str(name)] = (float(counted.iloc[0]), float(counted.iloc[1]))
    known = {case for case, _ in found}
    for name in KINDS:
        counts = base.value_of(study, f"wavefronts_shared_{name}")
        ideals = base.value_of(study, f"wavefronts_shared_ideal_{name}")
        for case in counts.index.intersection(ideals.index):
            if case not in known and counts[case] > 0:
                found[str(case), name] = (float(counts[case]), float(ideals[case]))
    listed = [
        {
            "case": case,
            "kind": name,
            "wavefronts": found[case, name][0],
            "ideal": found[case, name][1],
        }
        for case in base.case_order(study)
        for name in KINDS
        if (case, name) in found
    ]
    frame = pd.DataFrame(listed, columns=["case", "kind", "wavefronts", "ideal"])
    frame["excess"] = frame["wavefronts"] - frame["ideal"]
    return frame


def table(study: StudyData) -> pd.DataFrame:
    """One row a case and kind; a case without shared-memory instructions has one row, kind empty."""
    frame = base.with_columns(
        base.base_table(study),
        {
            f"bank conflicts, {side}": base.value_of(study, metric)
            for side, metric in CONFLICTS.items()
        },
    )
    for side, metric in HARDWARE.items():
        frame[_HARDWARE[side]] = frame["case"].map(base.value_of(study, metric))
    kinds = by_kind(study).rename(columns=_COUNTS)
    kinds["wavefronts / ideal"] = kinds["shared wavefronts"] / kinds["ideal shared wavefronts"]
    merged = frame.merge(kinds, on="case", how="left")
    first = ["case", "kernel", "variant", "dtype", "m", "n", "k", *kinds.columns[1:]]
    return merged[[*first, *[c for c in merged.columns if c not in first]]]


def _shares(ax: Axes, kinds: pd.DataFrame) -> None:
    for place, (_, rows) in enumerate(kinds.groupby("case", sort=False)):
        total, start = float(rows["wavefronts"].sum()), 0.0
        for row in rows.to_dict("records"):
            color = KINDS[str(row["kind"])][1]
            for part, excess in ((row["ideal"], False), (row["excess"], True)):
                share = 100.0 * float(part) / total
                if share <= 0:
                    continue
                ax.barh(
                    place, share, left=start, height=0.66, linewidth=0.5, edgecolor=color,
                    color=look.lighter(color, 0.72) if excess else color,
                    hatch="/////" if excess else None,
                )  # fmt: skip
                start += share
    ax.set_xlim(0, 100)
    ax.set_xlabel("share of the kernel's shared wavefronts (%)")
    ax.set_title("Normalised to each kernel")


def _counts(ax: Axes, kinds: pd.DataFrame, style: Style) -> None:
    for place, (_, group) in enumerate(kinds.groupby("case", sort=False)):
        rows = group.to_dict("records")
        sides = [SIDES.get(str(row["kind"])) for row in rows]
        told: list[str] = []
        for lane, row in enumerate(rows):
            y = place + (lane - (len(rows) - 1) / 2) * 0.86 / max(2, len(rows))
            color = KINDS[str(row["kind"])][1]
            ideal, counted = float(row["ideal"]), float(row["wavefronts"])
            if ideal > 0:
                ax.plot([ideal, counted], [y, y], color=color, linewidth=1.6)
                ax.plot([ideal], [y], "o", color="white", markeredgecolor=color, markersize=3.6)
            ax.plot([counted], [y], "o", color=color, markersize=3.6, markeredgecolor=color)
            side = sides[lane]
            exact = row[_HARDWARE[side]] if side and sides.count(side) == 1 else None
            if base.present(exact) and exact and not 0.9995 < exact / counted < 1.0005:
                ax.plot([exact], [y], "|", color=INK, markersize=7, markeredgewidth=1.4)
            if ideal > 0 and counted > 1.0005 * ideal:
                told.append(f"{row['kind']} {counted / ideal:.2f}×")
        if told:
            ax.annotate(
                ", ".join(told), (1, place), xycoords=ax.get_yaxis_transform(), xytext=(-2, 0),
                size=style.small, textcoords="offset points", va="center", ha="right", color=INK,
            )  # fmt: skip
    ax.set_xscale("log")
    ax.xaxis.set_minor_locator(NullLocator())
    low, high = kinds["ideal"].where(kinds["ideal"] > 0).min(), kinds["wavefronts"].max()
    # Right of the largest count there is room for the ratios.
    ax.set_xlim(low / 2, high * (high / low) ** 1.1)
    decades = [10.0**power for power in range(20) if low / 2 <= 10.0**power <= 2 * high]
    ax.set_xticks(decades[:: 1 + len(decades) // 5])
    ax.set_xlabel("shared wavefronts")
    ax.set_title("Ideal (hollow) to counted (full)")


def _conflicts(ax: Axes, cases: pd.DataFrame, style: Style) -> None:
    ax.set_xlim(0, 1)
    for x, side in zip((0.45, 0.95), CONFLICTS, strict=True):
        for place, value in enumerate(cases[f"bank conflicts, {side}"]):
            known = base.present(value)
            ax.text(
                x, place, compact(float(value)) if known else "–", ha="right",
                va="center", size=style.small, color=INK if known else GREY,
            )  # fmt: skip
    ax.xaxis.tick_top()
    ax.set_xticks([0.45, 0.95], list(CONFLICTS), ha="right", color=GREY)
    ax.tick_params(axis="x", length=0, pad=0)
    ax.spines["bottom"].set_visible(False)
    ax.spines["left"].set_visible(False)
    ax.set_title("Conflicts" if style.narrow else "Bank conflicts", loc="right")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Three panels that share their rows, one row a variant; stacked at a narrow width."""
    with look.apply(style):
        without = table[table["kind"].isna()]
        kinds = table[table["kind"].notna()].rename(columns={v: k for k, v in _COUNTS.items()})
        if kinds.empty:
            return look.empty_figure(study, style, "shared-memory wavefronts")
        # Its name tells a probe's case, and is in no column of the table.
        probes = study.cases.set_index("case")["probe_case"]
        cases = kinds.drop_duplicates("case").join(probes, on="case")
        usual = base.common_shape(cases)
        labels = []
        for row in cases.to_dict("records"):
            label = base.variant_label(row)
            if base.shape_label(row) != usual:
                label += (" " if "\n" in label else "\n") + base.shape_label(row)
            bad = row["verdict"]
            label = label if bad == "correct" else f"{label}\n({bad})"
            labels.append(label if style.narrow else label.replace("\n", " "))
        lanes = int(kinds.groupby("case").size().max())
        tall = max(1 + label.count("\n") for label in labels)
        row_mm = max(4.4, 1.3 * lanes, tall * style.line * 25.4 * 0.95 + 1)
        height = len(cases) * row_mm + 16
        if style.narrow:
            upper = len(cases) * max(6.0, tall * style.line * 25.4 + 1) + 16
            fig = look.new_figure(style, upper + height)
            grid = fig.add_gridspec(2, 2, width_ratios=[1.6, 1], height_ratios=[upper, height])
            first = fig.add_subplot(grid[0, 0])
            texts = fig.add_subplot(grid[0, 1])
            second = fig.add_subplot(grid[1, :])
        else:
            fig = look.new_figure(style, height)
            first, second, texts = fig.subplots(1, 3, gridspec_kw={"width_ratios": [3, 4, 1.5]})
        _shares(first, kinds)
        _counts(second, kinds, style)
        _conflicts(texts, cases, style)
        for ax in (first, second, texts):
            named = ax is first or (style.narrow and ax is second)
            look.rows_axis(ax, labels if named else [""] * len(cases))
        texts.set_yticks([])
        if style.narrow:
            first.set_xlabel("share of its shared\nwavefronts (%)")
            first.set_title("Normalised")
        look.grid(first, "x")
        look.grid(second, "x")
        handles: list[Artist] = []
        for kind, (name, color) in KINDS.items():
            if kind in set(kinds["kind"]):
                handles.append(Patch(color=color, label=name))
        handles.append(
            Patch(facecolor="white", edgecolor=GREY, hatch="/////", label="excess over the ideal")
        )
        handles.append(
            Line2D([], [], color=GREY, marker="o", markerfacecolor="white", label="ideal")
        )
        handles.append(
            Line2D([], [], linestyle="", color=INK, marker="|", markersize=7,
                   label="hardware counter, where different")
        )  # fmt: skip
        several = len(cases[["m", "n", "k"]].drop_duplicates()) > 1
        notes = [
            f"Shape: {usual}{', where no other is named' if several else ''}.",
            "Bars: counted for each instruction. The hardware's counters also hold what is lost when "
            "warps compete, so conflicts may be counted where no address pattern causes any. Named: the "
            "kinds with excess, counted over ideal.",
        ]
        states = base.statuses(study, _STAGES)
        empty = [case for case in without["case"] if states[case].status == "ok"]
        if empty:
            notes.append(f"No shared-memory instruction counted: {', '.join(empty)}.")
        return look.finish(
            fig, study, style, handles, [str(h.get_label()) for h in handles], notes, _STAGES
        )
