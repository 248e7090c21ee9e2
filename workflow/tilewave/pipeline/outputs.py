"""The folders that a run writes: nobody else's files may lie there, because pages and tables are written over
and folders of them deleted.

A run marks its folders. Those of a checkout (results/, reports/) are known without a mark.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tilewave.basics.errors import UserError
from tilewave.basics.paths import INSTALLED, LIBRARY, RECORDED, ROOT, place
from tilewave.pipeline.config import Config
from tilewave.pipeline.parameters import MARKER

KINDS = ("results", "reports")
NOBODYS = {"README.md", ".gitignore", ".gitkeep", ".DS_Store"}
"""Files that no run touches, and that say nothing of whose folder it is."""
SYSTEM = tuple(map(Path, ("/proc", "/sys", "/dev")))
KEPT = ".git .snakemake .tilewave .venv".split()
SOURCES = ".ci .github config docs kernels profiles requirements resources tests tools workflow"
LONGEST_NAME = 200  # bytes; file systems take 255, and names grow in writing
UNFIT = '{}"\\*?<>|:'
"""Letters with a meaning of their own in Snakemake's rules, or none in file names elsewhere."""


def check(config: Config, where: object, root: Path = ROOT) -> None:
    """Refuse folders that hold anything but what a run made, or may hold nothing of it.

    Touches nothing. Raises UserError.
    """
    found = {kind: _folder(config, kind, where) for kind in KINDS}
    for kind, other in (KINDS, KINDS[::-1]):
        if found[kind].is_relative_to(found[other]):
            allowed = f"a folder apart from `{other}`"
            raise UserError(where, f"output.{kind}", getattr(config.output, kind), allowed)
    for kind, folder in found.items():
        why = _unfit(folder, config, root)
        if why:
            raise UserError(where, f"output.{kind}", getattr(config.output, kind), why)


def _folder(config: Config, kind: str, where: object) -> Path:
    """Where a folder really is. Raises UserError for a path that is none."""
    named: str = getattr(config.output, kind)
    parts = Path(named).parts
    allowed = ""
    if ".." in parts or named.startswith("~") or not parts:
        allowed = "a path from here, or from the root, without `..` and `~`"
    elif any(one in UNFIT or not one.isprintable() for one in named):
        allowed = f"a name without ends of lines and any of {UNFIT}"
    elif any(len(os.fsencode(part)) > LONGEST_NAME for part in parts):
        allowed = f"names of at most {LONGEST_NAME} bytes"
    if allowed:
        raise UserError(where, f"output.{kind}", named, allowed)
    return Path(os.path.realpath(named))


def _unfit(folder: Path, config: Config, root: Path) -> str:
    """What is allowed instead of this folder; empty where it may be written."""
    if any(folder.is_relative_to(one) for one in SYSTEM):
        return "a folder of files, not of the system's"
    for one in _protected(config, root):
        if one.is_relative_to(folder):
            return f"a folder without {one} in it"
    for one in (*_sources(root), *_shadows(config, root)):
        if folder.is_relative_to(one):
            return f"a folder outside of {one}"
    above = next(one for one in (folder, *folder.parents) if os.path.lexists(one))
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        return f"a folder that can be written ({above} cannot)"
    if above == folder and folder not in _of_checkout(root) and not _ours(folder):
        return f"a new or empty folder, or one of an earlier run: it has a file {MARKER}"
    return ""


def _of_checkout(root: Path) -> list[Path]:
    """The folders that a checkout keeps for its runs, and git out of its commits."""
    return [] if INSTALLED else [Path(os.path.realpath(root / kind)) for kind in KINDS]


def _sources(root: Path) -> Iterator[Path]:
    """Folders in which no run writes."""
    for top in (root, Path.cwd()):
        for name in (*KEPT, str(RECORDED)):
            yield Path(os.path.realpath(top / name))
    for name in SOURCES.split():
        yield Path(os.path.realpath(root / name))
    yield LIBRARY.resolve()


def _protected(config: Config, root: Path) -> Iterator[Path]:
    """What no run's folder may be, or hold."""
    yield from (Path(os.path.realpath(one)) for one in (root, Path.cwd(), os.path.expanduser("~")))
    yield from _sources(root)
    named = (*config.kernel_folders, *config.operation_folders, *config.plot_folders)
    yield from (Path(os.path.realpath(place(one, root))) for one in named)


def _shadows(config: Config, root: Path) -> Iterator[Path]:
    """Folders that are not here, whose names stand for Tilewave's own as long as that is so."""
    for named in (*config.kernel_folders, *config.operation_folders, *config.plot_folders):
        here = Path.cwd() / named
        if place(named, root) != here:
            yield Path(os.path.realpath(here))


def _ours(folder: Path) -> bool:
    """Whether a run marked a folder, or nothing lies there but folders of runs (`results/small`)."""
    names = {one.name for one in os.scandir(folder)}
    return MARKER in names or all(_is_run(folder / name) for name in names - NOBODYS)


def _is_run(path: Path) -> bool:
    inside = path.is_dir() and not path.is_symlink()
    return inside and any(path.iterdir()) and _ours(path)
