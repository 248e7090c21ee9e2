"""Where Tilewave's own files are: kernels, configs, recorded figures, rules, scripts and templates.

In a checkout they lie around the library (``workflow/tilewave``); a wheel carries them, in the same
order, in the library's folder ``_home``.
"""

import os
from pathlib import Path

LIBRARY = Path(__file__).parent.parent
CARRIED = LIBRARY / "_home"
INSTALLED = CARRIED.is_dir()
ROOT = CARRIED if INSTALLED else LIBRARY.parent.parent
TEMPLATES = LIBRARY / "report" / "templates"
SHIPPED = "kernels"
"""The folder of Tilewave's own kernels."""
PARTS, HEADERS = ("ladder", "operations", "probes"), "include"
"""Of that folder: where its kernels lie, and the headers that several share."""
RECORDED = Path("resources") / "recorded"
BUILT_FROM = CARRIED / "commit.json"
"""Of a wheel: the commit that it was built from, and whether the tree had changes."""


def child_environment() -> dict[str, str]:
    """Variables for a process that imports the library, which may be found here by `sys.path` alone."""
    paths = [str(LIBRARY.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def place(named: str | Path, root: Path = ROOT) -> Path:
    """A path that a config names: from the folder that the run works in, or else, where only these
    have it, from Tilewave's own files (``root``)."""
    path = Path(os.path.expanduser(named))
    here = Path.cwd() / path
    return root / path if os.path.exists(root / path) and not os.path.exists(here) else here


def has_parts(folder: Path) -> bool:
    """Whether a folder of kernels is laid out as Tilewave's own, of this or of another revision."""
    return all((folder / part).is_dir() for part in (*PARTS, HEADERS))


def is_shipped(path: Path, root: Path | None = None) -> bool:
    """Whether a file lies in the folder of Tilewave's own kernels (of ``root``); a link is where it stands."""
    folder = path.parent.resolve()
    return ((root or ROOT) / SHIPPED).resolve() in (folder, *folder.parents)


def relative(path: Path) -> str:
    """A path as a reader types it: from the folder the run works in, where it lies below that."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return os.fspath(path)
