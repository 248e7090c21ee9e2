"""Scaling: throughput against the size of a square product, one panel a dtype, and from where on it holds.

Also the comparison with which the lecture ends and whose cells it leaves empty: the time of the
CPU's triple loop, of the naive kernel and of the tiled kernel at N = 64 and N = 512.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator
from pydantic import BaseModel, ConfigDict, Field

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import names_beside, stacked
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.options import Count, PlotOptions, Word
from tilewave.plots.style import GREY, Style

READING = (
    "Up is speed, right the size N: black is cuBLAS, red the fastest own variant, grey the others. "
    "Where a line gets flat, the size no longer limits the variant; the dot is the first size with "
    "90 % of its highest speed."
)


class Lecture(BaseModel):
    """The variants and sizes of a lecture's table of times."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rows: dict[Word, Word] = Field(max_length=100)
    sizes: tuple[Count, ...] = Field(max_length=100)


LECTURE = Lecture(
    rows={
        "CPU, triple loop, one core": "matmul_cpu",
        "GPU, naive": "matmul_naive",
        "GPU, tiled": "matmul_tiled",
    },
    sizes=(64, 512),
)


class Options(PlotOptions):
    """What the studies of this plot may set."""

    log: bool = Field(False, description="draw TFLOP/s on a logarithmic axis")
    lecture: Lecture | Literal[False] = Field(
        LECTURE,
        description="table of times in ms: variants by the labels of its rows, and sizes N; `false` leaves it "
        "out",
    )


_STAGES = ("time",)
_SPEED, _LABEL, _REACHED = "TFLOP/s", "lecture", "% of its highest"
_ENOUGH = 90
"""Percent of its highest speed with which a variant counts as arrived."""
_COLORS: Mapping[str, str] = {"cuBLAS": "#000000", "fastest own": "#CC3311", "other": "#AAAAAA"}
_WIDTHS: Mapping[str, float] = {"cuBLAS": 1.2, "fastest own": 1.2, "other": 0.6}


def lecture_table(study: StudyData) -> pd.DataFrame:
    """Times in ms: a row for each device and kernel, a column for each size; text where none is.

    An empty frame where the option `lecture` is false or none of its variants is in the study.
    """
    wanted = Options.of(study).lecture
    if wanted is False or study.cases.empty:
        return pd.DataFrame()
    rows, sizes = wanted.rows, wanted.sizes
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


def of_highest(study: StudyData) -> pd.Series[float]:
    """Percent of the highest speed that the variant reached at any size, by case: of correct cases,
    among those measured in the same environment."""
    speed, ranking = base.speed(study), set(base.ranking(study))
    speed = speed[[case for case in speed.index if case in ranking]]
    variants = study.cases.set_index("case")["variant"].reindex(speed.index)
    places = pd.Series(base.environment_of(study, "tflops", "time"), dtype=object)
    highest = speed.groupby([variants, places.reindex(speed.index)]).transform("max")
    return 100 * speed / highest


def table(study: StudyData) -> pd.DataFrame:
    """One row a case, then the lecture's rows (column `lecture` names them)."""
    frame = base.with_columns(
        base.base_table(study),
        {
            _SPEED: base.speed(study),
            _REACHED: of_highest(study),
            "% of cuBLAS": base.value_of(study, "percent_of_cublas", "time"),
            "duration (ms)": base.value_of(study, "duration", "time") / 1e3,
            "empty kernel (us)": base.value_of(study, "empty_kernel", "time"),
        },
    )
    lecture = lecture_table(study)
    if lecture.empty:
        return frame
    return pd.concat([frame, lecture.rename_axis(_LABEL).reset_index()], ignore_index=True)


