"""Roofline: the main rungs of a dtype under measured ceilings, by the bytes of DRAM, of L2 and of L1.
The table has all kernels: one without arithmetic, which has no place over FLOP/byte, with bytes and rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewave.basics.columns import filled
from tilewave.plots import _ceilings, base
from tilewave.plots import style as look
from tilewave.plots._ceilings import BANDWIDTHS, Ceilings, Peak, kernels_of
from tilewave.plots._panels import names_beside, slanted
from tilewave.plots._rungs import Rungs, drawn, part_of
from tilewave.plots.base import StudyData
from tilewave.plots.style import BLUE, GREY, INK, PURPLE, RED, Style
from tilewave.records.counters import demand
from tilewave.records.counters.catalogue import COPY_WAVEFRONTS, GLOBAL_ACCESSES, L2_SECTORS
from tilewave.theory import opcodes, roofline
from tilewave.theory.traffic import MATH

HEADLINE = True
Options = Rungs
_STAGES = ("time", "counters")
_LEVELS: Mapping[str, str] = {
    "dram": "DRAM, bytes read and written",
    "l2": "L2, sectors requested by the SMs",
    "l1": "L1, global sectors and shared wavefronts",
}
_COLORS: Mapping[str, str] = {"dram": PURPLE, "l2": RED, "l1": BLUE}
_MARKERS: Mapping[str, str] = {"dram": "o", "l2": "s", "l1": "^"}
_DASHES: Mapping[str, Any] = {"dram": "-", "l2": (0, (4, 1.5)), "l1": (0, (1, 1))}
_NO_ROOF = ("", math.nan, math.nan, "")
_INTENSITY = "{} intensity (FLOP/byte)"
_LOADED, _STORED = (GLOBAL_ACCESSES.format("sectors", op) for op in ("ld", "st"))


def _bypassing(study: StudyData, loaded: Mapping[str, float]) -> pd.DataFrame:
    """Return sectors and shared wavefronts of each case's copies that bypass L1; loaded: sectors of all its loads."""
    rows = study.instructions
    bypass = rows["opcode"].map(demand.passes_l1) if len(rows) else pd.Series(dtype=bool)
    copies = rows[bypass & (rows["executed"] > 0)] if bypass.any() else rows.iloc[:0]
    sums = {}
    for case, part in copies.groupby("case"):
        if case in loaded:
            of_case = rows[rows["case"] == case].to_dict("records")
            _, sectors = demand.through_l1(of_case, {_LOADED: loaded[str(case)]})
            sums[str(case)] = sectors, float(part["wavefronts_shared"].sum())
    return pd.DataFrame.from_dict(sums, "index", columns=["sectors", "wavefronts"], dtype=float)


def _bytes(study: StudyData) -> pd.DataFrame:
    """Return bytes of each case at each level (NaN without a counter), and whether some at L1 came as bulk copies.
    Bulk copies are counted at L2 alone. Copies that bypass L1 take none of its data path."""
    counters = [
        "dram_bytes", L2_SECTORS, _LOADED, _STORED, "wavefronts_shared",
        "shared_wavefronts_load", "shared_wavefronts_store", COPY_WAVEFRONTS,
    ]  # fmt: skip
    counted = base.pivot(study, counters, "counters")
    pipe = counted["shared_wavefronts_load"] + counted["shared_wavefronts_store"]
    shared = counted["wavefronts_shared"].fillna(pipe + counted[COPY_WAVEFRONTS].fillna(0))
    sectors = counted[_LOADED] + counted[_STORED]
    bypassing = _bypassing(study, counted[_LOADED].dropna().to_dict()).reindex(counted.index)
    bypassing = bypassing.fillna(0.0)
    l2 = counted[L2_SECTORS].map(roofline.l2_bytes)
    columns = sectors, shared - bypassing["wavefronts"], l2, bypassing["sectors"]
    l1, bulk = list(map(roofline.l1_bytes, *columns)), sectors.map(roofline.l2_bytes) < l2
    return pd.DataFrame({"dram": counted["dram_bytes"], "l2": l2, "l1": l1, "bulk": bulk})


