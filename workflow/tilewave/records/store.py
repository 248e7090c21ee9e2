"""The content-addressed store of finished cases, which Snakemake does not delete as it does outputs.
A result is renamed into place as soon as its case ends. An unreadable entry counts as missing."""

import contextlib
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
    """Return the message for a full disk or a read-only folder; None for another error."""
    if not isinstance(error, OSError) or (path is None and error.errno not in CANNOT_WRITE):
        return None
    use = "written" if path else "read or written"
    where = path or error.filename or f"a file here, or in {tempfile.gettempdir()}"
    remedy = "Free space on its disk, or choose a folder that you may write to"
    return UserError.because(where, f"it cannot be {use} ({error.strerror})", remedy)


def _write(path: Path, data: bytes) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device or a pipe stays one
        path.write_bytes(data)
        return
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
    """Write a file so that readers see all of it or none. Raises UserError for a full disk or a read-only folder."""
    try:
        _write(path, data)
    except OSError as error:
        raise not_written(error, path) or error from error


def write_where_other(path: Path, text: str) -> None:
    """Write a text file, unless it holds that text already."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.read_text(encoding="utf-8") == text:
            return
    write_atomically(path, text.encode())


class Store:
    """Results by environment, stage and key under one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _path(self, environment: str, stage: str, key: str) -> Path:
        return Path(f"{self.root}/results/{environment}/{stage}/{key[:2]}/{key}.json")

    def get(self, environment: str, stage: str, key: str) -> Result | None:
        """Return the stored result; None if it is missing, unreadable, of another key or another schema."""
        try:
            result = Result.of_document(self.read(self._path(environment, stage, key)))
        except ValueError:
            return None
        matches = (result.environment, result.stage, result.key) == (environment, stage, key)
        return result if matches else None

    def put(self, result: Result, always: bool = False) -> bool:
        """Store a result if it is worth keeping (`Result.keepable`), or ``always``. Return whether it was stored."""
        kept = bool((always or result.keepable) and result.key and result.environment)
        if kept:
            self.write(self._path(result.environment, result.stage, result.key), result.document())
        return kept

    def blob(self, kind: str, key: str, suffix: str) -> Path:
        """Return the path of a cached file, for `read` and `write`."""
        return self.root / kind / key[:2] / f"{key}{suffix}"

    def read(self, path: Path) -> Any:
        """Read a JSON document of any form; None if it is missing or no JSON."""
        with contextlib.suppress(OSError, ValueError, RecursionError):
            return json.loads(path.read_bytes())
        return None

    def write(self, path: Path, document: Any) -> None:
        write_atomically(path, json.dumps(document).encode())
