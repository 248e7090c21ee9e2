"""The common look of all figures: one theme, fixed colours for kernels, and files without dates.

The same tables give byte-identical files: the SVG's ids are salted with a constant, no date and no software
version is written, and figures do not use pyplot's global state.
"""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import Bbox
from PIL import Image

from tilewave.basics.errors import UserError
from tilewave.plots.base import StudyData, compact, missing_notes, nothing_to_draw, source_line

MM = 1 / 25.4
"""Inches in a millimetre."""

INK, GREY, FAINT = "#222222", "#777777", "#DDDDDD"
MODEL = "#777777"
GOOD, BAD = "#117733", "#CC3311"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
OURS = "#332288"
"""Colour of measurements of this project's kernels; the baseline is black, a model grey."""
FONT = "DejaVu Sans"  # it comes with matplotlib
NARROW_MM = 120.0
"""Width below which panels stand above one another instead of side by side."""


@dataclass(frozen=True)
class Style:
    """The look of the figures.

    Attributes
    ----------
    width_mm: width of a figure in mm (178: two columns of a page, 86: one).
    font_size: size of axis labels in points; ticks, notes and the footer follow it.
    bare: the title stays out of the figure.
    """

    width_mm: float = 178.0
    font_size: float = 7.5
    bare: bool = False

    @property
    def width(self) -> float:
        """Width in inches."""
        return self.width_mm * MM

    @property
    def narrow(self) -> bool:
        """True where panels must stand above one another."""
        return self.width_mm < NARROW_MM

    @property
    def small(self) -> float:
        """Size of annotations and notes in points."""
        return 0.85 * self.font_size

    @property
    def line(self) -> float:
        """Height of a line of text at font_size, in inches."""
        return 1.25 * self.font_size / 72


def check_style(style: Style) -> None:
    """Refuse a style that cannot be drawn.

    Raises
    ------
    UserError: width or size out of range.
    """
    if not 60 <= style.width_mm <= 400:
        raise UserError("config", "style.width_mm", style.width_mm, "60 to 400 (millimetres)")
    if not 4 <= style.font_size <= 24:
        raise UserError("config", "style.font_size", style.font_size, "4 to 24 (points)")


def _settings(style: Style) -> dict[str, Any]:
    size = style.font_size
    return {
        **sns.axes_style("ticks"),
        **sns.plotting_context("paper"),
        "font.family": FONT,
        "font.size": size,
        "axes.labelsize": size,
        "axes.titlesize": size,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "xtick.labelsize": style.small,
        "ytick.labelsize": style.small,
        "legend.fontsize": style.small,
        "legend.frameon": False,
        "axes.linewidth": 0.6,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "text.color": INK,
        # Hinted widths depend on the resolution: labels that fit in the layout would be cut in the file.
        "text.hinting": "none",
        "xtick.color": INK,
        "ytick.color": INK,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.minor.width": 0.4,
        "ytick.minor.width": 0.4,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "grid.color": "#E6E6E6",
        "grid.linewidth": 0.5,
        "lines.linewidth": 1.0,
        "lines.markersize": 3.2,
        "patch.linewidth": 0.4,
        "hatch.linewidth": 0.5,
        "figure.dpi": 100,
        "savefig.dpi": 220,
        # Characters as outlines: an SVG looks the same where the font is missing.
        "svg.fonttype": "path",
        "svg.hashsalt": "tilewave",
        "text.parse_math": False,
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "axes.unicode_minus": True,
    }


@contextmanager
def apply(style: Style) -> Iterator[None]:
    """Set the theme, for as long as the block lasts."""
    check_style(style)
    with mpl.rc_context(_settings(style)):  # type: ignore[arg-type]
        yield


def new_figure(style: Style, height_mm: float) -> Figure:
    """Return a figure whose panels are `height_mm` high; `finish` adds the height of title and legend."""
    fig = Figure(figsize=(style.width, height_mm * MM))
    FigureCanvasAgg(fig)
    return fig


# ------------------------------------------------------------------------------- title and legend


_captions: WeakKeyDictionary[Figure, list[str]] = WeakKeyDictionary()


