"""Scaling: throughput against the size of a square product, one panel a dtype.

Also the comparison with which the lecture ends and whose cells it leaves empty: the time of the
CPU's triple loop, of the naive kernel and of the tiled kernel at N = 64 and N = 512.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GREY, INK, MARKERS, Style

OPTIONS: Mapping[str, str] = {
    "log": "false draws TFLOP/s on a linear axis (default: true)",
    "lecture": "{rows: {label: variant}, sizes: [N, ...]} of the table of times in ms "
    "(default: CPU, naive and tiled at 64 and 512); false leaves it out",
}
_STAGES = ("time",)
_SPEED, _LABEL = "TFLOP/s", "lecture"
_LECTURE: Mapping[str, Any] = {
    "rows": {
        "CPU, triple loop, one core": "matmul_cpu",
        "GPU, naive": "matmul_naive",
        "GPU, tiled": "matmul_tiled",
    },
    "sizes": [64, 512],
}


def lecture_table(study: StudyData) -> pd.DataFrame:
    """Times in ms: a row for each device and kernel, a column for each size; text where none is.

    An empty frame where the option `lecture` is false or none of its variants is in the study.
    """
    wanted = study.option("lecture", _LECTURE)
    if wanted is False or study.cases.empty:
        return pd.DataFrame()
    rows, sizes = dict(wanted.get("rows", {})), list(wanted.get("sizes", []))
    duration = base.value_of(study, "duration", "time")
    verdicts, states = base.verdicts(study), base.statuses(study, ("check", "time"))
    filled: dict[str, list[str]] = {}
    for label, variant in rows.items():
        cells = []
        for size in sizes:
            found = study.cases[
                (study.cases["variant"] == variant)
                & (study.cases[["m", "n", "k"]] == size).all(axis=1)
            ]
            if found.empty:
                cells.append("not in the study")
                continue
            case = str(found.iloc[0]["case"])
            if case not in duration.index:
                state = states[case].status
                cells.append(state if state != "ok" else "not timed")
            elif verdicts[case] != "correct":
                cells.append(verdicts[case])
            else:
                cells.append(base.digits(float(duration[case]) / 1e3))
        filled[label] = cells
    if all(cell == "not in the study" for cells in filled.values() for cell in cells):
        return pd.DataFrame()
    return pd.DataFrame.from_dict(filled, orient="index", columns=[f"{s}×{s} (ms)" for s in sizes])


def table(study: StudyData) -> pd.DataFrame:
    """One row a case, then the lecture's rows (column `lecture` names them)."""
    frame = base.with_columns(
        base.base_table(study),
        {
            _SPEED: base.value_of(study, "tflops", "time"),
            "% of cuBLAS": base.value_of(study, "percent_of_cublas", "time"),
            "duration (ms)": base.value_of(study, "duration", "time") / 1e3,
            "empty kernel (us)": base.value_of(study, "empty_kernel", "time"),
        },
    )
    lecture = lecture_table(study)
    if lecture.empty:
        return frame
    return pd.concat([frame, lecture.rename_axis(_LABEL).reset_index()], ignore_index=True)


