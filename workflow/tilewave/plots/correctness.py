"""Correctness: the verdict, or the status that kept it from one, of every variant at every shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from tilewave.plots import base
from tilewave.plots import style as look
from tilewave.plots.base import StudyData
from tilewave.plots.style import MM, Style

OPTIONS: Mapping[str, str] = {}

# Verdicts and statuses with a colour and a letter each: no colour alone carries a meaning.
OUTCOMES: Mapping[str, tuple[str, str]] = {
    "correct": ("#44AA99", "+"),
    "not checked": ("#DDDDDD", "?"),
    "unsupported": ("#F3F3F3", "u"),
    "not measured": ("#E3EAF4", "n"),
    "stale": ("#DDCC77", "s"),
    "wrong": ("#CC3311", "W"),
    "race": ("#AA4499", "R"),
    "uninitialised read": ("#AA4499", "U"),
    "barrier": ("#AA4499", "B"),
    "failed to compile": ("#882255", "C"),
    "failed to launch": ("#882255", "L"),
    "invalid access": ("#882255", "A"),
    "timed out": ("#882255", "T"),
}
_OTHER = ("#AA4499", "!")


@dataclass(frozen=True)
class _Panel:
    """A piece of the matrix: rows and columns (labels) and the outcome of each cell."""

    title: str
    cells: pd.DataFrame


def outcomes(study: StudyData) -> dict[str, str]:
    """The check's status where it is not ok, else the verdict, by case."""
    states, verdicts = base.statuses(study, ("check",)), base.verdicts(study)
    return {
        case: states[case].status if states[case].status != "ok" else verdict
        for case, verdict in verdicts.items()
    }


def table(study: StudyData) -> pd.DataFrame:
    """One row a case: outcome, errors of the result and the tolerance that they were held against."""
    frame = base.base_table(study)
    found = pd.Series(outcomes(study), dtype=object)
    frame.insert(7, "outcome", found.reindex(frame.index))
    frame.insert(2, "probe_case", study.cases.set_index("case")["probe_case"])
    return base.with_columns(
        frame,
        {
            "largest error": base.value_of(study, "max_error", "check"),
            "tolerance": base.value_of(study, "tolerance", "check"),
            "relative error (Frobenius)": base.value_of(study, "relative_error", "check"),
        },
    )


def _panels(study: StudyData, found: Mapping[str, str], columns: int) -> list[_Panel]:
    panels = []
    for operation, group in study.cases.groupby("operation", sort=False):
        by = group.assign(
            row=[
                str(r["kernel"]) if base.present(r.get("probe_case"))
                else base.variant_label(r).replace("\n", " ")
                for r in group.to_dict("records")
            ],
            column=[base.shape_label(r) for r in group.to_dict("records")],
            outcome=group["case"].map(found),
        )  # fmt: skip
        names = list(dict.fromkeys(by["column"]))
        for start in range(0, len(names), columns):
            part = by[by["column"].isin(names[start : start + columns])]
            wide = part.drop_duplicates(["row", "column"], keep="last").pivot(
                index="row", columns="column", values="outcome"
            )
            order = list(dict.fromkeys(part["row"]))
            wide = wide.reindex(index=order, columns=names[start : start + columns])
            more = f" ({1 + start // columns})" if start else ""
            panels.append(_Panel(f"{str(operation).replace('_', ' ')}{more}", wide))
    return panels


def _draw_panel(ax: Axes, panel: _Panel, style: Style, letters: bool) -> None:
    names = [*OUTCOMES, "other"]
    cells = panel.cells
    codes = np.full(cells.shape, np.nan)
    texts = np.full(cells.shape, "", dtype=object)
    for i in range(cells.shape[0]):
        for j in range(cells.shape[1]):
            outcome = cells.iat[i, j]
            if base.present(outcome):
                known = str(outcome) in OUTCOMES
                codes[i, j] = names.index(str(outcome) if known else "other")
                texts[i, j] = OUTCOMES.get(str(outcome), _OTHER)[1] if letters else ""
    colors = [OUTCOMES[n][0] for n in OUTCOMES] + [_OTHER[0]]
    sns.heatmap(
        pd.DataFrame(codes, index=cells.index, columns=cells.columns), ax=ax,
        cmap=ListedColormap(colors), vmin=-0.5, vmax=len(colors) - 0.5, cbar=False,
        linewidths=0.6, linecolor="white", annot=texts, fmt="",
        annot_kws={"size": 0.75 * style.font_size},
        xticklabels=True, yticklabels=True,
    )  # fmt: skip
    ax.set_title(panel.title)
    ax.set_xlabel("")
    ax.set_ylabel("")
    ax.tick_params(length=0)
    ax.tick_params(axis="x", rotation=90 if cells.shape[1] > 6 or style.narrow else 0)
    ax.tick_params(axis="y", rotation=0)


def draw(study: StudyData, table: pd.DataFrame, style: Style) -> Figure:
    """A matrix of variants and shapes for each operation, a colour and a letter an outcome."""
    with look.apply(style):
        if study.cases.empty:
            return look.empty_figure(study, style, "verdict")
        cell = max(2.6, 1.15 * style.small / 72 / MM)
        longest = max(len(str(v)) for v in study.cases["variant"])
        room = style.width_mm - 8 - 0.6 * longest * style.small / 72 / MM
        found = dict(zip(table["case"], table["outcome"], strict=True))
        panels = _panels(study, found, max(4, int(room / cell)))
        heights = []
        for panel in panels:
            names = max((len(str(c)) for c in panel.cells.columns), default=4)
            turned = panel.cells.shape[1] > 6 or style.narrow
            below = 0.62 * names * style.small / 72 / MM if turned else 5
            heights.append(below + 7)
        rows = [panel.cells.shape[0] for panel in panels]
        fig = look.new_figure(style, sum(rows) * max(4.0, cell) + sum(heights))
        axes = fig.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": rows})
        for ax, panel in zip(axes[:, 0], panels, strict=True):
            _draw_panel(ax, panel, style, letters=True)
        counts = Counter(found.values())
        handles, labels = [], []
        order = [o for o in OUTCOMES if o in counts] + [o for o in counts if o not in OUTCOMES]
        for outcome in order:
            color, letter = OUTCOMES.get(outcome, _OTHER)
            handles.append(Patch(facecolor=color, edgecolor="#BBBBBB"))
            labels.append(f"{letter}  {outcome} ({counts[outcome]})")
        checked = sum(n for o, n in counts.items() if o in ("correct", "wrong"))
        notes = [f"Checked {checked} of {len(study.cases)} cases. N³ is the shape N×N×N."]
        return look.finish(fig, study, style, handles, labels, notes, ("check",))
