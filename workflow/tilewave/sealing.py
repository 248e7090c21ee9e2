"""Documents and bytes with their checksum: who reads one knows that it is what was written.

    {"sha256": "<of the document's text>", "document": ...}

What was written before there were checksums has none, and is taken as it is; its readers look at its form.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

HEAD, MIDDLE, END = b'{"sha256": "', b'", "document": ', b"}"
DIGITS = 64


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sealed(document: Any) -> bytes:
    """A document as JSON, with its checksum."""
    text = json.dumps(document).encode()
    return HEAD + digest(text).encode() + MIDDLE + text + END


def unsealed(data: bytes) -> Any:
    """The document of a JSON text. Raises ValueError where it is damaged."""
    begin = len(HEAD) + DIGITS + len(MIDDLE)
    if data.startswith(HEAD):
        text = data[begin : -len(END)]
        if data != HEAD + digest(text).encode() + MIDDLE + text + END:
            raise ValueError("it is not what its checksum is of")
        data = text
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if isinstance(found, dict) and "document" in found:
        raise ValueError("its checksum is damaged")
    return found


def sealed_bytes(data: bytes) -> bytes:
    """Bytes behind a line with their checksum."""
    return digest(data).encode() + b"\n" + data


def unsealed_bytes(data: bytes) -> bytes:
    """The bytes behind that line. Raises ValueError where either is damaged."""
    told, _, found = data.partition(b"\n")
    if told != digest(found).encode():
        raise ValueError("it is not what its checksum is of")
    return found


def content(path: Path) -> bytes:
    """What a file holds. Raises OSError, also for what is no file: a folder, a pipe that would never end."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no file", str(path))
        return file.read()
