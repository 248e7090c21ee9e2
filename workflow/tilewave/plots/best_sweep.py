"""Best variant of a sweep: against N, the speed of the fastest variant at each N and of cuBLAS beside it.

What a partly filled tile or wave costs one variant, another one need not pay: a race at each N (`tilewave.racing`)
says whether some variant has the speed of full waves there, and cuBLAS's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewave.plots import base, best
from tilewave.plots import style as look
from tilewave.plots._picks import RACED
from tilewave.plots.base import StudyData
from tilewave.plots.style import INK, Style

READING = (
    "Against N: above the speed of the fastest variant, as a mark of its kernel, and of cuBLAS, the line; below "
    "the first in % of the second. Where marks stay on one height, no N costs whoever may choose; below 100 cuBLAS knows "
    "better."
)
_SHARE, _OWN, _CUBLAS, _KERNEL = "% of cuBLAS", "TFLOP/s", "cuBLAS TFLOP/s", "kernel"
_NOT_ASKED = [
    name for name in best.COLUMNS if "pick" in name or "regret" in name or "model" in name
]
"""Columns about what the model picks: it is fitted at other shapes than a sweep's."""


def table(study: StudyData) -> pd.DataFrame:
    """One row a dtype and shape; where nothing was measured with the status that says why."""
    found = best.table(study).drop(columns=_NOT_ASKED)
    found.insert(
        found.columns.get_loc("cuBLAS (us)") + 1,
        _CUBLAS,
        found[_OWN].astype(float) * 100 / found[_SHARE].astype(float),
    )
    return found


def _sweeps(table: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """What tells a sweep from the others, and its rows by N."""
    known = table[table["status"] == "ok"]
    known = known.assign(**{_KERNEL: known["best variant"].astype(str).str.split("-").str[0]})
    several = known["dtype"].nunique() > 1
    for (dtype, m, k), rows in known.groupby(["dtype", "m", "k"], sort=False):
        told = f"{base.dtype_short(dtype)}, " if several else ""
        yield f"{told}M = {m:.0f}, K = {k:.0f}", rows.sort_values("n")


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """At how many N the best variant is at least as fast as cuBLAS, its share in the median and at worst."""
    share = table[_SHARE].astype(float).dropna()
    if share.empty:
        return ""
    worst = table.loc[share.idxmin()].to_dict()
    return (
        f"The best variant is at least as fast as cuBLAS at {(share >= 100).sum()} of {len(share)} sizes; it has "
        f"{share.median():.1f} % in the median and {share.min():.1f} % at worst ({base.shape_label(worst)})"
    )


def _dots(ax: Axes, rows: pd.DataFrame, value: str, looks: Mapping[str, Mapping[str, str]]) -> None:
    sns.scatterplot(
        rows, x="n", y=value, hue=_KERNEL, style=_KERNEL, s=14, linewidth=0, zorder=3, ax=ax, **looks
    )  # fmt: skip
    look.grid(ax, "y")


def _fit(axes: Sequence[Axes], values: pd.Series[float], low: float) -> None:
    """The same scale in all of them, from ``low`` on."""
    most = values.max()
    for ax in axes if most > low else ():  # without cuBLAS there is no share
        ax.set_ylim(low, most + 0.06 * (most - low))


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Two panels for each sweep: both speeds, and their ratio."""
    with look.apply(style):
        found = list(_sweeps(table))
        if not found:
            return look.empty_figure(study, style, "race")
        across = 1 if style.narrow else min(3, len(found))
        bands = -(-len(found) // across)
        fig = look.new_figure(style, 74.0 * bands)
        grid = fig.add_gridspec(2 * bands, across)
        kernels = list(dict.fromkeys(name for _, rows in found for name in rows[_KERNEL]))
        colors = look.kernel_colors(style, study.cases["kernel"].astype(str))
        looks = {
            "palette": {name: colors[name] for name in kernels},
            "markers": dict(zip(kernels, itertools.cycle("osD^vP"))),
        }
        speeds: list[Axes] = []
        shares: list[Axes] = []
        for place, (name, rows) in enumerate(found):
            band, column = divmod(place, across)
            above = fig.add_subplot(grid[2 * band, column])
            below = fig.add_subplot(grid[2 * band + 1, column], sharex=above)
            _dots(above, rows, _OWN, looks)
            above.plot(rows["n"], rows[_CUBLAS], color=INK, linewidth=0.9, zorder=2, label="cuBLAS")
            _dots(below, rows, _SHARE, looks)
            below.axhline(100, color=INK, linewidth=0.9, zorder=1)
            above.set(title=name, xlabel="", ylabel=_OWN if column == 0 else "")
            below.set(xlabel="N", ylabel=_SHARE if column == 0 else "")
            above.tick_params(axis="x", labelbottom=False)
            speeds.append(above)
            shares.append(below)
        known = pd.concat([rows for _, rows in found])
        _fit(speeds, known[[_OWN, _CUBLAS]].astype(float).stack(), 0.0)
        ratios = known[_SHARE].astype(float)
        _fit(shares, ratios, min(95.0, ratios.min() - 2.0))
        return look.finish(fig, study, style, *look.entries(fig.axes), _notes(table), [RACED])


def _notes(table: pd.DataFrame) -> list[str]:
    """How many candidates there were at each N, and that the fastest is another one from N to N."""
    most, variants = int(table["candidates"].max()), table["best variant"].dropna().nunique()
    return [
        f"Of up to {most} candidates at each N, raced with cuBLASLt's fastest, {variants} variants are the fastest "
        "of one or more."
    ]
