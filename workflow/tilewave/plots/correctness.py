"""Correctness: the verdict, or the status that kept it from one, of every variant at every shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, to_rgb
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


def _draw_panel(ax: Axes, panel: _Panel, style: Style) -> None:
    cells = panel.cells
    high, wide = cells.shape
    names = [*OUTCOMES, "other"]
    shades = np.array([to_rgb(color) for color, _ in (*OUTCOMES.values(), _OTHER)])
    linear = np.where(shades <= 0.03928, shades / 12.92, ((shades + 0.055) / 1.055) ** 2.4)
    luminance = linear @ [0.2126, 0.7152, 0.0722]
    codes = np.full(cells.shape, np.nan)
    for (y, x), outcome in np.ndenumerate(cells.to_numpy(dtype=object)):
        if base.present(outcome):
            codes[y, x] = names.index(outcome if outcome in OUTCOMES else "other")
    ax.pcolormesh(
        np.ma.masked_invalid(codes), cmap=ListedColormap(shades), vmin=-0.5, vmax=len(names) - 0.5,
        linewidths=0.6, edgecolors="white",
    )  # fmt: skip
    for (y, x), code in np.ndenumerate(codes):
        if not np.isnan(code):
            _, letter = OUTCOMES.get(names[int(code)], _OTHER)
            ax.text(
                x + 0.5, y + 0.5, letter, ha="center", va="center", size=0.75 * style.font_size,
                color=".15" if luminance[int(code)] > 0.408 else "w",
            )  # fmt: skip
    ax.set(xlim=(0, wide), ylim=(high, 0))
    ax.set_xticks(np.arange(wide) + 0.5, cells.columns, rotation=90 if _turned(panel, style) else 0)
    ax.set_yticks(np.arange(high) + 0.5, cells.index, va="center")
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.set_title(panel.title)


def _turned(panel: _Panel, style: Style) -> bool:
    """Whether the names of the shapes stand upright."""
    return panel.cells.shape[1] > 6 or style.narrow


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
            below = 0.62 * names * style.small / 72 / MM if _turned(panel, style) else 5
            heights.append(below + 7)
        rows = [panel.cells.shape[0] for panel in panels]
        fig = look.new_figure(style, sum(rows) * max(4.0, cell) + sum(heights))
        axes = fig.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": rows})
        for ax, panel in zip(axes[:, 0], panels, strict=True):
            _draw_panel(ax, panel, style)
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
