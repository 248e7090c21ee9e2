"""Memory of this process: a limit above what it has already, and areas that repeat a pattern (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

VARIABLE = "TILEWAVE_MEMORY_GIB"
"""The environment variable with the limit of an execution."""
GIB = 2.0
"""Its default. Operands of the largest recorded execution take 24 MiB, and a sum of 16 million elements 0.3 GiB."""
MAP_FIXED = 0x10  # of Linux
RESIDENT, DATA = 1, 5
"""Fields of /proc/PID/statm, in pages."""
EXCEEDED = f"it takes more memory than {{}} GiB ({VARIABLE} sets the limit)"


def allowed_gib() -> float:
    """Return the limit of an execution in GiB; the default where the variable is no positive number."""
    with contextlib.suppress(ValueError):
        return max(float(os.environ.get(VARIABLE, GIB)), 0) or GIB
    return GIB


def exceeded() -> str:
    return EXCEEDED.format(f"{allowed_gib():g}")


class Usage:
    """The memory of this process. The file stays open for a process that may open no further ones."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)

    def nbytes(self, field: int) -> int:
        return int(os.pread(self._file, 256, 0).split()[field]) * os.sysconf("SC_PAGESIZE")

    def limit(self, more: int) -> None:
        """Let this process take so many bytes more. Above that, allocations raise MemoryError."""
        import resource

        value, (_, hard) = self.nbytes(DATA) + more, resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (value if hard < 0 else min(value, hard), hard))

    def close(self) -> None:
        os.close(self._file)


@contextlib.contextmanager
def limited(least: int = 0, gib: float = 0.0) -> Iterator[None]:
    """Let the process take ``gib`` more, or the memory of an execution. Raises MemoryError, at once if ``least`` bytes are too
    many."""
    if sys.platform != "linux" or not Path("/proc/self/statm").exists():
        yield
        return
    import resource

    allowed = int((gib or allowed_gib()) * 2**30)
    if least > allowed:
        raise MemoryError
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.closing(Usage()) as usage:
        usage.limit(allowed)
    try:
        yield
    except RuntimeError as error:  # there may be no room for the stack of a thread
        raise (MemoryError() if "start new thread" in str(error) else error) from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def repeat(area: np.ndarray, pattern: np.ndarray) -> None:
    """Let an area repeat a pattern (uint8) of whole pages; only what is written later takes memory (Linux).
    area: uint8, part of a large array, which lies in pages of its own. Raises MemoryError."""
    libc, page, begin = ctypes.CDLL(None), mmap.PAGESIZE, area.ctypes.data
    libc.mmap.restype, word = ctypes.c_void_p, ctypes.c_size_t
    libc.mmap.argtypes = [word, word, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    head = min(-begin % page, area.size)
    end = max(head, (begin + area.size) // page * page - begin)
    area[:head], area[end:] = pattern[:head], pattern[: area.size - end]
    file = os.memfd_create("pattern")
    try:
        os.write(file, pattern.tobytes())
        for at in range(head, end, pattern.size):
            size, kind = min(pattern.size, end - at), mmap.MAP_PRIVATE | MAP_FIXED
            mode = mmap.PROT_READ | mmap.PROT_WRITE
            if libc.mmap(begin + at, size, mode, kind, file, 0) != begin + at:
                raise MemoryError
    finally:
        os.close(file)
