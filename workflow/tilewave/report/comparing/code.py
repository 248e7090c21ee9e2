"""Code of two sides: source lines with their excess before and after, and machine code."""

import difflib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from tilewave.compiling import sass
from tilewave.records.counters.catalogue import EXCESS
from tilewave.report import diffs
from tilewave.report.cells import plural
from tilewave.report.comparing.changes import instructions
from tilewave.report.comparing.sides import Side

CONTEXT = 2
"""Lines shown around each line that differs or has excess."""
MOST_LINES = 400
"""The most lines of a diff of machine code."""
_LABEL = re.compile(r"\.L_x_\d+")


@dataclass(frozen=True)
class MergedLine:
    """A line of one side or of both.

    kind: same, added, removed, or gap, whose text says how many lines are hidden; number: the second
    side's where both have the line; before, after: excess wavefronts, None where the line has no access to
    shared memory on that side.
    """

    kind: str
    number: int | None
    text: str
    before: float | None = None
    after: float | None = None

    @property
    def differs(self) -> bool:
        """The excess of the two sides differs."""
        return (self.before or 0) != (self.after or 0)


@dataclass(frozen=True)
class MergedFile:
    """Lines of a file, merged from both sides."""

    name: str
    lines: list[MergedLine]


@dataclass(frozen=True)
class MachineCode:
    """A diff of machine code.

    before, after: numbers of instructions; lines: the first lines from `diffs.unified`; skipped: number of
    further lines; opcodes: from `diffs.opcodes`, empty where only registers differ.
    """

    before: int
    after: int
    added: int
    removed: int
    lines: list[tuple[str, str]]
    skipped: int
    opcodes: pd.DataFrame


# ------------------------------------------------------------------------------------------- source


def sources(before: Side, after: Side, case: str) -> list[MergedFile]:
    """Return a case's files in which text or excess wavefronts differ.

    Lines far from any difference or excess become gaps. A side without files has only the lines of its
    counted instructions.
    """
    rows = [table[table["case"] == case] for table in map(instructions, (before, after))]
    variant = case.partition("@")[0]
    texts = [side.texts(variant) for side in (before, after)]
    names = [name for files in texts for name in files] if all(texts) else []
    for side_rows in rows:
        names += [] if side_rows.empty else side_rows["file"].dropna().tolist()
    merged_files = []
    for name in filter(None, dict.fromkeys(names)):
        in_both = all(name in files for files in texts)
        old, new = (
            _lines(table[table["file"] == name], files[name] if in_both else None)
            for table, files in zip(rows, texts)
        )
        lines = _merged(old, new)
        if any(line.differs or line.kind != "same" for line in lines):
            merged_files.append(MergedFile(name, list(_shortened(lines))))
    return merged_files


_Counted = list[tuple[int, str, float | None]]
"""Lines as (number, text, excess)."""


def _lines(rows: pd.DataFrame, text: str | None) -> _Counted:
    counted = rows[rows[EXCESS].notna()] if EXCESS in rows else rows.iloc[:0]
    sums = counted.groupby("line")[EXCESS].sum().to_dict() if len(counted) else {}
    if text is None:
        numbered = rows[pd.to_numeric(rows["line"]) > 0].drop_duplicates("line").sort_values("line")
        pairs = list(zip(numbered["line"].astype(int), numbered["text"].fillna("").str.rstrip()))
    else:
        pairs = list(enumerate(text.splitlines(), 1))
    return [(number, line, sums.get(number)) for number, line in pairs]


def _merged(before: _Counted, after: _Counted) -> list[MergedLine]:
    keys = [[text.strip() for _, text, _ in lines] for lines in (before, after)]
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    merged = []
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            merged += [
                MergedLine("same", number, text, old, new)
                for (_, _, old), (number, text, new) in zip(before[i:j], after[k:m])
            ]
            continue
        merged += [MergedLine("removed", at, text, before=old) for at, text, old in before[i:j]]
        merged += [MergedLine("added", at, text, after=new) for at, text, new in after[k:m]]
    return merged


def _shortened(lines: Sequence[MergedLine]) -> Iterator[MergedLine]:
    """Yield lines with a difference or excess and their neighbours; the others as gaps."""
    near: set[int] = set()
    for at, line in enumerate(lines):
        if line.kind != "same" or line.before or line.after:
            near |= {*range(at - CONTEXT, at + CONTEXT + 1)}
    for shown, group in itertools.groupby(range(len(lines)), near.__contains__):
        indices = list(group)
        if shown:
            yield from (lines[at] for at in indices)
        else:
            yield MergedLine("gap", None, f"… {plural(len(indices), 'line')}")


# ------------------------------------------------------------------------------------- machine code


def _plain(listing: str) -> list[str]:
    """Return each function's name and instructions, without addresses and label numbers."""
    lines: list[str] = []
    for function, code in itertools.groupby(sass.parse(listing), lambda line: line.function):
        lines += [f"{function}:", *(f"  {_LABEL.sub('.L', line.text)}" for line in code)]
    return lines


def machine_code(before: str, after: str) -> MachineCode | None:
    """Return the diff of two listings from `sass.as_text`; None where one is missing or both agree."""
    if not before or not after or before == after:
        return None
    old, new = _plain(before), _plain(after)
    if old == new:
        return None
    lines = diffs.unified(old, new)
    kinds = Counter(kind for kind, _ in lines)
    sizes = [sum(line.startswith(" ") for line in code) for code in (old, new)]
    shown = lines[:MOST_LINES]
    return MachineCode(
        sizes[0], sizes[1], kinds["added"], kinds["removed"], shown, len(lines) - len(shown),
        diffs.opcodes(before, after),
    )  # fmt: skip
