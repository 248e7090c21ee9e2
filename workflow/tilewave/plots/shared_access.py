"""Shared access: expected beside measured wavefronts of one shared-memory instruction a case.

The measured count is the hardware's for the probe instruction alone: each kernel has one load, or
one store, of the probed kind, so the stores that fill shared memory beforehand do not enter it. A
cross shows what Nsight Compute attributes to the instruction's address where that is another number.
The expected count is the kernel file's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import BAD, GREY, INK, Style

OPTIONS: Mapping[str, str] = {}
MEASURED = "wavefronts"
EXPECTED = "wavefronts_expected"
ATTRIBUTED = "wavefronts_by_instruction"
_STAGES = ("counters",)
_WIDTHS: Mapping[int, tuple[str, str]] = {
    4: ("32-bit", "#88CCEE"),
    8: ("64-bit", "#44AA99"),
    16: ("128-bit", "#332288"),
}


def _operation(row: Mapping[str, Any]) -> str:
    """`load` or `store`, by the macro OP, else by the case's name."""
    word = str(base.macros_of(row).get("OP", row.get("probe_case", ""))).lower()
    return "store" if "store" in word else "load"


def _width(row: Mapping[str, Any]) -> int:
    """Bytes a lane, by the macro WIDTH, else by the number of bits in the case's name; 0: unknown."""
    macro = base.macros_of(row).get("WIDTH")
    if macro is not None and str(macro).isdigit():
        return int(macro) if int(macro) in _WIDTHS else int(macro) // 8
    bits = re.search(r"(128|64|32)", str(row.get("probe_case", "")))
    return int(bits.group(1)) // 8 if bits else 0


def _expected(study: StudyData) -> pd.Series[float]:
    """Expected wavefronts by case: the record, else a column of that name among the cases."""
    found = base.value_of(study, EXPECTED)
    if EXPECTED in study.cases:
        column = study.cases.set_index("case")[EXPECTED].astype(float).dropna()
        found = column.combine_first(found)
    return found


def table(study: StudyData) -> pd.DataFrame:
    """One row a case: operation, width, expected and measured wavefronts, and whether they agree."""
    frame = study.cases.reindex(columns=["case", "probe_case"])
    rows = study.cases.to_dict("records")
    frame["operation"] = [_operation(row) for row in rows]
    frame["bits a lane"] = [_width(row) * 8 for row in rows]
    frame["expected wavefronts"] = frame["case"].map(_expected(study))
    frame["measured wavefronts"] = frame["case"].map(base.value_of(study, MEASURED))
    frame["attributed by ncu"] = frame["case"].map(base.value_of(study, ATTRIBUTED))
    both = frame["expected wavefronts"].notna() & frame["measured wavefronts"].notna()
    equal = frame["expected wavefronts"] == frame["measured wavefronts"]
    frame["as expected"] = equal.map({True: "yes", False: "no"}).where(both, "")
    rest = base.base_table(study).reset_index(drop=True)
    return frame.join(rest[["verdict", "status", "reason", "source"]])


def _panel(ax: Axes, rows: pd.DataFrame, style: Style, right: float) -> None:
    labels = []
    for place, row in enumerate(rows.to_dict("records")):
        width = int(row["bits a lane"]) // 8
        name = str(row["probe_case"]).removeprefix(f"{row['operation']}_")
        labels.append(name.replace("_", " "))
        measured, expected = row["measured wavefronts"], row["expected wavefronts"]
        color = _WIDTHS.get(width, ("", "#AAAAAA"))[1]
        ranks = row["verdict"] == "correct"
        if base.present(measured):
            ax.barh(
                place, measured, height=0.62, linewidth=0.4, edgecolor="#AAAAAA" if not ranks else color,
                color=color if ranks else "#EEEEEE", hatch=None if ranks else "////",
            )  # fmt: skip
            wrong = row["as expected"] == "no"
            told = f"{base.number(float(measured))}"
            if wrong:
                told += f" (expected {base.number(float(expected))})"
            elif not ranks:
                told += f" ({row['verdict']})"
            tint = BAD if wrong else INK if ranks else GREY
        else:
            told, tint = str(row["status"]) if row["status"] != "ok" else "not counted", GREY
        if base.present(expected):
            ax.plot(
                [expected], [place], "D", color="white", markeredgecolor=INK, markersize=3.4, zorder=4,
            )  # fmt: skip
        attributed = row["attributed by ncu"]
        if base.present(attributed) and attributed != measured:
            ax.plot([attributed], [place], "x", color=BAD, markersize=4.2, zorder=5)
        reach = max(
            [float(v) for v in (measured, expected, attributed) if base.present(v)], default=0.0
        )
        ax.annotate(
            told, (reach, place), xytext=(5, 0), textcoords="offset points",
            va="center", ha="left", size=style.small, color=tint,
        )  # fmt: skip
    look.rows_axis(ax, labels)
    ax.set_xlim(0, right)
    ax.set_xticks(range(0, int(right) + 1, 1 if right < 12 else 4))
    ax.set_xlabel("wavefronts of the probe instruction")
    look.grid(ax, "x")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Loads and stores in a panel each: measured bars, expected as a white diamond."""
    with look.apply(style):
        values = table[["expected wavefronts", "measured wavefronts", "attributed by ncu"]]
        if table.empty or values.isna().all(axis=None):
            return look.empty_figure(study, style, "wavefronts")
        parts = [(op, table[table["operation"] == op]) for op in ("load", "store")]
        parts = [(op, rows) for op, rows in parts if not rows.empty]
        row_mm = max(4.4, 1.1 * style.line * 25.4)
        heights = [len(rows) * row_mm + 13 for _, rows in parts]
        if style.narrow:
            fig = look.new_figure(style, sum(heights))
            axes = fig.subplots(
                len(parts), 1, squeeze=False, gridspec_kw={"height_ratios": heights}
            )[:, 0]
        else:
            fig = look.new_figure(style, max(heights))
            axes = fig.subplots(1, len(parts), squeeze=False)[0]
        right = float(values.max(axis=None)) * (1.5 if style.narrow else 1.35) + 0.5
        for ax, (operation, rows) in zip(axes, parts, strict=True):
            _panel(ax, rows, style, right)
            known = rows[rows["as expected"] != ""]
            equal = int((known["as expected"] == "yes").sum())
            ax.set_title(f"{operation.capitalize()}s: {equal} of {len(rows)} as expected")
        handles: list[Any] = [
            Patch(color=color, label=f"measured, {name} a lane")
            for width, (name, color) in _WIDTHS.items()
            if (table["bits a lane"] == width * 8).any()
        ]
        handles.append(
            Line2D([], [], linestyle="", marker="D", color="white", markeredgecolor=INK,
                   markersize=3.4, label="expected")
        )  # fmt: skip
        apart = table["attributed by ncu"].notna() & table["measured wavefronts"].notna()
        if (apart & (table["attributed by ncu"] != table["measured wavefronts"])).any():
            handles.append(
                Line2D([], [], linestyle="", marker="x", color=BAD, markersize=4.2,
                       label="attributed to its address by ncu, where different")
            )  # fmt: skip
        drawn = table["measured wavefronts"].notna()
        if (drawn & (table["verdict"] != "correct")).any():
            handles.append(
                Patch(facecolor="#EEEEEE", edgecolor="#AAAAAA", hatch="////", label="not correct")
            )
        return look.finish(
            fig, study, style, handles, [str(h.get_label()) for h in handles], [], _STAGES
        )
