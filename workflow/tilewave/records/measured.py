"""The results of a part of a run, from all its stages, in one table with a row for each result."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tilewave.kernel.result import Result
from tilewave.records.store import write_atomically

PACKED = ("figures", "samples", "instructions", "notes")
"""Columns that hold JSON."""
PLAIN = ("stage", "case", "key", "status", "reason", "verdict", "environment", "source")


def write(path: str | Path, results: Iterable[Result]) -> None:
    """Write results of any stages."""
    rows = list(results)
    columns = {name: [getattr(result, name) for result in rows] for name in PLAIN}
    columns |= {name: [json.dumps(getattr(result, name)) for result in rows] for name in PACKED}
    schema = pa.schema([(name, pa.string()) for name in (*PLAIN, *PACKED)])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=schema), sink, compression="zstd")
    write_atomically(Path(path), sink.getvalue().to_pybytes())


def read(*paths: str | Path) -> dict[str, dict[str, Result]]:
    """Read the results of these files: stage -> case -> result."""
    results: dict[str, dict[str, Result]] = {}
    for path in paths:
        for row in pq.ParquetFile(path).read().to_pylist():
            row |= {name: json.loads(row[name]) for name in PACKED}
            results.setdefault(row["stage"], {})[row["case"]] = Result(**row)
    return results