def _parts(study: StudyData, table: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The table's cases that GPUs ran, each variant's from small to large, and those of CPUs."""
    cases = table[table[_LABEL].isna()] if _LABEL in table else table
    cases = cases.sort_values("n", kind="stable")
    by_cpu = study.cases.loc[study.cases.get("provider", study.cases["case"]) == "cpu", "case"]
    mine = cases["case"].isin(by_cpu)
    return cases[~mine], cases[mine]


def _arrivals(cases: pd.DataFrame) -> pd.DataFrame:
    """The rows at which the variants first reach _ENOUGH percent of their highest speed."""
    return cases[cases[_REACHED] >= _ENOUGH].drop_duplicates("variant")


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """How many of the GPU's variants arrive at which size, and where cuBLAS does."""
    cases, _ = _parts(study, table)
    found = _arrivals(cases)
    vendor = found.loc[found["kernel"] == BASELINE, "n"].astype(int)
    own = found.loc[found["kernel"] != BASELINE, "n"].astype(int).value_counts().sort_index()
    if own.empty:
        return ""
    told = ", ".join(f"{count} at N = {n}" for n, count in own.items())
    ends = " to ".join(f"{n}" for n in sorted({vendor.min(), vendor.max()})) if len(vendor) else ""
    return f"Variants reach {_ENOUGH} % of their highest speed: {told}" + (
        f"; cuBLAS at {ends}" if ends else ""
    )


def _panel(ax: Axes, cases: pd.DataFrame, dtype: str, tall: float, style: Style) -> None:
    """A dtype's variants as lines, a dot where each arrives, its name with its highest speed beside."""
    good = cases[(cases["verdict"] == "correct") & cases[_SPEED].notna()]
    best = good[good["kernel"] != BASELINE].nlargest(1, _SPEED)["variant"]
    role = pd.Series("other", good.index).mask(good["variant"].isin(best), "fastest own")
    role = role.mask(good["kernel"] == BASELINE, "cuBLAS")
    # A line ends where a size has no value, and begins anew behind it.
    gaps = (~cases.index.isin(good.index)).astype(int)
    run = pd.Series(gaps, cases.index).groupby(cases["variant"]).cumsum().reindex(good.index)
    lines = good.assign(
        role=role, line=good["variant"] + run.astype(str), n=good["n"].astype(float)
    )
    sns.lineplot(
        lines, x="n", y=_SPEED, hue="role", size="role", units="line", estimator=None, ax=ax,
        palette=_COLORS, sizes=_WIDTHS, size_order=list(_WIDTHS), legend=False,
    )  # fmt: skip
    arrived = _arrivals(lines)
    sns.scatterplot(
        arrived, x="n", y=_SPEED, hue="role", palette=_COLORS, s=12, linewidth=0, legend=False,
        ax=ax, zorder=3,
    )  # fmt: skip
    bad = cases[(cases["verdict"] != "correct") & cases[_SPEED].notna()]
    ax.plot(bad["n"], bad[_SPEED], "x", color=GREY, markersize=4)
    at = arrived.set_index("variant")["n"]
    highest = good.groupby("variant")[_SPEED].max()
    ends = []
    for row in lines.drop_duplicates("variant", keep="last").to_dict("records"):
        variant = row["variant"]
        name = base.variant_label(row, dtype).replace("\n", " ")
        ends.append(
            (row["n"], row[_SPEED], f"{name} {base.digits(highest[variant])} at {at[variant]:.0f}",
             row["kernel"] == BASELINE)
        )  # fmt: skip
    names_beside(ax, ends, tall, style, all_of_them=not style.narrow)
    ax.set_title(f"{base.dtype_short(dtype)}, TFLOP/s")
    ax.set(xlabel="", ylabel="")
    look.grid(ax)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """One panel a dtype, a line a variant, cuBLAS in black."""
    with look.apply(style):
        cases, by_cpu = _parts(study, table)
        cases = cases[cases.groupby("dtype")[_SPEED].transform("count") > 0]
        if cases.empty:
            return look.empty_figure(study, style, "throughput")
        wanted = [dtype for dtype in base.dtypes_in_order(study) if dtype in set(cases["dtype"])]
        parts = {dtype: cases[cases["dtype"] == dtype] for dtype in wanted}
        least, most = (10.0, 17.0) if style.narrow else (16.0, math.inf)
        heights = {
            dtype: min(most, max(least, 3.0 * part["variant"].nunique()))
            for dtype, part in parts.items()
        }
        fig, columns = stacked(style, heights, [1.0])
        sizes = cases["n"].astype(float)
        for column in columns:
            for dtype, (ax,) in column.items():
                if Options.of(study).log:
                    ax.set_yscale("log")
                    ax.yaxis.set_minor_locator(NullLocator())
                ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
                look.powers_of_two(ax, sizes, 3)
                ax.set_xlim(sizes.min() / 1.3, sizes.max() * 1.2)
                speeds = parts[dtype][_SPEED].dropna()
                low = speeds.min() / 1.5 if ax.get_yscale() == "log" else 0.0
                ax.set_ylim(low, speeds.max() * 1.08)
                _panel(ax, parts[dtype], dtype, heights[dtype], style)
                ax.tick_params(labelbottom=dtype == list(column)[-1])
            ax.set_xlabel("N (m = n = k)")
        handles, labels = _legend(cases)
        notes = _notes(study, table, cases, by_cpu, style)
        return look.finish(fig, study, style, handles, labels, notes, _STAGES)


def _legend(cases: pd.DataFrame) -> tuple[list[Artist], list[str]]:
    handles: list[Artist] = [
        Line2D([], [], color=_COLORS[role], linewidth=_WIDTHS[role]) for role in _COLORS
    ]
    handles.append(Line2D([], [], color=_COLORS["fastest own"], marker="o", linestyle=""))
    labels = [*_COLORS, f"first size with {_ENOUGH} % of the highest speed"]
    if (cases[_SPEED].notna() & (cases["verdict"] != "correct")).any():
        handles.append(Line2D([], [], color=GREY, marker="x", linestyle=""))
        labels.append("not correct, not ranked")
    return handles, labels


def _notes(
    study: StudyData, table: pd.DataFrame, cases: pd.DataFrame, by_cpu: pd.DataFrame, style: Style
) -> list[str]:
    """How to read names, what may not have reached its plateau, the CPU's speeds, the lecture's table."""
    notes = [
        f"Beside a name: its highest speed and the first size with {_ENOUGH} % of it. Speeds are told at one clock: "
        "a variant's share of the cuBLAS timed in turn with it, times cuBLAS' median speed at that size."
    ]
    if style.narrow:
        notes[0] += " Where names crowd, the table has the rest."
    last = cases[(cases[_REACHED] == 100) & (cases["n"] == cases["n"].max())]
    if len(last):
        notes.append(
            f"{len(last)} of {cases['variant'].nunique()} are fastest at the largest size and may not "
            "have arrived."
        )
    speeds = by_cpu[by_cpu["verdict"] == "correct"].groupby("variant", sort=False)[_SPEED].max()
    if speeds.notna().any():
        told = [f"{name} {base.digits(speed)}" for name, speed in speeds.dropna().items()]
        notes.append(f"On the CPU, TFLOP/s: {', '.join(told)}.")
    if _LABEL in table:
        rows = table[table[_LABEL].notna()]
        columns = [name for name in rows if str(name).endswith("(ms)") and rows[name].notna().all()]
        times = "; ".join(f"{row[_LABEL]} {', '.join(row[columns])}" for _, row in rows.iterrows())
        sizes = ", ".join(str(name).removesuffix(" (ms)") for name in columns)
        notes.append(f"Time of an FP32 product of {sizes} in ms: {times}.")
    return notes + base.rate_notes(study)
