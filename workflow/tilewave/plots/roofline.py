"""Roofline: the main rungs under measured ceilings, by the bytes of DRAM, of L2 and of L1.

A kernel without arithmetic has no place over FLOP/byte: the table has its bytes and rates, no roof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tilewave.plots import _ceilings, base
from tilewave.plots import style as look
from tilewave.plots._ceilings import BANDWIDTHS, Ceilings, Peak, kernels_of
from tilewave.plots._panels import names_beside, stacked, titled
from tilewave.plots._rungs import Runged, drawn
from tilewave.plots.base import StudyData
from tilewave.plots.style import GREY, Style
from tilewave.records.counters.catalogue import COPY_WAVEFRONTS, GLOBAL_ACCESSES, L2_SECTORS
from tilewave.theory import opcodes, roofline
from tilewave.theory.traffic import MATH

HEADLINE = True
READING = (
    "Up is speed, right are the FLOPs for a byte of one level of the memory, both logarithmic. A variant has a point "
    "for each level. A sloping line is the bandwidth of the level with its colour, a horizontal one a rate of "
    "arithmetic. The lower of the two is the roof over a point; the distance to it is the possible gain."
)


Options = Runged


_STAGES = ("time", "counters")
_LEVELS: Mapping[str, str] = {
    "dram": "DRAM, bytes read and written",
    "l2": "L2, sectors requested by the SMs",
    "l1": "L1, global sectors and shared wavefronts",
}
_NAMES: Mapping[str, str] = {"dram": "DRAM", "l2": "L2", "l1": "L1"}
_COLORS: Mapping[str, str] = {"dram": "#332288", "l2": "#CC6677", "l1": "#6CB4D8"}
_MARKERS: Mapping[str, str] = {"dram": "o", "l2": "s", "l1": "^"}
_DASHES: Mapping[str, Any] = {"dram": "-", "l2": (0, (4, 1.5)), "l1": (0, (1, 1))}
_NO_ROOF = ("", math.nan, "", math.nan)
_NEAR = 0.03  # roofs this close share a line and a label
_LOADED, _STORED = (GLOBAL_ACCESSES.format("sectors", op) for op in ("ld", "st"))


def _bytes(study: StudyData) -> pd.DataFrame:
    """Return bytes of each case at each level (NaN without a counter), and whether some at L1 came as bulk copies.
    Bulk copies are counted at L2 alone."""
    counters = [
        "dram_bytes", L2_SECTORS, _LOADED, _STORED, "wavefronts_shared",
        "shared_wavefronts_load", "shared_wavefronts_store", COPY_WAVEFRONTS,
    ]  # fmt: skip
    counted = base.pivot(study, counters, "counters")
    pipe = counted["shared_wavefronts_load"] + counted["shared_wavefronts_store"]
    shared = counted["wavefronts_shared"].fillna(pipe + counted[COPY_WAVEFRONTS].fillna(0))
    sectors = counted[_LOADED] + counted[_STORED]
    frame = pd.DataFrame(index=counted.index)
    frame["dram"] = counted["dram_bytes"]
    frame["l2"] = counted[L2_SECTORS].map(roofline.l2_bytes)
    frame["l1"] = [
        roofline.l1_bytes(*parts) for parts in zip(sectors, shared, frame["l2"], strict=True)
    ]
    frame["bulk"] = sectors.map(roofline.l2_bytes) < frame["l2"]
    return frame


def _same_environment(study: StudyData) -> set[str]:
    """Return the cases with time and bytes from the environment of the ceilings."""
    here = _ceilings.environment_here(study)
    timed = base.environment_of(study, "duration", "time")
    counted = base.environment_of(study, "dram_bytes", "counters")
    return {case for case, name in timed.items() if name == here == counted.get(case, here)}


def _peak_over(row: pd.Series[float], dtype: str, limits: Ceilings) -> Peak | None:
    """Return the arithmetic roof of a case: the lowest of its dtype that is no lower than its rate.

    A kernel that issued tensor operations has the tensor cores' roofs, another one the FMA units'. Where its
    instructions were counted, it has the roofs of its own instruction (mma.sync or wgmma).
    """
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
    kinds = {opcode: opcodes.unit(str(opcode)) for opcode in executed["opcode"].unique()}
    return {
        str(case): kind[0].split()[0]
        for case, opcode in zip(executed["case"], executed["opcode"], strict=True)
        if (kind := kinds[opcode])
    }


def _points(study: StudyData, limits: Ceilings) -> pd.DataFrame:
    """Return one row a kernel that may be drawn: rate, bytes, intensity and TB/s at each level, its roof.
    The share of the roof is in %. A kernel without FLOPs has neither intensity nor roof."""
    kernels = kernels_of(study).set_index("case")
    frame = _bytes(study).reindex(kernels.index)
    measured, speed = base.value_of(study, "tflops", "time"), base.speed(study)
    frame["tflops"] = speed
    duration = base.value_of(study, "duration", "time")
    frame["duration"] = duration * (measured / speed).reindex(duration.index).fillna(1)
    frame["tensor"] = base.value_of(study, base.COUNTED_TENSOR_FLOPS, "counters")
    frame["unit"] = frame.index.map(_units(study))
    operations = base.flops(study).reindex(frame.index)
    for level in _LEVELS:
        frame[f"{level} intensity"] = operations.where(operations > 0) / frame[level]
        frame[f"{level} rate"] = frame[level] / frame["duration"] * 1e-6
    roofs = [_roof(row, str(kernels["dtype"][case]), limits) for case, row in frame.iterrows()]
    columns = ["roof", "roof tflops", "bound", "reached"]
    frame[columns] = pd.DataFrame(roofs, index=frame.index, columns=columns)
    # A point's coordinates need no common environment; its share of a roof is a ratio, and does.
    frame["elsewhere"] = ~frame.index.isin(_same_environment(study))
    frame.loc[frame["elsewhere"], columns] = _NO_ROOF
    return frame


def _roof(row: pd.Series[Any], dtype: str, limits: Ceilings) -> tuple[str, float, str, float]:
    """Return the lowest roof over a kernel, its height (TFLOP/s), its kind and the share reached (%)."""
    peak = _peak_over(row, dtype, limits)
    # Without a measured peak of these tensor cores no other roof applies.
    if peak is None and row["tensor"] > 0:
        return _NO_ROOF
    top = peak.tflops if peak else None
    intensities = {level: float(row[f"{level} intensity"]) for level in _LEVELS}
    measured = {level: value for level, value in intensities.items() if not math.isnan(value)}
    roof = roofline.lowest_roof(top, limits.bandwidths, measured)
    if roof is None or not pd.notna(row["tflops"]):
        return _NO_ROOF
    by_math = roof.bound == MATH and peak is not None
    name = peak.label if by_math and peak else f"{roof.bound} bandwidth"
    return name, roof.tflops, roof.bound, 100 * row["tflops"] / roof.tflops


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case: of a kernel its bytes, intensities, rates and lowest roof; of a probe its ceiling."""
    limits = _ceilings.ceilings(study)
    points = _points(study, limits)
    columns: dict[str, pd.Series[float]] = {
        "TFLOP/s": base.speed(study),
        "bandwidth (TB/s)": base.value_of(study, "bandwidth", "time"),
    }
    for level in _LEVELS:
        columns[f"{level} bytes"] = points[level]
        columns[f"{level} intensity (FLOP/byte)"] = points[f"{level} intensity"]
        columns[f"{level} rate (TB/s)"] = points[f"{level} rate"]
    columns["lowest roof"] = points["roof"]
    columns["lowest roof (TFLOP/s)"] = points["roof tflops"]
    columns["of the roof (%)"] = points["reached"]
    columns["bound by"] = points["bound"]
    frame = base.base_table(study)
    frame.insert(3, "probe case", study.cases.set_index("case")["probe_case"])
    return base.with_derived(base.with_columns(frame, columns), (limits, points))


