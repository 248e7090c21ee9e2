"""Marks that several figures share: rows of dots and of bars, heat maps, names at the ends of lines."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, to_hex
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import offset_copy

from tilewave.plots import style as look
from tilewave.plots.style import BLUE, GREY, INK, MM, Style

_WIDE = 8.0
"""Width (%) from which a part of a bar has its text inside."""
_WIDE_DIGIT = 4.0
"""Width (%) from which it has a single digit."""


def rows_mm(count: int) -> float:
    """Return the height in mm of a panel of `count` rows with its title and axis."""
    return look.ROW_MM * count + 14


def dots(
    ax: Axes,
    rows: pd.DataFrame,
    columns: Sequence[str],
    color: str = BLUE,
    texts: Sequence[str] = (),
    heading: str = "",
) -> None:
    """Draw one row per entry of the frame (column `label`): its values joined by a line, the last one filled.
    texts: at the right of the rows, below the heading."""
    values = rows[list(columns)].astype(float)
    places = range(len(rows))
    ax.hlines(places, values.min(axis=1), values.max(axis=1), color=color, alpha=0.4, linewidth=1.2)
    for column in columns:
        face = color if column == columns[-1] else "white"
        sns.scatterplot(
            x=values[column].to_numpy(), y=places, color=face, edgecolor=color, linewidth=0.9, s=22,
            legend=False, ax=ax, zorder=3,
        )  # fmt: skip
    look.rows_axis(ax, list(rows["label"]))
    ax.set(xlabel="", ylabel="")
    look.grid(ax, "x")
    if len(texts):
        look.beside(ax, texts, [color] * len(rows), heading)


def dot_handles(hollow: str, filled: str, color: str = BLUE) -> list[Artist]:
    """Return the legend's entries of the first and the last dots of `dots`."""
    faces = {hollow: "white", filled: color}
    return [
        Line2D([], [], color=color, linestyle="", marker="o", ms=4.7, mfc=face, mew=0.9, label=name)
        for name, face in faces.items()
    ]


def bars(
    ax: Axes, labels: Sequence[str], values: Sequence[float], texts: Sequence[str],
    colors: Sequence[str] | str = BLUE,
) -> None:  # fmt: skip
    """Draw one bar per row, with its text at the right."""
    kinds = [colors] * len(labels) if isinstance(colors, str) else list(colors)
    sns.barplot(
        x=list(values), y=range(len(labels)), hue=kinds, palette={kind: kind for kind in kinds},
        orient="h", dodge=False, width=0.66, saturation=1, errorbar=None, legend=False, ax=ax,
    )  # fmt: skip
    look.rows_axis(ax, labels)
    look.beside(ax, texts, kinds)
    ax.set(xlabel="", ylabel="")
    look.grid(ax, "x")


def stacks(
    ax: Axes, parts: pd.DataFrame, colors: Mapping[str, str], texts: pd.DataFrame, hatched: str = ""
) -> list[Artist]:
    """Draw a bar of 100 % for each row of the frame, its columns stacked, and return the legend's handles.
    texts: what stands in the parts that are wide enough; a single digit needs less. hatched: a column."""
    shown = [name for name in colors if name in parts]
    long = parts[shown].reset_index(drop=True).melt(ignore_index=False, var_name="part")
    sns.histplot(
        long.reset_index(names="row").dropna(), y="row", weights="value", hue="part",
        hue_order=shown[::-1], palette=dict(colors), multiple="stack", discrete=True, shrink=0.75,
        alpha=1, linewidth=0.4, edgecolor=INK, legend=False, ax=ax,
    )  # fmt: skip
    hatches = {name: "////" * (name == hatched) for name in shown}
    for patch in ax.patches:
        if hatched and to_hex(patch.get_facecolor()) == to_hex(colors[hatched]):
            patch.set_hatch(hatches[hatched])
    middles = parts[shown].cumsum(axis=1) - parts[shown] / 2
    for name in shown:
        ink = "white" if colors[name] == BLUE else INK
        for row, (middle, share) in enumerate(zip(middles[name], parts[name], strict=True)):
            text, at = str(texts[name].iloc[row]), (middle, row)
            if share >= (_WIDE if len(text) > 1 else _WIDE_DIGIT):
                behind = look.PLAIN | {"facecolor": colors[name]} if name == hatched else None
                look.write(ax, text, at, color=ink, ha="center", va="center_baseline", bbox=behind)
    look.rows_axis(ax, [str(label) for label in parts.index])
    ax.set(xlabel="", ylabel="", xlim=(0, 100))
    edge: dict[str, Any] = {"edgecolor": INK, "linewidth": 0.4}
    looks = ((name, colors[name], hatches[name]) for name in shown)
    return [Patch(facecolor=face, label=name, hatch=mark, **edge) for name, face, mark in looks]


