"""A comparison as one self-contained page: verdicts, figures, tables, and the code that changed."""

import base64
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

from tilewave.kernel import result
from tilewave.plots import style as look
from tilewave.plots.base import present
from tilewave.records.counters.catalogue import EXCESS
from tilewave.records.store import write_atomically
from tilewave.report.cells import Table, table
from tilewave.report.comparing import changes, code, drawing, output
from tilewave.report.comparing.changes import Comparison, Side
from tilewave.report.rendering import render
from tilewave.report.summary import Banner
from tilewave.theory import ratios

MOST_VARIANTS = 20
"""The most variants whose code is shown."""
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


def _pictures(comparison: Comparison) -> list[dict[str, Any]]:
    """Return the figures as data URLs, with size in pixels and text alternative."""
    times, counts, figures = comparison.times, comparison.counts, []
    if len(times):
        figures.append((output.times_text(comparison), drawing.draw_times(times)))
    if len(counts):
        figures.append((output.counts_text(comparison), drawing.draw_counts(counts)))
    pictures = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figure.svg"
        for alt, figure in figures:
            look.save(figure, path, drawing.STYLE)
            width, height = (round(96 * float(inches)) for inches in figure.get_size_inches())
            encoded = base64.b64encode(path.read_bytes()).decode()
            address = f"data:image/svg+xml;base64,{encoded}"
            pictures.append({"alt": alt, "address": address, "width": width, "height": height})
    return pictures


def _table(frame: pd.DataFrame) -> Table | None:
    return table(frame) if len(frame) else None


# --------------------------------------------------------------------------------------------- code


def _variant(case: str) -> str:
    return case.partition("@")[0]


def _resources(comparison: Comparison, case: str) -> list[str]:
    """Return texts such as `registers 18` or `registers 18 → 19`."""
    old, new = (
        side.cases.drop_duplicates("case")
        .set_index("case")
        .reindex(columns=changes.RESOURCES)
        .loc[case]
        for side in (comparison.before, comparison.after)
    )
    resources = []
    for name in changes.RESOURCES:
        if pd.notna(old[name]) and pd.notna(new[name]):
            amounts = dict.fromkeys(output.amount(float(value)) for value in (old[name], new[name]))
            resources.append(f"{output.named(name)} {' → '.join(amounts)}")
    return resources


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


# ---------------------------------------------------------------------------------------------- all


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
        "times": _table(output.times(comparison)),
        "least": _table(output.least(comparison)),
        "counts": _table(output.counts(comparison.counts)),
        "variants": variants,
        "unshown": unshown,
    }
    path = folder / "index.html"
    write_atomically(path, render("compare.html.j2", context).encode())
    return path