def _peak_over(row: pd.Series[float], dtype: str, limits: Ceilings) -> Peak | None:
    """Return the arithmetic roof of a case: the lowest of its dtype that is no lower than its rate. It is the
    tensor cores', if it used them, else FMA's; if counted, that of its instruction (mma.sync, wgmma)."""
    of_dtype = limits.of(dtype)
    if pd.notna(row["tensor"]):
        of_dtype = [peak for peak in of_dtype if (peak.unit != "fma") == bool(row["tensor"] > 0)]
    of_dtype = [peak for peak in of_dtype if peak.unit.split("_")[0] == row["unit"]] or of_dtype
    over = [peak for peak in of_dtype if peak.tflops >= row["tflops"]]
    return min(over, key=lambda peak: peak.tflops) if over else next(iter(of_dtype), None)


def _units(study: StudyData) -> dict[str, str]:
    """Return mma or wgmma for each case with a counted instruction of the tensor cores."""
    rows = study.instructions
    if rows.empty:  # of no case, with no such columns
        return {}
    executed = rows.loc[rows["executed"] > 0, ["case", "opcode"]].drop_duplicates()
    units = zip(executed["case"], map(opcodes.unit, executed["opcode"]), strict=True)
    return {str(case): unit[0].split()[0] for case, unit in units if unit}


def _points(study: StudyData, limits: Ceilings) -> tuple[pd.DataFrame, set[str]]:
    """Return the table's columns of the kernels: bytes, intensity and TB/s at each level, the roof and its share (%).
    A kernel without FLOPs has neither intensity nor roof. Also return the cases with bulk copies."""
    kernels = kernels_of(study).set_index("case")
    moved = _bytes(study).reindex(kernels.index)
    measured, speed = base.value_of(study, "tflops", "time"), base.speed(study)
    duration = base.value_of(study, "duration", "time")
    duration *= (measured / speed).reindex(duration.index).fillna(1)
    operations = base.flops(study).reindex(moved.index)
    about = kernels[["dtype"]].assign(
        tflops=speed,
        tensor=base.value_of(study, base.COUNTED_TENSOR_FLOPS, "counters"),
        unit=pd.Series(_units(study), dtype=object),
    )
    frame = pd.DataFrame(index=moved.index)
    for level in _LEVELS:
        frame[f"{level} bytes"] = moved[level]
        frame[_INTENSITY.format(level)] = operations.where(operations > 0) / moved[level]
        frame[f"{level} rate (TB/s)"] = moved[level] / duration * 1e-6
    intensities = frame[list(map(_INTENSITY.format, _LEVELS))].set_axis([*_LEVELS], axis=1)
    # A point's coordinates need no common environment; its share of a roof is a ratio, and does.
    here, timed = _ceilings.environment_here(study), base.environment_of(study, "duration", "time")
    counted = base.environment_of(study, "dram_bytes", "counters")
    roofs = [_NO_ROOF] * len(frame)
    for at, case in enumerate(map(str, frame.index)):
        if here == timed.get(case) == counted.get(case, here):
            roofs[at] = _roof(about.loc[case], intensities.loc[case].dropna().to_dict(), limits)
    columns = ["lowest roof", "lowest roof (TFLOP/s)", "of the roof (%)", "bound by"]
    frame[columns] = pd.DataFrame(roofs, index=frame.index, columns=columns)
    return frame, set(moved.index[moved["bulk"]])


