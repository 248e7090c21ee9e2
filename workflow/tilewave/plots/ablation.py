"""Ablation: one macro of a kernel at a time against its default, in three aligned panels.

The change of speed is formed only where the variant and the default were timed in one environment;
elsewhere the speed alone stands there, hatched. Both were timed in turn with cuBLAS: where that was the same
product, each is divided by the cuBLAS of its own run first, which cancels a clock that the power
limit had moved between the two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tilewave.counters.catalogue import EXCESS
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData, compact
from tilewave.plots.style import FAINT, GREY, INK, Style

READING = (
    "A row changes one macro of the variant in the first row, so compare each bar with the first "
    "one: speed, excess wavefronts and hits in L2."
)


L2_HIT_RATE = "lts__t_sector_hit_rate.pct"
_STAGES = ("time", "counters")
_SPEED, _CHANGE = "TFLOP/s", "change of speed against the default (%)"
_DEFAULT, _CHANGED, _ELSEWHERE, _BAD = (
    "default", "one macro changed", "timed in another environment", "not correct",
)  # fmt: skip
_COLORS = {_DEFAULT: "#332288", _CHANGED: "#88CCEE", _ELSEWHERE: "#FFFFFF", _BAD: FAINT}
_EXCESS, _HITS = "excess shared wavefronts", "L2 hit rate (%)"


def _default(study: StudyData, row: Mapping[str, Any]) -> str | None:
    """The case that this one is compared with: same kernel and shape, the default variant."""
    variant = str(row["kernel"])
    same = study.cases[study.cases["variant"] == variant]
    for size in ("m", "n", "k"):
        same = same[same[size] == row[size]]
    return None if same.empty else str(same.iloc[0]["case"])


def _change(study: StudyData) -> pd.Series[float]:
    """Relative change of speed against the default in percent; cases that may not be compared are
    absent. Speeds are shares of the paired cuBLAS where both have one of the same dtype."""
    speed = base.value_of(study, "tflops", "time")
    paired = base.value_of(study, "percent_of_cublas", "time")
    dtypes = study.cases.set_index("case")["dtype"]
    may_rank = set(base.ranking(study))
    found: dict[str, float] = {}
    for row in study.cases.to_dict("records"):
        case, default = str(row["case"]), _default(study, row)
        if default is None or not {case, default} <= may_rank & set(speed.index):
            continue
        if base.same_environment(study, "tflops", case, default):
            alike = {case, default} <= set(paired.index) and dtypes[case] == dtypes[default]
            values = paired if alike else speed
            found[case] = 100.0 * (float(values[case]) / float(values[default]) - 1.0)
    return pd.Series(found, dtype=float)


def table(study: StudyData) -> pd.DataFrame:
    """One row a case: TFLOP/s, its change against the default, excess wavefronts, L2 hit rate."""
    return base.with_columns(
        base.base_table(study),
        {
            _SPEED: base.value_of(study, "tflops", "time"),
            "% of cuBLAS": base.value_of(study, "percent_of_cublas", "time"),
            _CHANGE: _change(study),
            _EXCESS: base.value_of(study, EXCESS),
            _HITS: base.value_of(study, L2_HIT_RATE),
        },
    )


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Which change costs most; "" without two variants that may be compared."""
    change = base.column(table, _CHANGE)
    rows = study.cases.set_index("case", drop=False)
    changes = change[[_default(study, rows.loc[case].to_dict()) != case for case in change.index]]
    if changes.empty:
        return ""

    worst = changes.idxmin()
    if changes[worst] >= 0:
        return ""
    row = rows.loc[worst].to_dict()
    return f"Of {len(changes)} changes to {row['kernel']} {_label(study, row)} costs most: {-changes[worst]:.1f} % of the speed"


def _signed(percent: float) -> str:
    return f"{percent:+.1f} %".replace("-", "−")


def _label(study: StudyData, row: Mapping[str, Any]) -> str:
    """What the variant changes: `STAGES 3 → 2`; its name where the macros are not known."""
    default = _default(study, row)
    if default == row["case"]:
        return "default"
    mine = base.macros_of(row)
    known = study.cases[study.cases["case"] == default].to_dict("records")
    other = base.macros_of({str(key): value for key, value in known[0].items()}) if known else {}
    changed = [
        f"{name} {other[name]} → {mine[name]}"
        for name in mine
        if mine[name] != other.get(name, mine[name])
    ]
    return ", ".join(changed) or base.variant_label(row).partition("\n")[2] or str(row["variant"])


