"""Best variant by shape: the winner of each race as a share of cuBLAS, and what the model would pick.

A race is run between all variants of one dtype at one shape (`tilewave.racing`). The model knows the
costs of each variant from a few of these shapes (`tilewave.theory.calibration`); from them it predicts
the others and picks a variant. Regret: by how much the pick is slower than the best, both as measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from tilewave.plots import _picks, base
from tilewave.plots import style as look
from tilewave.plots._picks import ALWAYS, COSTS, RACED, RULES, SHAPE, WAVES, Group, Row
from tilewave.plots.base import BASELINE, StudyData
from tilewave.plots.style import GREY, INK, Style
from tilewave.theory import calibration, selection

READING = (
    "A row is a shape: the dot is the speed of the fastest variant in % of cuBLAS's, the diamond "
    "that of the variant which the model picks. The gap between them is what the wrong pick costs."
)
_REGRETS = {
    COSTS: "regret of the pick (%)",
    WAVES: "regret by whole waves (%)",
    ALWAYS: "regret of the best at the largest (%)",
}
_MARKS: Mapping[str, Mapping[str, Any]] = {
    "pick": {"marker": "D", "color": "white", "edgecolor": INK, "s": 26, "linewidth": 0.8},
    "best": {"marker": "o", "color": "#332288", "s": 13, "linewidth": 0},
}


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
    name = selection.pick(group.vendor) or ""
    return {
        "cuBLAS variant": str(group.rows[name]["variant"]) if name else "",
        "cuBLAS kernel": kernels.get(name, ""),
        "cuBLAS (us)": group.cublas,
        "empty kernel (us)": empty.get(name),
    }


def table(study: StudyData) -> pd.DataFrame:
    """One row a dtype and shape; where nothing was measured with the status that says why."""
    found = _picks.groups(study, [RACED])
    by_place = {(g.dtype, base.shape_label(g.shape)): g for g in found}
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
            pick = group.pick()
            best = group.own[first]
            row |= {
                "best variant": group.rows[first]["variant"],
                "duration (us)": best,
                "TFLOP/s": group.flops / best * 1e-6,
                **_vendor(group, kernels, empty),
                "% of cuBLAS": group.share(first),
                "runner-up": group.rows[second]["variant"] if second else "",
                "runner-up slower by (%)": 100 * (group.own[second] / best - 1) if second else None,
                "the model's pick": group.rows[pick]["variant"] if pick else "",
                "pick measured (us)": group.own[pick] if pick else None,
                "pick predicted (us)": group.predicted[COSTS][pick] if pick else None,
                **{_REGRETS[rule]: _percent(group.regret(rule)) for rule in RULES},
                "model fitted here": group.fitted,
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


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


COLUMNS = [
    "dtype", "m", "n", "k", "best variant", "duration (us)", "TFLOP/s", "cuBLAS variant", "cuBLAS kernel",
    "cuBLAS (us)", "empty kernel (us)", "% of cuBLAS", "runner-up", "runner-up slower by (%)", "candidates", "raced",
    "eliminated early", "GPU time spent (ms)", "GPU time without elimination (ms)",
    "the model's pick", "pick measured (us)", "pick predicted (us)", *_REGRETS.values(), "model fitted here",
    "verdict", "status", "reason", "source", "environment",
]  # fmt: skip


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Where own variants pass cuBLAS, where they are furthest from it, and what the model's picks keep."""
    share = table["% of cuBLAS"].astype(float).dropna()
    if share.empty:
        return ""
    worst = table.loc[share.idxmin()].to_dict()
    told = (
        f"The best variant passes cuBLAS at {(share >= 100).sum()} of {len(share)} shapes, at worst it has "
        f"{share.min():.0f} % ({base.dtype_short(worst['dtype'])}, {base.shape_label(worst)})"
    )
    kept = _kept(table, _REGRETS[COSTS])
    return told + (
        f"; the model's pick has {kept.median():.0f} % of its speed in the median"
        if len(kept)
        else ""
    )


def _kept(table: pd.DataFrame, regret: str) -> pd.Series[float]:
    """Percent of the best variant's speed that the pick reaches, where it is a prediction."""
    return 100 / (1 + table[regret].astype(float).dropna() / 100)


