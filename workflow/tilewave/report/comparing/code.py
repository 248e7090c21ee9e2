"""The code of two sides: lines of source with their excess before and after, and machine code."""

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
"""Lines that are shown around those that differ or have excess."""
MOST_LINES = 400
"""Of a diff of machine code."""
_LABEL = re.compile(r"\.L_x_\d+")


@dataclass(frozen=True)
class MergedLine:
    """A line of one side or of both; number: of the side that has it, of both the second's. Excess
    wavefronts are None where no access to shared memory was made from the line on that side. kind: same,
    added, removed, or gap, whose text tells what is left out."""

    kind: str
    number: int | None
    text: str
    before: float | None = None
    after: float | None = None

    @property
    def differs(self) -> bool:
        """Whether the excess does."""
        return (self.before or 0) != (self.after or 0)


@dataclass(frozen=True)
class MergedFile:
    """Lines of a file, those of both sides merged."""

    name: str
    lines: list[MergedLine]


@dataclass(frozen=True)
class MachineCode:
    """A diff: instructions before and after, lines added and removed, the first lines with their kinds (see
    `diffs.unified`), and how many are left out.

    opcodes: of `diffs.opcodes`; where other registers are all that differs, there is none.
    """

    before: int
    after: int
    added: int
    removed: int
    lines: list[tuple[str, str]]
    left_out: int
    opcodes: pd.DataFrame


# ------------------------------------------------------------------------------------------- source


def sources(before: Side, after: Side, case: str) -> list[MergedFile]:
    """Files of a case with a line whose text or whose excess wavefronts differ: the lines around these and
    around all that have excess. Where a side does not know its files, of the lines that its counted
    instructions came from."""
    rows = [of[of["case"] == case] for of in map(instructions, (before, after))]
    variant = case.partition("@")[0]
    texts = [side.texts(variant) for side in (before, after)]
    names = [name for one in texts for name in one] if all(texts) else []
    for one in rows:
        names += [] if one.empty else one["file"].dropna().tolist()
    made = []
    for name in filter(None, dict.fromkeys(names)):
        lines = _merged(
            *(
                _lines(
                    one[one["file"] == name], text[name] if all(name in t for t in texts) else None
                )
                for one, text in zip(rows, texts)
            )
        )
        if any(one.differs or one.kind != "same" for one in lines):
            made.append(MergedFile(name, list(_shortened(lines))))
    return made


_Counted = list[tuple[int, str, float | None]]
"""Number, text and excess of each line."""


def _lines(rows: pd.DataFrame, text: str | None) -> _Counted:
    counted = rows[rows[EXCESS].notna()] if EXCESS in rows else rows.iloc[:0]
    sums = counted.groupby("line")[EXCESS].sum().to_dict() if len(counted) else {}
    if text is None:
        known = rows[pd.to_numeric(rows["line"]) > 0].drop_duplicates("line").sort_values("line")
        pairs = list(zip(known["line"].astype(int), known["text"].fillna("").str.rstrip()))
    else:
        pairs = list(enumerate(text.splitlines(), 1))
    return [(number, line, sums.get(number)) for number, line in pairs]


def _merged(before: _Counted, after: _Counted) -> list[MergedLine]:
    keys = [[text.strip() for _, text, _ in one] for one in (before, after)]
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    found = []
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            found += [
                MergedLine("same", number, text, old, new)
                for (_, _, old), (number, text, new) in zip(before[i:j], after[k:m])
            ]
            continue
        found += [MergedLine("removed", at, text, before=old) for at, text, old in before[i:j]]
        found += [MergedLine("added", at, text, after=new) for at, text, new in after[k:m]]
    return found


def _shortened(lines: Sequence[MergedLine]) -> Iterator[MergedLine]:
    """The lines that tell something and those near them; the others as gaps."""
    telling = {at for at, one in enumerate(lines) if one.kind != "same" or one.before or one.after}
    near = {at + by for at in telling for by in range(-CONTEXT, CONTEXT + 1)}
    for shown, group in itertools.groupby(range(len(lines)), near.__contains__):
        places = list(group)
        if shown:
            yield from (lines[at] for at in places)
        else:
            yield MergedLine("gap", None, f"… {plural(len(places), 'line')}")


# ------------------------------------------------------------------------------------- machine code


def _plain(listing: str) -> list[str]:
    """Instructions of each function behind its name, without addresses and numbers of labels."""
    found: list[str] = []
    for function, code in itertools.groupby(sass.parse(listing), lambda one: one.function):
        found += [f"{function}:", *(f"  {_LABEL.sub('.L', one.text)}" for one in code)]
    return found


def machine_code(before: str, after: str) -> MachineCode | None:
    """The diff of two listings as `sass.as_text` makes them; None where one is not known, or where no
    instruction differs."""
    if not before or not after or before == after:
        return None
    one, other = _plain(before), _plain(after)
    if one == other:
        return None
    lines = diffs.unified(one, other)
    kinds = Counter(kind for kind, _ in lines)
    sizes = [sum(line.startswith(" ") for line in code) for code in (one, other)]
    shown = lines[:MOST_LINES]
    return MachineCode(
        sizes[0], sizes[1], kinds["added"], kinds["removed"], shown, len(lines) - len(shown),
        diffs.opcodes(before, after),
    )  # fmt: skip
