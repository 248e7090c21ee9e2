"""Alignment: throughput as one dimension leaves its power of two, by dtype, dimension and layout.

All shapes of a line are the reference shape with one dimension made smaller by a little, so that the
number of tiles hardly changes. What fewer tiles can explain is the grey band: a product that is no
larger takes no longer, so its rate is at least its share of the reference's size. What lies below
the band is the price of the alignment.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tilewave.operations.matmul import DIMENSIONS
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import FAINT, GREY, INK, MARKERS, MODEL, Style
from tilewave.theory import alignment as theory

OPTIONS: Mapping[str, str] = {
    "reference": "size of the aligned product, m = n = k (default: the largest m of the cases)",
    "tolerance": "share of the best TFLOP/s that a sufficient alignment may lose (default: 0.02)",
}
_STAGES = ("time",)
_TOLERANCE = 0.02
# The baseline is black in its first layout; the others must be told apart too.
_LAYOUT_COLORS = {"row, row": "#000000", "row, col": "#0072B2", "col, row": "#D55E00"}
_OTHER_LAYOUT = "#009E73"
_ASIDE = 0.14  # of a step, from one line of a panel to the next


@dataclass(frozen=True)
class Line:
    """One variant with one dimension varied.

    points: one row a size, by rising alignment; columns case, size, alignment, tflops (TFLOP/s, NaN
    where there is none or it may not rank), status, share (of the reference's TFLOP/s), least (the
    share that needs no alignment to explain), enough (whether the alignment loses no more than the
    tolerance of the line's best).
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

    @cached_property
    def measured(self) -> pd.DataFrame:
        return self.points[self.points["share"].notna()]

    @cached_property
    def smaller(self) -> pd.DataFrame:
        """The measured points without the reference itself."""
        return self.measured[self.measured["least"] < 1]

    def lost(self, alignment: int) -> float:
        """What is missing to the share that needs no alignment to explain (1).

        At the least alignment measured that is no smaller; NaN without one below the reference.
        """
        rows = self.smaller[self.smaller["alignment"] >= alignment]
        if rows.empty:
            return math.nan
        first = rows.iloc[0]
        return max(0.0, 1.0 - float(first["share"]) / float(first["least"]))

    @property
    def smallest_enough(self) -> float:
        """The smallest alignment within the tolerance of the best; NaN where only the reference
        was measured."""
        rows = self.measured[self.measured["enough"].astype(bool)]
        known = len(rows) and len(self.smaller)
        return float(rows["alignment"].iloc[0]) if known else math.nan


def _products(study: StudyData) -> pd.DataFrame:
    """The cases that are products with known sizes."""
    cases = study.cases
    if cases.empty:
        return cases
    return cases[cases[["m", "n", "k"]].notna().all(axis=1)]


def _reference(study: StudyData) -> int:
    given = study.option("reference", None)
    return int(given) if given is not None else int(_products(study)["m"].astype(int).max())


def lines(study: StudyData) -> list[Line]:
    """Every variant's sweeps, in the config's order, dimensions in the order m, n, k.

    A share needs the reference in the same environment. A sweep needs a size beside the reference.
    """
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
        place=cases["case"].map(base.environment_of(study, "tflops", "time")),
    )
    tolerance = float(study.option("tolerance", _TOLERANCE))
    made = []
    for variant, group in cases.groupby("variant", sort=False):
        sizes = group[list(DIMENSIONS)].astype(int)
        aligned = group[(sizes == size).all(axis=1)]
        if aligned.empty:
            continue
        row = aligned.iloc[0].to_dict()
        for dimension in DIMENSIONS:
            others = [name for name in DIMENSIONS if name != dimension]
            swept = group[(sizes[others] == size).all(axis=1) & (sizes[dimension] <= size)]
            if len(swept) < 2:
                continue
            points = swept[["case", dimension, "tflops", "status"]].rename(
                columns={dimension: "size"}
            )
            points["size"] = points["size"].astype(int)
            points.insert(2, "alignment", [theory.alignment(one) for one in points["size"]])
            same = swept["place"] == row["place"]
            points["share"] = (points["tflops"] / row["tflops"]).where(same)
            points["least"] = [theory.least_share(one, size) for one in points["size"]]
            points["enough"] = _enough(points, tolerance)
            points = points.sort_values(["alignment", "size"]).reset_index(drop=True)
            made.append(
                Line(str(variant), str(row["kernel"]), str(row["dtype"]), base.layouts_of(row),
                     dimension, points)
            )  # fmt: skip
    return made