def _rows(study: StudyData, table: pd.DataFrame) -> pd.DataFrame:
    """The table in the figure's order, with label, kind (of _COLORS) and what is said of its speed.

    The default stands above its variants, which follow by what they gain.
    """
    about = study.cases.to_dict("records")
    kernels, shapes = (
        study.cases["kernel"].nunique(),
        len(study.cases[["m", "n", "k"]].drop_duplicates()),
    )
    known = table.set_index("case")
    may_rank = known.index[(known["verdict"] == "correct") & known[_SPEED].notna()]
    states, listed = base.statuses(study, ("check", "time")), []
    for row, found in zip(about, table.to_dict("records"), strict=True):
        case, default = str(row["case"]), _default(study, {str(k): v for k, v in row.items()})
        words = [str(row["kernel"])] if kernels > 1 else []
        words += [_label(study, {str(k): v for k, v in row.items()})]
        words += [base.shape_label(row)] if shapes > 1 else []
        kind, rate = _CHANGED, base.digits(found[_SPEED])
        told = f"{rate} TFLOP/s"
        failed = states[case].status
        if found["verdict"] != "correct":
            kind, told = _BAD, failed if failed != "ok" else f"{found['verdict']}, not ranked"
        elif not base.present(found[_SPEED]):
            told = failed if failed != "ok" else "not timed"
        elif base.present(found[_CHANGE]) and case != default:
            told = f"{_signed(found[_CHANGE])} ({rate})"
        elif case != default and default in may_rank:
            kind, told = _ELSEWHERE, f"{told}, other environment"
        if kind == _CHANGED and case == default:
            kind = _DEFAULT
        group = (str(row["kernel"]), base.shape_label(row))
        listed.append({"label": "\n".join(words), "kind": kind, "told": told, "group": group})
    rows = table.join(pd.DataFrame(listed))
    order = {group: place for place, group in enumerate(dict.fromkeys(rows["group"]))}
    return (
        rows.assign(group=rows["group"].map(order), after=rows["kind"] != _DEFAULT)
        .sort_values([*("group", "after"), _CHANGE], ascending=[True, True, False], kind="stable")
        .reset_index(drop=True)
    )


def _panel(
    ax: Axes, rows: pd.DataFrame, column: str, told: list[str], room: float, style: Style
) -> None:
    """A bar a row with its words beside it; `room` is the axis' length over the longest bar's."""
    sns.barplot(
        rows, x=column, y=rows.index, hue="kind", hue_order=list(_COLORS), palette=_COLORS, orient="h",
        saturation=1, width=0.66, dodge=False, errorbar=None, legend=False, linewidth=0.5, edgecolor=GREY, ax=ax,
    )  # fmt: skip
    for bar in ax.patches:
        place = round(float(bar.get_path().get_extents(bar.get_patch_transform()).y0 + 0.5))
        if rows["kind"].iloc[place] == _ELSEWHERE:
            bar.set_hatch("////")
    for place, (value, words) in enumerate(zip(rows[column].fillna(0.0), told, strict=True)):
        ax.annotate(words, (value, place), xytext=(3, 0), textcoords="offset points", va="center",
                    size=style.small, color=GREY if rows["kind"].iloc[place] == _BAD else INK, zorder=4,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4})  # fmt: skip
    ax.set_xlim(0, room * (rows[column].max() or 1.0) if rows[column].notna().any() else 1.0)
    ax.set_title(column[:1].upper() + column[1:].partition(" (")[0])
    ax.set_xlabel(column)
    ax.locator_params(axis="x", nbins=4)
    ax.xaxis.set_major_formatter(lambda value, _: compact(value))
    look.grid(ax, "x")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Three panels that share their rows: speed, excess wavefronts, L2 hit rate."""
    with look.apply(style):
        if study.cases.empty or table[[_SPEED, _EXCESS, _HITS]].isna().all(axis=None):
            return look.empty_figure(study, style, "speed or counter")
        rows = _rows(study, table)
        lines = max(1 + label.count("\n") for label in rows["label"])
        height = len(rows) * max(6.0, lines * style.line * 25.4 * 0.95 + 1) + 15
        fig = look.new_figure(style, (3 if style.narrow else 1) * height)
        axes = list(fig.subplots(3, 1) if style.narrow else fig.subplots(1, 3))
        counted = [
            (_EXCESS, [compact(value) for value in rows[_EXCESS]]),
            (_HITS, [f"{value:.1f} %" for value in rows[_HITS]]),
        ]
        speeds = rows[_SPEED].where(rows["kind"] != _BAD)
        _panel(axes[0], rows.assign(**{_SPEED: speeds}), _SPEED, list(rows["told"]), 1.9, style)
        for ax, (column, told) in zip(axes[1:], counted, strict=True):
            known = rows[column].notna()
            _panel(
                ax,
                rows,
                column,
                [w if k else "not counted" for w, k in zip(told, known, strict=True)],
                1.4,
                style,
            )
        for value in speeds[rows["kind"] == _DEFAULT].unique():
            axes[0].axvline(value, color=INK, linewidth=0.6, linestyle=":")
        axes[0].set_title("Speed, and its change")
        for place, ax in enumerate(axes):
            look.rows_axis(
                ax, list(rows["label"]) if place == 0 or style.narrow else [""] * len(rows)
            )
            ax.set_ylabel("")
        handles = [
            Patch(
                facecolor=color,
                edgecolor=GREY,
                linewidth=0.5,
                label=kind,
                hatch="////" if kind == _ELSEWHERE else None,
            )
            for kind, color in _COLORS.items()
            if kind in set(rows["kind"])
        ]
        shapes = list(
            dict.fromkeys(base.shape_label(row) for row in study.cases.to_dict("records"))
        )
        names = ", ".join(dict.fromkeys(study.cases["kernel"].astype(str)))
        notes = [f"{names}; shape {shapes[0]}." if len(shapes) == 1 else f"{names}."]
        dtypes = study.cases["dtype"].nunique()
        notes.append(
            "Change of the share of the cuBLAS timed in turn with it, so that the clock cancels"
            + ("; another dtype has another cuBLAS: there of TFLOP/s." if dtypes > 1 else ".")
        )
        if len(set(base.environment_of(study, "tflops", "time").values())) > 1:
            notes.append("Timed in several environments: changes only within one of them.")
        return look.finish(fig, study, style, handles, notes, _STAGES)
