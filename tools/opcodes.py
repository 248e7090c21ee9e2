"""Writes the list of opcodes in docs/executing.md, those that the machine executes.

make opcodes
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import get_args

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "workflow"))

from tilewave.execution.machine.families import RULES  # noqa: E402
from tilewave.theory.opcodes import OPCODES, Kind  # noqa: E402

PLACE = ROOT / "docs" / "executing.md"
LIST = re.compile(r"\| class \| opcodes \|\n(?:\|.*\n)+")


def written(text: str) -> str:
    """A document with the list as it should be."""
    rows = ["| class | opcodes |", "|---|---|"]
    for kind in get_args(Kind):
        names = sorted(name for name in RULES if OPCODES[name].kind == kind)
        rows.append(f"| {kind} | {', '.join(names)} |")
    made, found = LIST.subn("\n".join([*rows, ""]), text)
    if found != 1:
        raise SystemExit(f"{PLACE}: one table | class | opcodes |, not {found}")
    return made


if __name__ == "__main__":
    PLACE.write_text(written(PLACE.read_text()))
