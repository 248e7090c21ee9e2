"""History: how fast a case was in each recording of it, and where that changed.

A recording is what a commit made of a folder of recorded figures (`records.history`). Speeds are shares of
the baseline that was timed in turn with the case, where every recording has one, else times.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import Field

from tilewave.comparing import ratios
from tilewave.comparing.change_points import change_points
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import titled
from tilewave.plots.base import StudyData
from tilewave.plots.options import PlotOptions
from tilewave.plots.style import BAD, GOOD, GREY, INK, Style

READING = (
    "A panel is a case, a mark one recording of it, the oldest left: the median with its 95 % interval. "
    "A filled mark has other machine code than the one before. A dashed line leads to another card of the "
    "same kind; where GPU, driver or toolkit is another one, the line ends and a word says so. A coloured "
    "number is a change point: how much faster or slower the case is from there on. It is grey where the GPU was "
    "in another state: at its power limit on one side of it and not on the other, the clocks tell how far."
)


class Options(PlotOptions):
    """What the studies of this plot may set."""

    most: Annotated[int, Field(ge=1, le=100)] = Field(
        12, description="panels that are drawn, those of the largest changes first"
    )


_VALUE, _LOW, _HIGH, _IN = "median", "low", "high", "in"
_SHARE, _TIME = "% of the baseline", "us"
_DURATION = "time (us)"
_RATIO, _FROM, _TO = "time over the one before", "ratio from", "ratio to"
_CLOCK, _HELD, _STATE = "SM clock (MHz)", "held back by", "state of the GPU"
_CODE, _BREAK, _CARD = "code", "what is another", "card"
_FIRST, _OTHER, _SAME, _METHOD = "first", "other code", "same code", "same code, measured otherwise"
_MARKS: Mapping[str, tuple[str, str]] = {
    _FIRST: ("o", INK), _OTHER: ("o", INK), _SAME: ("o", "white"), _METHOD: ("s", "white"),
}  # fmt: skip
"""Marker and filling."""
_FACTS: Mapping[str, str] = {
    "driver": "driver", "cuda": "CUDA", "nvrtc": "NVRTC", "cublas": "cuBLAS"
}  # fmt: skip


def _code(before: pd.Series[Any] | None, now: pd.Series[Any]) -> str:
    """What is known of the code of a recording beside the one before."""
    if before is None:
        return _FIRST
    if before["code"] != now["code"]:
        return _OTHER
    return _SAME if before["key"] == now["key"] else _METHOD


def _another(before: pd.Series[Any] | None, now: pd.Series[Any]) -> str:
    """The driver or toolkit that is another one than before."""
    if before is None:
        return ""
    told = [f"{word} {now[name]}" for name, word in _FACTS.items() if before[name] != now[name]]
    return ", ".join(told)


def _of_case(rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The recordings of a case on one kind of GPU, oldest first. rows: of `records.history`."""
    shares = bool(rows["baseline_us"].notna().all())
    runs = [run for _, run in rows.groupby("place")]
    # Of both the smaller is the faster one.
    times = [
        (run["duration_us"] / (run["baseline_us"] if shares else 1)).to_numpy(float) for run in runs
    ]
    found: list[dict[str, Any]] = []
    before = None
    for run, time in zip(runs, times):
        now = run.iloc[0]
        low, middle, high = ratios.median(100 / time if shares else time)
        found.append({
            "GPU": now["gpu"], "place": int(now["place"]), "recording": now["recording"],
            "date": now["date"], _CARD: str(now["uuid"])[:12], _CODE: _code(before, now),
            _BREAK: _another(before, now), _DURATION: float(run["duration_us"].median()), _IN: _SHARE if shares else _TIME, _LOW: low, _VALUE: middle,
            _HIGH: high, _CLOCK: float(now["sm_mhz"]), _HELD: now["held_back"],
        })  # fmt: skip
        before = now
    starts = [0, *(at for at, one in enumerate(found) if one[_BREAK]), len(found)]
    for start, end in itertools.pairwise(starts):
        points = change_points(times[start:end], ratios.TWO_RUNS)
        cuts = [start, *(start + point.at for point in points), end]
        for point, (first, cut, behind) in zip(points, zip(cuts, cuts[1:], cuts[2:])):
            found[cut] |= {_RATIO: point.ratio, _FROM: point.low, _TO: point.high}
            found[cut][_STATE] = _state(found[first:cut], found[cut:behind])
    yield from found