def _roof(
    about: pd.Series[Any], intensities: Mapping[str, float], limits: Ceilings
) -> tuple[str, float, float, str]:
    """Return the lowest roof over a kernel, its height (TFLOP/s), the share reached (%) and its kind."""
    peak = _peak_over(about, str(about["dtype"]), limits)
    # Without a measured peak of these tensor cores no other roof applies.
    if (peak is None and about["tensor"] > 0) or not pd.notna(about["tflops"]):
        return _NO_ROOF
    roof = roofline.lowest_roof(peak.tflops if peak else None, limits.bandwidths, intensities)
    if roof is None:
        return _NO_ROOF
    height, bound = roof
    name = peak.label if bound == MATH and peak else f"{bound} bandwidth"
    return name, height, 100 * about["tflops"] / height, bound


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case: of a kernel its bytes, intensities, rates and lowest roof; of a probe its ceiling."""
    limits = _ceilings.ceilings(study)
    points, bulk = _points(study, limits)
    bandwidth = base.value_of(study, "bandwidth", "time")
    rates = {"TFLOP/s": base.speed(study), "bandwidth (TB/s)": bandwidth}
    frame = base.base_table(study)
    frame.insert(3, "probe case", study.cases.set_index("case")["probe_case"])
    return base.with_derived(base.with_columns(frame, rates | dict(points)), (limits, bulk))


def _drawn(study: StudyData, table: pd.DataFrame) -> pd.DataFrame:
    """Return the kernels that are drawn: their rows of the table, `label`, and intensity at each level."""
    rows = table.rename(columns={_INTENSITY.format(level): level for level in _LEVELS})
    rows = rows[(rows["verdict"] == "correct") & rows["TFLOP/s"].notna()]
    rows = rows[rows[list(_LEVELS)].notna().any(axis=1)]
    rows = rows[rows["case"].map(base.uncommon_shapes(kernels_of(study))) == ""]
    return drawn(study, rows, 1, vendors=True)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the share of its roofline bound that the fastest drawn kernel of the first dtype reaches, without cuBLAS."""
    rows = _drawn(study, table)
    rows = rows[~rows["kernel"].isin(base.vendors(study)) & rows["of the roof (%)"].notna()]
    if rows.empty:
        return ""
    best = rows[rows["dtype"] == rows["dtype"].iloc[0]].sort_values("TFLOP/s").iloc[-1]
    dtype = base.operand_dtype(best["dtype"])
    reached = f"{best['of the roof (%)']:.0f} % of its roofline bound"
    return f'The {dtype} rung "{best["label"]}" reaches {reached}'


