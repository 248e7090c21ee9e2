"""A comparison as one self-contained page: verdicts, figures, tables, and the code that changed."""

import base64
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from tilewave.kernel import result
from tilewave.plots import style as look
from tilewave.plots.base import present
from tilewave.plots.style import Style
from tilewave.records.counters.catalogue import EXCESS
from tilewave.records.store import write_atomically
from tilewave.report.cells import Table, table
from tilewave.report.comparing import changes, code, drawing, output
from tilewave.report.comparing.changes import Comparison
from tilewave.report.comparing.sides import Side
from tilewave.report.rendering import render
from tilewave.report.summary import Banner
from tilewave.theory import ratios

MOST_VARIANTS = 20
"""The most variants whose code is shown."""
MOST_OPCODES = 12
"""The most opcodes that are named."""
WIDE, NARROW = Style(), Style(width_mm=86.0)
_TONES = {ratios.FASTER: "good", ratios.SLOWER: "bad"}


@dataclass(frozen=True)
class Picture:
    """A figure at two widths as data URLs, with its text alternative and caption; sizes in pixels."""

    alt: str
    address: str
    size: tuple[int, int]
    narrow: str
    narrow_size: tuple[int, int]
    caption: list[str]


@dataclass(frozen=True)
class ChangedVariant:
    """A variant whose counts or machine code differ, shown at one case.

    resources: texts before and after; opcodes: texts on those whose number differs.
    """

    name: str
    case: str
    resources: list[str]
    counts: Table | None
    files: list[code.MergedFile]
    sass: code.MachineCode | None
    opcodes: list[str]


def where(side: Side) -> str:
    """Return the names of the machines that a side's figures come from."""
    machines: dict[str, None] = {}
    records = side.records
    if "value" in records:
        records = records[records["value"].notna()]
    for name in records["environment"].unique() if "environment" in records else ():
        facts = side.environments.get(name) or {}
        if not facts:
            continue
        stages = set(records.loc[records["environment"] == name, "stage"])
        device = facts.get("gpu") or facts.get("cpu") or "an unknown machine"
        if stages <= {result.EXECUTE} or not facts.get("gpu"):
            machines[f"executed on the CPU ({facts.get('cpu') or 'unknown'})"] = None
            continue
        details = [
            f"{label} {str(facts[key])[:12]}"
            for key, label in (("uuid", "card"), ("driver", "driver"), ("commit", "commit"))
            if present(facts.get(key))
        ]
        machines[f"{device} ({', '.join(details)})"] = None
    return "; ".join(machines) or "nothing was measured"


# ------------------------------------------------------------------------------------------ figures


def _picture(title: str, draw: Callable[[Style], Figure]) -> Picture:
    images: list[tuple[str, tuple[int, int]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for style in (WIDE, NARROW):
            figure, path = draw(style), Path(folder) / "figure.svg"
            look.save(figure, path, style)
            encoded = base64.b64encode(path.read_bytes()).decode()
            width, height = (round(96 * float(inches)) for inches in figure.get_size_inches())
            images.append((f"data:image/svg+xml;base64,{encoded}", (width, height)))
    (wide, size), (narrow, narrow_size) = images
    return Picture(title, wide, size, narrow, narrow_size, look.caption(figure))


def _pictures(comparison: Comparison) -> list[Picture]:
    before, after = comparison.before, comparison.after
    source = "; ".join(f"{side.label}: {where(side)}" for side in (before, after))
    pictures, times, counts = [], comparison.times, comparison.counts
    if times["ratio"].notna().any():
        title = f"Times, {before.label} to {after.label}: {output.times_text(comparison)}"
        pictures += [_picture(title, lambda style: drawing.draw_times(times, title, source, style))]
    if len(counts):
        head = f"Counts, {before.label} to {after.label}: {output.counts_text(comparison)}"
        pictures += [_picture(head, lambda style: drawing.draw_counts(counts, head, source, style))]
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


def _variants(comparison: Comparison) -> tuple[list[ChangedVariant], list[str]]:
    """Return the variants whose code or counts differ, and the names of those over MOST_VARIANTS."""
    before, after = comparison.before, comparison.after
    both = [case for case in before.cases["case"] if case in set(after.cases["case"])]
    counts = comparison.counts.assign(variant=comparison.counts["case"].map(_variant))
    change = (counts["after"] - counts["before"]).abs().where(counts["count"] == EXCESS, 0.0)
    largest = change.groupby(counts["case"]).max() if len(counts) else change
    cases: dict[str, str] = {}  # each variant's case with the largest change of excess
    for case in sorted(both, key=lambda case: -largest.get(case, -1.0)):
        cases.setdefault(_variant(case), case)
    shown: list[ChangedVariant] = []
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
        opcodes = () if machine is None else machine.opcodes.head(MOST_OPCODES).itertuples()
        shown.append(ChangedVariant(
            name, case, _resources(comparison, case), _table(rows), files, machine,
            [f"{row.opcode} {row.before} → {row.after}" for row in opcodes],
        ))  # fmt: skip
    return shown, unshown


# ---------------------------------------------------------------------------------------------- all


def write(folder: Path, comparison: Comparison) -> Path:
    """Write ``index.html`` into a folder, which need not exist, and return its path."""
    before, after = comparison.before, comparison.after
    judged = comparison.times["verdict"].value_counts()
    variants, unshown = _variants(comparison)
    worse = comparison.verdicts[comparison.verdicts["before"] == result.CORRECT]
    context = {
        "banner": Banner("live", "A comparison", ""),
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
        "counts": _table(output.counts(comparison.counts)),
        "variants": variants,
        "unshown": unshown,
    }
    path = folder / "index.html"
    write_atomically(path, render("compare.html.j2", context).encode())
    return path
