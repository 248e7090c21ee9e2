"""A comparison as one self-contained page: verdicts, figures, tables, and the code that changed."""

import base64
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tilewave.kernel import result
from tilewave.plots import style as look
from tilewave.plots.base import present
from tilewave.plots.style import BAD, GOOD, GREY, INK, Style
from tilewave.records.counters.catalogue import EXCESS
from tilewave.records.store import write_atomically
from tilewave.report.cells import Table, table
from tilewave.report.comparing import changes, code, output
from tilewave.report.comparing.changes import Comparison, Side
from tilewave.report.rendering import render
from tilewave.report.summary import Banner
from tilewave.theory import ratios

MOST_VARIANTS = 20
"""The most variants whose code is shown."""
MOST_DRAWN = 40
"""The most cases of a figure; the tables have all."""
COSTS, SAVES = "costs more", "costs less"
_LOOKS: Mapping[str, tuple[str, str]] = {
    ratios.FASTER: (GOOD, "v"), ratios.SAME: (GREY, "o"), ratios.SLOWER: (BAD, "^"),
    ratios.AMBIGUOUS: ("#AA8800", "D"), COSTS: (BAD, "^"), SAVES: (GOOD, "v"),
}  # fmt: skip
"""Colour and marker of a verdict, and of a count by whether it costs more than before."""
MORE_IS_BETTER = (changes.OCCUPANCY,)
STYLE = Style()
_TONES = {ratios.FASTER: "good", ratios.SLOWER: "bad"}


def where(side: Side) -> str:
    """Return the names of the machines that a side's counts come from."""
    machines = dict[str, None]()
    measured = side.records[side.records["value"].notna()]
    for name, stages in measured.groupby("environment")["stage"]:
        facts = side.environments.get(str(name)) or {}
        on_cpu = set(stages) <= {result.EXECUTE} or not facts.get("gpu")
        details = [
            f"{label} {str(facts[key])[:12]}"
            for key, label in (("uuid", "card"), ("driver", "driver"), ("commit", "commit"))
            if present(facts.get(key))
        ]
        on_gpu = f"{facts.get('gpu')} ({', '.join(details)})"
        cpu = f"executed on the CPU ({facts.get('cpu') or 'unknown'})"
        machines[cpu if on_cpu else on_gpu] = None
    return "; ".join(machines) or "nothing was measured"


def _draw(rows: pd.DataFrame, xlabel: str, middle: float, margin: float = 0.0) -> Figure:
    """Draw a mark for each row (columns label, x, kind; low and high for its interval) from top to bottom."""
    labels = list(dict.fromkeys(rows["label"]))
    with look.apply(STYLE):
        fig = look.new_figure(STYLE, 4.2 * len(labels) + 13)
        ax = fig.subplots()
        rows = rows.assign(y=rows["label"].map(labels.index))
        ax.axvspan(middle - margin, middle + margin, color=GREY, alpha=0.12, linewidth=0)
        ax.axvline(middle, color=INK, linewidth=0.8)
        if "low" in rows:
            ax.hlines(rows["y"], rows["low"], rows["high"], color=GREY, linewidth=0.9)
        kinds = [kind for kind in _LOOKS if (rows["kind"] == kind).any()]
        sns.scatterplot(
            rows, x="x", y="y", hue="kind", style="kind", hue_order=kinds, style_order=kinds, ax=ax,
            palette=[_LOOKS[kind][0] for kind in kinds], markers=[_LOOKS[kind][1] for kind in kinds], s=18,
        )  # fmt: skip
        look.rows_axis(ax, labels)
        ax.set(xlabel=xlabel, ylabel="")
        ax.legend(title=None, loc="best")
        look.grid(ax, "x")
        fig.set_layout_engine("constrained")
    return fig


def draw_times(times: pd.DataFrame) -> Figure:
    """Draw the change of each case's time (%) with its interval, the slowest first; the margin is shaded.
    Of more than MOST_DRAWN rows, those with a verdict other than *same* go first, then those farthest from 1."""
    far = np.log(times["ratio"].astype(float)).abs()
    order = pd.DataFrame({"same": times["verdict"] == ratios.SAME, "far": -far})
    rows = times.loc[order.sort_values(["same", "far"], kind="stable").index[:MOST_DRAWN]]
    rows = rows.sort_values("ratio", ascending=False, kind="stable")
    percent = {name: 100 * (rows[name].astype(float) - 1) for name in ("low", "ratio", "high")}
    rows = rows.assign(**percent, label=rows["case"].str.replace("@", "  "), kind=rows["verdict"])
    margin = 100 * float(rows["margin"].max())
    return _draw(rows.assign(x=rows["ratio"]), "change in time (%)", 0.0, margin)


def _label(rows: pd.DataFrame) -> str:
    """Return `registers: 128 to 143` for the case that changed most, and of how many cases that differ."""
    row = rows.loc[rows["far"].idxmax()]
    most = f" (of {len(rows)} cases)" if rows["x"].nunique() > 1 else ""
    change = f"{output.amount(row['before'])} to {output.amount(row['after'])}"
    return f"{output.named(row['count'])}: {change}{most}"


