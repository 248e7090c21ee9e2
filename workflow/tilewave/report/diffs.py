"""Differences of two texts by line, and of two listings by opcode."""

import difflib
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from tilewave.compiling import sass

_KINDS = {"+": "added", "-": "removed", "@": "place"}


def unified(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    """Return (kind, line) of a unified diff without its head; kinds: added, removed, place, same."""
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    return [(_KINDS.get(text[:1], "same"), text) for text in lines]


def opcodes(before: str, after: str) -> pd.DataFrame:
    """Return the opcodes whose number differs between two listings, the largest difference first.

    Columns: opcode (without modifiers), before, after, more.
    """
    old, new = (
        Counter(line.opcode.partition(".")[0] for line in sass.parse(text))
        for text in (before, after)
    )
    names = sorted({*old, *new})
    rows = [(name, old[name], new[name], new[name] - old[name]) for name in names]
    table = pd.DataFrame(rows, columns=["opcode", "before", "after", "more"])
    table = table[table["more"] != 0]
    return table.sort_values("more", key=lambda more: -more.abs(), kind="stable", ignore_index=True)
