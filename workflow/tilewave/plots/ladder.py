"""Ladder: each rung's share of cuBLAS and its speed at each size, one row of panels a dtype.

Rungs stand in the order of `follows`. Shares are medians of neighbouring blocks timed in turn with cuBLAS
(`pipeline.tables.paired_shares`). The table also has the counted FLOPs over 2 m n k, which separate padding
from slowness. It ends with the times of a lecture's comparison (option `lecture`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from pydantic import BaseModel, ConfigDict, Field

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import heatmap
from tilewave.plots._rungs import Runged, drawn, in_order
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.options import Count, Name
from tilewave.plots.style import GOOD, GREY, INK, MARKERS, Style

HEADLINE = True
READING = (
    "A row is a rung, a dot its share of cuBLAS at one size; larger sizes are darker. Right of the line, in the "
    "shaded part, it is faster than cuBLAS. The numbers beside it are the same shares. On the right is speed over "
    "the size N: cuBLAS is black, a rung has the colour of the square beside its name, and later rungs are darker. "
    "The dot is the first size with 90 % of its highest speed."
)


class Lecture(BaseModel):
    """The variants and sizes of a lecture's table of times."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rows: dict[Name, Name] = Field(max_length=100)
    sizes: tuple[Count, ...] = Field(max_length=100)


class Options(Runged):
    """The options of the ladder."""

    lecture: Lecture | None = Field(
        None, description="table of times in ms: variants by the labels of its rows, and sizes N"
    )


SHARE, LOW, HIGH = "paired_share", "paired_share_low", "paired_share_high"
_STAGES = ("time", "counters")
_SHARE, _LOW, _HIGH = "% of cuBLAS", "lower quartile (%)", "upper quartile (%)"
_SPEED, _PAIRED, _RATIO = "TFLOP/s", "cuBLAS TFLOP/s (paired)", "counted FLOPs / 2mnk"
_EVEN, _REACHED, _TIME = "TFLOP/s at one clock", "% of its highest", "duration (us)"
_DEVICE, _LECTURE = "device", "lecture"
_SHAPES = 4
"""Number of shapes, the largest, whose shares are drawn and summarised."""
_ENOUGH = 90
"""Percent of its highest speed that a variant must reach for its dot."""
_MORE_WORK = 0.01
"""Share of FLOPs over 2 m n k from which a rung is named."""
_BAND = "#F6F6F6"