def _lines(table: pd.DataFrame) -> pd.DataFrame:
    """The races as the figure lists them, below a line for each dtype: `label`, percent of cuBLAS of the
    best variant (`best`) and of the pick (`pick`), and what stands beside them."""
    blocks = []
    for dtype, races in table[table["status"] == "ok"].groupby("dtype", sort=False):
        best = races["% of cuBLAS"].astype(float)
        kept = _kept(races, _REGRETS[COSTS])
        told = races.to_dict("records")
        lines = pd.DataFrame(
            {
                "label": [base.shape_label(row) for row in told],
                "best": best,
                "pick": kept.reindex(races.index) / 100 * best,
                "winner": [_name(row["best variant"], dtype) for row in told],
                "choice": [_choice(row, kept.get(at)) for at, row in zip(races.index, told)],
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


def _choice(row: Row, kept: float | None) -> str:
    """What the model picks and how much of the best variant's speed that is, in a few words."""
    pick = row["the model's pick"]
    if not base.present(pick):
        return "knows none of the variants"
    if row["model fitted here"]:
        return "fitted here"
    if pick == row["best variant"]:
        return "the same"
    return f"{kept:.0f} %: {_name(pick, row['dtype'])}"


def _dots(ax: Axes, lines: pd.DataFrame) -> None:
    """Percent of cuBLAS in each line: the best variant, the model's pick, a line between them."""
    ax.axvline(100, color=INK, linewidth=0.9, zorder=1)
    ax.hlines(lines.index, lines["pick"], lines["best"], color=GREY, linewidth=0.8, zorder=1)
    rows = lines.assign(row=lines.index)
    for kind, look_of in _MARKS.items():
        sns.scatterplot(rows, x=kind, y="row", ax=ax, legend=False, zorder=3, **look_of)
    ax.set(xlabel="% of cuBLAS's speed", ylabel="")
    look.rows_axis(ax, list(lines["label"]))
    for label, best in zip(ax.get_yticklabels(), lines["TFLOP/s"], strict=True):
        label.set_fontweight("normal" if base.present(best) else "bold")
    ax.set_xlim(0, 1.07 * max(100.0, float(lines["best"].fillna(0).max())))
    look.grid(ax)


LETTERS = 7
"""Of text of 0.8 of the font's size in a millimetre, times that size in points. Columns are measured before they are
laid out, when they are no wider."""


def _column(
    ax: Axes, title: str, texts: pd.Series[Any], style: Style, right: bool, grey: bool = False
) -> None:
    """Texts in the lines of the figure, from the left edge of an axes or up to its right one."""
    ax.set_axis_off()
    ax.set(xlim=(0, 1), ylim=(len(texts) - 0.5, -0.5))
    how: dict[str, Any] = {"x": float(right), "ha": "right" if right else "left", "va": "center"}
    ax.text(y=-0.9, s=title, size=0.8 * style.font_size, weight="bold", **how)
    most = int(ax.get_position().width * style.width_mm * LETTERS / style.font_size)
    for y, text in enumerate(texts):
        if base.present(text):
            told = text if right or len(text) <= most else f"{text[: most - 1]}…"
            ax.text(y=y, s=told, size=0.8 * style.font_size, color=GREY if grey else INK, **how)


def _notes(table: pd.DataFrame) -> list[str]:
    """Where the model was fitted, how far its picks and the others' are from the best, what elimination
    saved."""
    notes = []
    if table["model fitted here"].eq(True).any():
        notes.append(
            "Model: the costs of a launch, of the ends of a tile, of steps along k and of what is added or copied, "
            f"fitted for each variant at {_picks.fitted_at()}; a variant with fewer than "
            f"{calibration.LEAST} of the first at all of its shapes."
        )
    kept = _kept(table, _REGRETS[COSTS])
    if len(kept):
        right = (table["the model's pick"] == table["best variant"])[kept.index].sum()
        told = {rule: _kept(table, _REGRETS[rule]) for rule in (WAVES, ALWAYS)}
        others = "; ".join(
            f"{rule} {one.median():.1f} % and {one.min():.1f} %"
            for rule, one in told.items()
            if len(one)
        )
        notes.append(
            f"The model picks the best variant at {right} of {len(kept)} other shapes; its pick has "
            f"{kept.median():.1f} % of the best one's speed in the median and {kept.min():.1f} % at worst"
            + (f" ({others})." if others else ".")
        )
    spent = table["GPU time spent (ms)"].sum() / 1e3
    full = table["GPU time without elimination (ms)"].sum() / 1e3
    if full:
        notes.append(
            f"{table['eliminated early'].sum()} of {table['raced'].sum()} candidates were "
            f"eliminated early: {base.digits(spent)} s of launches on the GPU, where measuring "
            f"each to the end takes {base.digits(full)} s."
        )
    return notes


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A line a shape, by dtype: the best variant and the model's pick; what they are in words beside,
    where the figure is narrow only the best variant. Where the model knows no variant nothing is said of it."""
    with look.apply(style):
        lines = _lines(table)
        if lines.empty:
            return look.empty_figure(study, style, "race")
        fig = look.new_figure(style, (3.2 if style.narrow else 3.5) * len(lines) + 13)
        picks = bool(table["the model's pick"].map(base.present).any())
        if style.narrow:
            ax, winner = fig.subplots(1, 2, width_ratios=[1, 2.7])
        else:
            widths = [0.6, 0.36, 0.34, 1.6, 1.3] if picks else [0.6, 0.36, 0.34, 2.9]
            ax, *numbers, winner = fig.subplots(1, len(widths), width_ratios=widths)[:4]
            if picks:
                title = "the model's pick, % of the best"
                _column(fig.axes[4], title, lines["choice"], style, right=False, grey=True)
            for other, name in zip(numbers, ("% of cuBLAS", "TFLOP/s"), strict=True):
                _column(other, name, lines[name], style, right=True)
        _dots(ax, lines)
        _column(winner, "best variant", lines["winner"], style, right=False)
        marks = _MARKS if picks else ["best"]
        handles = [
            *(ax.scatter([], [], **_MARKS[kind]) for kind in marks),
            Line2D([], [], color=INK, linewidth=0.9),
        ]
        labels = ["the model's pick", "best own variant", "cuBLAS"][-len(handles) :]
        return look.finish(fig, study, style, handles, labels, _notes(table), [RACED])
