"""Numbers and tables as text for the pages."""

import math
import re
from dataclasses import dataclass

import markupsafe
import pandas as pd

from tilewave.basics.tables import table_beside
from tilewave.plots.base import present

_SIZES = ("m", "n", "k", "line", "probe_case")
# Columns that move into the caption where all rows have the same value.
_FOLDED = ("operation", "dtype", "shape", "m", "n", "k", "verdict", "status", "reason", "source")


def number(value: float) -> str:
    """Format a number with four significant digits; whole numbers are exact, grouped from 10,000 on."""
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    sign, size = ("−" if value < 0 else ""), abs(value)
    if size == int(size) and size < 1e15:
        return sign + (f"{int(size):,}" if size >= 10_000 else str(int(size)))
    if size >= 1e15 or size < 1e-3:
        mantissa, _, exponent = f"{size:.3e}".partition("e")
        return f"{sign}{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    digits = max(0, 3 - math.floor(math.log10(size)))
    if size < 1:
        return sign + f"{size:.{digits}f}".rstrip("0")
    return sign + (f"{size:,.0f}" if size >= 10_000 else f"{size:.{digits}f}")


def cell(value: object) -> str:
    """Format a value; a missing one becomes an empty text."""
    if not present(value):
        return ""
    if isinstance(value, markupsafe.Markup):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(float(value))
    return str(value)


def markdown(text: str) -> str:
    """Return a text for a table in Markdown: it begins no cell, tag, entity or link."""
    text = re.sub(r"<(?=[A-Za-z/!?])", "&lt;", re.sub(r"&(?=#?\w+;)", "&amp;", text))
    return text.replace("|", "\\|").replace("](", "]\\(").replace("\n", " ")


def plural(count: int, word: str) -> str:
    """Return a count with its noun: `1 case`, `2 cases`, `12,000 cases`."""
    return f"{number(count)} {word}{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Table:
    """A table as text. columns: (title, whether it is numeric); empty: titles of columns without a value;
    same: (title, text) of columns with one value in all rows."""

    columns: list[tuple[str, bool]]
    rows: list[list[str]]
    same: list[tuple[str, str]]
    empty: list[str]


def table(frame: pd.DataFrame) -> Table:
    """Return the columns worth showing: without kernel and variant beside a case's id, which names them; one
    value in all rows is shown once, and a column without a value is only named."""
    if "case" in frame:
        nameless = frame[frame["case"].isna()]
        redundant = {"kernel", "variant", "macros"} & {*frame}
        frame = frame.drop(columns=[name for name in redundant if nameless[name].isna().all()])
    kept, same, empty = [], [], []
    for name in map(str, frame.columns):
        texts = [cell(value) for value in frame[name]]
        if not any(texts):
            if name not in ("reason", *_SIZES, "dtype"):
                empty.append(name)
        elif len(texts) > 1 and name in _FOLDED and len(set(texts)) == 1:
            same.append((name, texts[0]))
        else:
            kept.append((name, bool(pd.api.types.is_numeric_dtype(frame[name])), texts))
    rows = [list(row) for row in zip(*(texts for _, _, texts in kept))]
    return Table([(name, numeric) for name, numeric, _ in kept], rows, same, empty)


_LATEX = str.maketrans(table_beside(__file__))


def escaped(text: str) -> str:
    """Return a text for LaTeX."""
    return text.translate(_LATEX)


def latex(shown: Table) -> str:
    """Return the table as a LaTeX tabular with the rules of booktabs."""
    sides = "".join("r" if numeric else "l" for _, numeric in shown.columns)
    frame = pd.DataFrame(shown.rows, columns=[escaped(name) for name, _ in shown.columns])
    tabular = frame.map(escaped).to_latex(index=False, escape=False, column_format=sides)
    return f"% needs \\usepackage{{booktabs}}\n{tabular}"
