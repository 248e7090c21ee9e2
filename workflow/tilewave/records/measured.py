"""The results of a part of a run in one table, a row each; samples and instructions of results as long rows."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tilewave.kernel.result import SAMPLE, Result
from tilewave.records.store import write_atomically

INSTRUCTIONS, STALLS = "instructions", "stalls"
"""Long tables of instructions: counters, and samples of the stage `sample`."""
PACKED = ("figures", "samples", "instructions", "notes")
"""Columns that hold JSON."""
PLAIN = ("stage", "case", "key", "status", "reason", "verdict", "environment", "source")


def write(path: str | Path, results: Iterable[Result]) -> None:
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


def _each_key(results: Iterable[Result]) -> list[Result]:
    """Return the results that have long rows, one for each key."""
    detailed = [result for result in results if result.samples or result.instructions]
    return list({result.key: result for result in detailed}.values())


def sample_rows(results: Iterable[Result]) -> list[dict[str, Any]]:
    """Return raw samples as long rows, once for each key: key, series, index, value to a nanosecond."""
    return [
        {"key": result.key, "series": series, "index": index, "value": round(float(value), 3)}
        for result in _each_key(results)
        for series, values in result.samples.items()
        for index, value in enumerate(values)
    ]


def instruction_rows(results: Iterable[Result], table: str = INSTRUCTIONS) -> list[dict[str, Any]]:
    """Return counters of instructions (with the table STALLS: samples) as rows with their key, once for each key."""
    sampled = table == STALLS
    of_table = (result for result in _each_key(results) if (result.stage == SAMPLE) == sampled)
    return [{"key": result.key, **row} for result in of_table for row in result.instructions]
