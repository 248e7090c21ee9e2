"""Roofline: every variant under measured ceilings, for the bytes of DRAM, of L2 and of L1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import offset_copy

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import GREY, INK, MARKERS, Style
from tilewave.theory import roofline
from tilewave.theory.traffic import MATH

OPTIONS: Mapping[str, str] = {
    "bandwidths": "{level: probe case} whose measured bandwidth is the slope at the levels dram, l2 "
    "and l1 (default: dram_copy, l2_read, shared_read)",
}
_STAGES = ("time", "counters")
_LEVELS: Mapping[str, str] = {
    "dram": "DRAM: bytes read and written",
    "l2": "L2: sectors that the SMs ask for, 32 B each",
    "l1": "L1 and shared: global sectors and shared wavefronts",
}
_BANDWIDTHS: Mapping[str, str] = {"dram": "dram_copy", "l2": "l2_read", "l1": "shared_read"}
_UNITS: Mapping[str, str] = {
    "fma": "FMA", "mma": "mma.sync", "mma_small": "mma.sync 8x8x4", "wgmma": "wgmma",
}  # fmt: skip
_SHORT: Mapping[str, str] = {
    "f64": "FP64", "f32": "FP32", "tf32": "TF32", "f16_f32": "FP16 (FP32 sum)",
    "f16_f16": "FP16 (FP16 sum)", "bf16_f32": "BF16", "i8": "INT8",
}  # fmt: skip
_NEAR = 0.03  # roofs this close share a line and a label
_LONG = 20  # characters of dtypes in a label that still fit beside the axes
_L2_SECTORS = "lts__t_sectors_srcunit_tex.sum"
_GLOBAL = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
_COPIES = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"


@dataclass(frozen=True)
class Peak:
    """A measured peak of arithmetic: TFLOP/s of one unit for one dtype."""

    dtype: str
    unit: str
    tflops: float

    @property
    def label(self) -> str:
        return f"{_SHORT.get(self.dtype, self.dtype)} {_UNITS.get(self.unit, self.unit)}"


@dataclass(frozen=True)
class Ceilings:
    """What the probes reached: level -> TB/s, and the peaks, highest first; what has no record."""

    bandwidths: Mapping[str, float]
    peaks: tuple[Peak, ...]
    absent: tuple[str, ...]


def _environment(study: StudyData) -> str:
    """The environment whose ceilings are drawn: the one that most of the products were timed in, or,
    where it has none, that of another card of the same kind. No ratio is formed with the latter."""
    timed = base.environment_of(study, "tflops", "time")
    products = set(_products(study)["case"])
    mine = pd.Series([one for case, one in timed.items() if case in products], dtype=object)
    roofs = [one for case, one in timed.items() if case not in products]
    roofs += base.environment_of(study, "bandwidth", "time").values()
    if mine.empty:
        return ""
    order = [str(one) for one in mine.value_counts(sort=True).index]
    for one in order:
        if one in roofs:
            return one
    kind = _kind(study, order[0])
    others = pd.Series([one for one in roofs if kind and _kind(study, one) == kind], dtype=object)
    return order[0] if others.empty else str(others.mode()[0])


def _kind(study: StudyData, environment: str) -> str:
    """The GPU's name, which all cards of a kind share."""
    return str(study.environments.get(environment, {}).get("gpu") or "")


def _products(study: StudyData) -> pd.DataFrame:
    return study.cases[study.cases["operation"] == "matmul"]


def _unit(row: Mapping[str, object]) -> str:
    """The unit that a probe keeps busy: its macro UNIT, else the last word of its kernel's name."""
    macros = base.macros_of({str(k): v for k, v in row.items()})
    return str(macros.get("UNIT") or str(row["kernel"]).rpartition("_")[2])


