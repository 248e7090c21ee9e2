"""Functions that numba compiles, and the cache in which it keeps them."""

import functools
import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import UserProvidedCacheLocator

from tilewave.basics import cache
from tilewave.basics.paths import LIBRARY

SHARED = ("basics", "theory")
"""Folders of the library whose functions any folder may call."""


@functools.cache
def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Kept(UserProvidedCacheLocator):  # type: ignore[misc]
    """A cache of numba that does not depend on the path and the age of the checkout's files."""

    @classmethod
    def get_suitable_cache_subpath(cls, file: str) -> str:
        return "functions"

    def ensure_cache_path(self) -> None:
        os.makedirs(self._cache_path, exist_ok=True)

    def get_source_stamp(self) -> str:
        folders = Path(self._py_file).parent, *(LIBRARY / name for name in SHARED)
        return " ".join(_digest(folder) for folder in folders)


numba.config.CACHE_DIR = str(cache.folder("numba"))  # type: ignore[attr-defined]
numba.config.CACHE_LOCATOR_CLASSES = f"{__name__}.Kept"  # type: ignore[attr-defined]

options: dict[str, Any] = {"cache": True}
"""Options of every compiled function. To compile with others, set them before importing any."""


def njit(function: Callable[..., Any] | None = None, **more: Any) -> Any:
    """Compile a function by numba's njit. A division by zero gives 0 and raises nothing."""
    compiler = numba.njit(error_model="numpy", **options, **more)
    return compiler if function is None else compiler(function)
