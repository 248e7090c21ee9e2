"""Kernels in folders that may hold anything: the usable files, and why others are skipped."""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tilewave.basics.errors import KernelRefused, NoKernel, UserError, shown
from tilewave.basics.paths import PARTS, has_parts, is_shipped, relative
from tilewave.kernel import front_matter, includes, operations, trial
from tilewave.kernel.front_matter import NAME, SUFFIXES, Kernel
from tilewave.kernel.variants import choices


def _check_name(path: Path) -> None:
    """Check that a file's name can be a kernel's. Raises NoKernel."""
    if not NAME.fullmatch(path.stem) or path.stem == "all":
        problem = f"the file name {shown(path.stem)} is no name of a kernel"
        remedy = "Use a lower-case letter, then lower-case letters, digits and _; not `all`"
        if path.suffix == ".cu":
            remedy += f". Or `tilewave wrap {relative(path)}` writes a file that includes this one"
        raise NoKernel.because(path, problem, remedy, "file name")


def line_of(text: str, key: str) -> int:
    """Return the line of front matter that holds the first part of a key; 1 where none does."""
    first = re.escape(key.partition(".")[0])
    match = re.search(rf"""^\s*["']?{first}["']?\s*:""", text, re.MULTILINE)
    at = re.search(r"\bline (\d+)$", key)
    return int(at[1]) if at else text.count("\n", 0, match.end()) + 1 if match else 1


def spared(path: Path, folders: Sequence[Path]) -> bool:
    """Return whether a run skips a kernel file that has a mistake: it lies in a user's folder."""
    return path not in folders and not is_shipped(path)


def kernel_files(folder: Path) -> list[Path]:
    """Return a folder's files by name, then those of its parts; a kernel file stands for itself."""
    if not folder.is_dir():
        return [folder]
    parts = [folder / part for part in PARTS] if has_parts(folder) else []
    return [path for part in (folder, *parts) for path in sorted(part.iterdir())]


def find_kernels(
    folders: Iterable[Path], left_out: dict[str, UserError] | None = None
) -> dict[str, Kernel]:
    """Return all kernels of the folders by name, in the order of folders and file names.
    left_out: gets, by name, why a file was skipped: it cannot be read, or it is `spared` and no kernel file, or its
    front matter has a mistake. Without it that is raised. Raises UserError for a missing folder and for equal names."""
    kernels: dict[str, Kernel] = {}
    folders = list(folders)
    for folder in folders:
        if not folder.exists():
            problem = f"kernel_folders: {folder} does not exist"
            remedy = "Correct the path, or make the folder"
            raise UserError.because("config", problem, remedy, "kernel_folders")
        for path in kernel_files(folder):
            if path.suffix not in SUFFIXES or path.name.startswith((".", "_")):
                continue
            try:
                _check_name(path)
                kernel = front_matter.load_kernel(path)
            except UserError as error:
                unread = isinstance(error, KernelRefused) and not isinstance(error, NoKernel)
                of_kernel = error.where_file == str(path)  # not a mistake in a folder of operations
                if left_out is None or not of_kernel or not (unread or spared(path, folders)):
                    raise
                if not isinstance(error, KernelRefused):
                    error.at(line_of(path.read_text("utf-8", "replace"), error.key))
                left_out[path.name if path.stem in left_out else path.stem] = error
                continue
            if kernel.name in kernels:
                problem = f"{relative(kernels[kernel.name].path)} has the same name"
                raise UserError.because(path, problem, "Rename one of the two files", "file name")
            kernels[kernel.name] = kernel
    if left_out:
        _settle(left_out, kernels)
    return kernels


def _settle(left_out: dict[str, UserError], kernels: Mapping[str, Kernel]) -> None:
    """Remove files that a kernel includes, as `tilewave wrap` writes it, and give a kernel's name its suffix."""
    texts = (kernel.text for kernel in kernels.values() if kernel.provider == "nvrtc")
    included = {Path(name).name for text in texts for _, name in includes.INCLUDE.findall(text)}
    for name, why in list(left_out.items()):
        file = Path(why.where_file).name
        if isinstance(why, NoKernel) and file in included:
            del left_out[name]
        elif name in kernels:
            left_out[file] = left_out.pop(name)


def tried(kernel: Kernel) -> None:
    """Evaluate the expressions of a kernel's first variant, used or not. Raises UserError."""
    for variant in itertools.islice(choices(kernel, "product", kernel.path, "macros"), 1):
        trial.try_out(variant)


def leave_out(
    kernels: dict[str, Kernel],
    left_out: dict[str, UserError],
    folders: Sequence[Path],
    names: Iterable[str],
) -> bool:
    """Move named kernels that are `spared` and have no values to ``left_out``; return whether there are any."""
    before = len(kernels)
    for name in names:
        kernel = kernels[name]
        if not spared(kernel.path, folders):
            continue
        try:
            tried(kernel)
        except KernelRefused:  # a limit: the variant's cases report it
            pass
        except UserError as error:
            if error.where_file != str(kernel.path):  # an operation's
                raise
            error.at(line_of(kernel.text, error.key))
            left_out[name] = error
            del kernels[name]
    return len(kernels) < before


def with_user_operation(kernels: Mapping[str, Kernel], names: Iterable[str]) -> list[str]:
    """Return the names of kernels with a user-defined operation. Its code is loaded when a case needs it."""
    return [name for name in names if operations.MODULES.file(kernels[name].front.operation)]


def gathered(folders: Iterable[Path], left_out: dict[str, UserError]) -> dict[str, Kernel]:
    """Return `find_kernels` without what `leave_out` skips. Kernels with a user-defined operation are not looked at."""
    folders = list(folders)
    kernels = find_kernels(folders, left_out)
    user_defined = with_user_operation(kernels, kernels)
    leave_out(kernels, left_out, folders, [name for name in kernels if name not in user_defined])
    return kernels


def reasons(left_out: Mapping[str, UserError]) -> tuple[dict[str, str], dict[str, str]]:
    """Return why files were skipped: the kernel files that need a fix, and those that are no kernel files."""
    texts = {name: (str(why), isinstance(why, NoKernel)) for name, why in left_out.items()}
    mistakes = {name: text for name, (text, none) in texts.items() if not none}
    return mistakes, {name: text for name, (text, none) in texts.items() if none}
