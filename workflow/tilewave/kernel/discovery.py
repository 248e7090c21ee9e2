"""Kernels in folders that may hold anything: the usable files, and why others are skipped."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tilewave.basics.errors import KernelRefused, NoKernel, UserError
from tilewave.kernel import operations, trial
from tilewave.kernel.front_matter import Kernel, find_kernels, line_of, spared
from tilewave.kernel.variants import choices


def tried(kernel: Kernel) -> None:
    """Evaluate the expressions of a kernel's first variant, used or not. Raises UserError."""
    for variant in itertools.islice(choices(kernel, "product", kernel.path, "macros"), 1):
        trial.try_out(variant)


def leave_out(
    kernels: dict[str, Kernel],
    left_out: dict[str, UserError],
    folders: Sequence[Path],
    names: Iterable[str],
) -> list[str]:
    """Move kernels whose front matter has no values from ``kernels`` to ``left_out``; return their names.

    names: kernels to look at. Only those that are `spared` are moved.
    """
    gone = []
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
            gone.append(name)
    for name in gone:
        del kernels[name]
    return gone


def with_user_operation(kernels: Mapping[str, Kernel], names: Iterable[str]) -> list[str]:
    """Return the names of kernels with a user-defined operation. Its code is loaded when a case needs it."""
    return [name for name in names if operations.MODULES.file(kernels[name].front.operation)]


def gathered(folders: Iterable[Path], left_out: dict[str, UserError]) -> dict[str, Kernel]:
    """Return the kernels of `find_kernels` without those that `leave_out` skips.

    Kernels with a user-defined operation are not looked at. Raises as `find_kernels` does.
    """
    folders = list(folders)
    kernels = find_kernels(folders, left_out)
    user_defined = with_user_operation(kernels, kernels)
    leave_out(kernels, left_out, folders, [name for name in kernels if name not in user_defined])
    return kernels


def mistakes(left_out: Mapping[str, UserError]) -> dict[str, str]:
    """Return the skipped kernel files that need a fix, with the reason."""
    return {name: str(why) for name, why in left_out.items() if not isinstance(why, NoKernel)}


def no_kernels(left_out: Mapping[str, UserError]) -> dict[str, str]:
    """Return the skipped files that are no kernel files, with the reason."""
    return {name: str(why) for name, why in left_out.items() if isinstance(why, NoKernel)}
