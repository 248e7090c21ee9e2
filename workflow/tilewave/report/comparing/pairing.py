"""From what a user names to the two sides of a comparison."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewave.basics.errors import HERE, UserError
from tilewave.kernel.discovery import gathered, mistakes
from tilewave.kernel.front_matter import Kernel
from tilewave.report.comparing import sides
from tilewave.report.comparing.changes import Comparison

BETWEEN = re.compile(r"(.+?)\.\.(?!/)(.*)")
"""Two revisions; `../folder` is a path."""


@dataclass(frozen=True)
class Asked:
    """How kernels are compared: the folders that a revision is asked for, shapes as of `tilewave report
    --shapes`, folders of operations of one's own, and whether kernels count whose code does not differ."""

    kernels: Sequence[str]
    shapes: Sequence[str] = ()
    operations: Sequence[str] = ()
    all_of_them: bool = False


def compared(before: str, after: str | None, asked: Asked, work: Path) -> Comparison:
    """The comparison of two folders, files or git revisions; ``before`` may be ``A..B`` alone, and without
    an ``after`` it is held against the working tree.

    work: a folder for what is written on the way, which the sides' listings stay in. Raises UserError.
    """
    between = None if Path(before).expanduser().exists() else BETWEEN.fullmatch(before)
    if between and after is not None:
        raise UserError(HERE, "B", after, "nothing beside A..B")
    if between:
        before, after = between[1], between[2] or "HEAD"
    paths = [Path(name).expanduser() for name in (before, after) if name is not None]
    held = [sides.has_figures(path) for path in paths]
    if len(held) == 2 and all(held):
        one, other = map(sides.of_figures, paths)
        return Comparison.of(one, other)
    for path, known in zip(paths, held):
        if known:
            allowed = "kernels or a revision on both sides, or a report or recording on both"
            raise UserError(HERE, "A, B", str(path), allowed)
    return _of_kernels(before, after, asked, work)


@dataclass(frozen=True)
class _Found:
    """What a side's folders hold: kernels, and by name why files were left out; of these the `mistakes`."""

    folders: list[Path]
    kernels: dict[str, Kernel]
    left_out: dict[str, str]
    mistakes: list[str]


def _found(name: str | None, asked: Asked, where: Path) -> _Found:
    folders, left_out = _kernels(name, asked.kernels, where), dict[str, UserError]()
    kernels = gathered(folders, left_out)
    # Nobody knows the folder that a revision was written to.
    told = {
        file: str(why).replace(f"{where}{os.sep}", f"{name}:") for file, why in left_out.items()
    }
    return _Found(folders, kernels, told, list(mistakes(left_out)))


def _of_kernels(before: str, after: str | None, asked: Asked, work: Path) -> Comparison:
    both = [_found(name, asked, work / str(place)) for place, name in enumerate((before, after))]
    first, second = both
    left_out = list((first.left_out | second.left_out).values())  # what both lack is told once
    if left_out and not any(one.kernels for one in both):
        allowed = f"folders with one; {len(left_out)} left out, the first: {left_out[0]}"
        raise UserError(HERE, "A, B", "no kernel", allowed)
    names, gone, new = sides.changed(first.kernels, second.kernels, asked.all_of_them)
    labels = [name or "the working tree" for name in (before, after)]
    if names:
        one, other = (
            sides.of_kernels(
                label, found.folders, names, asked.shapes, work / f"run-{place}", asked.operations
            )
            for place, (label, found) in enumerate(zip(labels, both))
        )
        made = Comparison.of(one.side, other.side, gone, new, sides.in_turn(one, other))
    else:
        nothing = [sides.nothing(label) for label in labels]
        made = Comparison.of(nothing[0], nothing[1], gone, new)
    spoilt = [second.left_out[name] for name in second.mistakes if name in first.kernels]
    return replace(made, left_out=left_out, spoilt=spoilt)


def _kernels(name: str | None, folders: Sequence[str], where: Path) -> list[Path]:
    """The folders of kernels that a side stands for. Raises UserError."""
    if name is None:
        return [Path(folder) for folder in folders]
    path = Path(name).expanduser()
    if path.exists():
        return [path]
    return sides.revision(name, folders, where)