# ------------------------------------------------------------------------------------------ figure


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the least share of its lowest roof that the fastest kernel of a dtype reaches, without cuBLAS."""
    kernels = table[~table["kernel"].isin(base.vendors(study)) & (table["verdict"] == "correct")]
    kernels = kernels[kernels["of the roof (%)"].notna()].sort_values("TFLOP/s", ascending=False)
    best = kernels.drop_duplicates("dtype")["of the roof (%)"]
    if best.empty:
        return ""
    return (
        f"The fastest kernel of each dtype reaches at least {best.min():.0f} % of its lowest roof"
    )


def _reached(row: Mapping[str, Any]) -> str:
    """Return the share and name of a kernel's roof: `73 % wgmma`; "" without a roof."""
    if not base.present(row["of the roof (%)"]):
        return ""
    unit = str(row["lowest roof"]).removeprefix(f"{base.dtype_short(row['dtype'])} ")
    roof = _NAMES.get(row["bound by"], unit.replace("mma.sync", "mma"))
    return f"{row['of the roof (%)']:.0f} % {roof}"


def _grouped(peaks: Iterable[Peak]) -> list[tuple[float, str]]:
    """Return height (TFLOP/s) and units of a dtype's roofs, the highest first; near ones share a line."""
    groups: list[list[Peak]] = []
    for peak in peaks:  # highest first
        if groups and peak.tflops > groups[-1][0].tflops * (1 - _NEAR):
            groups[-1].append(peak)
        else:
            groups.append([peak])
    names = [[_ceilings.UNITS.get(peak.unit, peak.unit) for peak in group] for group in groups]
    return [(group[0].tflops, ", ".join(units)) for group, units in zip(groups, names, strict=True)]


