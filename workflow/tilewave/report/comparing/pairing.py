"""The two sides of a comparison, from the folders or revisions that the user names."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewave.basics.errors import HERE, UserError
from tilewave.kernel.discovery import gathered, reasons
from tilewave.kernel.front_matter import Kernel
from tilewave.report.cells import plural
from tilewave.report.comparing import sides
from tilewave.report.comparing.changes import Comparison

BETWEEN = re.compile(r"(.+?)\.\.(?!/)(.*)")
"""Two revisions A..B; `../folder` is a path."""


@dataclass(frozen=True)
class KernelOptions:
    """Options for comparing kernels.

    kernels: folders to take from a revision; shapes: as for `tilewave report --shapes`; operations: folders
    of user-defined operations; all_of_them: also compare kernels whose code does not differ.
    """

    kernels: Sequence[str]
    shapes: Sequence[str] = ()
    operations: Sequence[str] = ()
    all_of_them: bool = False


def compared(before: str, after: str | None, options: KernelOptions, work: Path) -> Comparison:
    """Compare two folders, files or git revisions.

    before: also ``A..B`` without an ``after``; after: None for the working tree; work: a folder for
    intermediate files, in which the sides' listings stay. Raises UserError.
    """
    between = None if Path(before).expanduser().exists() else BETWEEN.fullmatch(before)
    if between and after is not None:
        problem = f"{before} names both sides already, and {after} is a third"
        raise UserError.because(HERE, problem, "Name A..B, or A and B", "B")
    if between:
        before, after = between[1], between[2] or "HEAD"
    paths = [Path(name).expanduser() for name in (before, after) if name is not None]
    are_figures = [sides.has_figures(path) for path in paths]
    if len(are_figures) == 2 and all(are_figures):
        old, new = map(sides.of_figures, paths)
        return Comparison.of(old, new)
    for path, is_figures in zip(paths, are_figures):
        if is_figures:
            problem = f"{path} is a report or recording, and the other side is not"
            remedy = (
                "Name reports or recordings on both sides, or kernels or revisions on both sides"
            )
            raise UserError.because(HERE, problem, remedy, "A, B")
    return _of_kernels(before, after, options, work)


@dataclass(frozen=True)
class _SideFiles:
    """A side's kernels; skipped: reasons by name of a kernel; mistakes: names of files with mistakes."""

    folders: list[Path]
    kernels: dict[str, Kernel]
    skipped: dict[str, str]
    mistakes: list[str]


def _side_files(name: str | None, options: KernelOptions, where: Path) -> _SideFiles:
    folders, skipped = _kernels(name, options.kernels, where), dict[str, UserError]()
    kernels = gathered(folders, skipped)
    # The user does not know the temporary folder that a revision was written to.
    texts = {
        file: str(why).replace(f"{where}{os.sep}", f"{name}:") for file, why in skipped.items()
    }
    return _SideFiles(folders, kernels, texts, list(reasons(skipped)[0]))


def _of_kernels(before: str, after: str | None, options: KernelOptions, work: Path) -> Comparison:
    first = _side_files(before, options, work / "0")
    second = _side_files(after, options, work / "1")
    skipped = list((first.skipped | second.skipped).values())  # the same reason once
    if skipped and not first.kernels and not second.kernels:
        problem = f"neither side has a kernel: {plural(len(skipped), 'file')} skipped"
        raise UserError.because(HERE, problem, f"Correct the first: {skipped[0]}", "A, B")
    names, gone, new = sides.changed(first.kernels, second.kernels, options.all_of_them)
    labels = [name or "the working tree" for name in (before, after)]
    if names:
        runs = [
            sides.of_kernels(
                label, files.folders, names, options.shapes, work / folder, options.operations
            )
            for label, files, folder in zip(labels, (first, second), ("run-0", "run-1"))
        ]
        in_turn = sides.in_turn(runs[0], runs[1])
        comparison = Comparison.of(runs[0].side, runs[1].side, gone, new, in_turn)
    else:
        empty = [sides.empty(label) for label in labels]
        comparison = Comparison.of(empty[0], empty[1], gone, new)
    broken = [second.skipped[name] for name in second.mistakes if name in first.kernels]
    return replace(comparison, skipped=skipped, broken=broken)


def _kernels(name: str | None, folders: Sequence[str], where: Path) -> list[Path]:
    """Return the folders of kernels of a side. Raises UserError."""
    if name is None:
        return [Path(folder) for folder in folders]
    path = Path(name).expanduser()
    if path.exists():
        return [path]
    return sides.revision(name, folders, where)
