"""Shared access: expected beside measured wavefronts of one shared-memory instruction a case.

The measured count is the hardware's for the probe instruction alone: each kernel has one load, or one store, of
the probed kind, so the stores that fill shared memory first do not count. A cross shows Nsight Compute's count
for the instruction's address where it differs. The expected count is the kernel file's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import BAD, GREY, INK, Style

READING = (
    "A row is an access pattern, named by the bits that a lane accesses. The bar is the measured wavefronts, the "
    "diamond the prediction by the rule of transactions. At the end of its bar, the diamond is a right prediction."
)
MEASURED = "wavefronts"
EXPECTED = "wavefronts_expected"
ATTRIBUTED = "wavefronts_by_instruction"
_STAGES = ("counters",)
_WIDTHS = {32: "#88CCEE", 64: "#44AA99", 128: "#332288"}  # by bits a lane
_ATTRIBUTED = "attributed to its address by ncu, where different"
_OTHER, _WRONG = "measured, width not known", "not correct"


def _kind(bits: int) -> str:
    return f"measured, {bits}-bit a lane" if bits in _WIDTHS else _OTHER


_KINDS = {_kind(bits): color for bits, color in _WIDTHS.items()} | {
    _OTHER: "#AAAAAA", _WRONG: "#EEEEEE",
}  # fmt: skip


def _operation(row: Mapping[str, Any]) -> str:
    """Return `load` or `store`, by the macro OP, else by the case's name."""
    word = str(base.macros_of(row).get("OP", row.get("probe_case", ""))).lower()
    return "store" if "store" in word else "load"


def _bits(row: Mapping[str, Any]) -> int:
    """Return bits a lane from the macro WIDTH, which is in bytes or bits."""
    width = int(base.macros_of(row).get("WIDTH", 0))
    return 8 * width if 8 * width in _WIDTHS else width


def table(study: StudyData) -> pd.DataFrame:
    """Return one row a case: operation, width, expected and measured wavefronts, and whether they agree."""
    frame = study.cases.reindex(columns=["case", "probe_case"])
    rows = study.cases.to_dict("records")
    frame["operation"] = [_operation(row) for row in rows]
    frame["bits a lane"] = [_bits(row) for row in rows]
    frame["expected wavefronts"] = study.cases.reindex(columns=[EXPECTED])[EXPECTED].astype(float)
    frame["measured wavefronts"] = frame["case"].map(base.value_of(study, MEASURED))
    frame["attributed by ncu"] = frame["case"].map(base.value_of(study, ATTRIBUTED))
    both = frame["expected wavefronts"].notna() & frame["measured wavefronts"].notna()
    equal = frame["expected wavefronts"] == frame["measured wavefronts"]
    frame["as expected"] = equal.map({True: "yes", False: "no"}).where(both, "")
    base_rows = base.base_table(study).reset_index(drop=True)
    return frame.join(base_rows[["verdict", "status", "reason", "source"]])


def takeaway(study: StudyData, table: pd.DataFrame) -> str:
    """Return how many patterns cost the predicted wavefronts."""
    compared = table[(table["as expected"] != "") & (table["verdict"] == "correct")]
    if compared.empty:
        return ""
    return f"{(compared['as expected'] == 'yes').sum()} of {len(compared)} access patterns cost the predicted wavefronts"


def _apart(rows: pd.DataFrame) -> pd.Series[bool]:
    """Return where ncu attributes another number to the instruction's address."""
    return (rows["attributed by ncu"] - rows["measured wavefronts"]).fillna(0.0) != 0.0


def _row_text(row: Mapping[Any, Any]) -> tuple[str, str]:
    """Return the text beside a bar, and its colour."""
    measured = row["measured wavefronts"]
    if not base.present(measured):
        return str(row["status"]) if row["status"] != "ok" else "not counted", GREY
    text = base.number(float(measured))
    if row["as expected"] == "no":
        return f"{text} (expected {base.number(float(row['expected wavefronts']))})", BAD
    return (text, INK) if row["verdict"] == "correct" else (f"{text} ({row['verdict']})", GREY)


def _panel(ax: Axes, rows: pd.DataFrame, right: float) -> None:
    """Draw measured wavefronts as bars; expected ones, and different ones by ncu, are marks on them."""
    rows = rows.assign(place=range(len(rows)), kind=rows["bits a lane"].map(_kind))
    rows["kind"] = rows["kind"].where(rows["verdict"] == "correct", _WRONG)
    names = [
        str(row["probe_case"]).removeprefix(f"{row['operation']}_").replace("_", " ")
        for row in rows.to_dict("records")
    ]
    sns.barplot(
        rows.dropna(subset="measured wavefronts"), x="measured wavefronts", y="place", hue="kind",
        hue_order=[kind for kind in _KINDS if (rows["kind"] == kind).any()], palette=_KINDS, width=0.62,
        orient="y", dodge=False, native_scale=True, errorbar=None, saturation=1, edgecolor="#AAAAAA",
        linewidth=0.4, ax=ax,
    )  # fmt: skip
    for points, column, label, marker, color, edge, size in (
        (rows, "expected wavefronts", "expected", "D", "white", INK, 18),
        (rows[_apart(rows)], "attributed by ncu", _ATTRIBUTED, "X", BAD, "white", 34),
    ):
        if points[column].notna().any():
            sns.scatterplot(
                points, x=column, y="place", label=label, marker=marker, color=color, s=size,
                edgecolor=edge, linewidth=0.6, zorder=5, ax=ax,
            )  # fmt: skip
    texts = [_row_text(row) for row in rows.to_dict("records")]
    look.beside(ax, [text for text, _ in texts], [color for _, color in texts])
    look.rows_axis(ax, names)
    ax.set(xlim=(0, right), xticks=range(0, int(right) + 1, 1 if right < 12 else 4), ylabel="")
    ax.set_xlabel("wavefronts of the probe instruction")
    look.grid(ax, "x")


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw loads and stores in a panel each: measured bars, expected as a white diamond."""
    with look.apply(style):
        values = table[["expected wavefronts", "measured wavefronts", "attributed by ncu"]]
        if table.empty or values.isna().all(axis=None):
            return look.empty_figure(study, style, "wavefronts")
        parts = [(op, rows) for op, rows in table.groupby("operation") if len(rows)]
        row_mm = max(4.4, 1.1 * style.line * 25.4)
        heights = [len(rows) * row_mm + 13 for _, rows in parts]
        fig = look.new_figure(style, sum(heights) if style.narrow else max(heights))
        if style.narrow:
            axes = fig.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
        else:
            axes = fig.subplots(1, len(parts), squeeze=False)[0]
        right = float(values.max(axis=None)) + 0.5
        for ax, (operation, rows) in zip(axes, parts, strict=True):
            _panel(ax, rows, right)
            equal = int((rows["as expected"] == "yes").sum())
            ax.set_title(f"{str(operation).capitalize()}s: {equal} of {len(rows)} as expected")
        return look.finish(fig, study, style, look.entries(axes), [], _STAGES)
