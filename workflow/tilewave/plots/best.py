"""Best variant by shape: the winner of each race as a share of cuBLAS.

A race is run between all variants of one dtype at one shape (`tilewave.racing`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tilewave import racing
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import INK, Style

READING = "A row is a shape: the dot is the speed of the fastest variant in % of cuBLAS's."
RACED, DURATION, BEHIND = "tune", "tune_duration", "tune_behind"
SHAPE = ("m", "n", "k")
_MARK: Mapping[str, Any] = {"marker": "o", "color": "#332288", "s": 13, "linewidth": 0}
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """The variants of one dtype at one shape, as they raced in one environment.

    own, vendor: case -> microseconds, of correct cases of this project's kernels and of cuBLAS (one
    for each of its layouts). rows: case -> row of the table of cases.
    """

    dtype: str
    shape: Mapping[str, int]
    environment: str
    own: Mapping[str, float]
    vendor: Mapping[str, float]
    rows: Mapping[str, Row]

    @property
    def ranked(self) -> list[str]:
        """The cases from fast to slow."""
        return sorted(self.own, key=lambda case: self.own[case])

    @property
    def cublas(self) -> float | None:
        """cuBLAS's time, in the layouts that suit it best; None where there is none."""
        return min(self.vendor.values(), default=None)

    @property
    def flops(self) -> float:
        return 2.0 * self.shape["m"] * self.shape["n"] * self.shape["k"]

    def share(self, case: str) -> float | None:
        """Speed of a case in percent of cuBLAS."""
        return None if self.cublas is None else 100 * self.cublas / self.own[case]


def times(study: StudyData) -> pd.Series[float]:
    """Microseconds of each case that raced, such that they may be compared (`racing.durations`, a leader in
    another environment left out)."""
    own = base.value_of(study, DURATION, RACED)
    where = base.environment_of(study, DURATION, RACED)
    ratios, leaders = base.value_of(study, BEHIND, RACED), base.text_of(study, BEHIND)
    behind = {
        case: (leader, float(ratios[case]))
        for case, leader in leaders.items()
        if where.get(leader) == where.get(case)
    }
    told = {str(case): float(us) for case, us in own.items()}
    return pd.Series(racing.durations(told, behind), dtype=float)


def groups(study: StudyData) -> list[Group]:
    """What raced, in the config's order, dtype by dtype; only with an own kernel."""
    durations = times(study)
    environments = base.environment_of(study, DURATION, RACED)
    cases = study.cases[study.cases["case"].isin(base.ranking(study))]
    cases = cases[cases["case"].isin(durations.index)].dropna(subset=list(SHAPE))
    found: list[Group] = []
    for dtype in base.dtypes_in_order(study):
        mine = cases[cases["dtype"].astype(str) == dtype]
        where = mine["case"].map(environments)
        # Ratios are formed in one environment: the one that most of the dtype's figures are from.
        for environment in where.mode().iloc[:1]:
            for sizes, here in mine[where == environment].groupby(list(SHAPE), sort=False):
                rows = {str(row["case"]): row for row in here.to_dict("records")}
                us = {case: float(durations[case]) for case in rows}
                vendor = {case for case, row in rows.items() if row["kernel"] == BASELINE}
                own = {case: one for case, one in us.items() if case not in vendor}
                if own:
                    shape = {name: int(size) for name, size in zip(SHAPE, sizes)}
                    others = {case: us[case] for case in us if case in vendor}
                    found.append(Group(dtype, shape, str(environment), own, others, rows))
    return found