def _enough(points: pd.DataFrame, tolerance: float) -> pd.Series[bool]:
    """Whether each point keeps its part of the line's best rate, less the tolerance.

    Its part: the best itself, or for a smaller product what the tiles of the reference leave.
    """
    return points["share"] >= (1 - tolerance) * points["share"].max() * points["least"]


def totals(study: StudyData, found: list[Line]) -> pd.DataFrame:
    """One row a line: what the alignment costs, and from which one on it costs nothing.

    Losses (%) are what is missing to the share that a smaller product keeps whatever its alignment.
    The recommended multiples are those of `theory.alignment.RECOMMENDED`.
    """
    rows = []
    for line in found:
        told = theory.recommendation(line.dtype)
        least = float(line.smaller["alignment"].min())
        refused = line.points.loc[line.points["status"] == "unsupported", "alignment"]
        row = {
            "variant": line.variant,
            "dtype": line.dtype,
            "layout of A, B": line.layout,
            "dimension": line.dimension,
            "contiguous in": ", ".join(name.upper() for name in line.along) or "none",
            "reference (TFLOP/s)": _reference_speed(line, _reference(study)),
            "unsupported alignments": ", ".join(str(one) for one in refused),
            "least alignment measured": least,
            "loss at it (%)": 100 * line.lost(1),
            "smallest alignment that is enough": line.smallest_enough,
        }
        for name, multiple in (
            ("recommended", told.recommended if told else None),
            ("recommended on A100", told.on_a100 if told else None),
        ):
            row[f"{name} multiple"] = math.nan if multiple is None else multiple
            row[f"loss at the multiple {name} (%)"] = (
                math.nan if multiple is None else 100 * line.lost(multiple)
            )
        rows.append(row)
    return pd.DataFrame(rows)


def _reference_speed(line: Line, size: int) -> float:
    rows = line.points[line.points["size"] == size]
    return float(rows["tflops"].iloc[0]) if len(rows) else math.nan


def table(study: StudyData) -> pd.DataFrame:
    """One row a case and dimension varied, then the totals' rows (column `line` names them)."""
    frame = base.with_columns(
        base.base_table(study),
        {
            "TFLOP/s": base.value_of(study, "tflops", "time"),
            "duration (us)": base.value_of(study, "duration", "time"),
            "SM clock (MHz)": base.value_of(study, "sm_clock", "time"),
        },
    )
    names = base.text_of(study, "kernel_name")
    if names:
        # Which kernel the vendor took: its name often says the alignment that it was made for.
        frame.insert(frame.columns.get_loc("verdict"), "kernels launched", frame["case"].map(names))
    found = lines(study)
    if not found:
        return base.with_derived(frame, found)
    parts = []
    for line in found:
        part = line.points[["case", "alignment", "share", "least", "enough"]].copy()
        part.insert(1, "dimension varied", line.dimension)
        part.insert(2, "layout of A, B", line.layout)
        part.insert(3, "contiguous in", ", ".join(name.upper() for name in line.along) or "none")
        parts.append(part)
    added = pd.concat(parts, ignore_index=True).rename(
        columns={
            "alignment": "alignment (elements)",
            "share": "share of the reference",
            "least": "least share without a loss",
            "enough": "within the tolerance",
        }
    )
    whole = frame.merge(added, on="case", how="left", sort=False)
    last = totals(study, found)
    last.insert(0, "line", last["variant"] + ", " + last["dimension"])
    return base.with_derived(pd.concat([whole, last], ignore_index=True), found)


