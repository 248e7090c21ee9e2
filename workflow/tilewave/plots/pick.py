"""Picking without measuring: what three rules lose at shapes that they were not given.

Every shape at which several variants of a dtype were raced or timed, and not all of them fitted, is a
trial: each rule picks one of them (`tilewave.plots._picks`), and its regret is by how much that one is
slower than the best, as measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import Field

from tilewave.plots import _picks
from tilewave.plots import style as look
from tilewave.plots._picks import ALWAYS, COSTS, RACED, RULES, SHAPE, TIMED, WAVES, Group
from tilewave.plots.base import StudyData
from tilewave.plots.options import PlotOptions
from tilewave.plots.style import GREY, INK, Style
from tilewave.theory import calibration

READING = (
    "At the left a line is a rule: at how many percent of the shapes (up) it loses no more than so much "
    "(right). In the other panel a dot is the model's pick at a shape: its expected time over the "
    "measured one."
)
_REGRETS = {rule: f"regret of {rule} (%)" for rule in RULES}
_LOOKS: Mapping[str, Mapping[str, Any]] = {
    COSTS: {"color": INK, "linestyle": "-"},
    WAVES: {"color": "#4477AA", "linestyle": "--"},
    ALWAYS: {"color": "#CC6677", "linestyle": ":"},
}
_NONE = 1.0
"""Percent below which a regret is drawn as none: what two runs of the same code differ by."""
_RATIO = "expected over measured"
COLUMNS = [
    "dtype", *SHAPE, "measured in", "candidates", "best variant", "best (us)", "pick", "pick (us)",
    "pick expected (us)", _RATIO, *_REGRETS.values(), "fitted here", "environment",
]  # fmt: skip


class Options(PlotOptions):
    """What the studies of this plot may set."""

    candidates: int = Field(
        3, ge=2, le=1000, description="variants without which a shape is no trial"
    )


def _row(group: Group) -> dict[str, Any]:
    pick, best = group.pick(), group.ranked[0]
    assert pick is not None
    expected = group.predicted[COSTS][pick]
    regrets = {_REGRETS[rule]: group.regret(rule) for rule in RULES}
    return {
        "dtype": group.dtype,
        **group.shape,
        "measured in": "races" if group.stage == RACED else "turn with cuBLAS",
        "candidates": len(group.own),
        "best variant": group.rows[best]["variant"],
        "best (us)": group.own[best],
        "pick": group.rows[pick]["variant"],
        "pick (us)": group.own[pick],
        "pick expected (us)": expected,
        _RATIO: expected / group.own[pick],
        **{name: None if one is None else 100 * one for name, one in regrets.items()},
        "fitted here": group.fitted,
        "environment": group.environment,
    }


def table(study: StudyData) -> pd.DataFrame:
    """A row a dtype and shape, those where the rules were given measured times among them."""
    least = Options.of(study).candidates
    rows = [_row(one) for one in _picks.groups(study) if len(one.predicted[COSTS]) >= least]
    # Races come first, and have more variants.
    return pd.DataFrame(rows, columns=COLUMNS).drop_duplicates(["dtype", *SHAPE])


def _trials(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of which one variant's time at least was not given to the rules."""
    return table[table["fitted here"].eq(False)]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Each rule's regret by dtype and in all."""
    trials = _trials(table)
    parts = [*trials.groupby("dtype", sort=False), ("all", trials)] if len(trials) else []
    columns = ["dtype", "rule", "shapes", "median regret (%)", "worst regret (%)"]
    columns += ["above 5 %", "above 15 %"]  # of an empty table, too
    return pd.DataFrame(
        [
            {
                "dtype": dtype,
                "rule": rule,
                "shapes": len(part),
                "median regret (%)": part[_REGRETS[rule]].astype(float).median(),
                "worst regret (%)": part[_REGRETS[rule]].astype(float).max(),
                "above 5 %": int((part[_REGRETS[rule]].astype(float) > 5).sum()),
                "above 15 %": int((part[_REGRETS[rule]].astype(float) > 15).sum()),
            }
            for dtype, part in parts
            for rule in RULES
        ],
        columns=columns,
    )


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """What the model's picks lose where it was not fitted, and what the best of one large shape loses."""
    trials = _trials(table)
    if trials.empty:
        return ""
    found = summary(table).query("dtype == 'all'").set_index("rule")
    return (
        f"At {len(trials)} shapes where not all variants were fitted, the model's pick is "
        f"{found.loc[COSTS, 'median regret (%)']:.1f} % slower than the best variant in the median and "
        f"{found.loc[COSTS, 'worst regret (%)']:.0f} % at worst; by whole waves at worst "
        f"{found.loc[WAVES, 'worst regret (%)']:.0f} %"
    )


def _losses(ax: Axes, trials: pd.DataFrame) -> None:
    """Shares of the trials by the regret that is not passed, a step line a rule."""
    for rule in RULES:
        sns.ecdfplot(
            x=trials[_REGRETS[rule]].astype(float).clip(lower=_NONE), ax=ax, stat="percent",
            label=rule, linewidth=1.2, **_LOOKS[rule],
        )  # fmt: skip
    ax.set_xscale("log")
    worst = float(trials[list(_REGRETS.values())].astype(float).max().max())
    ax.set(xlabel="regret (%)", ylabel="shapes (%)", xlim=(_NONE, max(20.0, 1.1 * worst)))
    ticks = [tick for tick in (1, 2, 5, 10, 15, 50, 100, 200, 500) if tick <= max(20.0, worst)]
    ax.set_xticks(ticks, [f"{tick}" if tick > _NONE else f"≤{tick}" for tick in ticks])
    ax.minorticks_off()
    look.grid(ax)


def _times(ax: Axes, trials: pd.DataFrame) -> None:
    """Expected over measured time of each pick."""
    ax.axhline(1, color=GREY, linewidth=0.8, zorder=1)
    sns.scatterplot(
        trials, x="pick (us)", y=_RATIO, ax=ax, color=INK, s=10, alpha=0.6, linewidth=0, zorder=2
    )
    ax.set(xscale="log", yscale="log", xlabel="time of the pick (us)")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:g}")
    low, high = trials[_RATIO].min(), trials[_RATIO].max()
    ax.set_yticks(
        [one for one in (0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5) if low <= 1.2 * one <= 1.4 * high]
    )
    ax.minorticks_off()
    look.grid(ax)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """The rules' losses, and how well the times of the model's picks were expected."""
    with look.apply(style):
        trials = _trials(table)
        if trials.empty:
            return look.empty_figure(study, style, "trial")
        down = 2 if style.narrow else 1
        fig = look.new_figure(style, 55.0 * down)
        left, right = fig.subplots(down, 3 - down, squeeze=False).ravel()
        _losses(left, trials)
        _times(right, trials)
        handles, labels = look.entries([left])
        raced = int((trials["measured in"] == "races").sum())
        notes = [
            "Costs: of a launch, of the ends of a tile, where rows of C begin inside of 16 bytes once more, and of "
            "steps along k, of both in the other blocks, and of what is added or copied, fitted for each variant at "
            f"{_picks.fitted_at()}. A shape is no trial where every variant was fitted at it. A variant with fewer than {calibration.LEAST} of the first is "
            "fitted at all of its shapes. The other rules know the largest of them.",
            f"{raced} of the trials are races between all variants; the others have "
            f"{trials['candidates'].min()} variants or more.",
        ]
        return look.finish(fig, study, style, handles, labels, notes, [RACED, TIMED])
