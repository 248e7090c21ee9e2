"""The machine: its code, its threads and its memory. Knows nothing of GEMM, records or files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

VERSION = 1  # raised when what is executed, counted or caught changes; part of every key


def _cache_folder() -> Path:
    """Where compiled functions are kept: a folder for each state of this package's sources.

    numba looks only at the file of the function itself, and compiled functions contain those they
    call from other files.
    """
    import platformdirs

    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    root = os.environ.get("TILEWAVE_CACHE") or platformdirs.user_cache_dir("tilewave")
    return Path(root) / "machine" / digest.hexdigest()[:16]


def _keep_compiled() -> None:
    import numba

    if not os.environ.get("NUMBA_CACHE_DIR"):
        numba.config.CACHE_DIR = str(_cache_folder())


_keep_compiled()
