"""Kernels of folders that may hold anything: what of them can be used, and why the rest cannot."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path

from tilewave import operations
from tilewave.errors import KernelRefused, NoKernel, UserError
from tilewave.kernels import Kernel, find_kernels, line_of, spared
from tilewave.variants import choices


def tried(kernel: Kernel) -> None:
    """A kernel's first variant, used or not: its expressions must have values. Raises UserError."""
    for variant in itertools.islice(choices(kernel, "product", kernel.path, "macros"), 1):
        variant.try_out()


def gathered(
    folders: Iterable[Path], left_out: dict[str, UserError], trusted: bool = True
) -> dict[str, Kernel]:
    """As `find_kernels`, without the kernels among those that are `spared` whose front matter has no values.

    trusted: whether an operation of somebody's own, which is code, may be loaded for kernels that no case asks
    for. Raises what `find_kernels` does.
    """
    folders = list(folders)
    found = find_kernels(folders, left_out)
    for name, kernel in list(found.items()):
        own = operations.MODULES.file(kernel.front.operation) is not None
        if not spared(kernel.path, folders) or (own and not trusted):
            continue
        try:
            tried(kernel)
        except KernelRefused:  # a limit: told by the variant's own cases
            pass
        except UserError as error:
            if error.where_file == str(kernel.path):
                error.at(line_of(kernel.text, error.key))
            left_out[name] = error
            del found[name]
    return found


def mistakes(left_out: Mapping[str, UserError]) -> dict[str, str]:
    """Of what was left out the kernel files that somebody has to mend, with the reason."""
    return {name: str(why) for name, why in left_out.items() if not isinstance(why, NoKernel)}


def no_kernels(left_out: Mapping[str, UserError]) -> dict[str, str]:
    """Of what was left out the files that are no kernel files, with the reason."""
    return {name: str(why) for name, why in left_out.items() if isinstance(why, NoKernel)}
