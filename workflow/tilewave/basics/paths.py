"""Paths of Tilewave's files: kernels, configs, recorded values, rules, scripts and templates.
They lie around the library (``workflow/tilewave``), or, in a wheel, in its folder ``_home``."""

import contextlib
import functools
import os
import shlex
from pathlib import Path

LIBRARY = Path(__file__).parent.parent
CARRIED = LIBRARY / "_home"
INSTALLED = CARRIED.is_dir()
ROOT = CARRIED if INSTALLED else LIBRARY.parent.parent
TEMPLATES = LIBRARY / "report" / "templates"
SHIPPED = "kernels"
"""The folder of Tilewave's kernels."""
PARTS, HEADERS = ("ladder", "operations", "probes"), "include"
"""Folders in it: of kernels, and of the headers that several share."""
RECORDED = Path("resources") / "recorded"
BUILT_FROM = CARRIED / "commit.json"
"""The file of a wheel with the commit that it was built from, and whether the tree had changes."""


def child_environment() -> dict[str, str]:
    """Return the environment of a process that imports the library, which may not be installed.
    The process imports no module from its working folder, which may hold a `numpy.py` from elsewhere."""
    paths = [str(LIBRARY.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}


def place(name: str | Path, root: Path = ROOT) -> Path:
    """Return the path that a config names: from the working folder, or from Tilewave's files (``root``)
    if only these have it."""
    path = Path(os.path.expanduser(name))
    here = Path.cwd() / path
    return root / path if os.path.exists(root / path) and not os.path.exists(here) else here


def has_parts(folder: Path) -> bool:
    """Return whether a folder of kernels is laid out as Tilewave's, of this or of another revision."""
    return all((folder / part).is_dir() for part in (*PARTS, HEADERS))


def is_shipped(path: Path, root: Path | None = None) -> bool:
    """Return whether a file lies in the folder of Tilewave's kernels (of ``root``). Links count where they lie."""
    return _with_parents((root or ROOT) / SHIPPED)[0] in _with_parents(path.parent)


@functools.cache  # asked for each case
def _with_parents(folder: Path) -> tuple[Path, ...]:
    resolved = folder.resolve()
    return resolved, *resolved.parents


def relative(path: Path, quoted: bool = False) -> str:
    """Return a path as a reader types it, relative to the working folder if it lies below that. quoted: as in a command."""
    with contextlib.suppress(ValueError):
        path = path.resolve().relative_to(Path.cwd())
    return shlex.quote(os.fspath(path)) if quoted else os.fspath(path)