def ceilings(study: StudyData) -> Ceilings:
    """The probes' records of one environment; a probe that is not *correct* is no ceiling."""
    levels = {**_BANDWIDTHS, **dict(study.option("bandwidths", {}))}
    probes = study.cases[study.cases["operation"] == "probe"]
    here, may_rank = _environment(study), set(base.ranking(study))

    def usable(metric: str) -> dict[str, float]:
        where = base.environment_of(study, metric, "time")
        values = base.value_of(study, metric, "time")
        return {
            str(case): float(value)
            for case, value in values.items()
            if case in may_rank and (not here or where[str(case)] == here)
        }

    rates, widths = usable("tflops"), usable("bandwidth")
    found: dict[str, float] = {}
    peaks: list[Peak] = []
    absent: list[str] = []
    named = set(levels.values())
    wanted = set(_products(study)["dtype"])
    for row in probes.to_dict("records"):
        case, name = str(row["case"]), str(row["probe_case"])
        if case in widths:
            found |= {level: widths[case] for level, probe in levels.items() if probe == name}
        elif case in rates:
            if row["dtype"] in wanted:
                peaks.append(Peak(str(row["dtype"]), _unit(row), rates[case]))
        elif name in named or row["dtype"] in wanted:
            absent.append(f"{row['kernel']} {name}")
    absent += [probe for probe in levels.values() if probe not in set(probes["probe_case"])]
    peaks.sort(key=lambda one: -one.tflops)
    return Ceilings(found, tuple(peaks), tuple(absent))


def _bytes(study: StudyData) -> pd.DataFrame:
    """Bytes of each case at each level (NaN where a counter is missing), and whether some of those at
    L1 came as bulk copies, which are counted at L2 alone."""
    counters = [
        "dram_bytes", _L2_SECTORS, _GLOBAL.format("ld"), _GLOBAL.format("st"), "wavefronts_shared",
        "shared_wavefronts_load", "shared_wavefronts_store", _COPIES,
    ]  # fmt: skip
    counted = base.pivot(study, counters, "counters")
    pipe = counted["shared_wavefronts_load"] + counted["shared_wavefronts_store"]
    shared = counted["wavefronts_shared"].fillna(pipe + counted[_COPIES].fillna(0))
    sectors = counted[_GLOBAL.format("ld")] + counted[_GLOBAL.format("st")]
    frame = pd.DataFrame(index=counted.index)
    frame["dram"] = counted["dram_bytes"]
    frame["l2"] = counted[_L2_SECTORS].map(roofline.l2_bytes)
    frame["l1"] = [
        roofline.l1_bytes(*parts) for parts in zip(sectors, shared, frame["l2"], strict=True)
    ]
    frame["bulk"] = sectors.map(roofline.l2_bytes) < frame["l2"]
    return frame


def _same_environment(study: StudyData) -> set[str]:
    """Cases whose time and bytes were measured on one machine, the ceilings' own."""
    here = _environment(study)
    timed = base.environment_of(study, "tflops", "time")
    counted = base.environment_of(study, "dram_bytes", "counters")
    return {case for case, one in timed.items() if one == here == counted.get(case, here)}


def _peak_over(row: pd.Series[float], dtype: str, limits: Ceilings) -> Peak | None:
    """The arithmetic roof of a case: the lowest of its dtype that is no lower than its rate.

    A kernel that issued tensor operations has the tensor cores' roofs, another one the FMA units'.
    """
    of_dtype = [one for one in limits.peaks if one.dtype == dtype]
    if pd.notna(row["tensor"]):
        of_dtype = [one for one in of_dtype if (one.unit != "fma") == bool(row["tensor"] > 0)]
    over = [one for one in of_dtype if one.tflops >= row["tflops"]]
    return min(over, key=lambda one: one.tflops) if over else next(iter(of_dtype), None)