def caption(fig: Figure) -> list[str]:
    """Return the text below a finished figure: its notes, then one line with missing cases and the source."""
    return _captions.get(fig, [])


def finish(
    fig: Figure,
    study: StudyData,
    style: Style,
    handles: Sequence[Artist] = (),
    notes: Sequence[str] = (),
    stages: Iterable[str] | None = None,
) -> Figure:
    """Frame a figure with a study's finding (else its question), its missing cases and its source.
    stages: the stages whose missing cases the caption must list; None for all."""
    troubles = missing_notes(study, stages)
    if len(troubles) > 6:
        more = len(troubles) - 5
        troubles = [*troubles[:5], f"The table has {more} more reasons."]
    title = study.takeaway or study.question or study.title
    ends = " ".join(
        f"{sentence.removesuffix('.')}." for sentence in (*troubles, source_line(study))
    )
    return framed(fig, style, title, ends, handles, notes)


def framed(
    fig: Figure,
    style: Style,
    title: str,
    source: str,
    handles: Sequence[Artist] = (),
    notes: Sequence[str] = (),
) -> Figure:
    """Put a title above the panels and a legend below them; the rest is the figure's `caption`.

    source: one line with missing cases and the origin of the values. handles: the legend's entries, with their
    labels. notes: sentences on how to read the figure.
    """
    _captions[fig] = [*notes, f"{source.removesuffix('.')}."]
    fig.set_layout_engine("constrained", w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)
    around: list[Artist] = []
    if not style.bare:
        look = {"ha": "left", "size": 1.15 * style.font_size, "weight": "bold", "wrap": True}
        around.append(fig.suptitle(title, x=0.03 / style.width, **look))
    if handles:
        around.append(_legend(fig, handles, style.width))
    renderer = fig.canvas.get_renderer()  # type: ignore[attr-defined]
    more = sum(artist.get_window_extent(renderer).height / fig.dpi + 0.08 for artist in around)
    fig.set_size_inches(style.width, fig.get_figheight() + more)
    # The layout runs once and is then frozen: the panels are alike in every file type, and saving twice
    # gives the same bytes (a second layout would start from the first).
    engine = fig.get_layout_engine()
    assert engine is not None
    engine.execute(fig)
    fig.set_layout_engine(None)  # "none" leaves a place-holder, for which each save draws twice
    for ax in fig.axes:
        # The solver's last digits depend on the addresses of its variables.
        bounds = ax.get_position(original=True).bounds
        ax.set_position(Bbox.from_bounds(*(round(float(part), 5) for part in bounds)))
    return fig


def _legend(fig: Figure, handles: Sequence[Artist], width: float) -> Legend:
    """Draw a legend below the panels, with as many columns as fit into `width` inches."""
    renderer = fig.canvas.get_renderer()  # type: ignore[attr-defined]
    for columns in range(min(len(handles), 8), 0, -1):
        legend = fig.legend(
            handles=handles, loc="outside lower center", ncols=columns,
            columnspacing=1.2, handlelength=1.8, handletextpad=0.5, labelspacing=0.3,
            borderaxespad=0.3, borderpad=0.1,
        )  # fmt: skip
        if columns == 1 or legend.get_window_extent(renderer).width <= width * fig.dpi:
            break
        legend.remove()
    return legend


def entries(axes: Iterable[Axes]) -> list[Artist]:
    """Return seaborn's legend entries, each label once, for `finish`, and remove its legends."""
    handles: dict[str, Artist] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
        if (legend := ax.get_legend()) is not None:
            legend.remove()
    return list(handles.values())


def empty(ax: Axes, sentence: str, style: Style) -> None:
    """Write the reason into an axes that shows nothing."""
    ax.set_axis_off()
    ax.text(
        0.5, 0.5, sentence, ha="center", va="center", transform=ax.transAxes, color=GREY,
        size=style.font_size, wrap=True,
    )  # fmt: skip


def empty_figure(study: StudyData, style: Style, what: str) -> Figure:
    """Return the figure of a study without data: the question, the reason, the source."""
    fig = new_figure(style, 30)
    empty(fig.subplots(), nothing_to_draw(study, what), style)
    return finish(fig, study, style)


