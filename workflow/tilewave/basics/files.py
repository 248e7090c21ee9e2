"""Files of a user's folders, read with limits: whatever lies there under a file's name."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tilewave.basics.errors import KernelRefused, UserError

MOST_BYTES = 1 << 20
"""Of a kernel file; the longest of Tilewave's own has 22 KB."""


def lies_in(path: Path, folders: Iterable[Path]) -> bool:
    """Whether a file lies in one of the folders or below, links followed. Opens nothing."""
    try:
        real = os.path.realpath(path)
        return any(Path(real).is_relative_to(os.path.realpath(folder)) for folder in folders)
    except (OSError, ValueError):  # a loop of links, a null byte
        return False


def content(path: Path, most: int = MOST_BYTES) -> bytes:
    """A file's bytes. Raises KernelRefused for what is no regular file in its folder, or larger than ``most``.

    A link must lead to a file of the same folder or below it: a message or a page may quote what is read
    here, so that another file's content does not get there.
    """
    if not lies_in(path, [path.parent]):
        raise KernelRefused(
            path, "file", "a link out of its folder", "a file that lies in its folder"
        )
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):  # a device may have no end, and a pipe no writer
            raise KernelRefused(path, "file", stat.filemode(kind), "a regular file")
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        raise KernelRefused(path, "file", error.strerror, "a file that can be read") from error
    if len(data) > most:
        raise KernelRefused(path, "size", path.stat().st_size, f"{most} bytes at most")
    return data


def text(path: Path) -> str:
    """A text file in UTF-8, its lines ending alike. Raises UserError, and what `content` does."""
    try:
        content_text = content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(path, f"byte {error.start}", "no UTF-8", "a text file in UTF-8") from error
    if "\0" in content_text:
        at = content_text.index("\0")
        raise UserError(path, f"letter {at}", "a null byte", "a text file in UTF-8")
    return content_text.replace("\r\n", "\n").replace("\r", "\n")