def _roofs(ax: Axes, limits: Ceilings, dtype: str, style: Style) -> None:
    """Draw the slope of each level's bandwidth up to the dtype's highest roof, and its roofs.
    The title names the roofs from the highest on."""
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    roofs = _grouped(limits.of(dtype))
    top = max((height for height, _ in roofs), default=high)
    for level, bandwidth in limits.bandwidths.items():
        end = top / bandwidth
        ax.plot(
            [left, end], [left * bandwidth, top], color=_COLORS[level], linewidth=0.9,
            linestyle=_DASHES[level], zorder=1,
        )  # fmt: skip
    roofs = [(height, units) for height, units in roofs if height > low]
    ax.hlines([height for height, _ in roofs], left, right, color=GREY, linewidth=0.7, zorder=1)
    text = ", ".join(f"{units} {base.digits(height)}" for height, units in roofs)
    text += "" if style.narrow or not text else " TFLOP/s"
    text = text.replace("mma.sync", "mma") or "no roof of arithmetic"
    titled(ax, base.dtype_short(dtype), text, style)


def _marks(ax: Axes, points: pd.DataFrame) -> pd.Series[float]:
    """Draw a mark for each level at its intensity, and return the rightmost by case."""
    names = {f"{level} intensity": level for level in _LEVELS}
    kept = points.drop(columns=list(_LEVELS)).reset_index(names="case").rename(columns=names)
    long = kept.melt(["case", "tflops", "ranks"], list(_LEVELS), "level", "intensity")
    long = long[long["intensity"].map(math.isfinite)]
    spans = long.groupby("tflops")["intensity"].agg(["min", "max"])
    ax.hlines(spans.index, spans["min"], spans["max"], color="#DDDDDD", linewidth=0.6, zorder=1)
    sns.scatterplot(
        long[long["ranks"]], x="intensity", y="tflops", hue="level", style="level",
        hue_order=list(_LEVELS), style_order=list(_LEVELS), palette=_COLORS, markers=_MARKERS,
        s=14, linewidth=0, legend=False, ax=ax, zorder=3,
    )  # fmt: skip
    bad = long[~long["ranks"]]
    ax.plot(bad["intensity"], bad["tflops"], "x", color=GREY, markersize=3.5)
    return long.groupby("case")["intensity"].max()


def _panel(
    ax: Axes, points: pd.DataFrame, dtype: str, limits: Ceilings, tall: float, style: Style
) -> None:
    """Draw a dtype's kernels at each level under its roofs, each named at its point."""
    peaks = [peak.tflops for peak in limits.of(dtype)]
    speeds = points["tflops"]
    ax.set_ylim(speeds.min() / 1.6, 1.7 * max([*speeds, *peaks]))
    look.decades(ax.yaxis, (0.3 * speeds.min(), speeds.max()))
    last = _marks(ax, points)
    _roofs(ax, limits, dtype, style)
    ends = [
        (float(last[case]), float(row["tflops"]), _name(row), bool(row["vendor"]))
        for case, row in zip(points.index, points.to_dict("records"), strict=True)
        if case in last
    ]
    names_beside(ax, ends, tall, style)
    ax.set(xlabel="", ylabel="")
    look.grid(ax)


