"""Operations: what a kernel computes (see `base.Operation`). One small module each, with one class; a
new one is a new file here, or in a folder that the config names (`operation_folders`)."""

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

from tilewave.basics.errors import UserError
from tilewave.basics.plugins import Modules
from tilewave.kernel.job import Job
from tilewave.kernel.operations import user_defined
from tilewave.kernel.operations.base import Operation, Work

MODULES = Modules(
    "operation",
    __name__,
    __path__,
    "TILEWAVE_OPERATIONS",
    helpers=("base", "kernel_reference", "user_defined"),
)


def names() -> list[str]:
    """Names of the operations that exist."""
    return MODULES.names()


@functools.cache
def _instance(name: str, file: Path | None) -> Operation:
    module = MODULES.load(name, file, "operation")
    classes = [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, Operation)
        and member.__module__ == module.__name__
    ]
    if len(classes) != 1:
        names = [kind.__name__ for kind in classes]
        allowed = "one class that is an operations.base.Operation"
        raise UserError(file or name, "operation", names, allowed)
    classes[0].name = name
    if file is not None:
        user_defined.checked(classes[0], file)
    return classes[0]()


def kernel_of(name: str) -> Path | None:
    """The kernel file that a user's operation has for its `reference`, read without importing it."""
    file = MODULES.file(name)
    if file is None:
        return None
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            given = node.targets if isinstance(node, ast.Assign) else [node.target]
            targets = [target.id for target in given if isinstance(target, ast.Name)]
            if targets == ["reference"] and isinstance(node.value.value, str):
                return user_defined.kernel(node.value.value, file)
    return None


def written(name: str, folders: Iterable[Path]) -> Operation:
    """The operation of a file that was just written into one of the folders."""
    _instance.cache_clear()
    MODULES.use(folders)
    return load(name)


def load(name: str, where: object = "front matter") -> Operation:
    """An operation.

    Raises UserError, which lists the operations that exist, where it does not, or where its file has
    not one class of `base.Operation`; ``where`` is the file that asks for it.
    """
    MODULES.check(name, where, "operation")
    return _instance(name, MODULES.file(name))


def work(job: Job) -> Work:
    """Operations and bytes of a job (see `Operation.work`)."""
    return load(job.operation, job.source).work(job.shape, job.dtypes)
