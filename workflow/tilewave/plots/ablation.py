"""Ablation: a kernel's macros changed one at a time, each beside the default, in three aligned panels.

A change of speed needs variant and default in one environment; otherwise the speed alone is shown, hatched.
Both were timed in turn with cuBLAS. Where that was the same product, each speed is first divided by the cuBLAS
of its own run. This cancels a clock that the power limit moved between the runs.
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
from tilewave.plots.style import FAINT, GREY, Style
from tilewave.records.counters.catalogue import EXCESS

READING = (
    "A row changes one macro of the variant in the first row. Compare each bar with the first: speed, excess "
    "wavefronts and L2 hit rate."
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
    """Return the case to compare with: same kernel and shape, the default variant."""
    variant = str(row["kernel"])
    same = study.cases[study.cases["variant"] == variant]
    for size in ("m", "n", "k"):
        same = same[same[size] == row[size]]
    return None if same.empty else str(same.iloc[0]["case"])


def _change(study: StudyData) -> pd.Series[float]:
    """Return the relative change of speed over the default in percent; cases that cannot be compared are absent.
    Speeds are shares of the paired cuBLAS where both cases have one of the same dtype."""
    speed = base.value_of(study, "tflops", "time")
    paired = base.value_of(study, "percent_of_cublas", "time")
    dtypes = study.cases.set_index("case")["dtype"]
    may_rank = set(base.ranking(study))
    changes: dict[str, float] = {}
    for row in study.cases.to_dict("records"):
        case, default = str(row["case"]), _default(study, row)
        if default is None or not {case, default} <= may_rank & set(speed.index):
            continue
        if base.same_environment(study, "tflops", case, default):
            alike = {case, default} <= set(paired.index) and dtypes[case] == dtypes[default]
            values = paired if alike else speed
            changes[case] = 100.0 * (float(values[case]) / float(values[default]) - 1.0)
    return pd.Series(changes, dtype=float)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case: TFLOP/s, its change over the default, excess wavefronts, L2 hit rate."""
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
    """Return the most expensive change; "" without two variants that may be compared."""
    change = base.column(table, _CHANGE)
    rows = study.cases.set_index("case", drop=False)
    changes = change[[_default(study, rows.loc[case].to_dict()) != case for case in change.index]]
    if changes.empty:
        return ""

    worst = changes.idxmin()
    if changes[worst] >= 0:
        return ""
    row = rows.loc[worst].to_dict()
    label, loss = _label(study, row), -changes[worst]
    return f"{label} costs most of {len(changes)} changes to {row['kernel']}: {loss:.1f} % of the speed"


def _signed(percent: float) -> str:
    return f"{percent:+.1f} %".replace("-", "−")


def _label(study: StudyData, row: Mapping[str, Any]) -> str:
    """Return the change of a variant: `STAGES 3 → 2`; its name where the macros are not known."""
    default = _default(study, row)
    if default == row["case"]:
        return "default"
    rows = study.cases[study.cases["case"] == default].to_dict("records")
    old = base.macros_of({str(key): value for key, value in rows[0].items()}) if rows else {}
    changed = [
        f"{name} {old[name]} → {value}"
        for name, value in base.macros_of(row).items()
        if value != old.get(name, value)
    ]
    return ", ".join(changed) or base.variant_label(row).partition("\n")[2] or str(row["variant"])


def _rows(study: StudyData, table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with label, kind (of _COLORS) and text of the speed; the default is first, then the
    largest gains."""
    listed, states = [], base.statuses(study, ("check", "time"))
    ranked = set(table.loc[(table["verdict"] == "correct") & table[_SPEED].notna(), "case"])
    for row, result in zip(study.cases.to_dict("records"), table.to_dict("records"), strict=True):
        default, failed = _default(study, row), states[row["case"]].status
        kind, rate = _CHANGED if row["case"] != default else _DEFAULT, base.digits(result[_SPEED])
        text = f"{rate} TFLOP/s"
        if result["verdict"] != "correct":
            kind, text = _BAD, failed if failed != "ok" else f"{result['verdict']}, not ranked"
        elif not base.present(result[_SPEED]):
            text = failed if failed != "ok" else "not timed"
        elif kind == _CHANGED and base.present(result[_CHANGE]):
            text = f"{_signed(result[_CHANGE])} ({rate})"
        elif kind == _CHANGED and default in ranked:
            kind, text = _ELSEWHERE, f"{text}, other environment"
        listed.append({"label": _label(study, row), "kind": kind, "text": text})
    rows = table.join(pd.DataFrame(listed))
    rows = rows.assign(after=rows["kind"] != _DEFAULT)
    return rows.sort_values(
        ["after", _CHANGE], ascending=[True, False], kind="stable", ignore_index=True
    )


def _panel(ax: Axes, rows: pd.DataFrame, column: str, texts: list[str], style: Style) -> None:
    """Draw a bar a row with its text beside it."""
    values = rows[column].fillna(0.0)
    bars = ax.barh(
        rows.index, values, height=0.66, color=rows["kind"].map(_COLORS), edgecolor=GREY, linewidth=0.5,
        label=list(rows["kind"]),
    )  # fmt: skip
    for bar, kind in zip(bars, rows["kind"], strict=True):
        bar.set_hatch("////" if kind == _ELSEWHERE else "")
    ax.bar_label(bars, texts, padding=3, size=style.small)
    ax.set_xlim(0, (1.9 if column == _SPEED else 1.4) * (values.max() or 1.0))
    ax.set_xlabel(column)
    ax.locator_params(axis="x", nbins=4)
    ax.xaxis.set_major_formatter(lambda value, _: compact(value))
    look.grid(ax, "x")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw three panels that share their rows: speed, excess wavefronts, L2 hit rate."""
    with look.apply(style):
        if study.cases.empty or table[[_SPEED, _EXCESS, _HITS]].isna().all(axis=None):
            return look.empty_figure(study, style, "speed or counter")
        rows = _rows(study, table)
        fig = look.new_figure(style, (3 if style.narrow else 1) * (6.0 * len(rows) + 15))
        axes = list(fig.subplots(3, 1) if style.narrow else fig.subplots(1, 3))
        shown = rows.assign(**{_SPEED: rows[_SPEED].where(rows["kind"] != _BAD)})
        counted = {_EXCESS: compact, _HITS: "{:.1f} %".format}
        texts = {
            c: [f(v) if base.present(v) else "not counted" for v in rows[c]]
            for c, f in counted.items()
        }
        for ax, (column, labels) in zip(
            axes, {_SPEED: list(rows["text"]), **texts}.items(), strict=True
        ):
            _panel(ax, shown, column, labels, style)
            first = ax is axes[0] or style.narrow
            look.rows_axis(ax, list(rows["label"]) if first else [""] * len(rows))
        shapes = ", ".join(dict.fromkeys(map(base.shape_label, study.cases.to_dict("records"))))
        names = ", ".join(dict.fromkeys(study.cases["kernel"].astype(str)))
        notes = [
            f"{names}; shape {shapes}. The change compares shares of cuBLAS timed in turn, so the clock cancels."
        ]
        return look.finish(fig, study, style, look.entries(axes[:1]), notes, _STAGES)
