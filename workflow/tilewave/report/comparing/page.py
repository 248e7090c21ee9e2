"""A comparison as one page that needs nothing beside it: verdicts, figures, tables, and the code that changed."""

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
from tilewave.report.comparing import changes, code, drawing, telling
from tilewave.report.comparing.changes import Comparison
from tilewave.report.comparing.sides import Side
from tilewave.report.rendering import render
from tilewave.report.summary import Banner
from tilewave.theory import ratios

MOST_VARIANTS = 20
"""Variants whose code is shown, those with the largest change of excess first."""
MOST_OPCODES = 12
"""Opcodes that are named, those with the largest difference."""
WIDE, NARROW = Style(), Style(width_mm=86.0)
_TONES = {ratios.FASTER: "good", ratios.SLOWER: "bad"}


@dataclass(frozen=True)
class Picture:
    """A figure at two widths as addresses that hold it, with what it shows in words, and its caption; sizes in pixels."""

    alt: str
    address: str
    size: tuple[int, int]
    narrow: str
    narrow_size: tuple[int, int]
    caption: list[str]


@dataclass(frozen=True)
class ChangedVariant:
    """A variant whose counts or machine code differ: the case that is shown of it, its resources before and
    after, its counts, its files, its machine code and opcodes of which there are more or fewer."""

    name: str
    case: str
    resources: list[str]
    counts: Table | None
    files: list[code.MergedFile]
    sass: code.MachineCode | None
    opcodes: list[str]


def where(side: Side) -> str:
    """The machines that a side's figures come from, in words."""
    told: dict[str, None] = {}
    known = side.records
    if "value" in known:
        known = known[known["value"].notna()]
    for name in known["environment"].unique() if "environment" in known else ():
        facts = side.environments.get(name) or {}
        if not facts:
            continue
        stages = set(known.loc[known["environment"] == name, "stage"])
        device = facts.get("gpu") or facts.get("cpu") or "an unknown machine"
        if stages <= {result.EXECUTE} or not facts.get("gpu"):
            told[f"executed on the CPU ({facts.get('cpu') or 'unknown'})"] = None
            continue
        details = [
            f"{word} {str(facts[key])[:12]}"
            for key, word in (("uuid", "card"), ("driver", "driver"), ("commit", "commit"))
            if present(facts.get(key))
        ]
        told[f"{device} ({', '.join(details)})"] = None
    return "; ".join(told) or "nothing was measured"


# ------------------------------------------------------------------------------------------ figures


def _picture(title: str, draw: Callable[[Style], Figure]) -> Picture:
    found: list[tuple[str, tuple[int, int]]] = []
    with tempfile.TemporaryDirectory() as folder:
        for style in (WIDE, NARROW):
            figure, path = draw(style), Path(folder) / "figure.svg"
            look.save(figure, path, style)
            held = base64.b64encode(path.read_bytes()).decode()
            width, height = (round(96 * float(inches)) for inches in figure.get_size_inches())
            found.append((f"data:image/svg+xml;base64,{held}", (width, height)))
    (wide, size), (narrow, narrow_size) = found
    return Picture(title, wide, size, narrow, narrow_size, look.caption(figure))


def _pictures(made: Comparison) -> list[Picture]:
    source = "; ".join(f"{side.label}: {where(side)}" for side in (made.before, made.after))
    found, times, counts = [], made.times, made.counts
    if times["ratio"].notna().any():
        title = f"Times, {made.before.label} to {made.after.label}: {telling.timed(made)}"
        found.append(_picture(title, lambda style: drawing.draw_times(times, title, source, style)))
    if len(counts):
        head = f"Counts, {made.before.label} to {made.after.label}: {telling.counted(made)}"
        found.append(_picture(head, lambda style: drawing.draw_counts(counts, head, source, style)))
    return found


def _table(frame: pd.DataFrame) -> Table | None:
    return table(frame) if len(frame) else None


# --------------------------------------------------------------------------------------------- code


def _variant(case: str) -> str:
    return case.partition("@")[0]


def _resources(made: Comparison, case: str) -> list[str]:
    """`registers 18`, or `registers 18 → 19`."""
    one, other = (
        side.cases.drop_duplicates("case")
        .set_index("case")
        .reindex(columns=changes.RESOURCES)
        .loc[case]
        for side in (made.before, made.after)
    )
    found = []
    for name in changes.RESOURCES:
        if pd.notna(one[name]) and pd.notna(other[name]):
            told = dict.fromkeys(telling.amount(float(value)) for value in (one[name], other[name]))
            found.append(f"{telling.named(name)} {' → '.join(told)}")
    return found


def _variants(made: Comparison) -> tuple[list[ChangedVariant], list[str]]:
    """The variants whose code or counts differ, and the names of those that are too many to be shown."""
    both = [case for case in made.before.cases["case"] if case in set(made.after.cases["case"])]
    counts = made.counts.assign(variant=made.counts["case"].map(_variant))
    moved = (counts["after"] - counts["before"]).abs().where(counts["count"] == EXCESS, 0.0)
    first = moved.groupby(counts["case"]).max() if len(counts) else moved
    cases: dict[str, str] = {}  # of each variant the one with the largest change of excess
    for case in sorted(both, key=lambda case: -first.get(case, -1.0)):
        cases.setdefault(_variant(case), case)
    shown: list[ChangedVariant] = []
    left_out = []
    for name, case in cases.items():
        mine = counts[counts["variant"] == name]
        machine = code.machine_code(made.before.listing(name), made.after.listing(name))
        if machine is None and mine.empty:
            continue
        if len(shown) == MOST_VARIANTS:
            left_out.append(name)
            continue
        files = code.sources(made.before, made.after, case)
        rows = telling.counts(mine[mine["case"] == case]).drop(columns="case")
        opcodes = () if machine is None else machine.opcodes.head(MOST_OPCODES).itertuples()
        shown.append(ChangedVariant(
            name, case, _resources(made, case), _table(rows), files, machine,
            [f"{row.opcode} {row.before} → {row.after}" for row in opcodes],
        ))  # fmt: skip
    return shown, left_out


# ---------------------------------------------------------------------------------------------- all


def write(folder: Path, made: Comparison) -> Path:
    """Write ``index.html`` into a folder, which need not exist; its path."""
    said = made.times["verdict"].value_counts()
    variants, left_out = _variants(made)
    worse = made.verdicts[made.verdicts["before"] == result.CORRECT]
    context = {
        "banner": Banner("live", "A comparison", ""),
        "sides": [{"label": one.label, "where": where(one)} for one in (made.before, made.after)],
        "compared": made.compared,
        "alone": telling.alone(made),
        "verdicts": [
            (word, int(said.get(word, 0)), _TONES.get(word, "")) for word in ratios.VERDICTS
        ],
        "timed": len(made.times),
        "differing": made.counts["case"].nunique(),
        "worse": len(worse),
        "pictures": _pictures(made),
        "judged": _table(made.verdicts),
        "times": _table(telling.times(made)),
        "counts": _table(telling.counts(made.counts)),
        "variants": variants,
        "left_out": left_out,
    }
    path = folder / "index.html"
    write_atomically(path, render("compare.html.j2", context).encode())
    return path
