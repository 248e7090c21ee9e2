"""Kernels of folders that may hold anything: what of them can be used, and why the rest cannot."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tilewave.basics.errors import KernelRefused, NoKernel, UserError
from tilewave.kernel import operations, trial
from tilewave.kernel.front_matter import Kernel, find_kernels, line_of, spared
from tilewave.kernel.variants import choices


def tried(kernel: Kernel) -> None:
    """A kernel's first variant, used or not: its expressions must have values. Raises UserError."""
    for variant in itertools.islice(choices(kernel, "product", kernel.path, "macros"), 1):
        trial.try_out(variant)


def leave_out(
    kernels: dict[str, Kernel],
    left_out: dict[str, UserError],
    folders: Sequence[Path],
    names: Iterable[str],
) -> list[str]:
    """Move those of the kernels that are asked for, are `spared` and have front matter without values from
    ``kernels`` to ``left_out``; their names."""
    gone = []
    for name in names:
        kernel = kernels[name]
        if not spared(kernel.path, folders):
            continue
        try:
            tried(kernel)
        except KernelRefused:  # a limit: told by the variant's own cases
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
    """Of these kernels those of an operation of somebody's own. That is code: it is loaded for kernels that cases
    ask for."""
    return [name for name in names if operations.MODULES.file(kernels[name].front.operation)]


def gathered(folders: Iterable[Path], left_out: dict[str, UserError]) -> dict[str, Kernel]:
    """As `find_kernels`, without the kernels that `leave_out` leaves out; those of an operation of somebody's own
    are not looked at. Raises what `find_kernels` does."""
    folders = list(folders)
    kernels = find_kernels(folders, left_out)
    user_defined = with_user_operation(kernels, kernels)
    leave_out(kernels, left_out, folders, [name for name in kernels if name not in user_defined])
    return kernels


def mistakes(left_out: Mapping[str, UserError]) -> dict[str, str]:
    """Of what was left out the kernel files that somebody has to mend, with the reason."""
    return {name: str(why) for name, why in left_out.items() if not isinstance(why, NoKernel)}


def no_kernels(left_out: Mapping[str, UserError]) -> dict[str, str]:
    """Of what was left out the files that are no kernel files, with the reason."""
    return {name: str(why) for name, why in left_out.items() if isinstance(why, NoKernel)}