# ------------------------------------------------------------------------------------------ axes


def rows_axis(ax: Axes, labels: Sequence[str]) -> None:
    """Set one row for each label, the first on top."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def beside(
    ax: Axes, texts: Iterable[str], colors: Iterable[str] = (), middle: float = 0.0, label: str = ""
) -> None:
    """Write texts at the right of the rows, the first on top; middle: offset of a row's middle; label: of them
    all."""
    right, lines = ax.secondary_yaxis("right"), list(texts)
    right.set_yticks([row + middle for row in range(len(lines))], lines)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    right.set_ylabel(label)
    for text, color in zip(right.get_yticklabels(), colors):
        text.set_color(color)


def powers_of_two(ax: Axes, values: Iterable[float], most: int = 9, axis: str = "x") -> None:
    """Set a log2 axis with a tick at each power of two in the data's range, thinned to fit."""
    sizes = [v for v in values if v > 0]
    getattr(ax, f"set_{axis}scale")("log", base=2)
    if not sizes:
        return
    low, high = min(sizes), max(sizes)
    ticks = [2**i for i in range(40) if low * 0.99 <= 2**i <= high * 1.01] or [low]
    step = -(-len(ticks) // most)
    scale = getattr(ax, f"{axis}axis")
    scale.set_major_locator(FixedLocator(ticks[::-1][::step][::-1]))
    scale.set_minor_locator(NullLocator())
    scale.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}" if v < 1e5 else compact(v)))


def decades(axis: Axis, ends: tuple[float, float], unit: float = 1.0) -> None:
    """Set ticks of a log10 axis at 1, 2 and 5 where it is short, else at 1; unit: of the ticks."""
    low, high = ends
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if high < 30 * low else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))


def grid(ax: Axes, axis: str = "both") -> None:
    """Draw faint lines behind the data."""
    ax.grid(True, axis=axis)  # type: ignore[arg-type]


def heatmap(ax: Axes, values: pd.DataFrame, texts: Any, **how: Any) -> None:
    """Draw seaborn's heatmap with a text in each cell; the caller sets how labels are turned.
    To turn them itself, seaborn would draw the whole figure and look for overlaps."""
    fig = ax.get_figure(root=True)
    assert fig is not None

    def nothing() -> None:
        fig.stale = False

    fig.canvas.draw = nothing  # type: ignore[method-assign, assignment]
    try:
        sns.heatmap(values, annot=texts, fmt="", cbar=False, ax=ax, **how)
    finally:
        del fig.canvas.draw


# ----------------------------------------------------------------------------------------- files


THUMBNAIL_PX = 440
"""Width of a figure's small picture."""


def thumbnail(fig: Figure, path: Path, style: Style) -> None:
    """Save the upper part of a figure, not higher than wide, as a small PNG of few colours."""
    held = io.BytesIO()
    with apply(style):
        fig.savefig(held, format="png", dpi=2 * THUMBNAIL_PX / style.width)
    with Image.open(held) as picture:
        part = picture.convert("RGB").crop((0, 0, picture.width, min(picture.size)))
    part = part.resize((THUMBNAIL_PX, round(THUMBNAIL_PX * part.height / part.width)))
    part.quantize(32).save(path, optimize=True)


def save(fig: Figure, path: str | Path, style: Style = Style()) -> None:
    """Write a figure in the path's file type (svg, pdf, png), without dates and versions.

    Raises UserError for any other suffix.
    """
    path = Path(path)
    nothing: Mapping[str, dict[str, None]] = {
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
        ".png": {"Software": None},
    }
    if path.suffix not in nothing:
        raise UserError(path.name, "file type", path.suffix, ["svg", "pdf", "png"])
    path.parent.mkdir(parents=True, exist_ok=True)
    # zlib makes such pictures smaller at this level than at its default, and faster.
    how = {"pil_kwargs": {"compress_level": 3}} if path.suffix == ".png" else {}
    with apply(style):
        fig.savefig(path, metadata=nothing[path.suffix], **how)  # type: ignore[arg-type]