def _points(study: StudyData, limits: Ceilings) -> pd.DataFrame:
    """One row a product that may be drawn: rate, bytes and intensity at each level, its roof."""
    products = _products(study).set_index("case")
    frame = _bytes(study).reindex(products.index)
    frame["tflops"] = base.value_of(study, "tflops", "time").reindex(frame.index)
    frame["duration"] = base.value_of(study, "duration", "time").reindex(frame.index)
    frame["tensor"] = base.value_of(study, base.COUNTED_TENSOR_FLOPS, "counters").reindex(
        frame.index
    )
    operations = base.flops(study).reindex(frame.index)
    roofs: list[tuple[str, float, str]] = []
    for level in _LEVELS:
        frame[f"{level} intensity"] = operations / frame[level]
    for case, row in frame.iterrows():
        peak = _peak_over(row, str(products["dtype"][case]), limits)
        known = {
            level: float(row[f"{level} intensity"])
            for level in _LEVELS
            if pd.notna(row[f"{level} intensity"])
        }
        roof = roofline.lowest_roof(peak.tflops if peak else None, limits.bandwidths, known)
        if roof is None or not pd.notna(row["tflops"]):
            roofs.append(("", math.nan, ""))
        elif roof.bound == MATH and peak is not None:
            roofs.append((peak.label, roof.tflops, MATH))
        else:
            roofs.append((f"{roof.bound} bandwidth", roof.tflops, roof.bound))
    frame[["roof", "roof tflops", "bound"]] = pd.DataFrame(
        roofs, index=frame.index, columns=["roof", "roof tflops", "bound"]
    )
    # A point's two coordinates stand for themselves; its share of a roof is a ratio.
    frame["elsewhere"] = ~frame.index.isin(_same_environment(study))
    frame.loc[frame["elsewhere"], ["roof", "roof tflops", "bound"]] = ["", math.nan, ""]
    return frame


def table(study: StudyData) -> pd.DataFrame:
    """One row a case: of a product its bytes, intensity and rate at each level, its lowest roof, the
    share that it reaches and what bounds it; of a probe the ceiling that it measured."""
    limits = ceilings(study)
    points = _points(study, limits)
    columns: dict[str, pd.Series[float]] = {
        "TFLOP/s": base.value_of(study, "tflops", "time"),
        "bandwidth (TB/s)": base.value_of(study, "bandwidth", "time"),
    }
    for level in _LEVELS:
        columns[f"{level} bytes"] = points[level]
        columns[f"{level} intensity (FLOP/byte)"] = points[f"{level} intensity"]
        columns[f"{level} rate (TB/s)"] = points[level] / points["duration"] * 1e-6
    columns["lowest roof"] = points["roof"]
    columns["lowest roof (TFLOP/s)"] = points["roof tflops"]
    columns["of the roof (%)"] = 100 * points["tflops"] / points["roof tflops"]
    columns["bound by"] = points["bound"]
    frame = base.base_table(study)
    frame.insert(3, "probe case", study.cases.set_index("case")["probe_case"])
    return base.with_derived(base.with_columns(frame, columns), (limits, points))


# ------------------------------------------------------------------------------------------ figure


def _grouped(peaks: tuple[Peak, ...]) -> list[list[Peak]]:
    """Peaks of one unit that stand within a few percent of one another; the highest group first."""
    groups: list[list[Peak]] = []
    for peak in peaks:  # highest first
        near = [
            group
            for group in groups
            if group[0].unit == peak.unit and peak.tflops > group[0].tflops * (1 - _NEAR)
        ]
        if near:
            near[0].append(peak)
        else:
            groups.append([peak])
    return groups


def _group_label(group: list[Peak], narrow: bool) -> str:
    """Dtypes, unit and TFLOP/s (from the lowest to the highest) of the roofs that share a line."""
    names = [_SHORT.get(peak.dtype, peak.dtype) for peak in group]
    if {"FP16 (FP32 sum)", "FP16 (FP16 sum)"} <= set(names):
        names = ["FP16", *(name for name in names if not name.startswith("FP16"))]
    told = ", ".join(names)
    if narrow or len(told) > _LONG:
        told = told.replace(" sum)", ")")
    height = base.digits(group[0].tflops)
    if len(group) > 1 and base.digits(group[-1].tflops) != height:
        height = f"{base.digits(group[-1].tflops)}–{height}"
    unit = _UNITS.get(group[0].unit, group[0].unit)
    return f"{told} {unit.replace('mma.sync', 'mma') if narrow else unit}: {height}"


