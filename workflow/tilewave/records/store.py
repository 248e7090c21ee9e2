"""The content-addressed store of finished cases.

A result is written aside and renamed, at once when its case ends: a killed run loses one case at
most, and Snakemake may delete its own outputs as it likes.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewave.records.model import SCHEMA_VERSION, keepable


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_where_other(path: Path, text: str) -> None:
    """Write a text file, unless it holds that text already."""
    try:
        if path.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    write_atomically(path, text.encode())


class Store:
    """Results by environment, stage and key under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _path(self, environment: str, stage: str, key: str) -> Path:
        return self.root / "results" / environment / stage / key[:2] / f"{key}.json"

    def get(self, environment: str, stage: str, key: str) -> dict[str, Any] | None:
        """The stored result, or None: also for one that is damaged or of another schema."""
        path = self._path(environment, stage, key)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):  # neither JSON nor text: a damaged file
            return None
        if not isinstance(found, dict) or found.get("schema_version") != SCHEMA_VERSION:
            return None
        return found

    def put(self, made: Mapping[str, Any], whatever: bool = False) -> bool:
        """Keep a result that is worth keeping (see `keepable`), or ``whatever`` it says; whether it
        was kept."""
        kept = bool((whatever or keepable(made)) and made["key"] and made["environment"])
        if kept:
            path = self._path(made["environment"], made["stage"], made["key"])
            write_atomically(path, json.dumps(made, allow_nan=True).encode())
        return kept

    def blob(self, kind: str, key: str, suffix: str) -> Path:
        """Path of a cached file (a cubin, a listing), to be written with `write_atomically`."""
        return self.root / kind / key[:2] / f"{key}{suffix}"
