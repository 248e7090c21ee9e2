"""A limit of the memory of this process, above what it has already (Linux; elsewhere there is none)."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

VARIABLE = "TILEWAVE_MEMORY_GIB"
"""The environment variable with the limit of an execution."""
GIB = 2.0
"""Its default. Operands of the largest recorded execution take 24 MiB, and a sum of 16 million elements 0.3 GiB."""
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
def limited(least: int = 0) -> Iterator[None]:
    """Let the process take the memory of an execution. Raises MemoryError, at once if ``least`` bytes are too many."""
    if sys.platform != "linux" or not Path("/proc/self/statm").exists():
        yield
        return
    import resource

    allowed = int(allowed_gib() * 2**30)
    if least > allowed:
        raise MemoryError
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.closing(Usage()) as usage:
        usage.limit(allowed)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)