def heatmap(ax: Axes, values: pd.DataFrame, texts: pd.DataFrame, norm: Normalize) -> Artist:
    """Draw a cell for each row and column with its text; the largest value of a row has a frame, whose legend's entry is
    returned. Cells without a value stay white."""
    how: dict[str, Any] = {"fmt": "", "cbar": False, "cmap": "Blues", "linewidths": 0.6}
    sns.heatmap(values, annot=texts, norm=norm, ax=ax, **how)
    for row, (_, cells) in enumerate(values.iterrows()):
        if cells.notna().any():
            corner = (int(cells.argmax()) + 0.04, row + 0.04)
            line: dict[str, Any] = {"edgecolor": INK, "linewidth": 1.1, "clip_on": False}
            ax.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, **line))
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0, labelrotation=0)
    return Patch(facecolor="none", edgecolor=INK, linewidth=1.1, label="best of the row")


def slanted(
    ax: Axes, text: str, at: tuple[float, float], slope: float, style: Style, **how: Any
) -> None:
    """Write a text along the line y = slope x of logarithmic axes, from an x and a factor of the line's height there."""
    ax.text(
        at[0], at[1] * at[0] * slope, text, size=style.small, rotation=math.degrees(math.atan(slope)),
        rotation_mode="anchor", transform_rotates_text=True, **how,
    )  # fmt: skip


def apart(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places at least `gap` apart, nearest to `heights` (descending) and in their order.
    They lie from `low` to `high` where there is room: an isotonic regression by pooling neighbours."""
    pools: list[list[float]] = []
    for index, height in enumerate(heights):
        pools.append([height + gap * index])
        while len(pools) > 1 and fmean(pools[-2]) < fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    lowest = low + gap * (len(heights) - 1)
    levels = [max(lowest, min(fmean(pool), high)) for pool in pools for _ in pool]
    return [level - gap * index for index, level in enumerate(levels)]


def names_beside(
    ax: Axes, ends: Sequence[tuple[float, float, str, str]], tall: float, style: Style
) -> None:
    """Write names at the right edge of an axes `tall` mm high, moved apart and joined to their points.
    ends: x, y, text, colour; the limits of the axes must be set."""
    if not ends:
        return
    ends = sorted(ends, key=lambda end: (-end[1], end[2]))
    to_axes = ax.transData + ax.transAxes.inverted()
    heights = [float(y) for _, y in to_axes.transform([end[:2] for end in ends])]
    gap = 1.25 * style.small / 72 / MM / tall
    places = apart(heights, gap, gap / 2, 1 - gap / 2)
    # The layout leaves room only for texts at a fixed distance from the axes.
    away = 8 if style.narrow else 14
    beside = offset_copy(ax.transAxes, ax.get_figure(root=True), x=away, units="points")
    line: dict[str, Any] = {"arrowstyle": "-", "color": GREY, "linewidth": 0.7, "shrinkA": 0}
    for (x, y, text, color), place in zip(ends, places, strict=True):
        ax.annotate(
            text, (x, y), xytext=(1.0, place), textcoords=beside, va="center", size=style.small,
            color=color, annotation_clip=False, arrowprops=line | {"relpos": (0, 0.5)},
        )  # fmt: skip
