"""Recorded values: measurements of a named GPU, shipped with the project.

A folder ``resources/recorded/<gpu>/`` holds

* ``environments.json``: environment id -> environment, with its number of results,
* ``compiled.json``: variant -> its compilation (source and cubin SHA-256, code digest, ...),
* ``results.parquet``: one row per result, its figures and notes as JSON,
* ``samples.parquet``, ``instructions.parquet`` and ``stalls.parquet``: long tables by key,
* ``listings.parquet``: by the key of the compilation, SASS with its source lines of the variants whose code
  a page shows; for other recorded instructions only their source lines (`sass.places`),
* ``accesses.parquet``: accesses to shared memory, lane by lane, by the key of an execution,
* ``SHA256SUMS``: the checksums of the other files, in the format of ``sha256sum -c``.

A file that is missing or does not match its checksum is skipped: `Recorded.damage` names it, and the rest is
used. Without ``SHA256SUMS`` every file counts as damaged.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from tilewave.basics.errors import UserError
from tilewave.basics.paths import RECORDED
from tilewave.compiling.sass import WITHOUT_CODE
from tilewave.kernel import operations
from tilewave.kernel.job import Job
from tilewave.kernel.result import EXECUTE, EXECUTED, OK, Result
from tilewave.records import folder as layout
from tilewave.records import recorded_form
from tilewave.records.folder import Folder, digest, folders
from tilewave.records.keys import of_more
from tilewave.records.measured import INSTRUCTIONS, STALLS, instruction_rows, sample_rows
from tilewave.records.store import write_atomically

PLAIN = ("stage", "case", "key", "status", "reason", "verdict", "environment")
PACKED = ("figures", "notes")
TOGETHER = 32
"""Listings in a row group: reading a group takes some 30 ms, and the file is 7 % longer than with one group."""
RESTORE = "Restore it (git checkout), or record again into an empty folder"
PACKING = {"compression": "zstd", "compression_level": 19}


class Recorded(Folder):
    """Read access to one folder of recorded values."""

    unreadable = (pa.ArrowException, *Folder.unreadable)

    @functools.cached_property
    def damage(self) -> dict[str, str]:
        """Damaged files with the reason; it reads every file."""
        for name in layout.LOST:
            if name == layout.RESULTS:
                _ = self._table
            else:
                self._load(name, recorded_form.check)
        return dict(sorted(self._lost.items()))

    def warnings(self, *, in_use: bool = True) -> list[str]:
        """Return a line for each damaged file: the reason, the loss and the remedy.
        in_use: check form and content of all files, else only that they are those of the checksums."""
        if in_use:
            _ = self.damage
        else:
            for name in layout.LOST:
                self._load(name, lambda data, name: data)
        return [
            f"{RECORDED / self.name / name} is damaged: {reason}. "
            f"The report lacks {layout.LOST.get(name, 'the check of all files')}. {RESTORE}"
            for name, reason in sorted(self._lost.items())
        ]

    def undamaged(self) -> Recorded:
        """Return itself. Raises UserError for a damaged file, whose content a merge would lose."""
        for name, reason in self.damage.items():
            problem = f"this recorded file is damaged: {reason}"
            raise UserError.because(self.folder / name, problem, RESTORE)
        return self

    @functools.cached_property
    def unusable(self) -> str:
        """The damaged file without which there are no figures; empty if there are figures."""
        _ = self._rows
        needed = layout.ENVIRONMENTS, layout.RESULTS
        return next((name for name in needed if name in self._lost), "")

    @functools.cached_property
    def compiled(self) -> dict[str, dict[str, Any]]:
        return self._load(layout.COMPILED, recorded_form.compilations) or {}

    @functools.cached_property
    def _listings(self) -> recorded_form.Listings | None:
        return self._load(layout.LISTINGS, recorded_form.Listings)

    def listing(self, key: str) -> tuple[str, dict[str, list[int]]] | None:
        """Return the SASS of a compilation by its key, and the numbers of its lines with code, by file."""
        listing = self.places(key)
        return None if listing is None or listing[0].startswith(WITHOUT_CODE) else listing

    def places(self, key: str) -> tuple[str, dict[str, list[int]]] | None:
        """Return `listing`, or its `sass.places` if only these are recorded."""
        return self._listings.get(key) if self._listings else None

    @functools.cached_property
    def accesses(self) -> dict[str, list[dict[str, Any]]]:
        """Accesses to shared memory by the key of an execution (see `pipeline.watching`)."""
        rows: dict[str, list[dict[str, Any]]] = {}
        cases: dict[str, str] = {}  # cases that share a key have the same rows
        for row in self.access_rows:
            omitted = ("case", "key", *(() if row.get("function") else ("function",)))
            plain = {name: row[name] for name in row if name not in omitted}
            if cases.setdefault(row["key"], row["case"]) == row["case"]:
                rows.setdefault(row["key"], []).append(plain)
        return rows

    @functools.cached_property
    def access_rows(self) -> list[dict[str, Any]]:
        """Long rows of accesses, with the case that was executed."""
        return self._load(layout.ACCESSES, recorded_form.rows) or []

    @functools.cached_property
    def _table(self) -> pa.Table | None:
        """The table of results; None without one."""
        return self._load(layout.RESULTS, recorded_form.table)

    @functools.cached_property
    def _rows(self) -> list[dict[str, Any]]:
        """Rows, one for each case and stage. Cases may share a key: ``256*sms`` and 33792 on 132 SMs."""
        return self._table.to_pylist() if self.environments and self._table else []

    @functools.cached_property
    def _cases(self) -> dict[tuple[str, str], dict[str, Any]]:
        return {(row["stage"], row["case"]): row for row in self._rows}

    def _result(self, row: Mapping[str, Any]) -> Result:
        fields = {name: row[name] for name in PLAIN}
        fields |= {name: json.loads(row[name]) for name in PACKED}
        # An execution gives the same result on every machine.
        executed = row["stage"] == EXECUTE
        if executed and row["status"] == OK:
            fields["instructions"] = self._executed_instructions.get(row["key"], [])
        return Result(source=EXECUTED if executed else f"recorded:{self.name}", **fields)

    @functools.cached_property
    def _executed_instructions(self) -> dict[str, list[dict[str, Any]]]:
        return self.instructions({row["key"] for row in self._rows if row["stage"] == EXECUTE})

    def instructions(self, keys: set[str]) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of the instructions by key, without the key and empty cells."""
        rows: dict[str, list[dict[str, Any]]] = {}
        for name in (INSTRUCTIONS, STALLS):
            for row in self.long_table(name, keys).to_pylist():
                key = row.pop("key")
                rows.setdefault(key, []).append({n: v for n, v in row.items() if v is not None})
        return rows

    def get(self, stage: str, case: str) -> Result | None:
        """Return the recorded result of a case, without samples and instructions."""
        row = self._cases.get((stage, case))
        return None if row is None else self._result(row)

    def answers(self, job: Job) -> bool:
        """Return whether the result of a job's case has its key; for counters also that of more counters."""
        row = self._cases.get((job.stage, job.case))
        if row is None or row["key"] == job.key:
            return row is not None
        return job.stage == "counters" and row["key"] in of_more(job)

    def answer(self, job: Job) -> Result | None:
        """Return the recorded result of a job; a check also notes its inputs, which its key decides."""
        outcome = self.get(job.stage, job.case) if self.answers(job) else None
        if outcome is None or job.stage != "check" or "inputs" in outcome.notes:
            return outcome
        operation = operations.load(job.operation, job.source)
        inputs = operation.sentence(job, operation.runs(job))
        return dataclasses.replace(outcome, notes={**outcome.notes, "inputs": inputs})

    def results(self) -> list[Result]:
        return [self._result(row) for row in self._rows]

    def long_table(self, name: str, keys: set[str]) -> pa.Table:
        """Return the rows of ``samples``, ``instructions`` or ``stalls`` for these keys."""
        table = self._load(f"{name}.parquet", recorded_form.table) if keys else None
        if table is None or "key" not in table.column_names:  # a run without rows wrote it
            return pa.table({})
        return table.filter(pa.compute.is_in(table["key"], pa.array(sorted(keys))))


