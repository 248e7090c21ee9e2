"""Ablation: one macro of a kernel at a time against its default, in three aligned panels.

The change of speed is formed only where the variant and the default were timed in one environment;
elsewhere it is left out and said so. Both were timed in turn with cuBLAS: where that was the same
product, each is divided by the cuBLAS of its own run first, which cancels a clock that the power
limit had moved between the two runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData, compact
from tilewave.plots.style import GREY, INK, Style

OPTIONS: Mapping[str, str] = {
    "default": "variant that the others are compared with (default: the one of no changed macro)",
}
L2_HIT_RATE = "lts__t_sector_hit_rate.pct"
EXCESS = "wavefronts_shared_excess"
_STAGES = ("time", "counters")
_SPEED, _CHANGE = "TFLOP/s", "change of speed against the default (%)"
_EXCESS, _HITS = "excess shared wavefronts", "L2 hit rate (%)"


def _default(study: StudyData, row: Mapping[str, Any]) -> str | None:
    """The case that this one is compared with: same kernel and shape, the default variant."""
    variant = str(study.option("default", row["kernel"]))
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


def _panel(
    ax: Axes, cases: list[str], values: pd.Series[float], colors: list[str], style: Style,
    texts: Mapping[str, str], gone: Mapping[str, str],
) -> None:  # fmt: skip
    for place, case in enumerate(cases):
        value = values.get(case)
        if value is None:
            ax.annotate(
                gone.get(case, "no value"), (0, place), xytext=(2, 0), textcoords="offset points",
                va="center", ha="left", size=style.small, color=GREY,
            )  # fmt: skip
            continue
        ax.barh(place, float(value), height=0.66, color=colors[place], linewidth=0)
        # Right of the bar, or of zero: there a row with a loss has room.
        ax.annotate(
            texts[case], (max(float(value), 0.0), place), xytext=(2, 0),
            textcoords="offset points", va="center", ha="left", size=style.small, color=INK,
        )  # fmt: skip
    look.grid(ax, "x")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Three panels that share their rows: speed, excess wavefronts, L2 hit rate."""
    with look.apply(style):
        speed, change = base.column(table, _SPEED), base.column(table, _CHANGE)
        excess, hit = base.column(table, _EXCESS), base.column(table, _HITS)
        if study.cases.empty or (speed.empty and excess.empty and hit.empty):
            return look.empty_figure(study, style, "speed or counter")
        rows = study.cases.to_dict("records")
        cases = [str(row["case"]) for row in rows]
        several = len(study.cases[["m", "n", "k"]].drop_duplicates()) > 1
        kernels = study.cases["kernel"].nunique()
        palette = look.kernel_colors(style, study.cases["kernel"].astype(str))
        verdicts = dict(zip(table["case"], table["verdict"], strict=True))
        labels, colors = [], []
        for row in rows:
            is_default = str(row["case"]) == _default(study, row)
            label = base.variant_label(row)
            if kernels == 1:
                label = label.partition("\n")[2].replace(" ", "\n") or "default"
            elif is_default:
                label += "\n(default)"
            labels.append(f"{label}\n{base.shape_label(row)}" if several else label)
            color = palette[str(row["kernel"])]
            colors.append(color if is_default else str(_hex(look.lighter(color, 0.35))))
            if verdicts[str(row["case"])] != "correct":
                colors[-1] = "#CCCCCC"
        states = base.statuses(study, ("check", "time"))
        gone = {}
        for row in rows:
            case = str(row["case"])
            if verdicts[case] != "correct" and states[case].status == "ok":
                gone[case] = f"{verdicts[case]}, not ranked"
            elif case not in speed.index:
                gone[case] = states[case].status if states[case].status != "ok" else "not timed"
            else:
                gone[case] = "other environment"
        row_mm = max(6.0, max(1 + lb.count("\n") for lb in labels) * style.line * 25.4 * 0.95 + 1)
        height = len(cases) * row_mm + 15
        if style.narrow:
            fig = look.new_figure(style, 3 * height)
            axes = fig.subplots(3, 1)
        else:
            fig = look.new_figure(style, height)
            axes = fig.subplots(1, 3)
        said = {}
        for c in change.index:
            said[c] = f"{base.digits(float(speed[c]))} TFLOP/s"
            if abs(change[c]) >= 1e-9:
                said[c] = f"{change[c]:+.1f} % ({base.digits(float(speed[c]))})".replace("-", "−")
        counted = dict.fromkeys(cases, "not counted")
        _panel(axes[0], cases, change, colors, style, said, gone)
        _panel(
            axes[1], cases, excess, colors, style,
            {c: compact(float(v)) for c, v in excess.items()}, counted,
        )  # fmt: skip
        _panel(
            axes[2], cases, hit, colors, style,
            {str(c): f"{v:.1f} %" for c, v in hit.items()}, counted,
        )  # fmt: skip
        low = min(0.0, float(change.min()) if len(change) else 0.0)
        high = max(0.0, float(change.max()) if len(change) else 0.0)
        text = 0.42 if style.narrow else 0.56  # of the panel's width, right of the longest bar
        span = max(high - low, 2.0) / (1 - text)
        axes[0].set_xlim(low - 0.04 * span, high + text * span)
        axes[0].locator_params(axis="x", nbins=4)
        axes[0].axvline(0, color=INK, linewidth=0.6)
        axes[0].set_title("Change of speed (TFLOP/s)")
        axes[0].set_xlabel("against the default (%)")
        most = float(excess.max()) if len(excess) else 0.0
        axes[1].set_xlim(0, 1.35 * (most or 1.0))
        axes[1].xaxis.set_major_formatter(lambda v, _: compact(v))
        axes[1].locator_params(axis="x", nbins=3)
        axes[1].set_title("Excess shared wavefronts")
        axes[1].set_xlabel("wavefronts beyond the ideal")
        axes[2].set_xlim(0, 132)
        axes[2].set_xticks([0, 25, 50, 75, 100])
        axes[2].set_title("L2 hit rate")
        axes[2].set_xlabel("sectors found in L2 (%)")
        for place, ax in enumerate(axes):
            look.rows_axis(ax, labels if place == 0 or style.narrow else [""] * len(cases))
        shapes = list(dict.fromkeys(base.shape_label(row) for row in rows))
        names = ", ".join(dict.fromkeys(str(row["kernel"]) for row in rows))
        notes = [f"{names}; shape {shapes[0]}." if len(shapes) == 1 else f"{names}."]
        dtypes = study.cases["dtype"].nunique()
        notes.append(
            "Change of the share of the cuBLAS timed in turn with it, so that the clock cancels"
            + ("; another dtype has another cuBLAS: there of TFLOP/s." if dtypes > 1 else ".")
        )
        environments = set(base.environment_of(study, "tflops", "time").values())
        if len(environments) > 1:
            notes.append("Timed in several environments: changes only within one of them.")
        return look.finish(fig, study, style, (), (), notes, _STAGES)


def _hex(color: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in color)
