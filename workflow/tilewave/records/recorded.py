"""Recorded figures: measurements of a named GPU, shipped with the project.

A folder ``resources/recorded/<gpu>/`` holds

* ``environments.json``: environment id -> environment,
* ``compiled.json``: variant -> what its cubin was (source and cubin SHA-256, code digest, ...),
* ``results.parquet``: one row a result, its figures and notes as JSON,
* ``samples.parquet``, ``instructions.parquet`` and ``stalls.parquet``: long tables by key,
* ``listings.parquet``: SASS with its source lines, by the key of the compilation,
* ``accesses.parquet``: accesses to shared memory, lane by lane, by the key of an execution.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from tilewave.errors import UserError
from tilewave.records import model
from tilewave.records.store import write_atomically

PLAIN = ("stage", "case", "key", "status", "reason", "verdict", "environment")
PACKED = ("figures", "notes")
INSTRUCTIONS, STALLS = "instructions", "stalls"
"""Long tables of what a result holds of its instructions: counters, and samples of the stage `sample`."""


def _table(path: Path) -> pa.Table:
    """A Parquet file; `pq.read_table` would import pandas first, which every job would pay for."""
    return pq.ParquetFile(path).read()


class Recorded:
    """Read access to one folder of recorded figures."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    @functools.cached_property
    def environments(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = json.loads(
            (self.folder / "environments.json").read_text(encoding="utf-8")
        )
        return found

    @functools.cached_property
    def compiled(self) -> dict[str, dict[str, Any]]:
        path = self.folder / "compiled.json"
        if not path.is_file():
            return {}
        found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        return found

    @functools.cached_property
    def _listings(self) -> pa.Table | None:
        path = self.folder / "listings.parquet"
        return _table(path) if path.is_file() else None

    @functools.cached_property
    def _keys_by_cubin(self) -> dict[str, str]:
        return {
            entry["sha256"]: entry["key"]
            for entry in self.compiled.values()
            if "sha256" in entry and "key" in entry
        }

    def listing_of_cubin(self, sha256: str) -> str | None:
        """SASS of a cubin with the very same bytes, its lines as they are in it."""
        found = self.listing(self._keys_by_cubin.get(sha256, ""))
        return found[0] if found else None

    def listing(self, key: str) -> tuple[str, dict[str, list[int]]] | None:
        """SASS of a compilation by its key, and the numbers of the lines that had code, by file."""
        table = self._listings
        place = -1 if table is None else pa.compute.index(table["key"], key).as_py()
        if table is None or place < 0:
            return None
        return table["sass"][place].as_py(), json.loads(table["lines"][place].as_py())

    @functools.cached_property
    def accesses(self) -> dict[str, list[dict[str, Any]]]:
        """Accesses to shared memory by the key of an execution (see `stages.watching`)."""
        found: dict[str, list[dict[str, Any]]] = {}
        cases: dict[str, str] = {}  # that share a key have the same rows
        for row in self.access_rows:
            told = ("case", "key", *(() if row.get("function") else ("function",)))
            plain = {name: row[name] for name in row if name not in told}
            if cases.setdefault(row["key"], row["case"]) == row["case"]:
                found.setdefault(row["key"], []).append(plain)
        return found

    @functools.cached_property
    def access_rows(self) -> list[dict[str, Any]]:
        """The same as long rows, with the case that was executed."""
        path = self.folder / "accesses.parquet"
        rows: list[dict[str, Any]] = _table(path).to_pylist() if path.is_file() else []
        return rows

    @functools.cached_property
    def main_environment(self) -> str:
        """The environment most results came from."""
        counts: dict[str, int] = {}
        for row in self._rows:
            if self.environments.get(row["environment"], {}).get("gpu"):
                counts[row["environment"]] = counts.get(row["environment"], 0) + 1
        return max(counts, key=lambda name: (counts[name], name)) if counts else ""

    @functools.cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """One row a case and stage. Cases may share a key: ``256*sms`` and 33792 on 132 SMs."""
        path = self.folder / "results.parquet"
        rows: list[dict[str, Any]] = _table(path).to_pylist() if path.is_file() else []
        return rows

    @functools.cached_property
    def _keys(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(row["stage"], row["key"]): row for row in self._rows}

    @functools.cached_property
    def _cases(self) -> set[tuple[str, str]]:
        return {(row["stage"], row["case"]) for row in self._rows}

    def _result(self, row: Mapping[str, Any]) -> dict[str, Any]:
        made = {name: row[name] for name in PLAIN}
        made |= {name: json.loads(row[name]) for name in PACKED}
        # An execution is the same on every machine, and says itself on which it was done.
        executed = row["stage"] == model.EXECUTE
        if executed and row["status"] == model.OK:
            made["instructions"] = self._executed_instructions.get(row["key"], [])
        return model.result(
            made.pop("stage"),
            made.pop("case"),
            made.pop("status"),
            made.pop("reason"),
            source=model.EXECUTED if executed else f"recorded:{self.name}",
            **made,
        )

    @functools.cached_property
    def _executed_instructions(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of the recorded executions, by key."""
        keys = {row["key"] for row in self._rows if row["stage"] == model.EXECUTE}
        return self.instructions(keys)

    def instructions(self, keys: set[str]) -> dict[str, list[dict[str, Any]]]:
        """Rows of the instructions by key, without the key and without empty cells."""
        found: dict[str, list[dict[str, Any]]] = {}
        for name in (INSTRUCTIONS, STALLS):
            for row in self.long_table(name, keys).to_pylist():
                key = row.pop("key")
                found.setdefault(key, []).append({n: v for n, v in row.items() if v is not None})
        return found

    @property
    def size(self) -> int:
        """How many results there are."""
        return len(self._rows)

    def get(self, stage: str, key: str) -> dict[str, Any] | None:
        """The recorded result under a key, of any of its cases, without its samples and
        instructions."""
        row = self._keys.get((stage, key))
        return None if row is None else self._result(row)

    def has_case(self, stage: str, case: str) -> bool:
        """Whether the case was ever recorded, under whatever key."""
        return (stage, case) in self._cases

    def results(self) -> list[dict[str, Any]]:
        """Every recorded result, also those that share a key with another case's."""
        return [self._result(row) for row in self._rows]

    def long_table(self, name: str, keys: set[str]) -> pa.Table:
        """Rows of ``samples``, ``instructions`` or ``stalls`` for these keys."""
        path = self.folder / f"{name}.parquet"
        if not path.is_file() or not keys:
            return pa.table({})
        table = _table(path)
        if "key" not in table.column_names:  # written by a run that had no such rows
            return pa.table({})
        return table.filter(pa.compute.is_in(table["key"], pa.array(sorted(keys))))


def folders(root: Path) -> list[Path]:
    """The recorded folders under ``root``, by name."""
    return sorted(path.parent for path in root.glob("*/environments.json"))


def _write(path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=15)
    write_atomically(path, sink.getvalue().to_pybytes())


def _each_key(results: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The results that have long rows, one a key."""
    whole = [made for made in results if made["samples"] or made["instructions"]]
    return list({made["key"]: made for made in whole}.values())


def sample_rows(results: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Raw samples as long rows, once a key: key, series, index, value."""
    return [
        {"key": made["key"], "series": series, "index": index, "value": float(value)}
        for made in _each_key(results)
        for series, values in made["samples"].items()
        for index, value in enumerate(values)
    ]


def instruction_rows(
    results: Iterable[Mapping[str, Any]], table: str = INSTRUCTIONS
) -> list[dict[str, Any]]:
    """Per-instruction counters, or with the table STALLS samples, as rows that start with their key,
    once a key."""
    return [
        {"key": made["key"], **row}
        for made in _each_key(results)
        if (made["stage"] == model.SAMPLE) == (table == STALLS)
        for row in made["instructions"]
    ]


def _merge_long(path: Path, rows: list[dict[str, Any]], keys: set[str], kept: set[str]) -> None:
    """Replace the rows of the new keys and drop the rows whose key is no longer kept."""
    old = _table(path).to_pylist() if path.is_file() else []
    merged = [row for row in old if row["key"] in kept and row["key"] not in keys] + rows
    columns = list(dict.fromkeys(name for row in merged for name in row))
    _write(path, pa.table({name: [row.get(name) for row in merged] for name in columns}))


def merge_accesses(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Merge accesses (`Recorded.access_rows`): those of a case replace its older ones."""
    fresh = list(rows)
    if not fresh:
        return
    cases = {row["case"] for row in fresh}
    before = Recorded(folder).access_rows
    merged = [row for row in before if row["case"] not in cases] + fresh
    merged.sort(key=lambda row: str(row["case"]))  # of a case they stay in the order of its code
    names = dict.fromkeys(name for row in merged for name in row)
    columns = {name: [row.get(name) for row in merged] for name in names}
    _write(folder / "accesses.parquet", pa.table(columns))


def _merge_listings(
    path: Path,
    listings: Mapping[str, tuple[str, Mapping[str, list[int]]]],
    compiled: Mapping[str, Mapping[str, Any]],
) -> None:
    """Listings of the compilations that are named, by key."""
    kept = {entry.get("key") for entry in compiled.values()}
    rows = {row["key"]: row for row in (_table(path).to_pylist() if path.is_file() else [])}
    for key, (sass, lines) in listings.items():
        rows[key] = {"key": key, "lines": json.dumps(lines, sort_keys=True), "sass": sass}
    found = [rows[key] for key in sorted(rows) if key in kept]
    if found or path.is_file():
        columns = ("key", "lines", "sass")
        _write(path, pa.table({name: [row[name] for row in found] for name in columns}))


def merge(
    folder: Path,
    results: list[dict[str, Any]],
    environments: Mapping[str, Any],
    compiled: Mapping[str, Any],
    listings: Mapping[str, tuple[str, Mapping[str, list[int]]]] | None = None,
) -> dict[str, int]:
    """Merge a run's results into a recorded folder.

    A new result replaces every older one of the same stage and case, whatever its key: the folder
    holds the last measurement of each case. An older case of the same key takes the new figures,
    too. Returns how many were added, replaced and kept.
    """
    before = Recorded(folder) if (folder / "environments.json").is_file() else None
    fresh = {(made["stage"], made["case"]): made for made in results}
    old = {(made["stage"], made["case"]): made for made in before.results()} if before else {}
    latest = {(made["stage"], made["key"]): made for made in results}
    rows = [
        {**latest.get((made["stage"], made["key"]), made), "case": made["case"]}
        for made in (old | fresh).values()
    ]
    rows.sort(key=lambda made: (made["case"], made["stage"]))
    table = {name: [made[name] for made in rows] for name in PLAIN}
    table |= {name: [json.dumps(made[name], sort_keys=True) for made in rows] for name in PACKED}
    _write(folder / "results.parquet", pa.table(table))
    new_keys = {made["key"] for made in results}
    kept = {made["key"] for made in rows}
    _merge_long(folder / "samples.parquet", sample_rows(results), new_keys, kept)
    for name in (INSTRUCTIONS, STALLS):
        rows_of = instruction_rows(results, name)
        _merge_long(folder / f"{name}.parquet", rows_of, new_keys, kept)
    used = {made["environment"] for made in rows}
    known = {**(before.environments if before else {}), **environments}
    kept_environments = {name: known[name] for name in sorted(used) if name in known}
    text = json.dumps(kept_environments, indent=1, sort_keys=True) + "\n"
    write_atomically(folder / "environments.json", text.encode())
    both = {**(before.compiled if before else {}), **compiled}
    text = json.dumps(both, indent=1, sort_keys=True) + "\n"
    write_atomically(folder / "compiled.json", text.encode())
    _merge_listings(folder / "listings.parquet", listings or {}, both)
    replaced = len(set(old) & set(fresh))
    return {"added": len(fresh) - replaced, "replaced": replaced, "kept": len(old) - replaced}


def _whole(folder: Recorded, results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results with their samples and instructions, as `merge` takes them."""
    keys = {made["key"] for made in results}
    series: dict[str, dict[str, list[float]]] = {}
    for row in folder.long_table("samples", keys).to_pylist():
        series.setdefault(row["key"], {}).setdefault(row["series"], []).append(row["value"])
    rows = folder.instructions(keys)
    # A key of one stage is none of another's: the stage is part of it.
    return [
        made | {"samples": series.get(made["key"], {}), "instructions": rows.get(made["key"], [])}
        for made in results
    ]


def adopt(folder: Path, other: Path, keep: bool = False) -> dict[str, int]:
    """Merge another recorded folder of the same GPU into ``folder``, which need not exist yet.

    What both hold alike stays; where they differ about a case of a stage, the other folder's result
    replaces the one here, or with ``keep`` does not. Returns the counts of `merge`. Raises UserError
    for figures whose environment names no clean commit.
    """
    there = Recorded(other)
    here = Recorded(folder) if (folder / "environments.json").is_file() else None
    held = {(made["stage"], made["case"]): made for made in here.results()} if here else {}

    def new(made: dict[str, Any]) -> bool:
        mine = held.get((made["stage"], made["case"]))
        same = mine is not None and all(mine[name] == made[name] for name in (*PLAIN, *PACKED))
        return mine is None or not (same or keep)

    mine = {row["case"] for row in here.access_rows} if here and keep else set()
    accesses = [row for row in there.access_rows if row["case"] not in mine]
    taken = [made for made in there.results() if new(made)]
    used = {made["environment"] for made in taken}
    for name in sorted(used):
        facts = there.environments.get(name, {})
        if facts.get("dirty") or not facts.get("commit"):
            where = other / "environments.json"
            found = "dirty" if facts.get("dirty") else None
            raise UserError(where, f"{name}.commit", found, "a clean commit that the figures name")
    merge_accesses(folder, accesses)
    if not taken:
        return {"added": 0, "replaced": 0, "kept": len(held)}
    variants = {made["case"].partition("@")[0] for made in taken}
    compiled = {
        name: entry for name, entry in there.compiled.items() if name.rpartition(".")[0] in variants
    }
    facts = {name: there.environments[name] for name in used}
    keys = [str(entry["key"]) for entry in compiled.values() if "key" in entry]
    listings = {key: one for key in keys if (one := there.listing(key)) is not None}
    return merge(folder, _whole(there, taken), facts, compiled, listings)