def _roofs(ax: Axes, limits: Ceilings, dtype: str, style: Style) -> None:
    """Draw the slope of each level's bandwidth up to the dtype's highest roof, and that roof, with their names."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    peaks = limits.of(dtype)
    top = peaks[0].tflops if peaks else high
    for level, bandwidth in limits.bandwidths.items():
        start = max(left, low / bandwidth)
        ends = [start, top / bandwidth]
        ax.plot(
            ends, [end * bandwidth for end in ends], color=_COLORS[level], linewidth=1.1,
            linestyle=_DASHES[level], zorder=1,
        )  # fmt: skip
        at = start * (ends[1] / start) ** 0.27
        name = f"{level.upper()} {base.digits(bandwidth)} TB/s"
        slanted(ax, name, (at, 1.05), bandwidth, style, color=_COLORS[level], va="bottom")
    for peak in peaks[: 1 if style.narrow else 2]:
        dashes = "-" if peak is peaks[0] else (0, (6, 2))
        ax.hlines(peak.tflops, left, right, color=INK, linewidth=0.9, linestyle=dashes, zorder=1)
        name = f"{_ceilings.UNITS.get(peak.unit, peak.unit)} {base.digits(peak.tflops)} TFLOP/s"
        at, side = (right, "right") if style.narrow else (1.05 * left, "left")
        ax.text(at, 1.04 * peak.tflops, name, ha=side, va="bottom", size=style.small)


def _panel(ax: Axes, rows: pd.DataFrame, limits: Ceilings, tall: float, style: Style) -> None:
    """Draw a dtype's kernels at each level under its roofs, each with its name."""
    dtype, speeds = str(rows["dtype"].iloc[0]), rows["TFLOP/s"]
    values = rows[list(_LEVELS)].astype(float)
    peaks = [peak.tflops for peak in limits.of(dtype)]
    ax.set(xscale="log", yscale="log", ylabel="speed (TFLOP/s)")
    heading = base.dtype_short(dtype), base.shape_label(rows.iloc[0].to_dict())
    ax.set_title(", ".join(filter(None, heading)))
    ax.set_xlim(values.min(axis=None) / 2, 1.5 * values.max(axis=None))
    ax.set_ylim(speeds.min() / 2, 1.5 * max([*speeds, *peaks]))
    look.decades(ax.xaxis, ax.get_xlim())
    look.decades(ax.yaxis, (0.3 * speeds.min(), speeds.max()))
    _roofs(ax, limits, dtype, style)
    right = ax.get_xlim()[1]
    ax.hlines(speeds, values.min(axis=1), right, color=GREY, linewidth=0.5, zorder=1)
    marks = rows.melt(["label", "TFLOP/s"], list(_LEVELS), "level", "intensity").dropna()
    hollow = marks[marks["label"].str.startswith("cuBLAS")]
    white = dict.fromkeys(_COLORS, "white")
    for part, size, palette in ((marks, 22, dict(_COLORS)), (hollow, 7, white)):
        sns.scatterplot(
            part, x="intensity", y="TFLOP/s", hue="level", style="level", hue_order=list(_LEVELS),
            style_order=list(_LEVELS), s=size, palette=palette, markers=dict(_MARKERS), linewidth=0,
            legend=False, ax=ax, zorder=3,
        )  # fmt: skip
    for level, value in values.loc[speeds.idxmin()].dropna().items():
        name, color = str(level).upper(), _COLORS[str(level)]
        look.write(ax, name, (value, speeds.min()), (0, -5), ha="center", va="top", color=color)
    roofs = rows["lowest roof"].astype(str).str.split()
    names = roofs.str[-1].where(rows["bound by"] == MATH, roofs.str[0].str.upper())
    shares = rows["of the roof (%)"].map(lambda share: f": {share:.0f} %" if share > 0 else "")
    if not style.narrow:
        shares += (" of " + names).where(shares != "", "")
    shares += rows["label"].map({"cuBLAS": " (hollow)"}).fillna("")
    ends = [
        (right, speed, text, GREY if text.startswith("cuBLAS") else INK)
        for speed, text in zip(speeds, rows["label"] + shares, strict=True)
    ]
    names_beside(ax, ends, tall, style)
    look.head(ax, "share of the lowest roof")
    ax.set(xlabel="FLOP per byte moved at L1, L2 or DRAM")
    look.grid(ax)


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one panel per dtype: cuBLAS and the main rungs at each level of the memory, under the dtype's roofs."""
    limits, bulk = base.derived(table)
    rows = _drawn(study, table)
    look.stop_if(rows.empty, "roofline")
    parts = [part for _, part in rows.groupby("dtype", sort=False)]
    tall = 70.0 if style.narrow else 85.0
    fig, axes = look.panels(style, [tall] * len(parts))
    for ax, part in zip(axes, parts, strict=True):
        _panel(ax, part, limits, tall - 14, style)
    shown = part_of(study, rows, study.cases["operation"] == "probe")
    notes = _notes(shown, limits, rows, bool(rows["case"].isin(bulk).any()))
    return look.finish(fig, shown, style, notes=notes, stages=_STAGES)


def _notes(study: StudyData, limits: Ceilings, rows: pd.DataFrame, bulk: bool) -> list[str]:
    """Return the shape, the levels, and the ceilings that were not measured."""
    levels = [f"{label} ({BANDWIDTHS[level]})" for level, label in _LEVELS.items()]
    shapes, shares = base.shapes_text(kernels_of(study)), rows["of the roof (%)"]
    facts = {"shapes": shapes, "levels": levels, "absent": limits.absent, "bulk": bulk}
    notes = filled(__file__, "roofline", shares=shares, **facts).splitlines()
    return [*notes, *base.rate_notes(replace(study, cases=kernels_of(study)))]
