"""The committed baseline: how many shared wavefronts each case executes beyond the ideal.

A CSV of case, architecture, wavefronts, ideal and excess, counted while the CPU executed the
machine code, so the numbers are the same on every machine. A run of a config that names one
(`execute: baseline`) must reproduce the excess of each of its cases that has a row; a new kernel needs
none.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tilewave.errors import UserError
from tilewave.project import Project, read
from tilewave.records import model
from tilewave.records.store import write_atomically

COLUMNS = ("case", "arch", "wavefronts", "ideal", "excess")
METRICS = {
    "wavefronts": "wavefronts_shared",
    "ideal": "wavefronts_shared_ideal",
    "excess": "wavefronts_shared_excess",
}
UPDATE = "`make baseline` accepts it"


@dataclass(frozen=True)
class Row:
    """Shared wavefronts of one case."""

    case: str
    arch: str
    wavefronts: int
    ideal: int
    excess: int


def load(path: Path) -> dict[tuple[str, str], Row]:
    """The baseline by case and architecture.

    Raises UserError for a file that is none.
    """
    rows: dict[tuple[str, str], Row] = {}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UserError(path, "line 1", reader.fieldnames, ", ".join(COLUMNS))
        for number, one in enumerate(reader, 2):
            try:
                counts = [int(one[name]) for name in METRICS]
            except (TypeError, ValueError):
                raise UserError(path, f"line {number}", one, "whole numbers") from None
            rows[one["case"], one["arch"]] = Row(one["case"], one["arch"], *counts)
    return rows


def found(records: pd.DataFrame, arch: str) -> dict[str, Row]:
    """The rows of the cases that this run executed; one without shared memory has zeros."""
    ok = records[(records["stage"] == model.EXECUTE) & (records["status"] == model.OK)]
    rows = {}
    for case, figures in ok.groupby("case", sort=False):
        values = dict(zip(figures["metric"], figures["value"]))
        counts = [int(values.get(metric, 0)) for metric in METRICS.values()]
        rows[str(case)] = Row(str(case), arch, *counts)
    return rows


def differences(
    expected: Mapping[tuple[str, str], Row], now: Mapping[str, Row], name: str
) -> list[str]:
    """A line for each case whose excess is not the baseline's; ``name``: of the baseline file."""
    lines = []
    for case, row in now.items():
        allowed = expected.get((case, row.arch))
        if allowed is not None and row.excess != allowed.excess:
            lines.append(
                f"{case}: shared-memory excess: found {row.excess} wavefronts beyond an ideal of "
                f"{row.ideal}, allowed {allowed.excess} ({name}; {UPDATE})"
            )
    return lines


def not_executed(
    expected: Mapping[tuple[str, str], Row], records: pd.DataFrame, arch: str
) -> list[str]:
    """A line for each case of this run that has a row and was not executed to its end."""
    tried = records[(records["stage"] == model.EXECUTE) & (records["status"] != model.OK)]
    reasons = tried[["case", "status", "reason"]].drop_duplicates("case")
    return [
        f"{case}: not compared with the baseline: {status}: {reason}"
        for case, status, reason in reasons.itertuples(index=False, name=None)
        if (case, arch) in expected
    ]


def compared(
    expected: Mapping[tuple[str, str], Row], records: pd.DataFrame, arch: str, name: str
) -> tuple[str, list[str]]:
    """What the verdict says of the comparison in one line, and a line for each case that is not as
    it should be."""
    now = found(records, arch)
    missing = not_executed(expected, records, arch)
    wrong = differences(expected, now, name)
    known = sum((case, arch) in expected for case in now)
    total = known + len(missing)
    told = f"shared-memory excess: {known - len(wrong)} of {total} as in {name}"
    new = [case for case, row in now.items() if (case, row.arch) not in expected]
    if new:
        more = f" and {len(new) - 1} more" if len(new) > 1 else ""
        told += f"; no row for {new[0]}{more} ({UPDATE.replace('accepts it', 'adds it')})"
    return told, missing + wrong


def write(project: Project, target_path: str | Path, records_path: str | Path) -> str:
    """Accept the run's excess as the baseline.

    Rows of another architecture stay, and those of cases that `only` left out. Raises UserError
    where the config names no baseline or nothing was executed.
    """
    path = project.baseline
    if path is None:
        allowed = "a path, as in config/smoke.yaml"
        raise UserError(project.where, "execute.baseline", None, allowed)
    arch = f"sm_{read(Path(str(target_path)))['arch']}"
    now = found(pd.read_parquet(str(records_path)), arch)
    if not now:
        raise UserError(project.where, "execute", "no case was executed", "at least one")
    before = load(path) if path.is_file() else {}
    kept = {
        key: row
        for key, row in before.items()
        if key[1] != arch or project.config.only not in ("", [])
    }
    rows = kept | {(row.case, arch): row for row in now.values()}
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for key in sorted(rows):
        row = rows[key]
        table.writerow([getattr(row, name) for name in COLUMNS])
    write_atomically(path, text.getvalue().encode())
    changed = sum(before.get(key) != row for key, row in rows.items())
    gone = len(set(before) - set(rows))
    return f"{path}: {len(rows)} cases, {changed} new or changed, {gone} removed"
