"""The user's cache, which all checkouts share. Its entries are named by what they depend on."""

import contextlib
import os
import stat
import time
from pathlib import Path

import platformdirs

from tilewave.basics.errors import UserError

OLD_S = 30 * 24 * 3600.0
"""Age of a file that is removed: a month."""


def folder(kind: str, key: str = "") -> Path:
    """Return the folder of one kind of entry, or of ``key`` in it, and make it if there is none.

    Raises UserError where another user can write it, because code is loaded from it.
    """
    root = os.environ.get("TILEWAVE_CACHE") or platformdirs.user_cache_dir("tilewave")
    kinds = Path(root) / kind
    kinds.parent.mkdir(parents=True, exist_ok=True)
    path = kinds / key
    for directory in dict.fromkeys((kinds, path)):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        state = directory.lstat()
        if (
            not stat.S_ISDIR(state.st_mode)
            or state.st_uid not in (0, os.geteuid())
            or state.st_mode & 0o022
        ):
            problem = (
                f"{directory} is no folder that only you can write ({stat.filemode(state.st_mode)})"
            )
            raise UserError.because(
                "cache", problem, "Remove it, or set TILEWAVE_CACHE to another folder", directory
            )
    return path


def owned(store: Path) -> Path:
    """Return a working folder's store, and make it if there is none. Its group loses the right to write.

    Code is loaded from it. Raises UserError where another user owns it, or everybody can write it.
    """
    try:
        store.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = store.stat()
    except OSError as error:
        problem = f"{store} cannot be made: {error.strerror}"
        remedy = "Run in a folder that you can write"
        raise UserError.because("store", problem, remedy, store) from error
    if state.st_uid not in (0, os.geteuid(), store.parent.stat().st_uid) or state.st_mode & 0o002:
        problem = f"another user may have written {store} ({stat.filemode(state.st_mode)})"
        raise UserError.because("store", problem, "Remove it: the run makes it again", store)
    if state.st_mode & 0o020:
        with contextlib.suppress(PermissionError):
            store.chmod(state.st_mode & 0o755)
    return store


def forget_old(folder: Path) -> None:
    """Remove the files that were written a month ago or earlier."""
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and time.time() - path.stat().st_mtime > OLD_S:
                path.unlink()