def _shapes(study: StudyData) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Dtype, shape's label and cases, in the config's order."""
    for dtype in base.dtypes_in_order(study):
        mine = study.cases[study.cases["dtype"].astype(str) == dtype]
        labels = pd.Series([base.shape_label(r) for r in mine.to_dict("records")], mine.index)
        for label in dict.fromkeys(labels):
            yield dtype, label, mine[labels == label]


def _vendor(
    group: Group, kernels: Mapping[str, str], empty: Mapping[str, float]
) -> dict[str, object]:
    """The vendor's fastest variant, which says its layouts, what it launches, and the time of an empty
    kernel in its place."""
    name = min(group.vendor, key=lambda case: group.vendor[case], default="")
    return {
        "cuBLAS variant": str(group.rows[name]["variant"]) if name else "",
        "cuBLAS kernel": kernels.get(name, ""),
        "cuBLAS (us)": group.cublas,
        "empty kernel (us)": empty.get(name),
    }


def table(study: StudyData) -> pd.DataFrame:
    """One row a dtype and shape; where nothing was measured with the status that says why."""
    by_place = {(g.dtype, base.shape_label(g.shape)): g for g in groups(study)}
    eliminated = base.value_of(study, "tune_eliminated", RACED)
    spent = base.value_of(study, "tune_spent", RACED)
    full = base.value_of(study, "tune_full_cost", RACED)
    states, sources = base.statuses(study, [RACED]), base.source_of(study)
    verdicts = base.verdicts(study)
    kernels = base.text_of(study, "kernel_name")
    empty = base.value_of(study, "empty_kernel", "time").to_dict()
    rows = []
    for dtype, label, cases in _shapes(study):
        own = cases[cases["kernel"] != BASELINE]["case"].astype(str).tolist()
        row: dict[str, Any] = {"dtype": dtype, **{s: cases[s].iloc[0] for s in SHAPE}}
        group = by_place.get((dtype, label))
        if group is not None:
            first, second = group.ranked[0], next(iter(group.ranked[1:]), None)
            best = group.own[first]
            row |= {
                "best variant": group.rows[first]["variant"],
                "duration (us)": best,
                "TFLOP/s": group.flops / best * 1e-6,
                **_vendor(group, kernels, empty),
                "% of cuBLAS": group.share(first),
                "runner-up": group.rows[second]["variant"] if second else "",
                "runner-up slower by (%)": 100 * (group.own[second] / best - 1) if second else None,
                "source": sources.get(first, ""),
                "environment": group.environment,
            }
        troubles = [states[case] for case in own if states[case].status != "ok"]
        row |= {
            "candidates": len(own),
            "raced": int(eliminated.index.isin(own).sum()),
            "eliminated early": int((eliminated[eliminated.index.isin(own)] > 0).sum()),
            "GPU time spent (ms)": float(spent[spent.index.isin(own)].sum()),
            "GPU time without elimination (ms)": float(full[full.index.isin(own)].sum()),
            "verdict": verdicts[group.ranked[0] if group else str(cases["case"].iloc[0])],
            "status": "ok" if group else (troubles[0].status if troubles else "not measured"),
            "reason": "" if group else (troubles[0].reason if troubles else "no own variant"),
        }
        rows.append(row)
    return pd.DataFrame(rows, columns=COLUMNS)


COLUMNS = [
    "dtype", "m", "n", "k", "best variant", "duration (us)", "TFLOP/s", "cuBLAS variant", "cuBLAS kernel",
    "cuBLAS (us)", "empty kernel (us)", "% of cuBLAS", "runner-up", "runner-up slower by (%)", "candidates", "raced",
    "eliminated early", "GPU time spent (ms)", "GPU time without elimination (ms)",
    "verdict", "status", "reason", "source", "environment",
]  # fmt: skip


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Where own variants pass cuBLAS, and where they are furthest from it."""
    share = table["% of cuBLAS"].astype(float).dropna()
    if share.empty:
        return ""
    worst = table.loc[share.idxmin()].to_dict()
    return (
        f"The best variant passes cuBLAS at {(share >= 100).sum()} of {len(share)} shapes, at worst it has "
        f"{share.min():.0f} % ({base.dtype_short(worst['dtype'])}, {base.shape_label(worst)})"
    )


