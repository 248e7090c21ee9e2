"""The form of a recording's files. A recording is data that may be wrong, also where its checksums are right.

Checks raise ValueError with what differs: types of columns and keys, empty cells, unknown names, bounds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from tilewave.basics.errors import UNPRINTABLE
from tilewave.kernel.result import STAGES, STATUSES, VERDICTS

MOST_ROWS, MOST_COLUMNS, MOST_BYTES = 4_000_000, 100, 1 << 30
"""Limits of a table: rows, columns, bytes without compression. Ours have 230,000 rows and 36 MB at most."""
TEXT, WHOLE, REAL, LIST = pa.string(), pa.int64(), pa.float64(), pa.list_(pa.int64())
TEXTS = "stage case key status reason verdict environment figures notes".split()
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    "results.parquet": dict.fromkeys(TEXTS, TEXT),
    "listings.parquet": {"key": TEXT, "lines": TEXT, "sass": TEXT},
    "samples.parquet": {"key": TEXT, "series": TEXT, "index": WHOLE, "value": REAL},
    "accesses.parquet": {"case": TEXT, "key": TEXT},
    "instructions.parquet": {"key": TEXT, "address": WHOLE},
    "stalls.parquet": {"key": TEXT, "address": WHOLE},
}
"""The columns that a table with rows must have, with their types."""
FURTHER: dict[str, pa.DataType] = {
    **dict.fromkeys("opcode text file function kind".split(), TEXT),
    **dict.fromkeys("addresses sources turns rivals lanes".split(), LIST),
}
"""Types of further columns with a type of their own; any other has whole numbers, and `sass` texts or lists."""
QUOTED = {"reason", "figures", "notes", "lines", "sass", "text"}
"""Columns whose texts are checked elsewhere, or cleaned where they are shown."""
CLOSED = {"stage": STAGES, "status": STATUSES, "verdict": VERDICTS}
MOST = 1e300
"""Limit of a figure."""
NUMBERS = (
    "arch l2_bytes max_blocks_per_sm max_threads_per_sm max_warps_per_sm memory_bytes memory_clock_max_mhz "
    "registers_per_block registers_per_sm shared_per_block shared_per_block_optin shared_per_sm "
    "shared_reserved_per_block sm_clock_max_mhz sms power_limit_w"
).split()
"""Facts of an environment that are numbers above 0."""
OTHERS = {"packages": dict, "dirty": bool, "recorded": bool}
"""Facts of other types; all further ones are texts."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Check(_Strict):
    figures: list[dict[str, str | float | None]] = []


class RuleForm(_Strict):
    """A message of the rules of Nsight Compute."""

    kind: str = ""
    name: str = ""
    title: str = ""
    message: str = ""
    speedup: float | None = None
    speedup_of: str | None = None


class NotesForm(_Strict):
    """The notes of a result."""

    __pydantic_extra__: dict[str, str | float | bool | list[str] | list[int] | None]
    check: _Check = _Check()
    rules: list[RuleForm] = []
    faults: list[dict[str, Any]] = []
    of_each_launch: dict[str, list[float]] = {}


class CompilationForm(_Strict):
    """A variant's compilation."""

    code: str = ""
    key: str = ""
    sha256: str = ""
    text: str = ""
    symbol: str = ""
    symbols: dict[str, str] = {}
    options: list[str] = []
    resources: dict[str, dict[str, int]] = {}


NOTES = TypeAdapter(NotesForm)
COMPILED = TypeAdapter(dict[str, CompilationForm])
LINES = TypeAdapter(dict[str, list[int]])


def _validate(adapter: TypeAdapter[Any], text: str | bytes, name: str) -> None:
    try:
        adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ValueError(f"{name}: {key}: {first['msg']}".replace(": : ", ": ")) from None


def check_columns(file: pq.ParquetFile, name: str) -> None:
    """Check bounds and columns of a table before its rows are read."""
    schema, about = file.schema_arrow, file.metadata
    nbytes = sum(about.row_group(group).total_byte_size for group in range(about.num_row_groups))
    if about.num_rows > MOST_ROWS or len(schema) > MOST_COLUMNS or nbytes > MOST_BYTES:
        size = f"{about.num_rows} rows, {len(schema)} columns and {nbytes} bytes"
        raise ValueError(f"it has {size}, more than {MOST_ROWS}, {MOST_COLUMNS} or {MOST_BYTES}")
    needed = COLUMNS[name]
    missing = needed.keys() - set(schema.names)
    if schema.names and missing:
        raise ValueError(f"it has no column {', '.join(sorted(missing))}")
    for column, kind in zip(schema.names, schema.types):
        expected = needed.get(column) or FURTHER.get(column, WHOLE)
        if column == "sass" and column not in needed:
            expected = LIST if name == "accesses.parquet" else TEXT
        if kind != expected and not pa.types.is_null(kind):
            raise ValueError(f"column {column} has the type {kind} instead of {expected}")


def check_rows(table: pa.Table, name: str) -> None:
    """Check the cells of a table."""
    for column in table.column_names:
        cells = table[column]
        if column in COLUMNS[name] and column != "verdict" and cells.null_count:
            raise ValueError(f"column {column} has empty cells")
        if cells.type == TEXT and column not in QUOTED:
            texts = cells.unique().to_pylist()
            if any(UNPRINTABLE.search(text) for text in texts if text is not None):
                raise ValueError(f"column {column} has control characters")
        if cells.type == REAL and not pa.compute.all(pa.compute.is_finite(cells)).as_py():
            raise ValueError(f"column {column} has numbers that are not finite")
    if name == "results.parquet" and table.num_rows:
        _check_results(table)
    if name == "listings.parquet" and table.num_rows:
        for text in table["lines"].to_pylist():
            _validate(LINES, text, "lines")


def _check_results(table: pa.Table) -> None:
    for column, allowed in CLOSED.items():
        unknown = set(table[column].unique().to_pylist()) - {*allowed, None}
        if unknown:
            raise ValueError(f"column {column} has {min(unknown)!r}")
    texts = table["figures"].to_pylist()
    if not all(_is_figures(json.loads(text)) for text in texts):
        raise ValueError("column figures has another form than a list of metric, value and unit")
    for text in table["notes"].unique().to_pylist():
        _validate(NOTES, text, "notes")


def _is_figures(figures: Any) -> bool:
    return isinstance(figures, list) and all(map(_is_figure, figures))


def _is_figure(figure: Any) -> bool:
    if not isinstance(figure, dict):
        return False
    value = figure.get("value")
    number = value is None or (isinstance(value, int | float) and -MOST < value < MOST)
    texts = isinstance(figure.get("metric"), str) and isinstance(figure.get("unit", ""), str)
    return number and texts


def check_compiled(data: bytes) -> None:
    """Check the document of compilations."""
    _validate(COMPILED, data, "compilations")


def check_environments(document: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the facts of environments."""
    for name, facts in document.items():
        for key, value in facts.items():
            if value is None:
                continue
            right = isinstance(value, OTHERS.get(key, str))
            if key in NUMBERS:
                number = isinstance(value, int | float) and not isinstance(value, bool)
                right = number and 0 < value < MOST
            texts = [key, value] if isinstance(value, str) else [key]
            if isinstance(value, dict):
                texts += [*value, *value.values()]
            plain = (isinstance(text, str) and not UNPRINTABLE.search(text) for text in texts)
            if not right or not all(plain):
                raise ValueError(f"{name}.{key} has another type, or control characters")
