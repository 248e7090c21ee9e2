"""The folders that a run writes: they may hold no other files, because a run overwrites and deletes there.
A run marks its folders. Those of a checkout (results/, reports/) need no mark."""

import itertools
import os
from pathlib import Path

from tilewave.basics.errors import UserError
from tilewave.basics.files import SYSTEM
from tilewave.basics.paths import INSTALLED, LIBRARY, RECORDED, ROOT, place
from tilewave.pipeline.config import Config
from tilewave.pipeline.parameters import MARKER

KINDS = ("results", "reports")
NEUTRAL = {"README.md", ".gitignore", ".gitkeep", ".DS_Store", "logs"}
"""Names that do not tell whose folder it is. Snakemake makes the folder of a log before its job runs."""
KEPT = ".git .snakemake .tilewave .venv".split()
SOURCES = ".ci .github config docs kernels profiles requirements resources tests tools workflow"
LONGEST_NAME = 200  # bytes; file systems take 255, and names grow in writing
UNFIT = '{}"\\*?<>|:'
"""Characters with a meaning in Snakemake's rules, or forbidden in file names on other systems."""


def check(config: Config, where: object, root: Path = ROOT) -> None:
    """Refuse folders that hold other files than a run's, or must not hold them. Raises UserError."""
    folders = {kind: _folder(config, kind, where) for kind in KINDS}
    for kind, sibling in (KINDS, KINDS[::-1]):
        if folders[kind].is_relative_to(folders[sibling]):
            allowed = f"a folder apart from `{sibling}`"
            raise UserError(where, f"output.{kind}", getattr(config.output, kind), allowed)
    for kind, folder in folders.items():
        allowed = _unfit(folder, config, root)
        if allowed:
            raise UserError(where, f"output.{kind}", getattr(config.output, kind), allowed)


def _folder(config: Config, kind: str, where: object) -> Path:
    """Return a folder's path with links resolved. Raises UserError for a path that no folder can have."""
    named: str = getattr(config.output, kind)
    parts = Path(named).parts
    allowed = ""
    if ".." in parts or named.startswith("~") or not parts:
        allowed = "a path from here, or from the root, without `..` and `~`"
    elif any(character in UNFIT or not character.isprintable() for character in named):
        allowed = f"a name without line breaks and any of {UNFIT}"
    elif any(len(os.fsencode(part)) > LONGEST_NAME for part in parts):
        allowed = f"names of at most {LONGEST_NAME} bytes"
    if allowed:
        raise UserError(where, f"output.{kind}", named, allowed)
    return _real(named)


def _unfit(folder: Path, config: Config, root: Path) -> str:
    """Return what is allowed instead of this folder, empty if it may be written."""
    if any(folder.is_relative_to(system) for system in SYSTEM):
        return "a folder outside of /proc, /sys and /dev"
    names = (*config.kernel_folders, *config.operation_folders, *config.plot_folders)
    homes = map(_real, (root, Path.cwd(), Path(os.path.expanduser("~"))))
    for protected in (*homes, *_sources(root), *(_real(place(name, root)) for name in names)):
        if protected.is_relative_to(folder):
            return f"a folder that does not contain {protected}"
    # Names that stand for Tilewave's folders as long as no such folder is here.
    shadows = [Path.cwd() / name for name in names if place(name, root) != Path.cwd() / name]
    for source in (*_sources(root), *map(_real, shadows)):
        if folder.is_relative_to(source):
            return f"a folder outside of {source}"
    above = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return f"a folder that can be written ({above} cannot)"
    of_checkout = [] if INSTALLED else [_real(root / kind) for kind in KINDS]
    if above == folder and folder not in of_checkout and not _ours(folder):
        return f"a new or empty folder, or one of an earlier run: it has a file {MARKER}"
    return ""


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


def _sources(root: Path) -> list[Path]:
    """Return the folders in which no run writes."""
    tops = itertools.product((root, Path.cwd()), (*KEPT, str(RECORDED)))
    paths = *(top / name for top, name in tops), *(root / name for name in SOURCES.split())
    return [*map(_real, paths), LIBRARY.resolve()]


def _ours(folder: Path) -> bool:
    """Return whether a run marked a folder, or it holds only folders of runs (`results/small`)."""
    names = {entry.name for entry in os.scandir(folder)}
    return MARKER in names or all(
        path.is_dir() and not path.is_symlink() and any(path.iterdir()) and _ours(path)
        for path in (folder / name for name in names - NEUTRAL)
    )