def _lines(table: pd.DataFrame) -> pd.DataFrame:
    """The races as the figure lists them, below a line for each dtype: `label`, percent of cuBLAS of the
    best variant (`best`), and what stands beside it."""
    blocks = []
    for dtype, races in table[table["status"] == "ok"].groupby("dtype", sort=False):
        best = races["% of cuBLAS"].astype(float)
        told = races.to_dict("records")
        lines = pd.DataFrame(
            {
                "label": [base.shape_label(row) for row in told],
                "best": best,
                "winner": [_name(row["best variant"], dtype) for row in told],
                "% of cuBLAS": [f"{one:.1f}" if one == one else "–" for one in best],
                "TFLOP/s": [base.digits(one) for one in races["TFLOP/s"].astype(float)],
            }
        )
        blocks += [pd.DataFrame([{"label": base.dtype_short(dtype)}]), lines]
    return pd.concat(blocks, ignore_index=True) if blocks else pd.DataFrame()


def _name(variant: str, dtype: object) -> str:
    """A variant without the macros that only repeat its dtype."""
    row = {"kernel": variant.partition("-")[0], "variant": variant}
    return base.variant_label(row, str(dtype)).replace("\n", " ")


def _dots(ax: Axes, lines: pd.DataFrame) -> None:
    """Percent of cuBLAS in each line."""
    ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
    rows = lines.assign(row=lines.index)
    sns.scatterplot(rows, x="best", y="row", ax=ax, legend=False, zorder=3, **_MARK)
    ax.set(xlabel="% of cuBLAS's speed", ylabel="")
    look.rows_axis(ax, list(lines["label"]))
    for label, best in zip(ax.get_yticklabels(), lines["TFLOP/s"], strict=True):
        label.set_fontweight("normal" if base.present(best) else "bold")
    ax.set_xlim(0, 1.07 * max(100.0, float(lines["best"].fillna(0).max())))
    look.grid(ax)


LETTERS = 7
"""Of text of 0.8 of the font's size in a millimetre, times that size in points. Columns are measured before they are
laid out, when they are no wider."""


def _column(ax: Axes, title: str, texts: pd.Series[Any], style: Style, right: bool) -> None:
    """Texts in the lines of the figure, from the left edge of an axes or up to its right one."""
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(len(texts) - 0.5, -0.5))
    how: dict[str, Any] = {"x": float(right), "ha": "right" if right else "left", "va": "center"}
    ax.text(y=-0.9, s=title, size=0.8 * style.font_size, weight="bold", **how)
    most = int(ax.get_position().width * style.width_mm * LETTERS / style.font_size)
    for y, text in enumerate(texts):
        if base.present(text):
            told = text if right or len(text) <= most else f"{text[: most - 1]}…"
            ax.text(y=y, s=told, size=0.8 * style.font_size, color=INK, **how)


def _notes(table: pd.DataFrame) -> list[str]:
    """What elimination saved."""
    spent = table["GPU time spent (ms)"].sum() / 1e3
    full = table["GPU time without elimination (ms)"].sum() / 1e3
    if not full:
        return []
    return [
        f"{table['eliminated early'].sum()} of {table['raced'].sum()} candidates were "
        f"eliminated early: {base.digits(spent)} s of launches on the GPU, where measuring "
        f"each to the end takes {base.digits(full)} s."
    ]


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A line a shape, by dtype: the best variant, with numbers beside it where the figure is not narrow."""
    with look.apply(style):
        lines = _lines(table)
        if lines.empty:
            return look.empty_figure(study, style, "race")
        fig = look.new_figure(style, (3.2 if style.narrow else 3.5) * len(lines) + 13)
        if style.narrow:
            ax, winner = fig.subplots(1, 2, width_ratios=[1, 2.7])
        else:
            ax, *numbers, winner = fig.subplots(1, 4, width_ratios=[0.6, 0.36, 0.34, 2.9])
            for other, name in zip(numbers, ("% of cuBLAS", "TFLOP/s"), strict=True):
                _column(other, name, lines[name], style, right=True)
        _dots(ax, lines)
        _column(winner, "best variant", lines["winner"], style, right=False)
        handles = [ax.scatter([], [], **_MARK), Line2D([], [], color=INK, linewidth=0.9)]
        labels = ["best own variant", "cuBLAS"]
        return look.finish(fig, study, style, handles, labels, _notes(table), [RACED])