def of_highest(study: StudyData) -> pd.Series[float]:
    """Return percent of the variant's highest speed at any size, by correct case, within one environment."""
    speed, ranking = base.speed(study), set(base.ranking(study))
    speed = speed[[case for case in speed.index if case in ranking]]
    variants = study.cases.set_index("case")["variant"].reindex(speed.index)
    places = pd.Series(base.environment_of(study, "tflops", "time"), dtype=object)
    highest = speed.groupby([variants, places.reindex(speed.index)]).transform("max")
    return 100 * speed / highest


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case, in the order of the rungs, then the lecture's rows (column `lecture` names them).

    Columns: share of cuBLAS with its quartiles, TFLOP/s of the case and of the cuBLAS beside it, TFLOP/s at one
    clock and in % of the variant's highest, duration, counted FLOPs over 2 m n k.
    """
    paired = base.value_of(study, "paired_tflops", "time")
    frame = base.with_columns(
        base.base_table(study),
        {
            _SHARE: base.value_of(study, SHARE, "time"),
            _LOW: base.value_of(study, LOW, "time"),
            _HIGH: base.value_of(study, HIGH, "time"),
            _SPEED: paired.combine_first(base.value_of(study, "tflops", "time")),
            _PAIRED: base.value_of(study, "paired_baseline_tflops", "time"),
            _EVEN: base.speed(study),
            _REACHED: of_highest(study),
            _TIME: base.value_of(study, "duration", "time"),
            "spread of duration, IQR (us)": base.value_of(study, "duration_spread", "time"),
            "empty kernel (us)": base.value_of(study, "empty_kernel", "time"),
            _RATIO: base.over_2mnk(study, base.COUNTED_FLOPS),
        },
    )
    provider = study.cases.reindex(columns=["provider"])["provider"].to_numpy()
    frame.insert(4, _DEVICE, np.where(provider == "cpu", "CPU", "GPU"))
    order = [] if study.cases.empty else in_order(study)["case"]
    frame = frame.set_index("case", drop=False).loc[order].reset_index(drop=True)
    wanted = Options.of(study).lecture
    lecture = lecture_table(frame, wanted) if wanted else pd.DataFrame()
    return frame if lecture.empty else pd.concat([frame, lecture], ignore_index=True)


def lecture_table(cases: pd.DataFrame, wanted: Lecture) -> pd.DataFrame:
    """Return times in ms: a row for each label, a column for each size; a text where no time exists.
    No rows if none of the cases is in the study."""
    absent = "not in the study"

    def cell(variant: str, size: int) -> str:
        cube = (cases[["m", "n", "k"]] == size).all(axis=1)
        for row in cases[cube & (cases["variant"] == variant)].to_dict("records"):
            if not base.present(row[_TIME]):
                return str(row["status"] if row["status"] != "ok" else "not timed")
            ranks = row["verdict"] == "correct"
            return base.digits(row[_TIME] / 1e3) if ranks else str(row["verdict"])
        return absent

    cells = {
        f"{n}×{n} (ms)": [cell(variant, n) for variant in wanted.rows.values()]
        for n in wanted.sizes
    }
    frame = pd.DataFrame({_LECTURE: list(wanted.rows), **cells})
    return frame if (frame[list(cells)] != absent).to_numpy().any() else frame.iloc[:0]


def _cases(table: pd.DataFrame, device: str = "GPU") -> pd.DataFrame:
    """Return the table's cases that ran on the device; `label` names a row's variant, `size` its shape."""
    cases = table[table[_DEVICE] == device]
    rows = cases.to_dict("records")
    return cases.assign(
        label=[base.variant_label(r, str(r["dtype"])).replace("\n", " ") for r in rows],
        size=[base.shape_label(r) for r in rows],
        ranks=cases["verdict"] == "correct",
    )


def _sizes(cases: pd.DataFrame) -> list[str]:
    """Return the largest shapes, from little work to much."""
    work = cases[["m", "n", "k"]].astype(float).prod(axis=1)
    shapes = cases.loc[work.sort_values(kind="stable").index, "size"].drop_duplicates()
    return list(shapes)[-_SHAPES:]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row a variant of the GPU, in the order of the rungs, with its figures at each of the largest
    sizes.

    Figures: share of cuBLAS, distance of the quartiles (percentage points), TFLOP/s, and those of its paired
    cuBLAS; of cuBLAS itself TFLOP/s. Cases that are not correct have none.
    """
    cases = _cases(table)
    names = {_SHARE: _SHARE, "IQR": "IQR", _SPEED: _SPEED, _PAIRED: "cuBLAS TFLOP/s"}
    cases["IQR"] = cases[_HIGH] - cases[_LOW]
    cases[list(names)] = cases[list(names)].where(cases["ranks"])
    columns, sizes = ["dtype", "kernel", "variant"], _sizes(cases)
    wide = cases.set_index([*columns, "size"])[list(names)].unstack("size")
    order = pd.MultiIndex.from_frame(cases[columns].drop_duplicates())
    wide = wide.reindex(order)[[(name, size) for name in names for size in sizes]]
    wide.columns = [f"{names[name]}, {size}" for name, size in wide.columns]
    return wide.reset_index()


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return in how many dtypes the best rung is as fast as cuBLAS at the largest shape."""
    rows = _cases(table)
    rows = rows[rows["ranks"] & rows[_SHARE].notna()]
    if rows.empty:
        return ""
    largest = _sizes(rows)[-1]
    best = rows[rows["size"] == largest].groupby("dtype")[_SHARE].max()
    return f"The best rung is as fast as cuBLAS at {largest} in {(best >= 100).sum()} of {len(best)} dtypes"


# ------------------------------------------------------------------------------------------ figure


def _looks(sizes: list[str]) -> dict[str, Any]:
    """Return seaborn's settings of the sizes: from light to dark, each with its own marker."""
    return {
        "hue_order": sizes,
        "palette": sns.color_palette("crest", len(sizes)).as_hex(),
        "markers": [MARKERS[i % len(MARKERS)] for i in range(len(sizes))],
    }


