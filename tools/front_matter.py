"""Writes the tables of keys in docs/front_matter.md from the model that front matter is read with.

make schema
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pydantic import BaseModel

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "workflow"))

from tilewave.kernel.front_matter import DeclaredTensorMap, FrontMatter, Launched  # noqa: E402

DOCUMENT = ROOT / "docs" / "front_matter.md"
TABLE = re.compile(r"\| key \| meaning \|\n(?:\|.*\n)+")


def table(model: type[BaseModel]) -> str:
    """Return a model's keys with their descriptions as a table; those of a launch come last."""
    last = Launched.model_fields if model is FrontMatter else {}
    names = sorted(model.model_fields, key=lambda name: name in last)
    texts = {name: " ".join(str(model.model_fields[name].description).split()) for name in names}
    rows = [f"| `{name}` | {text} |" for name, text in texts.items()]
    return "\n".join(["| key | meaning |", "|---|---|", *rows, ""])


def written(text: str) -> str:
    """Return the document with the tables as they should be."""
    tables = iter((table(FrontMatter), table(DeclaredTensorMap)))
    return TABLE.sub(lambda match: next(tables), text)


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