def _before(folder: Path) -> Recorded | None:
    """Return the recording in a folder, if there is one. Raises UserError if it is damaged."""
    return Recorded(folder).undamaged() if folder in folders(folder.parent) else None


def _of_rows(
    rows: Sequence[Mapping[str, Any]], columns: Iterable[str] = (), together: int | None = None
) -> bytes:
    """Return a table with these columns, or one for each name in a row; missing cells are empty.
    together: rows in a group, which are compressed and read together."""
    names = dict.fromkeys([*columns] or (name for row in rows for name in row))
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=together, **PACKING)
    return bytes(sink.getvalue())


def _json(document: Any) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def _replace(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files of a recording. Meanwhile the list of checksums has old and new ones, so a kill leaves no damage."""
    old = {name: (folder / name).read_bytes() for name in layout.LOST if (folder / name).is_file()}

    def write_sums(*contents: Mapping[str, bytes]) -> None:
        lines = dict.fromkeys(
            f"{digest(content[name])}  {name}\n"
            for name in sorted({**old, **files})
            for content in contents
            if name in content
        )
        write_atomically(folder / layout.SUMS, "".join(lines).encode())

    write_sums(old, files)
    for name, data in files.items():
        if data != old.get(name):
            write_atomically(folder / name, data)
    write_sums({**old, **files})


def _merged_long(
    before: Recorded | None, name: str, rows: list[dict[str, Any]], keys: set[str], kept: list[str]
) -> bytes:
    """Return a long table with the rows of new keys replaced and those of dropped keys removed.
    In the order of the kept keys alike rows lie together, and compress to two thirds of the bytes."""
    table = before._load(f"{name}.parquet", recorded_form.table) if before else None
    old = table.to_pylist() if table is not None else []
    order = {key: index for index, key in enumerate(kept)}
    merged = [row for row in old if row["key"] in order and row["key"] not in keys] + rows
    return _of_rows(sorted(merged, key=lambda row: order[row["key"]]))


def merge_accesses(folder: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Merge accesses (`Recorded.access_rows`): rows of a case replace its older ones."""
    fresh = list(rows)
    if not fresh:
        return
    cases, before = {row["case"] for row in fresh}, _before(folder)
    older = [row for row in (before.access_rows if before else ()) if row["case"] not in cases]
    # Within a case the order of its code stays.
    merged = sorted([*older, *fresh], key=lambda row: str(row["case"]))
    _replace(folder, {layout.ACCESSES: _of_rows(merged)})


def _merged_listings(
    before: Recorded | None,
    listings: Mapping[str, tuple[str, Mapping[str, list[int]]]],
    compiled: Mapping[str, Mapping[str, Any]],
) -> dict[str, bytes]:
    """Return the file of listings of the named compilations, in their order; nothing if there never was a listing."""
    kept = list(dict.fromkeys(compiled[name].get("key") for name in sorted(compiled)))
    table = before._listings if before else None
    rows = {row["key"]: row for row in (table.rows() if table is not None else [])}
    for key, (sass, lines) in listings.items():
        rows[key] = {"key": key, "lines": json.dumps(lines, sort_keys=True), "sass": sass}
    listed = [rows[key] for key in kept if key in rows]
    if not listed and table is None:
        return {}
    return {layout.LISTINGS: _of_rows(listed, ("key", "lines", "sass"), TOGETHER)}


def merge(
    folder: Path,
    results: list[Result],
    environments: Mapping[str, Any],
    compiled: Mapping[str, Any],
    listings: Mapping[str, tuple[str, Mapping[str, list[int]]]] | None = None,
) -> dict[str, int]:
    """Merge a run's results into a recorded folder. Return how many were added, replaced and kept. A result
    replaces that of its stage and case, whatever its key; older cases with its key take its figures."""
    before = _before(folder)
    fresh = {(result.stage, result.case): result for result in results}
    old = {(result.stage, result.case): result for result in before.results()} if before else {}
    latest = {(result.stage, result.key): result for result in results}
    rows = [
        dataclasses.replace(latest.get((result.stage, result.key), result), case=result.case)
        for result in (old | fresh).values()
    ]
    rows.sort(key=lambda result: (result.case, result.stage))
    table = [
        result.only(*PLAIN)
        | {name: json.dumps(value, sort_keys=True) for name, value in result.only(*PACKED).items()}
        for result in rows
    ]
    new_keys = {result.key for result in results}
    kept = list(dict.fromkeys(result.key for result in rows))
    long = {name: instruction_rows(results, name) for name in (INSTRUCTIONS, STALLS)}
    long["samples"] = sample_rows(results)
    used = collections.Counter(result.environment for result in rows)
    facts = {**(before.environments if before else {}), **environments}
    environs = {name: facts[name] | {"results": used[name]} for name in used if name in facts}
    both = {**(before.compiled if before else {}), **compiled}
    files = {
        layout.RESULTS: _of_rows(table, (*PLAIN, *PACKED)),
        **{
            f"{name}.parquet": _merged_long(before, name, long_rows, new_keys, kept)
            for name, long_rows in long.items()
        },
        layout.ENVIRONMENTS: _json(environs),
        layout.COMPILED: _json(both),
        **_merged_listings(before, listings or {}, both),
    }
    _replace(folder, files)
    replaced = len(set(old) & set(fresh))
    return {"added": len(fresh) - replaced, "replaced": replaced, "kept": len(old) - replaced}