def _shares(ax: Axes, rows: pd.DataFrame, order: list[str], looks: Mapping[str, Any]) -> None:
    """Draw a panel's medians with their quartiles; cases that are not correct are crosses."""
    good = rows[rows["ranks"]]
    # Seaborn's median and range of these three values are the median and the quartiles.
    spread = good.melt(["label", "size"], [_LOW, _SHARE, _HIGH])
    sizes = len(looks["hue_order"])
    sns.pointplot(
        spread, x="value", y="label", hue="size", order=order, **looks, ax=ax, estimator="median",
        errorbar=("pi", 100), dodge=0.14 * sizes if sizes > 1 else False, linestyle="none", legend=False,
        markersize=3.0, markeredgewidth=0, err_kws={"linewidth": 0.9},
    )  # fmt: skip
    bad = rows[~rows["ranks"]]
    ax.plot(bad[_SHARE], bad["label"].map(order.index), "x", color=GREY, markersize=3.5)
    for index in range(1, len(order), 2):
        ax.axhspan(index - 0.5, index + 0.5, color=_BAND, linewidth=0, zorder=-2)
    ax.set(xlabel="", ylabel="", ylim=(len(order) - 0.5, -0.5))
    ax.tick_params(axis="y", length=0)


def _numbers(
    ax: Axes, rows: pd.DataFrame, order: list[str], sizes: list[str], style: Style
) -> None:
    """Write the medians: bold and green where they pass cuBLAS, a cross where they do not rank."""
    shares = rows.pivot(index="label", columns="size", values=_SHARE).reindex(order, columns=sizes)
    ranks = rows.pivot(index="label", columns="size", values="ranks").reindex(order, columns=sizes)
    ranked = shares.where(ranks.eq(True))
    texts = shares.map(lambda share: "×" if base.present(share) else "–").where(
        ranked.isna(), ranked.map("{:.1f}".format)
    )
    heatmap(ax, ranked.fillna(0.0), texts, style, vmin=0, vmax=300, cmap="Blues")
    for text, share in zip(ax.texts, ranked.to_numpy().ravel(), strict=True):
        if share >= 100:
            text.set(color=GOOD, weight="bold", size=0.68 * style.font_size)
    ax.set_yticks([])
    names = [size.removesuffix("³") for size in sizes]
    ax.set_xticks(ax.get_xticks(), names, rotation=90 if max(map(len, names)) > 5 else 0)
    ax.tick_params(labelsize=0.8 * style.font_size, labelbottom=False)


def _cubes(cases: pd.DataFrame) -> pd.DataFrame:
    """Return the cases with m = n = k that have a speed."""
    return cases[cases["n"].eq(cases["m"]) & cases["n"].eq(cases["k"]) & cases[_EVEN].notna()]


def _speeds(ax: Axes, cases: pd.DataFrame, sizes: list[float], colors: Mapping[str, Any]) -> None:
    """Draw lines of speed over size, with gaps where a size does not rank and dots where rungs arrive."""
    good = cases[cases["ranks"]]
    wide = good.pivot_table(_EVEN, "n", "label", "max").reindex(sizes, columns=list(colors))
    ax.set_prop_cycle(color=list(colors.values()))
    ax.plot(wide.index, wide, linewidth=0.8)
    dots = _arrivals(good)
    ax.scatter(dots["n"], dots[_EVEN], s=10, c=dots["label"].map(colors), linewidth=0, zorder=3)
    bad = cases[~cases["ranks"]]
    ax.plot(bad["n"], bad[_EVEN], "x", color=GREY, markersize=3.5)
    ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    look.powers_of_two(ax, sizes, 4)
    ax.set(xlim=(sizes[0] / 1.3, sizes[-1] * 1.3), ylim=(0, None))
    look.grid(ax)