# ---------------------------------------------------------------------------------------- figure


def _steps(found: list[Line]) -> list[int]:
    """The alignments of all points; they stand at equal distances."""
    return sorted({int(one) for line in found for one in line.points["alignment"]})


def _looks(found: list[Line], style: Style) -> dict[str, tuple[str, str]]:
    """Colour and marker of each variant: the baseline by its layout, own kernels by their name."""
    colors = look.kernel_colors(style, {line.kernel for line in found})
    own = sorted({line.kernel for line in found} - {BASELINE})
    layouts = list(_LAYOUT_COLORS)
    looks = {}
    for line in found:
        if line.kernel == BASELINE:
            place = layouts.index(line.layout) if line.layout in layouts else len(layouts)
            color = _LAYOUT_COLORS.get(line.layout, _OTHER_LAYOUT)
        else:
            place = len(layouts) + 1 + own.index(line.kernel)
            color = colors[line.kernel]
        looks[line.variant] = (color, MARKERS[place % len(MARKERS)])
    return looks


def _band(ax: Axes, found: list[Line], steps: list[int]) -> None:
    """What a smaller number of tiles can explain, from its least share to all of it."""
    least: dict[int, float] = {}
    for line in found:
        for step, value in zip(line.points["alignment"], line.points["least"], strict=True):
            least[int(step)] = min(float(value), least.get(int(step), 1.0))
    known = [step for step in steps if step in least]
    places = [steps.index(step) for step in known]
    ax.fill_between(
        places, [100 * least[step] for step in known], 100.0, color=FAINT, linewidth=0, zorder=1
    )
    ax.plot(places, [100 * least[step] for step in known], color=MODEL, linewidth=0.6, zorder=1)


def _draw_lines(
    ax: Axes, found: list[Line], steps: list[int], looks: Mapping[str, tuple[str, str]]
) -> None:
    for number, line in enumerate(found):
        color, marker = looks[line.variant]
        # Lines that agree stand side by side instead of on top of one another.
        aside = _ASIDE * (number - (len(found) - 1) / 2)
        places = line.points["alignment"].map(steps.index) + aside
        shares = 100 * line.points["share"]
        # A size without a value stays in the line, so that it breaks there.
        ax.plot(
            places, shares, color=color, linewidth=0.9, zorder=3,
            linestyle="-" if line.along else (0, (2, 1.2)),
        )  # fmt: skip
        for enough in (True, False):
            chosen = line.points["share"].notna() & (line.points["enough"] == enough)
            ax.plot(
                places[chosen], shares[chosen], linestyle="", marker=marker, markersize=2.8,
                markerfacecolor=color if enough else "white", markeredgecolor=color,
                markeredgewidth=0.7, zorder=4,
            )  # fmt: skip
        refused = line.points["status"] == "unsupported"
        ax.plot(
            places[refused], [4.0] * int(refused.sum()), linestyle="", marker="x", color=color,
            markersize=4, zorder=4,
        )  # fmt: skip


def _mark(ax: Axes, dtype: str, steps: list[int]) -> None:
    """The recommended multiples as upright lines."""
    told = theory.recommendation(dtype)
    if told is None:
        return
    for multiple, dash in ((told.recommended, "-"), (told.on_a100, (0, (1, 1.2)))):
        if multiple in steps:
            ax.axvline(steps.index(multiple), color=look.GOOD, linewidth=0.9, linestyle=dash,
                       zorder=2)  # fmt: skip


