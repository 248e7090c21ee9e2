"""Files of a user's folders, read with limits."""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tilewave.basics.errors import KernelRefused, UserError

MOST_BYTES = 1 << 20
"""Limit of a kernel file; Tilewave's longest has 22 KB."""
MOST_DATA = 64 << 20
"""Limit of a cubin, or of another file of data."""
SYSTEM = ("/proc", "/sys", "/dev")
"""Folders of the system without files of users."""


def lies_in(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a file lies in a folder or below, links followed; none lies in /proc, /sys or /dev."""
    try:
        real = os.path.realpath(path)
        if any(Path(real).is_relative_to(system) for system in SYSTEM):
            return False
        return any(Path(real).is_relative_to(os.path.realpath(folder)) for folder in folders)
    except (OSError, ValueError):  # a loop of links, a null byte
        return False


def no_link_out(path: Path) -> Path:
    """Return a path. Raises KernelRefused for a link out of its folder, also if it leads to nothing."""
    if not lies_in(path, [path.parent]):
        problem = "the file is a link out of its folder"
        raise KernelRefused.because(path, problem, "Put the file into this folder")
    return path


def content(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read a file. Raises KernelRefused for one that is not regular, or larger than ``most`` bytes.
    A link must lead to a file of the same folder or below it: messages and pages may quote the content."""
    no_link_out(path)
    try:
        kind = path.stat().st_mode
        if not stat.S_ISREG(kind):  # a device may have no end, and a pipe no writer
            problem = f"this is no regular file ({stat.filemode(kind)})"
            raise KernelRefused.because(path, problem, "Replace or remove it")
        with path.open("rb") as stream:
            data = stream.read(most + 1)
    except OSError as error:
        problem = f"the file cannot be read: {error.strerror}"
        raise KernelRefused.because(path, problem, "Check the path and its permissions") from error
    if len(data) > most:
        size = path.stat().st_size
        problem = f"the file has {size} bytes, more than {most}"
        raise KernelRefused.because(path, problem, "Make it smaller")
    return data


def not_utf8(where: object, error: UnicodeDecodeError) -> UserError:
    problem = f"byte {error.start} ({error.object[error.start]:#04x}) is not UTF-8"
    return UserError.because(where, problem, "Save the file as UTF-8 text", f"byte {error.start}")


def text(path: Path) -> str:
    """Read a text file in UTF-8, with LF at the end of each line. Raises UserError, also as `content`."""
    try:
        decoded = content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error
    if "\0" in decoded:
        problem = f"character {decoded.index(chr(0))} is a null byte"
        raise UserError.because(path, problem, "Save the file as text in UTF-8")
    return decoded.replace("\r\n", "\n").replace("\r", "\n")
