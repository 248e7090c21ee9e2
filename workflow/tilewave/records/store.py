"""The content-addressed store of finished cases.

A result is written aside and renamed, at once when its case ends: a killed run loses one case at
most, and Snakemake may delete its own outputs as it likes. What cannot be read, or has another form, counts as
missing, and the next one is written over it.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.kernel.result import Result

CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM}


def not_written(error: BaseException, path: object = None) -> UserError | None:
    """What to tell whoever has a full disk, or a folder that is read-only; None for another error."""
    if not isinstance(error, OSError) or (path is None and error.errno not in CANNOT_WRITE):
        return None
    allowed = "a folder that can be written, on a disk with space left"
    key = "writing it" if path else "reading or writing it"
    where = path or error.filename or f"a file here, or in {tempfile.gettempdir()}"
    return UserError(where, key, error.strerror, allowed)


def _write(path: Path, data: bytes) -> None:
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


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or none.

    Raises UserError where it cannot be written: a full disk, a folder that is read-only.
    """
    try:
        _write(path, data)
    except OSError as error:
        raise not_written(error, path) or error from error


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
        return Path(f"{self.root}/results/{environment}/{stage}/{key[:2]}/{key}.json")

    def get(self, environment: str, stage: str, key: str) -> Result | None:
        """The stored result, or None: also for one that cannot be read, is another's, or of another schema."""
        try:
            result = Result.of_document(self.read(self._path(environment, stage, key)))
        except ValueError:
            return None
        matches = (result.environment, result.stage, result.key) == (environment, stage, key)
        return result if matches else None

    def put(self, result: Result, always: bool = False) -> bool:
        """Keep a result that is worth keeping (see `Result.keepable`), or ``whatever`` it says; whether it
        was kept."""
        kept = bool((always or result.keepable) and result.key and result.environment)
        if kept:
            self.write(self._path(result.environment, result.stage, result.key), result.document())
        return kept

    def blob(self, kind: str, key: str, suffix: str) -> Path:
        """Path of what is cached (a cubin, a listing, a document), for `read` and `write`."""
        return self.root / kind / key[:2] / f"{key}{suffix}"

    def read(self, path: Path) -> Any:
        """A document, of whatever form; None where there is none, or no JSON."""
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return None
        # As earlier versions wrote it: {"sha256": ..., "document": ...}.
        return (
            document["document"]
            if isinstance(document, dict) and "document" in document
            else document
        )

    def write(self, path: Path, document: Any) -> None:
        """Write a document."""
        write_atomically(path, json.dumps(document).encode())