def _apart(heights: list[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least ``gap`` from one another, in the order of ``heights`` (descending), near them
    and, where there is room, from ``low`` to ``high``."""
    places: list[float] = []
    for height in heights:
        places.append(min(height, places[-1] - gap if places else high))
    if places and places[-1] < low:  # too low: push up again from the bottom
        places[-1] = low
        for i in range(len(places) - 2, -1, -1):
            places[i] = max(places[i], places[i + 1] + gap)
    return places


def _roofs(
    ax: Axes, limits: Ceilings, level: str, span: tuple[float, float], tall: float, style: Style
) -> None:
    """The slope of the level's bandwidth and a roof for each peak, labelled at the right edge."""
    left, right = span
    bandwidth = limits.bandwidths.get(level)
    top = max((peak.tflops for peak in limits.peaks), default=0.0)
    if bandwidth is not None:
        end = top / bandwidth if top else right
        ax.plot(
            [left, end], [left * bandwidth, end * bandwidth], color=INK, linewidth=1.0, zorder=2
        )
    groups = _grouped(limits.peaks)
    heights = [group[0].tflops for group in groups]
    for height in heights:
        start = left if bandwidth is None else max(left, height / bandwidth)
        ax.plot([start, right], [height, height], color=GREY, linewidth=0.7, zorder=1)
    low, high = (math.log10(limit) for limit in ax.get_ylim())
    gap = (high - low) * 1.32 * style.small / 72 * 25.4 / tall
    places = _apart([math.log10(height) for height in heights], gap, low + gap / 2, high)
    # The layout can only leave the right room for labels at a fixed distance from the axes.
    edge = ax.get_yaxis_transform()
    beside = offset_copy(edge, ax.get_figure(root=True), x=9, units="points")
    for group, height, place in zip(groups, heights, places, strict=True):
        ax.annotate(
            _group_label(group, style.narrow), (1.0, height), xycoords=edge,
            xytext=(1.0, 10**place), textcoords=beside,
            size=style.small, color=INK, va="center", ha="left", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 0,
                        "shrinkB": 0, "relpos": (0, 0.5)},
        )  # fmt: skip


def _title(level: str, limits: Ceilings, study: StudyData, style: Style) -> str:
    bandwidth = limits.bandwidths.get(level)
    rate = "no ceiling" if bandwidth is None else f"{base.digits(bandwidth)} TB/s"
    if style.narrow:
        return f"{_LEVELS[level].partition(':')[0]}: {rate}"
    probe = {**_BANDWIDTHS, **dict(study.option("bandwidths", {}))}[level]
    return f"{_LEVELS[level]} ({probe}: {rate})"


def _span(points: pd.DataFrame, limits: Ceilings) -> tuple[float, float]:
    """One range of intensities for all levels, so that a point's way from level to level shows."""
    values = [
        float(one)
        for level in _LEVELS
        for one in points[f"{level} intensity"]
        if pd.notna(one) and math.isfinite(one)
    ]
    top = max((peak.tflops for peak in limits.peaks), default=0.0)
    values += [top / bandwidth for bandwidth in limits.bandwidths.values() if top]
    return min(values) / 2, max(values) * 2


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A panel a level, one above the other on one axis of intensity."""
    with look.apply(style):
        limits: Ceilings
        points: pd.DataFrame
        limits, points = base.derived(table)
        seen = points[[f"{level} intensity" for level in _LEVELS]].notna().any(axis=1)
        points = points[points["tflops"].notna() & seen]
        if points.empty:
            return look.empty_figure(study, style, "roofline")
        tall = 46.0 if style.narrow else 54.0
        fig = look.new_figure(style, 3 * (tall + 8) + 8)
        axes = fig.subplots(len(_LEVELS), 1, sharex=True)
        points = points.join(table.set_index("case")[["kernel", "dtype", "verdict"]])
        kernels = list(dict.fromkeys(points["kernel"]))
        colors = look.kernel_colors(style, study.cases["kernel"].astype(str))
        dtypes = list(dict.fromkeys(points["dtype"]))
        markers = {dtype: MARKERS[i % len(MARKERS)] for i, dtype in enumerate(dtypes)}
        span = _span(points, limits)
        highest = max([*points["tflops"], *(peak.tflops for peak in limits.peaks)])
        for ax, level in zip(axes, _LEVELS, strict=True):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_xlim(*span)
            ax.set_ylim(float(points["tflops"].min()) / 2, highest * 2)
            for axis in (ax.xaxis, ax.yaxis):
                axis.set_major_locator(LogLocator(10))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
            _roofs(ax, limits, level, span, tall, style)
            for row in points.to_dict("records"):
                x = row[f"{level} intensity"]
                if not math.isfinite(x):
                    continue
                sure = "left" if row["elsewhere"] else "full"
                ax.plot(
                    [x], [row["tflops"]], markers[row["dtype"]], color=colors[row["kernel"]], zorder=3,
                    markersize=4.2, markerfacecoloralt="white",
                    fillstyle=sure if row["verdict"] == "correct" else "none",
                )  # fmt: skip
            ax.set_title(_title(level, limits, study, style))
            ax.set_ylabel("TFLOP/s")
            look.grid(ax)
        axes[-1].set_xlabel("arithmetic intensity: 2mnk over the bytes of the level (FLOP/byte)")
        if style.narrow:
            axes[-1].set_xlabel("2mnk over the level's bytes (FLOP/byte)")
        handles = [
            Line2D([], [], color=colors[name], marker="s", linestyle="", label=name)
            for name in kernels
        ]
        handles += [
            Line2D(
                [], [], color=GREY, marker=markers[dtype], linestyle="",
                label=_SHORT.get(dtype, dtype),
            )
            for dtype in dtypes
        ]  # fmt: skip
        if (points["verdict"] != "correct").any():
            handles.append(
                Line2D([], [], color=GREY, marker="o", fillstyle="none", linestyle="",
                       label="not ranked")
            )  # fmt: skip
        if points["elsewhere"].any():
            handles.append(
                Line2D([], [], color=GREY, marker="o", fillstyle="left", markerfacecoloralt="white",
                       linestyle="", label="another card than the roofs'")
            )  # fmt: skip
        notes = _notes(study, limits, points)
        labels = [str(one.get_label()) for one in handles]
        return look.finish(fig, study, style, handles, labels, notes, _STAGES)


def _notes(study: StudyData, limits: Ceilings, points: pd.DataFrame) -> list[str]:
    notes = [
        f"{base.common_shape(_products(study))}. Time of launches that find their inputs in no cache, "
        "bytes counted with caches flushed. Roofs are what the probes reached, with random operands; a "
        "variant's own roof of arithmetic is the lowest of its dtype and kind of unit (tensor cores or "
        "FMA) that it does not pass."
    ]
    bulk = [str(case).partition("@")[0] for case in points.index[points["bulk"]]]
    if bulk:
        notes.append(
            f"At L1 and shared, bulk copies (TMA) of {', '.join(bulk)} are taken from L2's count, which "
            "is the least they can be."
        )
    if limits.absent:
        notes.append(f"No ceiling was recorded for: {', '.join(limits.absent)}.")
    drawn = study.cases[study.cases["case"].isin(points.index)]
    return [*notes, *base.rate_notes(replace(study, cases=drawn))]
