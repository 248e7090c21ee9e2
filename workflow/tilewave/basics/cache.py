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
    """Return the folder of a kind of entry, or of ``key``. Raises UserError where another user can write it."""
    root = Path(os.environ.get("TILEWAVE_CACHE") or platformdirs.user_cache_dir("tilewave"))
    remedy = "Remove it, or set TILEWAVE_CACHE to another folder"
    _secured(root, "cache", remedy)
    path = root / kind / key
    for directory in dict.fromkeys((root / kind, path)):
        _secured(directory, "cache", remedy, new=True)
    return path


def owned(store: Path) -> Path:
    """Return a working folder's store. Raises UserError where another user owns it or everybody can write it."""
    return _secured(store, "store", "Remove it: the run makes it again", store.parent)


def _secured(
    folder: Path, name: str, remedy: str, above: Path | None = None, new: bool = False
) -> Path:
    """Make a folder that only its owner can write: this user, root, or the owner of the folder ``above``.
    Its group loses the right to write. ``new``: Tilewave made it, so that it is no link and no group can write it.
    Raises UserError for another."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat() if new else folder.stat()
        owners = {0, os.geteuid(), *([] if above is None else [above.stat().st_uid])}
    except OSError as error:
        problem = f"{folder} is no folder that can be made ({error.strerror})"
        raise UserError.because(name, problem, remedy, folder) from error
    others = state.st_mode & (0o022 if new else 0o002)
    if not stat.S_ISDIR(state.st_mode) or state.st_uid not in owners or others:
        mode = stat.filemode(state.st_mode)
        problem = f"another user may have written {folder}: it is no folder that only you can write ({mode})"
        raise UserError.because(name, problem, remedy, folder)
    if state.st_mode & 0o020:
        with contextlib.suppress(PermissionError):
            folder.chmod(state.st_mode & 0o755)
    return folder


def forget_old(folder: Path) -> None:
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and time.time() - path.stat().st_mtime > OLD_S:
                path.unlink()