def _state(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> str:
    """What held the clocks back on the one side of a change and never on the other, with the median clocks;
    empty where that is alike."""
    sides = [{one[_HELD] for one in side} for side in (before, after)]
    if not sides[0].isdisjoint(sides[1]):
        return ""
    old, new = (", ".join(filter(None, sorted(side))) for side in sides)
    left, right = (float(np.median([one[_CLOCK] for one in side])) for side in (before, after))
    return f"{new or f'without {old}'}, {left:.0f} to {right:.0f} MHz"


def table(study: StudyData) -> pd.DataFrame:
    """A row a recording of a case on a kind of GPU; of a case that none has, a row without values."""
    columns = ["GPU", "place", "recording", "date", _CARD, _CODE, _BREAK, _DURATION, _IN, _LOW, _VALUE, _HIGH,
               _CLOCK, _HELD, _RATIO, _FROM, _TO, _STATE]  # fmt: skip
    known = study.history
    made = [
        {"case": case} | row
        for (case, _), rows in (known.groupby(["case", "gpu"]) if len(known) else ())
        for row in _of_case(rows)
    ]
    points = pd.DataFrame(made, columns=["case", *columns])
    frame = base.base_table(study).reset_index(drop=True)
    head = list(frame.columns[: list(frame.columns).index("verdict")])
    frame = frame.merge(points, on="case", how="left")
    return frame[[*head, *columns, "verdict", "status", "reason", "source"]]


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """How many cases changed, and the largest change."""
    known = table[table[_VALUE].notna()]
    if known.empty:
        return ""
    moved = known[known[_RATIO].notna() & known[_STATE].eq("")]
    other = set(known.loc[known[_STATE].fillna("").ne(""), "case"]) - set(moved["case"])
    told = (
        f"{moved['case'].nunique() or 'None'} of {known['case'].nunique()} cases changed over "
        f"{known['recording'].nunique()} recordings"
    )
    if other:
        told += f", and {len(other)} with the GPU's state alone"
    if moved.empty:
        return told
    row = moved.loc[np.log(moved[_RATIO].astype(float)).abs().idxmax()]
    return f"{told}; the most {row['case']} in {row['recording']}: {_percent(row[_RATIO])}"


def _percent(ratio: float) -> str:
    return f"{abs(ratio - 1) * 100:.1f} % {'slower' if ratio > 1 else 'faster'}"


def _change(row: Mapping[str, Any]) -> str:
    """`14.2 % slower (13.9 to 14.4)`."""
    ends = sorted(100 * abs(row[name] - 1) for name in (_FROM, _TO))
    return f"{_percent(row[_RATIO])} ({ends[0]:.1f} to {ends[1]:.1f})"


def _border(ax: Axes, x: float, text: str, top: bool, style: Style, **how: Any) -> None:
    """A line between two recordings with a word beside it, which stays in the panel."""
    ax.axvline(x, linewidth=0.7, color=how["color"], linestyle="-" if top else ":")
    left, right = ax.get_xlim()
    side = "left" if x < left + 0.55 * (right - left) else "right"
    ax.annotate(
        text, (x, int(top)), xycoords=("data", "axes fraction"), textcoords="offset points",
        xytext=(2 if side == "left" else -2, -2 if top else 2), va="top" if top else "bottom", ha=side,
        size=0.8 * style.font_size, in_layout=False, **how,
    )  # fmt: skip


def _panel(ax: Axes, rows: pd.DataFrame, style: Style) -> None:
    """A case on one kind of GPU, over the places of its recordings."""
    points = rows.sort_values("place").to_dict("records")
    for one, other in itertools.pairwise(points):
        if other[_BREAK]:
            _border(ax, other["x"] - 0.5, other[_BREAK], False, style, color=GREY)
            continue
        dashed = one[_CARD] != other[_CARD]
        ax.plot(
            [one["x"], other["x"]], [one[_VALUE], other[_VALUE]], color=GREY, linewidth=0.8,
            linestyle=(0, (3, 2)) if dashed else "-", zorder=1,
        )  # fmt: skip
    for one in points:
        marker, filling = _MARKS[one[_CODE]]
        ax.errorbar(
            one["x"], one[_VALUE], [[one[_VALUE] - one[_LOW]], [one[_HIGH] - one[_VALUE]]],
            fmt=marker, color=INK, markerfacecolor=filling, markersize=3.6, elinewidth=0.9,
            markeredgewidth=0.7, zorder=2,
        )  # fmt: skip
        if base.present(one[_RATIO]):
            color = GREY if one[_STATE] else BAD if one[_RATIO] > 1 else GOOD
            told = "\n".join(filter(None, [_change(one), one[_STATE]]))
            _border(ax, one["x"] - 0.5, told, True, style, color=color, weight="bold")


def _panels(table: pd.DataFrame, most: int) -> list[tuple[tuple[str, str], pd.DataFrame]]:
    """The case and kind of GPU of each panel with its rows, in the config's order."""
    found = list(table.groupby(["case", "GPU"], sort=False))
    far = [float(np.log(rows[_RATIO].astype(float)).abs().max()) for _, rows in found]
    order = sorted(range(len(found)), key=lambda at: -far[at] if far[at] == far[at] else math.inf)
    return [found[at] for at in sorted(order[:most])]


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A panel for each case and kind of GPU, all over the same recordings."""
    with look.apply(style):
        rows = table[table[_VALUE].notna()]
        if rows.empty:
            return look.empty_figure(study, style, "recording")
        kinds = rows["GPU"].nunique()
        total = len(rows.groupby(["case", "GPU"]))
        shown = rows.drop_duplicates("place").sort_values("place")
        places = {place: x for x, place in enumerate(shown["place"])}
        rows = rows.assign(x=rows["place"].map(places))
        panels = _panels(rows, Options.of(study).most)
        across = 1 if style.narrow or len(panels) == 1 else 2
        down = math.ceil(len(panels) / across)
        fig = look.new_figure(style, 27.0 * down + 20)
        axes = fig.subplots(down, across, sharex=True, squeeze=False)
        names = [f"{date} {name}".strip() for date, name in zip(shown["date"], shown["recording"])]
        axes[0, 0].set_xticks(range(len(names)), names)
        axes[0, 0].set_xlim(-0.7, len(names) - 0.3)
        for ax, ((_, gpu), part) in zip(axes.T.ravel(), panels):
            _panel(ax, part, style)
            shape = base.shape_label(part.iloc[0].to_dict() | {"probe_case": None})
            told = part[_IN].iloc[0] + (f", {gpu}" if kinds > 1 else "")
            titled(ax, f"{part['variant'].iloc[0]} {shape}", told, style)
            ax.margins(y=0.35)
            look.grid(ax, "y")
        for ax in axes[-1]:
            ax.tick_params(axis="x", labelrotation=90)
        for ax in axes.T.ravel()[len(panels) :]:  # has the names of the panel above
            ax.set_axis_off()
            for x, name in enumerate(names):
                ax.text(
                    x, 1, name, rotation=90, ha="center", va="top", size=style.small,
                    transform=ax.get_xaxis_transform(),
                )  # fmt: skip
        title = study.takeaway or study.question or study.title
        return look.framed(
            fig, style, title, _source(rows), *_legend(rows), notes=_notes(rows, len(panels), total),
            troubles=_missing(table),
        )  # fmt: skip


def _legend(rows: pd.DataFrame) -> tuple[list[Artist], list[str]]:
    found: dict[str, Artist] = {}
    for code in [one for one in _MARKS if (rows[_CODE] == one).any()]:
        marker, filling = _MARKS[code]
        found["first, or other code" if code in (_FIRST, _OTHER) else code] = Line2D(
            [], [], color=INK, marker=marker, markerfacecolor=filling, markersize=3.6,
            markeredgewidth=0.7, linestyle="",
        )  # fmt: skip
    found["another card"] = Line2D([], [], color=GREY, linewidth=0.8, linestyle=(0, (3, 2)))
    return list(found.values()), list(found)


def _notes(rows: pd.DataFrame, panels: int, total: int) -> list[str]:
    margin = f"{100 * ratios.TWO_RUNS:g} %"
    notes = [
        f"Change points: binary segmentation; a change is more than {margin}, which two runs of the same "
        "code differ by at most. Cards of one kind differ by some percent; a share changes with its baseline, "
        "too."
    ]
    if panels < total:
        notes.append(f"The {panels} that changed most, of {total}.")
    return notes


def _missing(table: pd.DataFrame) -> list[str]:
    cases = table.loc[table[_VALUE].isna(), "case"].tolist()
    more = f" and {len(cases) - 3} more" if len(cases) > 3 else ""
    return [f"in no recording: {', '.join(cases[:3])}{more}"] if cases else []


def _source(rows: pd.DataFrame) -> str:
    cards = [
        f"{gpu} ({part[_CARD].nunique()} cards)" if part[_CARD].nunique() > 1 else str(gpu)
        for gpu, part in rows.groupby("GPU")
    ]
    return f"source: recorded on {', '.join(cards)} in {rows['recording'].nunique()} recordings"
