"""The files of a recording, read with checks of their form: it may be wrong where its checksums are right.
All raise ValueError with what differs: types of columns and keys, empty cells, unknown names, bounds."""

import contextlib
import functools
import json
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from tilewave.basics import memory
from tilewave.basics.errors import UNPRINTABLE
from tilewave.basics.tables import table_beside
from tilewave.kernel.result import STAGES, STATUSES, VERDICTS
from tilewave.records import folder

MOST_ROWS, MOST_COLUMNS, MOST_BYTES = 4_000_000, 100, 1 << 30
"""Limits of a table: rows, columns, bytes without compression. Ours have 230,000 rows and 36 MB at most."""
TEXT, WHOLE, REAL, LIST = pa.string(), pa.int64(), pa.float64(), pa.list_(pa.int64())
TYPES = {"text": TEXT, "whole": WHOLE, "real": REAL, "list": LIST}
TABLES = table_beside(__file__)
COLUMNS: dict[str, dict[str, pa.DataType]] = {
    file: {name: TYPES[kind] for name, kind in columns.items()}
    for file, columns in TABLES["columns"].items()
}
FURTHER = {name: TYPES[kind] for kind, names in TABLES["further"].items() for name in names}
QUOTED = {"reason", "figures", "notes", "lines", "sass", "text"}
"""Columns whose texts are checked elsewhere, or cleaned where they are shown."""
CLOSED = {"stage": STAGES, "status": STATUSES, "verdict": VERDICTS}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


class _Figure(_Strict):
    metric: str
    unit: str = ""
    value: Annotated[float, Field(gt=-folder.MOST, lt=folder.MOST)] | None = None


class _Check(_Strict):
    figures: list[dict[str, str | float | None]] = []


class RuleForm(_Strict):
    kind: str = ""
    name: str = ""
    title: str = ""
    message: str = ""
    speedup: float | None = None
    speedup_of: str | None = None


class NotesForm(_Strict):
    __pydantic_extra__: dict[str, str | float | bool | list[str] | list[int] | None]
    check: _Check = _Check()
    rules: list[RuleForm] = []
    faults: list[dict[str, Any]] = []
    of_each_launch: dict[str, list[float]] = {}


class CompilationForm(_Strict):
    code: str = ""
    key: str = ""
    sha256: str = ""
    text: str = ""
    symbol: str = ""
    symbols: dict[str, str] = {}
    options: list[str] = []
    resources: dict[str, dict[str, int]] = {}


COMPILATIONS = TypeAdapter(dict[str, CompilationForm])
FORMS: dict[str, dict[str, TypeAdapter[Any]]] = {
    folder.RESULTS: {"figures": TypeAdapter(list[_Figure]), "notes": TypeAdapter(NotesForm)},
    folder.LISTINGS: {"lines": TypeAdapter(dict[str, list[int]])},
}
"""The forms of cells that hold JSON."""


def _validate(adapter: TypeAdapter[Any], text: str | bytes, name: str) -> None:
    try:
        adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ValueError(f"{name}: {key}: {first['msg']}".replace(": : ", ": ")) from None


def _opened(data: bytes, name: str) -> pq.ParquetFile:
    """Open a table; check its bounds and columns before its rows are read."""
    file = pq.ParquetFile(pa.BufferReader(data))
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
            expected = LIST if name == folder.ACCESSES else TEXT
        if kind != expected and not pa.types.is_null(kind):
            raise ValueError(f"column {column} has the type {kind} instead of {expected}")
    return file


def _checked(table: pa.Table, name: str) -> pa.Table:
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
    if name == folder.RESULTS and table.num_rows:
        for column, allowed in CLOSED.items():
            unknown = set(table[column].unique().to_pylist()) - {*allowed, None}
            if unknown:
                raise ValueError(f"column {column} has {min(unknown)!r}")
    for column, form in FORMS.get(name, {}).items() if table.num_rows else ():
        for text in table[column].unique().to_pylist():
            _validate(form, text, column)
    return table


def table(data: bytes, name: str) -> pa.Table:
    """Read a table, without the import of pandas that `pq.read_table` would cost every job."""
    return _checked(_opened(data, name).read(), name)


def rows(data: bytes, name: str) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = table(data, name).to_pylist()
    return cells


def compilations(data: bytes, name: str) -> dict[str, dict[str, Any]]:
    """Read the JSON document of compilations."""
    entries = folder.objects(data, name)
    _validate(COMPILATIONS, data, "compilations")
    return entries


class Listings:
    """The table of listings, with one row group in memory: all of them take hundreds of megabytes."""

    def __init__(self, data: bytes, name: str) -> None:
        self._file = _opened(data, name)
        self._group = functools.lru_cache(maxsize=1)(self.read)
        self.groups = self._file.num_row_groups if self._file.schema_arrow.names else 0
        self._places = dict[str, tuple[int, int]]()
        for group in range(self.groups):
            keys = self._file.read_row_group(group, ["key"])["key"].to_pylist()
            self._places |= {key: (group, index) for index, key in enumerate(keys)}

    def read(self, group: int) -> pa.Table:
        """Read a row group. Raises MemoryError for too large a one."""
        with memory.limited():
            return _checked(self._file.read_row_group(group), folder.LISTINGS)

    def get(self, key: str) -> tuple[str, dict[str, list[int]]] | None:
        """See `Recorded.places`."""
        if key not in self._places:
            return None
        group, index = self._places[key]
        with contextlib.suppress(ValueError, MemoryError):  # `Recorded.damage` names it
            listings = self._group(group)
            return listings["sass"][index].as_py(), json.loads(listings["lines"][index].as_py())
        return None

    def rows(self) -> list[dict[str, Any]]:
        cells: list[dict[str, Any]] = self._file.read().to_pylist()
        return cells


def check(data: bytes, name: str) -> None:
    if name == folder.LISTINGS:
        listings = Listings(data, name)
        for group in range(listings.groups):
            listings.read(group)
    elif name.endswith(".json"):
        (compilations if name == folder.COMPILED else folder.environments)(data, name)
    else:
        table(data, name)
