"""Rows of text and numbers in columns, for a reader at a terminal."""

from collections.abc import Sequence


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