def _name(row: Mapping[str, Any]) -> str:
    text = base.variant_label(row, str(row["dtype"])).replace("\n", " ")
    text += f" {row['shape']}" if row["shape"] else ""
    if row["verdict"] != "correct":
        return f"{text} ({row['verdict']})"
    return f"{text} (another card)" if row["elsewhere"] else f"{text} {_reached(row)}".strip()


def _span(points: pd.DataFrame) -> tuple[float, float]:
    """Return one range of intensities for all panels."""
    intensities = points[[f"{level} intensity" for level in _LEVELS]].to_numpy(float).ravel()
    values = [float(value) for value in intensities if math.isfinite(value)]
    return min(values) / 2, max(values) * 2


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a panel a dtype: cuBLAS and the main rungs at each level of the memory, under the dtype's roofs."""
    with look.apply(style):
        limits: Ceilings
        points: pd.DataFrame
        limits, points = base.derived(table)
        rows = table.set_index("case").reindex(points.index)
        rows = rows[drawn(study, rows)]
        seen = points[[f"{level} intensity" for level in _LEVELS]].notna().any(axis=1)
        points = points[points["tflops"].notna() & seen].filter(rows.index, axis=0)
        if points.empty:
            return look.empty_figure(study, style, "roofline")
        names = ["kernel", "variant", "dtype", "verdict"]
        points = points.join(rows[[*names, "lowest roof", "of the roof (%)", "bound by"]])
        points["ranks"] = points["verdict"] == "correct"
        points["vendor"] = points["kernel"].isin(base.vendors(study))
        points["shape"] = points.index.map(base.uncommon_shapes(kernels_of(study)))
        parts = dict(iter(points.groupby("dtype", sort=False)))
        heights = {dtype: max(14.0, 3.0 * len(part)) for dtype, part in parts.items()}
        fig, columns = stacked(style, heights)
        for column in columns:
            for dtype, ax in column.items():
                ax.set(xscale="log", yscale="log", xlim=_span(points))
                look.decades(ax.xaxis, ax.get_xlim())
                _panel(ax, parts[dtype], dtype, limits, heights[dtype], style)
                ax.tick_params(labelbottom=dtype == list(column)[-1])
            ax.set_xlabel("FLOP/byte")
        handles = [
            Line2D([], [], color=_COLORS[level], marker=_MARKERS[level], linestyle=_DASHES[level],
                   markersize=3.4, markeredgewidth=0, label=_NAMES[level])
            for level in _LEVELS
        ]  # fmt: skip
        if not points["ranks"].all():
            handles.append(Line2D([], [], color=GREY, marker="x", linestyle="", label="not ranked"))
        drawn_cases = study.cases["case"].isin(rows.index) | (study.cases["operation"] == "probe")
        shown = replace(study, cases=study.cases[drawn_cases])
        return look.finish(fig, shown, style, handles, _notes(shown, limits, points), _STAGES)


def _notes(study: StudyData, limits: Ceilings, points: pd.DataFrame) -> list[str]:
    """Return the slopes, the meaning of the shares beside names, and the ceilings that were not measured."""
    slopes = [
        f"{label} ({BANDWIDTHS[level]}: {base.digits(limits.bandwidths[level])} TB/s)"
        for level, label in _LEVELS.items()
        if level in limits.bandwidths
    ]
    notes = [
        f"{base.shapes_text(kernels_of(study))}. Slopes: {'; '.join(slopes) or 'no ceiling'}. Beside a name: how much of "
        "its lowest roof it reaches; of arithmetic's, that of its instruction."
    ]
    if (points["of the roof (%)"] > 100).any():
        notes.append("More than 100 %: faster than the probe that the roof was measured with.")
    if points["bulk"].any():
        notes.append(
            "At L1, bulk copies (TMA) are taken from L2's count, which is the least they can be."
        )
    if limits.absent:
        notes.append(f"No ceiling was recorded for: {', '.join(limits.absent)}.")
    of_points = study.cases[study.cases["case"].isin(points.index)]
    return [*notes, *base.rate_notes(replace(study, cases=of_points))]