def _parts(table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table's cases, and the lecture's table by label; empty where there is none."""
    if _LABEL not in table:
        return table, pd.DataFrame()
    first = table.columns.get_loc(_LABEL)
    told = table[_LABEL].notna()
    return table[~told], table[told].iloc[:, first:].set_index(_LABEL)


def _lines(ax: Axes, cases: pd.DataFrame, looks: dict[str, tuple[str, str, Any]]) -> None:
    for variant, group in cases.groupby("variant", sort=False):
        color, marker, dash = looks[str(variant)]
        points = group.sort_values("n")
        ranks = points["verdict"] == "correct"
        good = points[ranks]
        if good[_SPEED].notna().any():
            # Sizes without a value stay in the line's data, so that it breaks there.
            ax.plot(
                good["n"].astype(float), good[_SPEED].astype(float), color=color, marker=marker,
                linestyle=dash, markeredgewidth=0, markeredgecolor="w",
                zorder=3 if group["kernel"].iloc[0] == BASELINE else 2,
            )  # fmt: skip
        bad = points[~ranks & points[_SPEED].notna()]
        ax.plot(bad["n"], bad[_SPEED], "x", color=GREY, markersize=4)


def _looks(study: StudyData, style: Style) -> dict[str, tuple[str, str, Any]]:
    """Colour by kernel; marker and dash by the variant's place among those of its kernel."""
    colors = look.kernel_colors(style, study.cases["kernel"].astype(str))
    ordered = sorted(k for k in colors if k != BASELINE)
    dashes: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)))
    looks: dict[str, tuple[str, str, Any]] = {}
    for kernel, group in study.cases.groupby("kernel", sort=True):
        marker = "." if kernel == BASELINE else MARKERS[ordered.index(str(kernel)) % len(MARKERS)]
        by_dtype: dict[str, int] = {}
        for variant, dtype in group[["variant", "dtype"]].drop_duplicates().itertuples(index=False):
            # A variant of another dtype stands in another panel: it may look the same.
            place = by_dtype.get(str(dtype), 0)
            by_dtype[str(dtype)] = place + 1
            looks[str(variant)] = (colors[str(kernel)], marker, dashes[place % len(dashes)])
    return looks


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """One panel a dtype, a line a variant, cuBLAS in black; the lecture's table as the last panel."""
    with look.apply(style):
        dtypes = base.dtypes_in_order(study)
        cases, lecture = _parts(table)
        if not dtypes or cases[_SPEED].isna().all():
            return look.empty_figure(study, style, "throughput")
        panels = len(dtypes)
        columns = 1 if style.narrow else min(2, panels)
        rows = -(-panels // columns)
        heights = [48.0 if style.narrow else 56.0] * rows + (
            [(len(lecture) + 1.8) * style.line * 33] if len(lecture) else []
        )
        fig = look.new_figure(style, sum(heights))
        grid = fig.add_gridspec(len(heights), columns, height_ratios=heights)
        looks = _looks(study, style)
        sizes = study.cases["n"].astype(float)
        for place, dtype in enumerate(dtypes):
            ax = fig.add_subplot(grid[place // columns, place % columns])
            _lines(ax, cases[cases["dtype"].astype(str) == dtype], looks)
            if study.option("log", True):
                ax.set_yscale("log")
                ax.yaxis.set_minor_locator(NullLocator())
                ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
            look.powers_of_two(ax, sizes, 8)
            ax.set_xlim(sizes.min() / 1.3, sizes.max() * 1.3)
            ax.set_title(base.dtype_label(dtype))
            ax.set_xlabel("N (m = n = k)" if place + columns >= panels else "")
            ax.set_ylabel("TFLOP/s" if place % columns == 0 else "")
            look.grid(ax)
        if len(lecture):
            _draw_lecture(fig.add_subplot(grid[rows, :]), lecture, style)
        handles, labels = _legend_entries(study, cases, looks)
        return look.finish(fig, study, style, handles, labels, base.rate_notes(study), _STAGES)


def _legend_entries(
    study: StudyData, cases: pd.DataFrame, looks: dict[str, tuple[str, str, Any]]
) -> tuple[list[Artist], list[str]]:
    entries: dict[tuple[str, Any], tuple[Artist, str]] = {}
    for row in study.cases.drop_duplicates("variant").to_dict("records"):
        color, marker, dash = looks[str(row["variant"])]
        label = base.variant_label(row, str(row["dtype"])).replace("\n", " ")
        line = Line2D([], [], color=color, marker=marker, linestyle=dash, markeredgewidth=0)
        entries.setdefault((str(row["kernel"]), dash), (line, label))
    handles = [handle for handle, _ in entries.values()]
    labels = [label for _, label in entries.values()]
    if (cases[_SPEED].notna() & (cases["verdict"] != "correct")).any():
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle=""))
        labels.append("not correct, not ranked")
    return handles, labels


def _draw_lecture(ax: Axes, lecture: pd.DataFrame, style: Style) -> None:
    """The table as text: a line a row."""
    ax.set_axis_off()
    ax.set_xlim(0, 1)
    ax.set_ylim(len(lecture) + 0.9, -0.6)
    ax.set_title("Time of one product, FP32")
    first = 0.46 if style.narrow else 0.3
    step = (1.0 - first) / max(2, len(lecture.columns)) if style.narrow else 0.16
    stops = [first + step * (i + 1) for i in range(len(lecture.columns))]
    for x, name in zip(stops, lecture.columns, strict=True):
        ax.text(x, 0, str(name), ha="right", va="center", size=style.small, weight="bold")
    for y, (label, cells) in enumerate(lecture.iterrows(), 1):
        ax.axhline(y - 0.5, color="#DDDDDD", linewidth=0.5, xmax=stops[-1])
        ax.text(0, y, str(label), ha="left", va="center", size=style.small)
        for x, cell in zip(stops, cells, strict=True):
            plain = str(cell)[:1].isdigit()
            ax.text(
                x, y, str(cell), ha="right", va="center", size=style.small,
                color=INK if plain else GREY,
            )  # fmt: skip
