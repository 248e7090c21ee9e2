"""Operations: what a kernel computes. One small module each; a new one is a new file here.

Every operation has ``DIMENSIONS`` (order of the sizes in a case id) and ``work(shape, dtypes,
beta)``. `matmul` is compared on the device and gives the formula of its tolerance; the others have
``inputs(job)``, ``outputs(job)`` and ``judge(job, outputs)`` on the host, each given a
`tilewave.jobs.Job`.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from types import ModuleType

from tilewave.errors import UserError


@functools.cache
def names() -> list[str]:
    """Names of the operations that exist; the folder is looked at once."""
    return sorted(
        module.name for module in pkgutil.iter_modules(__path__) if not module.name.startswith("_")
    )


def load(name: str, where: object = "front matter") -> ModuleType:
    """The module of an operation.

    Raises UserError, which lists the operations that exist; ``where`` is the file it names.
    """
    known = names()
    if name not in known:
        raise UserError(where, "operation", name, known)
    return importlib.import_module(f"{__name__}.{name}")
