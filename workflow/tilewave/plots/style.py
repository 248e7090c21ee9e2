"""The common look of all figures: one theme, one palette, and no text but labels (the caption is beside a
figure). The same tables give the same bytes: salted ids in SVGs, no date, no version, no state of pyplot."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import matplotlib as mpl
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox

from tilewave.basics.errors import UserError
from tilewave.plots._captions import missing_notes, nothing_to_draw, source_line
from tilewave.plots.base import StudyData, compact

MM = 1 / 25.4
"""Inches in a millimetre."""

INK, GREY = "#222222", "#666666"
BLUE, RED, GREEN, PURPLE = "#1F5FA8", "#B5402A", "#1B7837", "#762A83"
PALETTE = (BLUE, RED, GREEN, PURPLE, "#8C510A", "#0B6E6E", "#A1346B", INK)
"""Colours of series, in this order. Each has a contrast of at least 4.5 to 1 on white."""
DTYPES = {"f32": BLUE, "f16_f32": RED, "f64": GREEN, "tf32": PURPLE}
"""Colours of dtypes; others have those of PALETTE that are left."""
AREAS = (BLUE, "#D96F45", "#EDC373", "#D6E4F2", "white")
"""Colours of the parts of a bar, in this order: each is lighter than the one before, also in grey print."""
MODEL = GREY
"""Colour of models; the baseline is INK."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_FILE = Path(__file__).with_suffix(".mplstyle")
_SHEET = mpl.rc_params_from_file(_FILE, use_default_template=False)
NARROW_MM, TALLEST_MM = 120.0, 120.0
"""Width below which panels stand above one another instead of side by side; the most height of a figure."""
PLAIN = {"facecolor": "white", "linewidth": 0, "pad": 0.5}
"""The box of a text that hides the grid behind it."""
ROW_MM = 5.0
"""Height of a row of dots or bars."""
MOST_ROWS = 12
"""The most rows of most figures."""


@dataclass(frozen=True)
class Style:
    """The look of the figures. width_mm: of a figure in mm (178: two columns of a page, 85: one). font_size:
    of titles and axis labels in points; ticks and names are a little smaller."""

    width_mm: float = 178.0
    font_size: float = 8.0

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
        """Size of ticks, names and numbers in points."""
        return 0.9 * self.font_size


@contextmanager
def apply(style: Style) -> Iterator[None]:
    """Set the theme, for as long as the block lasts."""
    settings = sns.axes_style("ticks") | sns.plotting_context("paper") | _SHEET
    settings |= dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), style.font_size)
    small = ("xtick.labelsize", "ytick.labelsize", "legend.fontsize")
    with mpl.rc_context(settings | dict.fromkeys(small, style.small)):
        yield


Draw = TypeVar("Draw", bound=Callable[..., Figure])


class _Nothing(Exception):
    """A study has none of what its figure shows."""


def stop_if(nothing: bool, what: str) -> None:
    """End a `styled` function if there is nothing to draw: it then gives the `empty_figure`."""
    if nothing:
        raise _Nothing(what)


def styled(draw: Draw) -> Draw:
    """Set the theme while a figure is drawn: a decorator of a module's `draw`."""

    @functools.wraps(draw)
    def drawn(study: StudyData, table: Any, style: Style, *more: Any, **named: Any) -> Figure:
        with apply(style):
            try:
                return draw(study, table, style, *more, **named)
            except _Nothing as missing:
                return empty_figure(study, style, str(missing))

    return cast(Draw, drawn)


def new_figure(style: Style, height_mm: float) -> Figure:
    fig = Figure(figsize=(style.width, height_mm * MM))
    FigureCanvasAgg(fig)
    return fig


