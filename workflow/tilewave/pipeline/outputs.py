"""The folders that a run writes: they may hold no other files, because a run overwrites and deletes there.

A run marks its folders. Those of a checkout (results/, reports/) need no mark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
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
    return Path(os.path.realpath(named))


def _unfit(folder: Path, config: Config, root: Path) -> str:
    """Return what is allowed instead of this folder, empty if it may be written."""
    if any(folder.is_relative_to(system) for system in SYSTEM):
        return "a folder outside of /proc, /sys and /dev"
    for protected in _protected(config, root):
        if protected.is_relative_to(folder):
            return f"a folder that does not contain {protected}"
    names = (*config.kernel_folders, *config.operation_folders, *config.plot_folders)
    # Names that stand for Tilewave's folders as long as no such folder is here.
    shadows = [Path.cwd() / name for name in names if place(name, root) != Path.cwd() / name]
    for source in (*_sources(root), *(Path(os.path.realpath(path)) for path in shadows)):
        if folder.is_relative_to(source):
            return f"a folder outside of {source}"
    above = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return f"a folder that can be written ({above} cannot)"
    of_checkout = [] if INSTALLED else [Path(os.path.realpath(root / kind)) for kind in KINDS]
    if above == folder and folder not in of_checkout and not _ours(folder):
        return f"a new or empty folder, or one of an earlier run: it has a file {MARKER}"
    return ""


def _sources(root: Path) -> Iterator[Path]:
    """Yield the folders in which no run writes."""
    for top in (root, Path.cwd()):
        for name in (*KEPT, str(RECORDED)):
            yield Path(os.path.realpath(top / name))
    for name in SOURCES.split():
        yield Path(os.path.realpath(root / name))
    yield LIBRARY.resolve()


def _protected(config: Config, root: Path) -> Iterator[Path]:
    """Yield the folders that no run's folder may be or contain."""
    yield from (
        Path(os.path.realpath(path)) for path in (root, Path.cwd(), os.path.expanduser("~"))
    )
    yield from _sources(root)
    named = (*config.kernel_folders, *config.operation_folders, *config.plot_folders)
    yield from (Path(os.path.realpath(place(name, root))) for name in named)


def _ours(folder: Path) -> bool:
    """Return whether a run marked a folder, or it holds only folders of runs (`results/small`)."""
    names = {entry.name for entry in os.scandir(folder)}
    return MARKER in names or all(_is_run(folder / name) for name in names - NEUTRAL)


def _is_run(path: Path) -> bool:
    inside = path.is_dir() and not path.is_symlink()
    return inside and any(path.iterdir()) and _ours(path)
