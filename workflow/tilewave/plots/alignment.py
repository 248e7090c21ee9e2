"""Alignment: what cuBLAS loses with one dimension off its power of two, by dtype.

The figure has the dimension that costs a dtype most; the table has all, and the other kernels. Shapes of a
line are the reference with one dimension a little smaller, in hardly fewer tiles. That takes no longer, so
the rate is at least its share of the reference's size. A rate below that is the cost of the alignment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tilewave.basics.columns import filled
from tilewave.basics.tables import table_beside
from tilewave.kernel.operations.matmul import Matmul
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import names_beside
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import DTYPES, GREY, MARKERS, PALETTE, Style
from tilewave.theory import alignment as theory

TOLERANCE = 0.02
"""Share of the best TFLOP/s that a sufficient alignment may lose."""
TABLES = table_beside(__file__)
_COLUMNS: Mapping[str, str] = TABLES["points"]
_STAGES = ("time",)


@dataclass(frozen=True)
class Line:
    """A variant with one dimension varied.

    points: one row per size, by rising alignment; columns dimension, layout (of A and B), along (the operands in which the
    dimension is the fastest varying one), case, size, alignment, tflops (TFLOP/s, NaN where there is
    none or it may not rank), status, share (of the reference's TFLOP/s), least (the share that a perfectly aligned
    product of this size keeps), enough (whether the alignment loses no more than the tolerance of the line's best).
    """

    variant: str
    kernel: str
    dtype: str
    dimension: str
    points: pd.DataFrame

    @cached_property
    def measured(self) -> pd.DataFrame:
        return self.points[self.points["share"].notna()]

    @cached_property
    def losses(self) -> pd.Series[float]:
        """The loss against the share of a perfectly aligned product (1), by alignment, without the reference."""
        rows = self.measured[self.measured["least"] < 1].set_index("alignment")
        return (1 - rows["share"] / rows["least"]).clip(lower=0.0)

    def lost(self, alignment: int) -> float:
        """Return the loss at the least measured alignment that is no smaller; NaN if only the reference is."""
        losses = self.losses[self.losses.index >= alignment]
        return math.nan if losses.empty else float(losses.iloc[0])

    @property
    def smallest_enough(self) -> float:
        """The smallest alignment within the tolerance of the best; NaN where only the reference was measured."""
        rows = self.measured.loc[self.measured["enough"].astype(bool), "alignment"]
        return float(rows.iloc[0]) if len(rows) and len(self.losses) else math.nan


def _products(study: StudyData) -> pd.DataFrame:
    """Return the cases that are products with known sizes."""
    return study.cases.dropna(subset=["m", "n", "k"])


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
        layouts = base.layouts_of(row)
        for dimension in Matmul.dimensions:
            fixed = [name for name in Matmul.dimensions if name != dimension]
            swept = group[(sizes[fixed] == size).all(axis=1) & (sizes[dimension] <= size)]
            if len(swept) < 2:
                continue
            extents = sizes.loc[swept.index, dimension]
            along = theory.operands_along(dimension, layouts)
            same = swept["environment"] == row["environment"]
            share = (swept["tflops"] / row["tflops"]).where(same)
            # A smaller product has no more tiles and waves than the reference, so it takes no longer.
            least = extents / size
            points = swept.assign(
                dimension=dimension, layout="{a}, {b}".format(**layouts), size=extents, share=share, least=least,
                along=", ".join(along).upper() or "none", alignment=extents.map(theory.alignment),
                enough=share >= (1 - TOLERANCE) * share.max() * least,
            ).sort_values(["alignment", "size"], ignore_index=True)  # fmt: skip
            all_lines.append(Line(str(variant), row["kernel"], row["dtype"], dimension, points))
    return all_lines


def totals(study: StudyData, all_lines: list[Line]) -> pd.DataFrame:
    """Return one row per line: the cost of its alignments, and the smallest alignment that costs nothing.
    Losses (%) are against a smaller product's share; multiples: `theory.alignment.RECOMMENDED`."""
    rows = []
    for line in all_lines:
        aligned = line.points.loc[line.points["size"] == _reference(study), "tflops"]
        refused = line.points.loc[line.points["status"] == "unsupported", "alignment"]
        row = {
            "variant": line.variant,
            "dtype": line.dtype,
            "layout of A, B": line.points["layout"].iloc[0],
            "dimension": line.dimension,
            "contiguous in": line.points["along"].iloc[0],
            "reference (TFLOP/s)": float(next(iter(aligned), math.nan)),
            "unsupported alignments": ", ".join(str(alignment) for alignment in refused),
            "least alignment measured": float(line.losses.index.min()),
            "loss at it (%)": 100 * line.lost(1),
            "smallest alignment that is enough": line.smallest_enough,
        }
        multiples = theory.RECOMMENDED.get(line.dtype.partition("_")[0], (0, 0))
        for multiple, label in zip(multiples, ("recommended", "recommended on A100")):
            row[f"{label} multiple"] = multiple or math.nan
            lost = line.lost(multiple) if multiple else math.nan
            row[f"loss at the multiple {label} (%)"] = 100 * lost
        rows.append(row)
    return pd.DataFrame(rows)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case and dimension varied, then the totals' rows (column `line` names them)."""
    frame = base.table_of(study, TABLES["columns"])
    if names := base.text_of(study, "kernel_name"):
        # The name of the vendor's kernel often tells the alignment that it needs.
        launched = frame["case"].map(names)
        frame.insert(frame.columns.get_loc("verdict"), "kernels launched", launched)
    all_lines = lines(study)
    if not all_lines:
        return base.with_derived(frame, all_lines)
    added = pd.concat([line.points for line in all_lines])[["case", *_COLUMNS]]
    joined = frame.merge(added.rename(columns=_COLUMNS), on="case", how="left", sort=False)
    last = totals(study, all_lines)
    last.insert(0, "line", last["variant"] + ", " + last["dimension"])
    return base.with_derived(pd.concat([joined, last], ignore_index=True), all_lines)


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the largest loss of the lines that are drawn."""
    worst = max((float(line.losses.max()) for line in _drawn(study, table).values()), default=0.0)
    if not worst > 0:
        return ""
    return f"A badly aligned dimension leaves cuBLAS only {100 * (1 - worst):.0f} % of its speed"


def _drawn(study: StudyData, table: pd.DataFrame) -> dict[str, Line]:
    """Return cuBLAS's line of each dtype with most loss, with its name; without cuBLAS those of other kernels."""
    lines: list[Line] = [line for line in base.derived(table) if len(line.losses)]
    of_vendor = [line for line in lines if line.kernel == BASELINE]
    lines = sorted(of_vendor or lines, key=lambda line: -float(line.losses.max()))
    worst: dict[str, Line] = {}
    for line in lines:
        worst.setdefault(line.dtype if of_vendor else line.variant, line)
    order = [line for line in worst.values() if len(worst) <= len(PALETTE) or line.losses.max() > 0]
    bare = [base.operand_dtype(line.dtype) for line in order]
    names = {line.dtype: base.dtype_short(line.dtype) for line in order}
    names |= {line.dtype: name for line, name in zip(order, bare) if bare.count(name) == 1}
    return {
        f"{names[line.dtype] if of_vendor else line.variant}, {line.dimension.upper()} varies": line
        for line in order[: len(PALETTE)]
    }


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a line a dtype: the speed by the alignment of the dimension that costs most."""
    lines = _drawn(study, table)
    look.stop_if(not lines, "throughput")
    all_steps = {int(step) for line in lines.values() for step in line.points["alignment"]}
    steps = sorted(all_steps, reverse=True)
    parts = [line.measured.assign(name=name) for name, line in lines.items()]
    points = pd.concat(parts, ignore_index=True)
    points["place"] = points["alignment"].map(steps.index)
    points["percent"] = 100 * points["share"]
    colors = {
        name: DTYPES.get(line.dtype, color) if line.kernel == BASELINE else color
        for (name, line), color in zip(lines.items(), PALETTE)
    }
    tall = 62.0
    fig, (ax,) = look.panels(style, [tall])
    sns.lineplot(
        points, x="place", y="percent", hue="name", style="name", palette=colors, dashes=False, errorbar=None,
        markers=dict(zip(lines, MARKERS)), markersize=4, markeredgewidth=0, estimator=None, legend=False, ax=ax,
    )  # fmt: skip
    ax.axhline(100, color=GREY, linewidth=0.6, zorder=1)
    ax.set(xlim=(-0.3, len(steps) - 0.7), ylim=(0, 112))
    ax.set_xlabel("largest power of two that divides M, N or K, whichever costs the dtype most")
    size = _reference(study)
    ax.set_ylabel(f"speed (% of that at {size}³)")
    shown = [at for at in range(len(steps)) if at != 1 or not style.narrow]
    ax.set_xticks(shown, [str(steps[at]) for at in shown])
    look.grid(ax, "y")
    last = points.sort_values("place").drop_duplicates("name", keep="last")
    texts = last["name"] + ": " + last["percent"].map("{:.0f} %".format)
    places = zip(last["place"], last["percent"], texts, last["name"].map(colors), strict=True)
    names_beside(ax, list(places), tall - 14, style)
    notes = filled(__file__, "alignment", size=size).splitlines()
    return look.finish(fig, study, style, notes=notes, stages=_STAGES)