def panels(style: Style, heights: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Return a figure with an axes for each height in mm: side by side, or above one another in a narrow figure."""
    down = len(heights) if style.narrow else 1
    fig = new_figure(style, min(TALLEST_MM, sum(heights) if style.narrow else max(heights)))
    ratios = heights if style.narrow else None
    axes = fig.subplots(down, len(heights) // down, squeeze=False, height_ratios=ratios)
    return fig, list(axes.flat)


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
    checks: Sequence[str] = (),
) -> Figure:
    """Put a legend below the panels, lay the figure out, and give it a caption.
    handles: the legend's entries, with their labels. notes: sentences on how to read the figure, before those that no reader
    needs: checks, missing cases and the source. stages: those whose missing cases the caption must list; None for all."""
    troubles = missing_notes(study, stages)
    if len(troubles) > 6:
        more = len(troubles) - 5
        troubles = [*troubles[:5], f"The table has {more} more reasons."]
    sentences = [f"{text.removesuffix('.')}." for text in (*checks, *troubles, source_line(study))]
    _captions[fig] = [*(f"{note.removesuffix('.')}." for note in notes), " ".join(sentences)]
    for ax in fig.axes:
        ax.xaxis.label.set_wrap(True)
    fig.set_layout_engine("constrained", w_pad=0.03, h_pad=0.03, wspace=0.06, hspace=0.02)
    if handles:
        # A character is 0.6 of the font's size wide, a key and its distance 4.
        entry = (0.6 * max(len(str(handle.get_label())) for handle in handles) + 4) * style.small
        fig.legend(
            handles=handles, loc="outside lower center", columnspacing=1.2, handlelength=1.6,
            ncols=max(1, min(len(handles), int(72 * style.width / entry))), borderpad=0.1,
        )  # fmt: skip
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


def entries(axes: Iterable[Axes]) -> list[Artist]:
    """Return seaborn's legend entries, each label once, for `finish`, and remove its legends."""
    handles: dict[str, Artist] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
        if (legend := ax.get_legend()) is not None:
            legend.remove()
    return list(handles.values())


def empty_figure(study: StudyData, style: Style, what: str) -> Figure:
    """Return the figure of a study without data: the question, the reason, the source."""
    fig = new_figure(style, 30)
    ax = fig.subplots()
    ax.set_axis_off()
    ax.text(
        0.5, 0.5, nothing_to_draw(study, what), ha="center", va="center", transform=ax.transAxes, color=GREY,
        size=style.font_size, wrap=True,
    )  # fmt: skip
    return finish(fig, study, style)


def rows_axis(ax: Axes, labels: Sequence[str]) -> None:
    """Set one row for each label, the first on top."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)


def beside(ax: Axes, texts: Iterable[str], colors: Iterable[str] = (), heading: str = "") -> None:
    """Write texts at the right of the rows, the first on top, below a heading."""
    right, lines = ax.secondary_yaxis("right"), list(texts)
    right.set_yticks(range(len(lines)), lines)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    for text, color in zip(right.get_yticklabels(), colors):
        text.set_color(color)
    if heading:
        head(ax, heading)


def write(
    ax: Axes,
    text: str,
    at: tuple[float, float],
    offset: tuple[float, float] = (0, 0),
    **options: Any,
) -> None:
    """Write a small text at a point, `offset` points away; options: those of `annotate`."""
    options = {"size": mpl.rcParams["ytick.labelsize"], "textcoords": "offset points", **options}
    ax.annotate(text, at, xytext=offset, **options)


def head(ax: Axes, heading: str, at: int = 1) -> None:
    """Write the heading of the texts at the right of an axes, or with `at` 0 of those at the left."""
    side, offset = ("right", "left")[at], (5 * at - 3, 1)
    write(ax, heading, (at, 1), offset, xycoords="axes fraction", ha=side, va="bottom", color=GREY)


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


def decades(axis: Axis, ends: tuple[float, float]) -> None:
    """Set ticks of a log10 axis at 1, 2 and 5 where it is short, else at 1 with small ones between."""
    low, high = ends
    axis.set_major_locator(LogLocator(10, subs=(1, 2, 5) if high < 30 * low else (1,)))
    small = LogLocator(10, subs=range(2, 10)) if high < 2000 * low else NullLocator()
    axis.set_minor_locator(small)
    axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def grid(ax: Axes, axis: str = "both") -> None:
    """Draw faint lines behind the data."""
    ax.grid(True, axis=axis)  # type: ignore[arg-type]


def save(fig: Figure, path: str | Path, style: Style = Style(), text: bool = False) -> None:
    """Write a figure in the path's file type (svg, pdf, png), without dates and versions. Raises UserError
    for others. text: whether an SVG has text that can be edited, in place of outlines."""
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
        mpl.rcParams["svg.fonttype"] = "none" if text else "path"
        fig.savefig(path, metadata=nothing[path.suffix], **how)  # type: ignore[arg-type]
