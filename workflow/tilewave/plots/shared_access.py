"""Shared access: expected beside measured wavefronts of one shared-memory instruction a case.

The measured count is the hardware's for the probe instruction alone: each kernel has one load, or one store, of
the probed kind, so the stores that fill shared memory first do not count. The table has Nsight
Compute's count for the instruction's address, too. The expected count is the kernel file's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import bars, rows_mm
from tilewave.plots.base import StudyData
from tilewave.plots.style import BLUE, INK, RED, Style

READING = (
    "A row is an access pattern, named by the bits that a lane accesses. The bar is the measured wavefronts, the diamond "
    "the prediction by the rule of transactions. A bar in red is not as predicted."
)
MEASURED = "wavefronts"
EXPECTED = "wavefronts_expected"
ATTRIBUTED = "wavefronts_by_instruction"
_STAGES = ("counters",)
_WIDTHS = (32, 64, 128)
"""Bits a lane."""
_MOST = 12
"""The most rows of a panel: the patterns with most wavefronts."""


def _operation(row: Mapping[str, Any]) -> str:
    """Return `load` or `store`, by the macro OP, else by the case's name."""
    word = str(base.macros_of(row).get("OP", row.get("probe_case", ""))).lower()
    return "store" if "store" in word else "load"


def _bits(row: Mapping[str, Any]) -> int:
    """Return bits a lane from the macro WIDTH, which is in bytes or bits."""
    width = int(base.macros_of(row).get("WIDTH", 0))
    return 8 * width if 8 * width in _WIDTHS else width


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case: operation, width, expected and measured wavefronts, and whether they agree."""
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
    """Return the share of the patterns that cost the predicted wavefronts."""
    compared = table[(table["as expected"] != "") & (table["verdict"] == "correct")]
    if compared.empty:
        return ""
    share = 100 * (compared["as expected"] == "yes").mean()
    return f"{share:.0f} % of the access patterns cost the predicted wavefronts"


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw loads and stores in a panel each: a bar for the measured wavefronts, a diamond for the expected ones."""
    with look.apply(style):
        rows = table[(table["verdict"] == "correct") & table["measured wavefronts"].notna()]
        if rows.empty:
            return look.empty_figure(study, style, "wavefronts")
        worst = rows.sort_values("measured wavefronts", ascending=False, kind="stable")
        worst = worst.groupby("operation").head(_MOST)
        parts = dict(iter(worst.sort_index().groupby("operation")))
        fig, axes = look.panels(style, [min(58.0, rows_mm(len(part))) for part in parts.values()])
        for ax, (operation, part) in zip(axes, parts.items(), strict=True):
            names = part["probe_case"].str.removeprefix(f"{operation}_").str.replace("_", " ")
            colors = part["as expected"].map({"no": RED}).fillna(BLUE)
            values = part["measured wavefronts"]
            bars(ax, list(names), values, values.map("{:g}".format), colors)
            sns.scatterplot(
                x=part["expected wavefronts"].to_numpy(), y=range(len(part)), marker="D", color="white",
                edgecolor=INK, s=16, linewidth=0.7, zorder=5, ax=ax,
            )  # fmt: skip
            ax.set(title=f"{operation}s", xlabel="wavefronts per warp instruction", ylabel="")
        handles = [
            Patch(color=BLUE, label="measured"),
            Line2D(
                [], [], linestyle="", marker="D", markerfacecolor="white", markeredgecolor=INK,
                markersize=4, markeredgewidth=0.7, label="expected",
            ),
        ]  # fmt: skip
        return look.finish(fig, study, style, handles, stages=_STAGES)
