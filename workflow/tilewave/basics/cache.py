"""A user's own cache, which all checkouts share: what lies there is named by what it depends on."""

import contextlib
import os
import stat
import time
from pathlib import Path

import platformdirs

from tilewave.basics.errors import UserError

OWN = "a folder of one's own that nobody else can write; remove it, or set TILEWAVE_CACHE"
OLD_S = 30 * 24 * 3600.0


def folder(kind: str, key: str = "") -> Path:
    """The folder of one kind of thing, or that of ``key`` in it; it is made where there is none.

    Raises UserError where somebody else can write it: what lies there is executed.
    """
    root = os.environ.get("TILEWAVE_CACHE") or platformdirs.user_cache_dir("tilewave")
    kinds = Path(root) / kind
    kinds.parent.mkdir(parents=True, exist_ok=True)
    path = kinds / key
    for directory in dict.fromkeys((kinds, path)):
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        seen = directory.lstat()
        if (
            not stat.S_ISDIR(seen.st_mode)
            or seen.st_uid not in (0, os.geteuid())
            or seen.st_mode & 0o022
        ):
            raise UserError("cache", directory, stat.filemode(seen.st_mode), OWN)
    return path


def owned(place: Path) -> Path:
    """A working folder's own store, from which code is loaded; it is made where there is none, and what
    its group could write it no longer can.

    Raises UserError where somebody else has put it there, or everybody could write to it.
    """
    allowed = "a folder of whoever owns the one around it, that not everybody can write; remove it"
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = place.stat()
    except OSError as error:
        raise UserError("store", place, error.strerror, "a folder that can be made here") from error
    if seen.st_uid not in (0, os.geteuid(), place.parent.stat().st_uid) or seen.st_mode & 0o002:
        raise UserError("store", place, stat.filemode(seen.st_mode), allowed)
    if seen.st_mode & 0o020:
        with contextlib.suppress(PermissionError):
            place.chmod(seen.st_mode & 0o755)
    return place


def forget_old(place: Path) -> None:
    """Remove files that were written a month ago and longer."""
    for path in place.rglob("*"):
        with contextlib.suppress(OSError):
            if path.is_file() and time.time() - path.stat().st_mtime > OLD_S:
                path.unlink()
