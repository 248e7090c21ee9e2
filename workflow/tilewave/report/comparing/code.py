"""Code of two sides: source lines with their excess before and after, and machine code."""

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pandas as pd

from tilewave.compiling import sass
from tilewave.records.counters.catalogue import EXCESS
from tilewave.report.cells import Listing, number, plural, unified
from tilewave.report.comparing.changes import Side, instructions

CONTEXT = 2
"""Lines shown around each line that differs or has excess."""
MOST_LINES = 400
"""The most lines of a diff of machine code."""
MOST_OPCODES = 12
"""The most opcodes that are named."""
_LABEL = re.compile(r"\.L_x_\d+")
_MARKS = {"added": "+ ", "removed": "− ", "same": "  "}


def sources(before: Side, after: Side, case: str) -> list[Listing]:
    """Return a case's files in which text or excess wavefronts differ, merged from both sides.

    Lines far from any difference or excess become gaps. The line number is the second side's where both have the line.
    """
    rows = [table[table["case"] == case] for table in map(instructions, (before, after))]
    texts = [side.texts(case.partition("@")[0]) for side in (before, after)]
    merged_files = []
    for name in dict.fromkeys(name for files in texts for name in files):
        old, new = (
            _lines(table[table["file"] == name], files.get(name, ""))
            for table, files in zip(rows, texts)
        )
        if lines := _merged(old, new):
            merged_files.append(Listing(name, ["line", "excess before", "after", "source"], lines))
    return merged_files


_Counted = list[tuple[int, str, float | None]]
"""Lines as (number, text, excess); None without an access to shared memory."""


def _lines(rows: pd.DataFrame, text: str) -> _Counted:
    counted = rows[rows[EXCESS].notna()] if EXCESS in rows else rows.iloc[:0]
    sums = counted.groupby("line")[EXCESS].sum().to_dict() if len(counted) else {}
    return [(line, code, sums.get(line)) for line, code in enumerate(text.splitlines(), 1)]


def _merged(before: _Counted, after: _Counted) -> list[tuple[str, list[str]]]:
    """Return the rows of a listing; none where neither text nor excess differs."""
    keys = [[text.strip() for _, text, _ in lines] for lines in (before, after)]
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    lines: list[tuple[str, int, str, float | None, float | None]] = []
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(before[i:j], after[k:m])
            lines += [("same", at, text, old, new) for (_, _, old), (at, text, new) in pairs]
            continue
        lines += [("removed", at, text, old, None) for at, text, old in before[i:j]]
        lines += [("added", at, text, None, new) for at, text, new in after[k:m]]
    near: set[int] = set()
    changed = False
    for at, (kind, _, _, old, new) in enumerate(lines):
        changed |= kind != "same" or (old or 0) != (new or 0)
        if kind != "same" or old or new:
            near |= {*range(at - CONTEXT, at + CONTEXT + 1)}
    rows: list[tuple[str, list[str]]] = []
    for shown, group in itertools.groupby(range(len(lines)), near.__contains__):
        part = [lines[at] for at in group]
        if not shown:
            rows.append(("gap", ["", "", "", f"… {plural(len(part), 'line')}"]))
            continue
        for kind, line, text, old, new in part:
            hot = " hot" if (old or 0) != (new or 0) else ""
            excess = ["" if value is None else number(value) for value in (old, new)]
            rows.append((kind + hot, [str(line), *excess, _MARKS[kind] + text]))
    return rows if changed else []


def _plain(listing: str) -> list[str]:
    """Return each function's name and instructions, without addresses and label numbers."""
    lines: list[str] = []
    for function, code in itertools.groupby(sass.parse(listing), lambda line: line.function):
        lines += [f"{function}:", *(f"  {_LABEL.sub('.L', line.text)}" for line in code)]
    return lines


def opcodes(before: str, after: str) -> list[str]:
    """Return the opcodes whose number differs between two listings, as `LDS 8 → 9`, the largest difference first."""
    old, new = (
        Counter(line.opcode.partition(".")[0] for line in sass.parse(text))
        for text in (before, after)
    )
    changed = [name for name in sorted({*old, *new}) if old[name] != new[name]]
    changed.sort(key=lambda name: -abs(new[name] - old[name]))
    return [f"{name} {old[name]} → {new[name]}" for name in changed]


def machine_code(before: str, after: str) -> dict[str, Any] | None:
    """Return the diff of two listings from `sass.as_text`; None where one is missing or both agree.

    before, after: numbers of instructions; lines: the first lines from `unified`; skipped: number of
    further lines; opcodes: from `opcodes`, empty where only registers differ.
    """
    old, new = _plain(before), _plain(after)
    if not before or not after or old == new:
        return None
    lines = unified(old, new)
    kinds = Counter(kind for kind, _ in lines)
    sizes: Sequence[int] = [sum(line.startswith(" ") for line in code) for code in (old, new)]
    return {
        "before": sizes[0], "after": sizes[1], "added": kinds["added"], "removed": kinds["removed"],
        "lines": lines[:MOST_LINES], "skipped": max(0, len(lines) - MOST_LINES),
        "opcodes": opcodes(before, after)[:MOST_OPCODES],
    }  # fmt: skip
