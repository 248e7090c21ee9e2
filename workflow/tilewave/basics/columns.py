"""Texts for a reader at a terminal: rows of text and numbers in columns, and templates."""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def count(value: float) -> str:
    """Return a whole number with commas between its thousands."""
    return f"{value:,.0f}"


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int = 1) -> list[str]:
    """Return the lines of a table. The first ``text_columns`` columns are text, the others numbers."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        parts = [
            cell.ljust(width) if i < text_columns else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths))
        ]
        return ("  " + "  ".join(parts)).rstrip()

    return [line(head), *(line(row) for row in rows)]


@functools.cache
def _templates(folder: Path) -> Any:
    import jinja2  # a JSON document needs none

    how: dict[str, Any] = {
        "trim_blocks": True,
        "lstrip_blocks": True,
        "undefined": jinja2.StrictUndefined,
    }
    templates = jinja2.Environment(loader=jinja2.FileSystemLoader(folder), **how)
    templates.globals |= {"count": count, "columns": columns}
    return templates


def filled(module: str, name: str, **context: Any) -> str:
    """Fill a template of plain text that lies beside a module, by the module's `__file__`."""
    template = _templates(Path(module).parent).get_template(f"{name}.txt.j2")
    return str(template.render(context)).rstrip("\n")
