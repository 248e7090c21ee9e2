"""Operations: what a kernel computes (see `base.Operation`). One small module each, with one class; a
new one is a new file here, or in a folder that the config names (`operation_folders`)."""

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

from tilewave.basics.errors import UserError
from tilewave.basics.plugins import Modules
from tilewave.kernel.job import Job
from tilewave.kernel.operations import own
from tilewave.kernel.operations.base import Operation, Work

MODULES = Modules(
    "operation", __name__, __path__, "TILEWAVE_OPERATIONS", helpers=("another", "base", "own")
)


def names() -> list[str]:
    """Names of the operations that exist."""
    return MODULES.names()


@functools.cache
def _made(name: str, file: Path | None) -> Operation:
    module = MODULES.load(name, file, "operation")
    made = [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, Operation)
        and one.__module__ == module.__name__
    ]
    if len(made) != 1:
        found = [one.__name__ for one in made]
        allowed = "one class that is an operations.base.Operation"
        raise UserError(file or name, "operation", found, allowed)
    made[0].name = name
    if file is not None:
        own.checked(made[0], file)
    return made[0]()


def kernel_of(name: str) -> Path | None:
    """The kernel file that a user's operation has for its `reference`, read without importing it."""
    file = MODULES.file(name)
    if file is None:
        return None
    for made in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(made, ast.Assign | ast.AnnAssign) and isinstance(made.value, ast.Constant):
            given = made.targets if isinstance(made, ast.Assign) else [made.target]
            targets = [one.id for one in given if isinstance(one, ast.Name)]
            if targets == ["reference"] and isinstance(made.value.value, str):
                return own.kernel(made.value.value, file)
    return None


def written(name: str, folders: Iterable[Path]) -> Operation:
    """The operation of a file that was just written into one of the folders."""
    _made.cache_clear()
    MODULES.use(folders)
    return load(name)


def load(name: str, where: object = "front matter") -> Operation:
    """An operation.

    Raises UserError, which lists the operations that exist, where it does not, or where its file has
    not one class of `base.Operation`; ``where`` is the file that asks for it.
    """
    MODULES.check(name, where, "operation")
    return _made(name, MODULES.file(name))


def work(job: Job) -> Work:
    """Operations and bytes of a job (see `Operation.work`)."""
    return load(job.operation, job.source).work(job.shape, job.dtypes)
