"""Alignment: throughput with one dimension off its power of two, by dtype, dimension and layout.

All shapes of a line are the reference shape with one dimension a little smaller, so that the number of tiles
hardly changes. A smaller product takes no longer, so its rate is at least its share of the reference's size. A
rate below that is the cost of the alignment. A dtype in which no alignment costs anything is named, not drawn.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tilewave.kernel.operations.matmul import Matmul
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GREY, INK, MARKERS, Style
from tilewave.theory import alignment as theory

READING = (
    "A row of panels is a dtype, a column the dimension that varies. Right is better aligned, up is speed in % of "
    "the aligned product. A solid line varies a dimension that is contiguous in a matrix, a dotted line one that is "
    "not. Sizes right of the green line meet the vendor's recommendation."
)


TOLERANCE = 0.02
"""Share of the best TFLOP/s that a sufficient alignment may lose."""
_COLUMNS: Mapping[str, str] = {
    "dimension": "dimension varied",
    "layout": "layout of A, B",
    "along": "contiguous in",
    "alignment": "alignment (elements)",
    "share": "share of the reference",
    "least": "least share without a loss",
    "enough": "within the tolerance",
}
_STAGES = ("time",)
_CLEAN = 0.1  # a dtype whose lines all lose at most this share is named, not drawn
_DASHES: Mapping[str, Any] = {
    "varied dimension is contiguous in A, B or C": "", "contiguous in none": (2, 1.2),
}  # fmt: skip
_ASIDE = 0.14  # offset between the lines of a panel, as a share of a step


@dataclass(frozen=True)
class Line:
    """A variant with one dimension varied.

    points: one row a size, by rising alignment; columns case, size, alignment, tflops (TFLOP/s, NaN where there
    is none or it may not rank), status, share (of the reference's TFLOP/s), least (the share that a perfectly
    aligned product of this size keeps), enough (whether the alignment loses no more than the tolerance of the
    line's best).
    """

    variant: str
    kernel: str
    dtype: str
    layouts: Mapping[str, str]
    dimension: str
    points: pd.DataFrame

    @property
    def layout(self) -> str:
        return f"{self.layouts['a']}, {self.layouts['b']}"

    @property
    def along(self) -> tuple[str, ...]:
        """The operands in which the dimension is the fastest varying one."""
        return theory.operands_along(self.dimension, self.layouts)

    @property
    def contiguous_in(self) -> str:
        return ", ".join(name.upper() for name in self.along) or "none"

    @cached_property
    def measured(self) -> pd.DataFrame:
        return self.points[self.points["share"].notna()]

    @cached_property
    def smaller(self) -> pd.DataFrame:
        """The measured points without the reference."""
        return self.measured[self.measured["least"] < 1]

    @property
    def losses(self) -> pd.Series[float]:
        """The loss against the share of a perfectly aligned product (1), by alignment."""
        rows = self.smaller.set_index("alignment")
        return (1 - rows["share"] / rows["least"]).clip(lower=0.0)

    def lost(self, alignment: int) -> float:
        """Return the loss at the least measured alignment that is no smaller; NaN if only the reference is."""
        losses = self.losses[self.losses.index >= alignment]
        return math.nan if losses.empty else float(losses.iloc[0])

    @property
    def smallest_enough(self) -> float:
        """The smallest alignment within the tolerance of the best; NaN where only the reference was measured."""
        rows = self.measured[self.measured["enough"].astype(bool)]
        comparable = len(rows) and len(self.smaller)
        return float(rows["alignment"].iloc[0]) if comparable else math.nan


def _products(study: StudyData) -> pd.DataFrame:
    """Return the cases that are products with known sizes."""
    cases = study.cases
    if cases.empty:
        return cases
    return cases[cases[["m", "n", "k"]].notna().all(axis=1)]


def _reference(study: StudyData) -> int:
    """Return the size of the aligned product, m = n = k: the largest m."""
    return int(_products(study)["m"].astype(int).max())


def lines(study: StudyData) -> list[Line]:
    """Return every variant's lines in the config's order, dimensions in the order m, n, k.
    A share needs the reference in the same environment. A line needs a size beside the reference."""
    cases = _products(study)
    if cases.empty:
        return []
    size = _reference(study)
    speed = base.value_of(study, "tflops", "time")
    may_rank = set(base.ranking(study))
    states = base.statuses(study, ("check", *_STAGES))
    cases = cases.assign(
        tflops=cases["case"].map(speed).where(cases["case"].isin(may_rank)).astype(float),
        status=[states[case].status for case in cases["case"]],
        environment=cases["case"].map(base.environment_of(study, "tflops", "time")),
    )
    all_lines = []
    for variant, group in cases.groupby("variant", sort=False):
        sizes = group[list(Matmul.dimensions)].astype(int)
        aligned = group[(sizes == size).all(axis=1)]
        if aligned.empty:
            continue
        row = aligned.iloc[0].to_dict()
        for dimension in Matmul.dimensions:
            fixed = [name for name in Matmul.dimensions if name != dimension]
            swept = group[(sizes[fixed] == size).all(axis=1) & (sizes[dimension] <= size)]
            if len(swept) < 2:
                continue
            points = swept[["case", dimension, "tflops", "status"]].rename(
                columns={dimension: "size"}
            )
            points["size"] = points["size"].astype(int)
            points.insert(2, "alignment", [theory.alignment(extent) for extent in points["size"]])
            same = swept["environment"] == row["environment"]
            points["share"] = (points["tflops"] / row["tflops"]).where(same)
            points["least"] = [theory.least_share(extent, size) for extent in points["size"]]
            points["enough"] = _enough(points)
            points = points.sort_values(["alignment", "size"]).reset_index(drop=True)
            all_lines.append(
                Line(str(variant), str(row["kernel"]), str(row["dtype"]), base.layouts_of(row),
                     dimension, points)
            )  # fmt: skip
    return all_lines


def _enough(points: pd.DataFrame) -> pd.Series[bool]:
    """Return whether each point keeps its part of the line's best rate, less the tolerance.
    Its part: the best rate, or for a smaller product the share that the tiles of the reference leave."""
    return points["share"] >= (1 - TOLERANCE) * points["share"].max() * points["least"]


def totals(study: StudyData, all_lines: list[Line]) -> pd.DataFrame:
    """Return one row a line: the cost of its alignments, and the smallest alignment that costs nothing.

    Losses (%) are against the share that a smaller product keeps at any alignment. The recommended multiples
    are those of `theory.alignment.RECOMMENDED`.
    """
    rows = []
    for line in all_lines:
        recommendation = theory.recommendation(line.dtype)
        least = float(line.smaller["alignment"].min())
        refused = line.points.loc[line.points["status"] == "unsupported", "alignment"]
        row = {
            "variant": line.variant,
            "dtype": line.dtype,
            "layout of A, B": line.layout,
            "dimension": line.dimension,
            "contiguous in": line.contiguous_in,
            "reference (TFLOP/s)": _reference_speed(line, _reference(study)),
            "unsupported alignments": ", ".join(str(alignment) for alignment in refused),
            "least alignment measured": least,
            "loss at it (%)": 100 * line.lost(1),
            "smallest alignment that is enough": line.smallest_enough,
        }
        for name, label in (("recommended", "recommended"), ("on_a100", "recommended on A100")):
            multiple = getattr(recommendation, name, None)
            row[f"{label} multiple"] = multiple or math.nan
            lost = line.lost(multiple) if multiple else math.nan
            row[f"loss at the multiple {label} (%)"] = 100 * lost
        rows.append(row)
    return pd.DataFrame(rows)


def _reference_speed(line: Line, size: int) -> float:
    rows = line.points[line.points["size"] == size]
    return float(rows["tflops"].iloc[0]) if len(rows) else math.nan


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case and dimension varied, then the totals' rows (column `line` names them)."""
    columns = {
        "TFLOP/s": base.value_of(study, "tflops", "time"),
        "duration (us)": base.value_of(study, "duration", "time"),
        "SM clock (MHz)": base.value_of(study, "sm_clock", "time"),
    }
    if names := base.text_of(study, "kernel_name"):
        # The name of the vendor's kernel often tells the alignment that it needs.
        columns["kernels launched"] = pd.Series(names)
    frame = base.with_columns(base.base_table(study), columns)
    all_lines = lines(study)
    if not all_lines:
        return base.with_derived(frame, all_lines)
    parts = [
        line.points.assign(dimension=line.dimension, layout=line.layout, along=line.contiguous_in)
        for line in all_lines
    ]
    added = pd.concat(parts, ignore_index=True)[["case", *_COLUMNS]].rename(columns=_COLUMNS)
    joined = frame.merge(added, on="case", how="left", sort=False)
    last = totals(study, all_lines)
    last.insert(0, "line", last["variant"] + ", " + last["dimension"])
    return base.with_derived(pd.concat([joined, last], ignore_index=True), all_lines)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the largest loss of cuBLAS where a contiguous dimension misses the recommended multiple."""
    losses = [
        (float(loss), f"{line.dtype} {line.dimension.upper()}")
        for line in base.derived(table)
        if line.kernel == BASELINE and line.along and (advice := theory.recommendation(line.dtype))
        for alignment, loss in line.losses.items()
        if alignment < advice.recommended
    ]
    lost, where = max(losses, default=(0.0, ""))
    if not losses:
        return ""
    return f"A contiguous dimension that misses the recommended multiple costs cuBLAS up to {100 * lost:.0f} % ({where})"


# ---------------------------------------------------------------------------------------- figure


def _looks(all_lines: list[Line]) -> dict[str, tuple[str, str]]:
    """Return colour and marker by `_who`: the baseline by its layout, the project's kernels in turn."""
    names = dict.fromkeys(map(_who, sorted(all_lines, key=lambda line: line.kernel != BASELINE)))
    colors = "#000000 #0072B2 #D55E00 #009E73 #CC79A7 #E69F00 #56B4E9 #882255 #999933".split()
    return {name: (colors[i % 9], MARKERS[i % 9]) for i, name in enumerate(names)}


def _who(line: Line) -> str:
    return f"{line.kernel}, A {line.layout.replace(', ', ', B ')}"


def _tidy(panel_lines: list[Line], steps: list[int]) -> pd.DataFrame:
    """Return the points of a panel's lines: place (of the alignment among all), percent, who, line, status.
    Equal lines stand side by side instead of on top of one another."""
    parts = [
        line.points.assign(
            place=line.points["alignment"].map(steps.index)
            + _ASIDE * (i - (len(panel_lines) - 1) / 2),
            percent=100 * line.points["share"],
            who=_who(line),
            line=list(_DASHES)[not line.along],
        )
        for i, line in enumerate(panel_lines)
    ]
    return pd.concat(parts, ignore_index=True)


def _panel(
    ax: Axes, panel_lines: list[Line], steps: list[int], looks: Mapping[str, tuple[str, str]]
) -> None:
    points = _tidy(panel_lines, steps)
    colors = {who: color for who, (color, _) in looks.items()}
    ax.plot([-1, len(steps)], [100, 100], color=GREY, linewidth=0.6, zorder=1)
    sns.lineplot(
        points, x="place", y="percent", hue="who", palette=colors, style="line", dashes=_DASHES,
        estimator=None, errorbar=None, linewidth=0.9, legend=False, zorder=3, ax=ax,
    )  # fmt: skip
    sns.scatterplot(
        points.dropna(subset="percent"), x="place", y="percent", hue="who", palette=colors,
        style="who", markers={who: marker for who, (_, marker) in looks.items()}, s=13,
        edgecolor="white", linewidth=0.3, zorder=4, ax=ax,
    )  # fmt: skip
    refused = points[points["status"] == "unsupported"]
    if len(refused):
        ax.plot(refused["place"], [4.0] * len(refused), "x", color=GREY, markersize=4,
                label="unsupported")  # fmt: skip


def _mark(ax: Axes, dtype: str, steps: list[int]) -> None:
    """Draw the recommended multiples as upright lines."""
    recommendation = theory.recommendation(dtype)
    if recommendation is None:
        return
    for multiple, dash, label in (
        (recommendation.recommended, "-", "recommended multiple"),
        (recommendation.on_a100, (0, (1, 1.2)), "on A100"),
    ):
        if multiple in steps:
            ax.axvline(steps.index(multiple), color=look.GOOD, linewidth=0.9, linestyle=dash,
                       zorder=2, label=label)  # fmt: skip


def _axis(ax: Axes, steps: list[int], style: Style) -> None:
    ax.set(
        xlim=(-0.4, len(steps) - 0.6), ylim=(0, 112), yticks=range(0, 101, 25), xlabel="", ylabel=""
    )
    # The label of the last step, the reference's, is the widest: its neighbours need a distance.
    last = len(steps) - 1
    stride, distance = (2, 3) if style.narrow else (1, 1)
    shown = [*(index for index in range(0, last, stride) if last - index >= distance), last]
    ax.set_xticks(shown, [str(steps[index]) for index in shown])
    look.grid(ax, "y")


def _worst(dtype_lines: list[Line]) -> float:
    """Return the highest loss of the lines (1); 0 where none is known."""
    return max((float(line.losses.max()) for line in dtype_lines if len(line.losses)), default=0.0)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a row of panels for each dtype with a loss, a column a dimension, a line a variant."""
    with look.apply(style):
        all_lines: list[Line] = base.derived(table)
        if not any(len(line.measured) for line in all_lines):
            return look.empty_figure(study, style, "throughput")
        groups: dict[str, list[Line]] = {}
        for dtype in base.dtypes_in_order(study):
            if group := [line for line in all_lines if line.dtype == dtype]:
                groups[dtype] = group
        dtypes = [name for name in groups if _worst(groups[name]) > _CLEAN] or list(groups)
        columns = [d for d in Matmul.dimensions if any(line.dimension == d for line in all_lines)]
        steps = sorted({int(step) for line in all_lines for step in line.points["alignment"]})
        looks = _looks(all_lines)
        fig = look.new_figure(style, (24.0 if style.narrow else 29.0) * len(dtypes) + 8)
        axes = fig.subplots(len(dtypes), len(columns), sharex=True, sharey=True, squeeze=False)
        for (i, dtype), (j, dimension) in itertools.product(enumerate(dtypes), enumerate(columns)):
            ax = axes[i, j]
            _mark(ax, dtype, steps)
            if panel_lines := [line for line in groups[dtype] if line.dimension == dimension]:
                _panel(ax, panel_lines, steps, looks)
            _axis(ax, steps, style)
            # A title in every column keeps a row's panels alike.
            ax.set_title(" " if j else base.dtype_label(dtype))
            if j == 0:
                ax.set_ylabel("% of aligned")
            if i == len(dtypes) - 1:
                ax.set_xlabel(f"alignment of {dimension.upper()}")
        dashes: list[Artist] = [
            Line2D([], [], color=INK, dashes=d or (1, 0), label=name) for name, d in _DASHES.items()
        ]
        clean = {name: group for name, group in groups.items() if name not in dtypes}
        return look.finish(
            fig, study, style, [*look.entries(axes.flat), *dashes],
            [*_notes(study), *_clean_notes(clean)], _STAGES,
        )  # fmt: skip


def _clean_notes(groups: Mapping[str, list[Line]]) -> Iterator[str]:
    names = [f"{base.dtype_label(d)} ({100 * _worst(g):.1f} %)" for d, g in groups.items()]
    if names:
        yield f"Not drawn: dtypes in which no alignment costs more than {100 * _CLEAN:g} %: {', '.join(names)}."


def _notes(study: StudyData) -> Iterator[str]:
    size = _reference(study)
    yield (
        f"100 % is the product with m = n = k = {size}. The alignment is the largest power of two, in elements, that "
        f"divides the size; the other sizes stay at {size}."
    )