def _axis(ax: Axes, steps: list[int], style: Style) -> None:
    ax.set_xlim(-0.4, len(steps) - 0.6)
    ax.set_ylim(0, 112)
    ax.set_yticks(range(0, 101, 25))
    # The last step is the reference's, the widest of the labels: it keeps its neighbours away.
    last = len(steps) - 1
    every, apart = (2, 3) if style.narrow else (1, 1)
    shown = [*(place for place in range(0, last, every) if last - place >= apart), last]
    ax.set_xticks(shown, [str(steps[place]) for place in shown])
    look.grid(ax, "y")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A row of panels for each dtype, a column for each dimension, a line a variant."""
    with look.apply(style):
        found: list[Line] = base.derived(table)
        if not any(len(line.measured) for line in found):
            return look.empty_figure(study, style, "throughput")
        dtypes = [d for d in base.dtypes_in_order(study) if any(x.dtype == d for x in found)]
        columns = [d for d in DIMENSIONS if any(line.dimension == d for line in found)]
        steps, looks = _steps(found), _looks(found, style)
        height = 26.0 if style.narrow else 30.0
        fig = look.new_figure(style, height * len(dtypes) + 6)
        axes = fig.subplots(len(dtypes), len(columns), sharex=True, sharey=True, squeeze=False)
        for i, dtype in enumerate(dtypes):
            for j, dimension in enumerate(columns):
                ax = axes[i, j]
                here = [x for x in found if (x.dtype, x.dimension) == (dtype, dimension)]
                _band(ax, here, steps)
                _mark(ax, dtype, steps)
                _draw_lines(ax, here, steps, looks)
                _axis(ax, steps, style)
                if j == 0:
                    ax.set_title(base.dtype_label(dtype))
                    ax.set_ylabel("% of aligned")
                elif i == 0:
                    ax.set_title(" ")  # keeps the first row's panels alike
                if i == len(dtypes) - 1:
                    ax.set_xlabel(f"alignment of {dimension.upper()}")
        handles, labels = _legend(study, found, looks)
        return look.finish(fig, study, style, handles, labels, list(_notes(study, found)), _STAGES)


def _legend(
    study: StudyData, found: list[Line], looks: Mapping[str, tuple[str, str]]
) -> tuple[list[Artist], list[str]]:
    entries: dict[tuple[str, str], str] = {}
    for line in found:
        entries.setdefault(
            looks[line.variant], f"{line.kernel}, A {line.layout.replace(', ', ', B ')}"
        )
    handles: list[Artist] = [
        Line2D([], [], color=color, marker=marker, markersize=3.2) for color, marker in entries
    ]
    labels = list(entries.values())
    tolerance = 100 * float(study.option("tolerance", _TOLERANCE))
    more: list[tuple[Artist, str]] = [
        (Line2D([], [], color=INK), "varied dimension is the fastest of A, B or C"),
        (Line2D([], [], color=INK, linestyle=(0, (2, 1.2))), "of none"),
        (
            Line2D([], [], linestyle="", marker="o", markerfacecolor="white", color=INK,
                   markersize=3.2),
            f"more than {tolerance:g} % below the line's best",
        ),
        (Patch(facecolor=FAINT, edgecolor=MODEL, linewidth=0.6), "explained by tiles"),
    ]  # fmt: skip
    if any(theory.recommendation(line.dtype) for line in found):
        more += [
            (Line2D([], [], color=look.GOOD), "recommended multiple"),
            (Line2D([], [], color=look.GOOD, linestyle=(0, (1, 1.2))), "on A100"),
        ]
    if any((line.points["status"] == "unsupported").any() for line in found):
        more.append((Line2D([], [], linestyle="", marker="x", color=GREY), "unsupported"))
    return [*handles, *(h for h, _ in more)], [*labels, *(text for _, text in more)]


def _notes(study: StudyData, found: list[Line]) -> Iterator[str]:
    size = _reference(study)
    told = {}
    for line in found:
        speed = _reference_speed(line, size)
        if math.isfinite(speed):
            unit = " TOP/s" if line.dtype == "i8" else ""
            told[line.variant] = (
                f"{line.kernel} {line.dtype} ({line.layout}) {base.digits(speed)}{unit}"
            )
    yield (
        f"100 % is the product with m = n = k = {size}, in TFLOP/s: " + "; ".join(told.values())
        + ". Alignment: the largest power of two, in elements, that divides the size; the others "
        f"stay at {size}."
    )  # fmt: skip
