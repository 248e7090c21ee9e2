"""Panels above one another, each as high as its rows need, and names at the ends of their lines."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import offset_copy

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.style import GREY, INK, MM, Style

_HEAD, _FOOT = 6.0, 8.0
"""Heights of a panel's title and of the axis below a column, in mm."""


def columns(heights: Mapping[str, float], most: int) -> list[list[str]]:
    """Split the names, in order, into one column or two, such that the higher column is as low as possible."""
    names = list(heights)

    def tall(part: Sequence[str]) -> float:
        return sum(heights[name] + _HEAD for name in part)

    if most == 1 or len(names) < 2:
        return [names]
    cut = min(range(1, len(names)), key=lambda at: max(tall(names[:at]), tall(names[at:])))
    return [names[:cut], names[cut:]]


def stacked(style: Style, heights: Mapping[str, float]) -> tuple[Figure, list[dict[str, Axes]]]:
    """Return a figure with an axes for each name, and of each column its axes by name.
    heights: the data areas in mm. A wide figure has two columns."""
    parts = columns(heights, 1 if style.narrow else 2)
    needed = [sum(heights[name] + _HEAD for name in part) for part in parts]
    fig = look.new_figure(style, max(needed) + _FOOT)
    outer = fig.add_gridspec(1, len(parts))
    axes = []
    for index, (part, height) in enumerate(zip(parts, needed, strict=True)):
        # The rest of a shorter column stays empty, so that rows are alike in all panels.
        remainder = max(needed) - height
        ratios = [heights[name] for name in part] + ([remainder] if remainder > 0 else [])
        grid = outer[index].subgridspec(len(ratios), 1, height_ratios=ratios)
        axes.append({name: fig.add_subplot(grid[row]) for row, name in enumerate(part)})
    return fig, axes


def titled(ax: Axes, title: str, subtitle: str, style: Style) -> None:
    """Write a panel's title and behind it, small and grey, the subtitle."""
    name = ax.set_title(title)
    ax.annotate(
        subtitle, (1, 0), xycoords=name, xytext=(4, 0.5), textcoords="offset points",
        size=0.8 * style.font_size, color=GREY,
    ).set_in_layout(False)  # fmt: skip


def heatmap(ax: Axes, values: pd.DataFrame, texts: pd.DataFrame, style: Style, **how: Any) -> None:
    """Draw `look.heatmap` with small characters and without axis labels."""
    font = {"size": 0.8 * style.font_size, "color": INK}
    look.heatmap(ax, values, texts, annot_kws=font, **how)
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0)


def apart(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return places at least `gap` apart, near `heights` (descending) and in their order.
    They lie from `low` to `high` where there is room."""
    places: list[float] = []
    for height in heights:
        places.append(min(height, places[-1] - gap if places else high))
    if places and places[-1] < low:  # too low: push up again from the bottom
        places[-1] = low
        for i in range(len(places) - 2, -1, -1):
            places[i] = max(places[i], places[i + 1] + gap)
    return places


def below_dtypes(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows below a header line for each dtype, which has only a `label`."""
    blocks = [
        pd.concat([pd.DataFrame([{"label": base.dtype_short(dtype)}]), block])
        for dtype, block in rows.groupby(rows["dtype"].astype(str), sort=False)
    ]
    return pd.concat(blocks, ignore_index=True)


def listed(ax: Axes, lines: pd.DataFrame, style: Style, middle: float) -> None:
    """Write the names of the lines of `below_dtypes` along y, dtypes in bold; middle: offset of a line's middle."""
    ax.set_yticks(lines.index + middle, lines["label"], rotation=0)
    ax.set_ylim(len(lines) - 0.5 + middle, -0.5 + middle)
    ax.tick_params(axis="y", length=0, labelsize=0.8 * style.font_size)
    for label, variant in zip(ax.get_yticklabels(), lines["variant"], strict=True):
        label.set_fontweight("normal" if base.present(variant) else "bold")


def cells(ax: Axes, texts: pd.DataFrame, shades: pd.DataFrame, style: Style) -> None:
    """Draw columns of texts, each below its name; a larger shade is darker."""
    cmap = sns.blend_palette(["white", "#D55E00"], as_cmap=True)
    heatmap(ax, shades, texts, style, cmap=cmap, vmin=0, vmax=160)
    ax.set_yticks([])
    ax.set_xticks(ax.get_xticks(), list(texts), rotation=90, size=0.8 * style.font_size)
    ax.tick_params(labeltop=True, labelbottom=False)


def names_beside(
    ax: Axes,
    ends: Sequence[tuple[float, float, str, bool]],
    tall: float,
    style: Style,
) -> None:
    """Write names at the right edge of an axes `tall` mm high, moved apart and joined to their points.
    ends: x, y, text, and whether the text is bold; the limits of the axes must be set."""
    if not ends:
        return
    ends = sorted(ends, key=lambda end: (-end[1], end[2]))
    to_axes = ax.transData + ax.transAxes.inverted()
    heights = [float(y) for _, y in to_axes.transform([end[:2] for end in ends])]
    gap = 1.25 * 0.8 * style.font_size / 72 / MM / tall
    places = apart(heights, gap, gap / 2, 1 - gap / 2)
    right = ax.get_xlim()[1]
    ax.hlines(
        [y for _, y, _, _ in ends], [x for x, _, _, _ in ends], right, color="#CCCCCC",
        linewidth=0.4, zorder=0.5,
    )  # fmt: skip
    # The layout leaves room only for texts at a fixed distance from the axes.
    beside = offset_copy(ax.transAxes, ax.get_figure(root=True), x=8, units="points")
    for (_, _, text, bold), height, place in zip(ends, heights, places, strict=True):
        ax.annotate(
            text, (1.0, height), xycoords="axes fraction", xytext=(1.0, place), textcoords=beside,
            va="center", ha="left", size=0.8 * style.font_size, color=INK,
            weight="bold" if bold else "normal", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": GREY, "linewidth": 0.4, "shrinkA": 0,
                        "shrinkB": 0, "relpos": (0, 0.5)},
        )  # fmt: skip
