"""What differs between two texts, line by line, and between two listings, opcode by opcode."""

import difflib
from collections import Counter
from collections.abc import Sequence

import pandas as pd

from tilewave.compiling import sass

_KINDS = {"+": "added", "-": "removed", "@": "place"}


def unified(before: Sequence[str], after: Sequence[str]) -> list[tuple[str, str]]:
    """Lines of a unified diff without its head, each behind its kind: added, removed, place, same."""
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    return [(_KINDS.get(text[:1], "same"), text) for text in lines]


def opcodes(before: str, after: str) -> pd.DataFrame:
    """A row for each opcode, its modifiers left out, of which there are more or fewer in another listing
    (of `sass.as_text`): opcode, before, after, and how many more, the largest difference first."""
    one, other = (
        Counter(line.opcode.partition(".")[0] for line in sass.parse(text))
        for text in (before, after)
    )
    names = sorted({*one, *other})
    rows = [(name, one[name], other[name], other[name] - one[name]) for name in names]
    made = pd.DataFrame(rows, columns=["opcode", "before", "after", "more"])
    made = made[made["more"] != 0]
    return made.sort_values("more", key=lambda more: -more.abs(), kind="stable", ignore_index=True)