def draw_counts(counts: pd.DataFrame) -> Figure:
    """Draw the ratio of each count in each case. Ratios from 0 or to 0 stand at the edges."""
    ratio = (counts["after"] / counts["before"]).astype(float)  # infinite from 0
    finite = ratio[(ratio > 0) & np.isfinite(ratio)]
    costs = (ratio > 1) ^ counts["count"].isin(MORE_IS_BETTER)
    rows = counts.assign(
        x=ratio.clip(0.5 * min(0.8, *finite), 2 * max(1.25, *finite)), far=np.log(ratio.clip(1e-9, 1e9)).abs(),
        kind=np.where(costs, COSTS, SAVES),
    )  # fmt: skip
    labels = {name: _label(part) for name, part in rows.groupby("count")}
    fig = _draw(
        rows.assign(label=rows["count"].map(labels)), "ratio of counts, after over before", 1.0
    )
    ax = fig.axes[0]
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    return fig


def _pictures(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the figures as data URLs, with size in pixels and text alternative."""
    times, counts, figures = comparison.times, comparison.counts, []
    if len(times):
        figures.append((output.times_text(comparison), draw_times(times)))
    if len(counts):
        figures.append((output.counts_text(comparison), draw_counts(counts)))
    pictures = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        for alt, figure in figures:
            look.save(figure, path, STYLE)
            width, height = (round(96 * float(inches)) for inches in figure.get_size_inches())
            encoded = base64.b64encode(path.read_bytes()).decode()
            address = f"data:image/svg+xml;base64,{encoded}"
            pictures.append({"alt": alt, "address": address, "width": width, "height": height})
    return pictures


def _table(frame: pd.DataFrame) -> Table | None:
    return table(frame) if len(frame) else None


def _variant(case: str) -> str:
    return case.partition("@")[0]


def _resources(comparison: Comparison, case: str) -> list[str]:
    """Return texts such as `registers 18` or `registers 18 → 19`."""
    sides = comparison.before, comparison.after
    used = pd.concat([side.cases[side.cases["case"] == case].head(1) for side in sides])
    used = used.reindex(columns=changes.RESOURCES).dropna(axis=1).astype(float)
    return [
        f"{output.named(name)} {' → '.join(dict.fromkeys(map(output.amount, amounts)))}"
        for name, amounts in used.items()
    ]


def _variants(comparison: Comparison) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the variants whose code or counts differ, and the names of those over MOST_VARIANTS."""
    before, after = comparison.before, comparison.after
    both = [case for case in before.cases["case"] if case in set(after.cases["case"])]
    counts = comparison.counts.assign(variant=comparison.counts["case"].map(_variant))
    change = (counts["after"] - counts["before"]).abs().where(counts["count"] == EXCESS, 0.0)
    largest = change.groupby(counts["case"]).max() if len(counts) else change
    cases: dict[str, str] = {}  # each variant's case with the largest change of excess
    for case in sorted(both, key=lambda case: -largest.get(case, -1.0)):
        cases.setdefault(_variant(case), case)
    shown: list[dict[str, Any]] = []
    unshown = []
    for name, case in cases.items():
        variant_counts = counts[counts["variant"] == name]
        machine = code.machine_code(before.listing(name), after.listing(name))
        if machine is None and variant_counts.empty:
            continue
        if len(shown) == MOST_VARIANTS:
            unshown.append(name)
            continue
        files = code.sources(before, after, case)
        rows = output.counts(variant_counts[variant_counts["case"] == case]).drop(columns="case")
        shown.append({
            "name": name, "case": case, "resources": _resources(comparison, case), "counts": _table(rows),
            "files": files, "sass": machine,
        })  # fmt: skip
    return shown, unshown


def write(folder: Path, comparison: Comparison) -> Path:
    """Write ``index.html`` into a folder, which need not exist, and return its path."""
    before, after = comparison.before, comparison.after
    judged = comparison.times["verdict"].value_counts()
    variants, unshown = _variants(comparison)
    worse = comparison.verdicts[comparison.verdicts["before"] == result.CORRECT]
    context = {
        "banner": Banner("live", "A comparison"),
        "sides": [{"label": side.label, "where": where(side)} for side in (before, after)],
        "compared": comparison.compared,
        "unmatched": output.unmatched(comparison),
        "verdicts": [
            (word, int(judged.get(word, 0)), _TONES.get(word, "")) for word in ratios.VERDICTS
        ],
        "timed": len(comparison.times),
        "differing": comparison.counts["case"].nunique(),
        "worse": len(worse),
        "pictures": _pictures(comparison),
        "verdict_changes": _table(comparison.verdicts),
        "times": _table(output.times(comparison.times)),
        "least": _table(output.least(comparison)),
        "counts": _table(output.counts(comparison.counts)),
        "variants": variants,
        "unshown": unshown,
    }
    path = folder / "index.html"
    write_atomically(path, render("compare.html.j2", context).encode())
    return path
