"""Shared access: expected beside measured wavefronts of one shared-memory instruction a case.

The measured count is the hardware's for the probe instruction alone: each kernel has one load, or one store, of
the probed kind, so the stores that fill shared memory first do not count. The table has Nsight
Compute's count for the instruction's address, too. The expected count is the kernel file's.
"""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots._panels import rows_mm
from tilewave.plots.base import StudyData
from tilewave.plots.options import Named
from tilewave.plots.style import RED, Style

Options = Named
MEASURED = "wavefronts"
EXPECTED = "wavefronts_expected"
ATTRIBUTED = "wavefronts_by_instruction"
_STAGES = ("counters",)
_MOST = 12
"""The most rows of a panel."""


def table(study: StudyData) -> pd.DataFrame:
    """Return one row per case: operation, width, expected and measured wavefronts, and whether they agree."""
    frame = study.cases.reindex(columns=["case", "probe_case"])
    macros = [base.macros_of(row) for row in study.cases.to_dict("records")]
    frame["operation"] = [str(values.get("OP", "load")) for values in macros]
    frame["bits a lane"] = [8 * int(values.get("WIDTH", 0)) for values in macros]
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


@look.styled
def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """Draw a panel for each width: a cell a pattern and operation, with measured and expected wavefronts."""
    rows = table[(table["verdict"] == "correct") & table["measured wavefronts"].notna()]
    look.stop_if(rows.empty, "wavefronts")
    pattern = rows["probe_case"].str.replace(r"^(load|store)_", "", regex=True)
    measured, expected = rows["measured wavefronts"], rows["expected wavefronts"]
    sign = rows["as expected"].map({"no": " ≠ "}).fillna(" = ")
    texts = measured.map("{:g}".format) + sign + expected.map("{:g}".format)
    rows = rows.assign(pattern=pattern, text=texts, operation=rows["operation"] + "s")
    parts = dict(iter(rows.groupby("bits a lane")))
    counts = [part["pattern"].nunique() for part in parts.values()]
    most = min(_MOST, max(counts))
    tall = [rows_mm(count) + 2 if style.narrow else rows_mm(most) + 8 for count in counts]
    fig, axes = look.panels(style, tall)
    for ax, (bits, part) in zip(axes, parts.items(), strict=True):
        patterns = list(dict.fromkeys(part["pattern"]))[:_MOST]
        names = [Named.of(study).names.get(name, name.replace("_", " ")) for name in patterns]
        values, texts = (
            part.pivot_table(column, "pattern", "operation", "first").reindex(patterns)
            for column in ("measured wavefronts", "text")
        )
        sns.heatmap(
            values, annot=texts.fillna("–"), fmt="", cbar=False, cmap="Blues", vmin=0, vmax=1.6 * measured.max(),
            linewidths=0.6, yticklabels=names, ax=ax,
        )  # fmt: skip
        for text in ax.texts:
            if "≠" in text.get_text():
                text.set(color=RED, weight="bold")
        ax.set(title=f"{bits}-bit", ylabel="", xlabel="")
        if not style.narrow:
            ax.set_ylim(most, 0)
        look.head(ax, "element of lane i (in C)", 0)
        ax.xaxis.tick_top()
        ax.tick_params(length=0, labelrotation=0)
    fig.supxlabel("wavefronts: measured = predicted", size=style.font_size)
    return look.finish(fig, study, style, stages=_STAGES)