def _arrivals(cases: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at which the variants first reach _ENOUGH percent of their highest speed."""
    return cases[cases[_REACHED] >= _ENOUGH].sort_values("n").drop_duplicates("variant")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a row of panels for each dtype with a measurement: shares, numbers, speeds."""
    with look.apply(style):
        everything = _cases(table)
        cases = everything[drawn(study, everything)]
        sizes = _sizes(cases)
        rows = cases[(cases["kernel"] != BASELINE) & cases["size"].isin(sizes)]
        if rows[_SHARE].isna().all():
            return look.empty_figure(study, style, "share of cuBLAS")
        looks = _looks(sizes)
        listed = rows[_has_result(rows)]
        orders = listed.groupby("dtype")["label"].unique().map(list)
        shown = set(rows.loc[rows[_SHARE].notna(), "dtype"])
        wanted = [dtype for dtype in base.dtypes_in_order(study) if dtype in shown]
        cubes = _cubes(
            cases.assign(label=cases["label"].where(cases["kernel"] != BASELINE, BASELINE))
        )
        cube_sizes = sorted(cubes["n"].astype(float).unique())
        speeds = not style.narrow and len(cube_sizes) > 1
        widths = [1.0] if style.narrow else [1.0, 0.2 * len(sizes), *([1.0] if speeds else [])]
        heights = [max(14.0 if speeds else 0.0, 3.7 * len(orders[dtype])) for dtype in wanted]
        fig = look.new_figure(style, sum(heights) + 6.0 * len(wanted) + 8.0)
        panels = fig.subplots(
            len(wanted), len(widths), squeeze=False, height_ratios=heights, width_ratios=widths
        )
        right = 1.04 * max(100.0, float(rows[_HIGH].max()))
        for dtype, (ax, *beside) in zip(wanted, panels, strict=True):
            order, first, last = orders[dtype], dtype == wanted[0], dtype == wanted[-1]
            part = listed[listed["dtype"] == dtype]
            _shares(ax, part, order, looks)
            ax.set_xlim(0, right)
            ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
            ax.axvspan(100, right, color=GOOD, alpha=0.08, linewidth=0, zorder=-1)
            look.grid(ax, "x")
            ax.set_title(base.dtype_short(dtype), pad=13 if beside and first else 4)
            ax.annotate(
                _reference_text(cases[cases["dtype"] == dtype], sizes[-1]), (0, 1), xytext=(-3, 4),
                ha="right", xycoords="axes fraction", textcoords="offset points", color=GREY,
                size=0.8 * style.font_size,
            )  # fmt: skip
            for panel in beside[:1]:
                _numbers(panel, part, order, sizes, style)
                panel.tick_params(labeltop=first)
            for panel in beside[1:]:
                colors = dict(zip(order, sns.color_palette("flare", len(order)).as_hex()))
                ax.scatter(
                    [-0.02] * len(order), range(len(order)), s=9, c=list(colors.values()),
                    marker="s", linewidth=0, transform=ax.get_yaxis_transform(), clip_on=False,
                )  # fmt: skip
                ax.tick_params(axis="y", pad=7)
                colors |= {BASELINE: "#000000"}
                lines = cubes[(cubes["dtype"] == dtype) & cubes["label"].isin(list(colors))]
                _speeds(panel, lines, cube_sizes, colors)
                panel.set_title("TFLOP/s" if first else "")
                panel.tick_params(labelbottom=last)
            ax.tick_params(labelbottom=last)
        panels[-1][0].set_xlabel("% of cuBLAS")
        if speeds:
            panels[-1][-1].set_xlabel("N (m = n = k)")
        handles = _legend(cases, sizes, looks, speeds)
        notes = _notes(study, table, rows, speeds)
        # Only cases of the figure are listed as missing.
        mentioned = study.cases["case"].isin([*cases["case"], *_cases(table, "CPU")["case"]])
        part_of = replace(study, cases=study.cases[mentioned])
        return look.finish(fig, part_of, style, handles, notes, _STAGES)


def _has_result(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return whether a row's rung has a share at some size, or a bad verdict."""
    present = rows[_SHARE].notna() | ~rows["verdict"].isin(["correct", "not checked"])
    return present.groupby([rows["dtype"], rows["label"]], sort=False).transform("any")


def _reference_text(cases: pd.DataFrame, size: str) -> str:
    """Return the speed behind 100 %: cuBLAS's at the largest shape; "" where it has none."""
    baseline = cases[(cases["kernel"] == BASELINE) & cases["ranks"] & (cases["size"] == size)]
    speeds = baseline[_SPEED].dropna()
    return f"100 %: {base.digits(speeds.iloc[0])} TFLOP/s" if len(speeds) else ""


def _legend(
    cases: pd.DataFrame, sizes: list[str], looks: Mapping[str, Any], speeds: bool
) -> list[Artist]:
    handles: list[Artist] = [
        Line2D([], [], color=color, marker=marker, markersize=3.4, linewidth=0.9, label=size)
        for color, marker, size in zip(looks["palette"], looks["markers"], sizes, strict=True)
    ]
    handles.append(Line2D([], [], color=INK, linewidth=0.9, label="cuBLAS"))
    handles.append(Patch(color=GOOD, alpha=0.15, label="faster than cuBLAS"))
    points = {f"{_ENOUGH} % of the highest speed": "o"} if speeds else {}
    if (cases[_EVEN].notna() & ~cases["ranks"]).any():
        points["not correct, not ranked"] = "x"
    grey: dict[str, Any] = {"color": GREY, "markersize": 3, "linestyle": ""}
    return [*handles, *(Line2D([], [], marker=m, label=name, **grey) for name, m in points.items())]


def _notes(study: StudyData, table: pd.DataFrame, rows: pd.DataFrame, speeds: bool) -> list[str]:
    """Return how to read the marks, the FLOPs that were counted, and the rungs without a share."""
    notes = ["Markers: medians; lines: quartiles; 100 % is of the largest size."]
    if speeds:
        notes[0] += (
            " Speeds are at one clock: a share of the cuBLAS timed in turn, times cuBLAS' median speed at that size."
        )
    cases = _cases(table)
    notes += _counted(cases[cases["kernel"] != BASELINE])
    bare = rows[_SHARE].isna().groupby(rows["dtype"], sort=False).all()
    absent = [base.dtype_short(dtype) for dtype in bare.index[bare]]
    silent = ~_has_result(rows) & ~rows["dtype"].isin(bare.index[bare])
    absent += rows.loc[silent, "label"].unique().tolist()
    notes += [f"No share was measured of {', '.join(absent)}."] if absent else []
    return notes + (base.rate_notes(study) if (rows["dtype"] == "i8").any() else [])


def _counted(cases: pd.DataFrame) -> list[str]:
    """Return the range of the counted FLOPs; rungs with more than 1 % too many are named."""
    counted = cases[cases[_RATIO].notna()]
    if counted.empty:
        return []
    more = counted[counted[_RATIO] > 1 + _MORE_WORK].sort_values(_RATIO, ascending=False)
    named = [f"{label} {ratio:.3f}" for label, ratio in zip(more["label"], more[_RATIO])]
    excess = f"; more than that: {', '.join(dict.fromkeys(named))}" if named else ""
    least, most = counted[_RATIO].min(), counted[_RATIO].drop(more.index).max()
    return [f"FLOPs counted over 2mnk: {least:.3f} to {most:.3f}{excess}."]
