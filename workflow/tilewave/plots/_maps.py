"""Heat maps of numbers: a larger value is darker, the best of each row has a frame."""

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from tilewave.plots import style as look
from tilewave.plots.style import INK, Style

BEST = "best of the row"
PICK = "best that is predicted"


def draw(
    ax: Axes, values: pd.DataFrame, texts: pd.DataFrame, norm: Normalize, style: Style,
    picks: pd.DataFrame | None = None, framed: bool = True,
) -> None:  # fmt: skip
    """Draw a cell for each row and column of `values`, with its text of `texts`.

    norm: the scale of the shades. picks: other values of the same cells; the best of each row by them gets a
    mark in its corner. framed: whether the largest of a row gets a frame. Cells without a value stay white.
    """
    font = {"size": style.small}
    look.heatmap(ax, values, texts, cmap="Blues", norm=norm, linewidths=0.6, annot_kws=font)
    for row, (_, cells) in enumerate(values.iterrows()):
        if framed and cells.notna().any():
            corner = (int(cells.argmax()) + 0.04, row + 0.04)
            ax.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, edgecolor=INK, linewidth=1.1))
    if picks is not None:
        for row, (_, cells) in enumerate(picks.iterrows()):
            if cells.notna().any():
                ax.plot(int(cells.argmax()) + 0.86, row + 0.2, marker=7, color=INK, markersize=3)
    ax.set(xlabel="", ylabel="")
    ax.tick_params(length=0, labelsize=style.small, labelrotation=0)


def legend(picked: bool) -> list[Artist]:
    """Return legend entries of the frame and, where a map has picks, of their mark."""
    mark = Line2D([], [], linestyle="", marker=7, color=INK, markersize=3, label=PICK)
    frame = Patch(facecolor="none", edgecolor=INK, linewidth=1.1, label=BEST)
    return [frame, mark] if picked else [frame]
