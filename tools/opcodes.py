"""Write the list of the opcodes that the machine executes into docs/executing.md.

make opcodes
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "workflow"))

from tilewave.execution.machine.families import RULES  # noqa: E402
from tilewave.theory.opcodes import OPCODES  # noqa: E402

DOCUMENT = ROOT / "docs" / "executing.md"
LIST = re.compile(r"\| class \| opcodes \|\n(?:\|.*\n)+")


def written(text: str) -> str:
    """Return the document with the current list."""
    rows = ["| class | opcodes |", "|---|---|"]
    for kind in dict.fromkeys(opcode.kind for opcode in OPCODES.values()):
        names = sorted(name for name in RULES if OPCODES[name].kind == kind)
        rows.append(f"| {kind} | {', '.join(names)} |")
    document, count = LIST.subn("\n".join([*rows, ""]), text)
    if count != 1:
        raise SystemExit(f"{DOCUMENT} has {count} tables | class | opcodes |. It needs one")
    return document


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
