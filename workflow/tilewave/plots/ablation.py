"""Ablation: a kernel's macros changed one at a time, each with its change of speed against the default.

A change of speed needs variant and default in one environment; otherwise the table has the speed alone.
Both were timed in turn with cuBLAS. Where that was the same product, each speed is first divided by the cuBLAS
of its own run. This cancels a clock that the power limit moved between the runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from tilewave.basics.tables import table_beside
from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import bars, rows_mm
from tilewave.plots.base import StudyData
from tilewave.plots.options import Named
from tilewave.plots.style import GREEN, INK, RED, Style

Options = Named
_STAGES = ("time", "counters")
_CHANGE = "change of speed against the default (%)"


def _defaults(study: StudyData) -> pd.Series[str]:
    """Return by case the one to compare with: same kernel and shape, the default variant; NaN without one."""
    cases, same = study.cases, ["kernel", "m", "n", "k"]
    defaults = cases[cases["variant"] == cases["kernel"]].drop_duplicates(same)
    joined = cases.merge(defaults[[*same, "case"]], "left", on=same, suffixes=("", "_default"))
    return joined.set_index("case")["case_default"]


def _change(study: StudyData) -> pd.Series[float]:
    """Return the relative change of speed over the default in percent; cases that cannot be compared are absent.
    Speeds are shares of the paired cuBLAS where both cases have one of the same dtype."""
    speed = base.value_of(study, "tflops", "time")
    paired = base.value_of(study, "percent_of_cublas", "time")
    timed_in = base.environment_of(study, "tflops")
    dtypes = study.cases.set_index("case")["dtype"]
    may_rank = set(base.ranking(study)) & set(speed.index)
    changes: dict[str, float] = {}
    for case, default in _defaults(study).items():
        if {case, default} <= may_rank and timed_in[str(case)] == timed_in[default]:
            alike = {case, default} <= set(paired.index) and dtypes[case] == dtypes[default]
            values = paired if alike else speed
            changes[str(case)] = 100.0 * (float(values[case]) / float(values[default]) - 1.0)
    return pd.Series(changes, dtype=float)


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case: TFLOP/s, its change over the default, excess wavefronts, L2 hit rate."""
    return base.table_of(study, table_beside(__file__), change=_change(study))


def _changes(study: StudyData, table: pd.DataFrame) -> pd.Series[float]:
    """Return the change of speed in % by label, the largest gain first, of the changes that matter most."""
    change = base.column(table, _CHANGE)
    cases, defaults = study.cases.set_index("case", drop=False), _defaults(study)[change.index]
    # Another dtype is another product, and has another cuBLAS to compare with.
    dtypes = cases["dtype"].reindex(defaults).to_numpy()
    changes = change[(defaults != change.index) & (dtypes == cases["dtype"][change.index])]
    most = changes.abs().sort_values(ascending=False, kind="stable").index[: look.MOST_ROWS]
    changes = changes[most].sort_values(ascending=False, kind="stable")
    rows = [cases.loc[[case, defaults[case]]].to_dict("records") for case in changes.index]
    return changes.set_axis([_label(study, *pair) for pair in rows])


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return the most expensive change; "" without two variants that may be compared."""
    changes = _changes(study, table)
    if changes.empty or changes.iloc[-1] >= 0:
        return ""
    return f"The most expensive change, {changes.index[-1]}, costs {-changes.iloc[-1]:.0f} % of the speed"


def _label(study: StudyData, row: Mapping[str, Any], default: Mapping[str, Any]) -> str:
    """Return the change of a variant: its plain name, else `STAGES 3 → 2`, else what its name has."""
    old, new = base.macros_of(default), base.macros_of(row)
    differ = [name for name in new if new[name] != old.get(name, new[name])]
    changed = [f"{name} {old[name]} → {new[name]}" for name in differ]
    label = ", ".join(changed) or base.variant_label(row).removeprefix(f"{row['kernel']} ")
    return Named.of(study).names.get(str(row["variant"]), label)


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw one bar per change, the largest gain on top."""
    changes = _changes(study, table)
    look.stop_if(changes.empty, "change of speed")
    fig, (ax,) = look.panels(style, [rows_mm(len(changes)) - 4])
    colors = [GREEN if change > 0 else RED for change in changes]
    texts = [f"{change:+.1f} %".replace("-", "−") for change in changes]
    bars(ax, list(changes.index), changes, texts, colors)
    ax.axvline(0, color=INK, linewidth=0.8)
    rows = study.cases[study.cases["variant"] == study.cases["kernel"]].to_dict("records")
    defaults = ", ".join(
        f"{base.plain_label(study, row)}, {base.dtype_short(row['dtype'])}, {base.shape_label(row)}"
        for row in rows
    )
    ax.set_xlabel(f"change of speed against the default of {defaults} (%)")
    note = "The change compares shares of cuBLAS timed in turn, so the clock cancels. The table has other dtypes."
    return look.finish(fig, study, style, notes=[note], stages=_STAGES)
