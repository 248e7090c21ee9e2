"""Operations that kernels compute: modules with one class (`base.Operation`), here or in the config's folders."""

import ast
import functools
from collections.abc import Iterable
from pathlib import Path

from tilewave.basics.errors import UserError
from tilewave.basics.plugins import Modules
from tilewave.kernel.job import Job
from tilewave.kernel.operations import user_defined
from tilewave.kernel.operations.base import Operation, Work

HELPERS = ("base", "formulas", "kernel_reference", "user_defined")
MODULES = Modules("operation", __name__, __path__, "TILEWAVE_OPERATIONS", helpers=HELPERS)
names = MODULES.names


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
        problem = f"the file has {len(classes)} operations: {', '.join(names)}"
        if not names:
            problem = "the file has no operation"
        remedy = "Define one class that inherits tilewave.kernel.operations.base.Operation"
        raise UserError.because(file or name, problem, remedy, "operation")
    classes[0].name = name
    if file is not None:
        user_defined.checked(classes[0], file)
    return classes[0]()


def kernel_of(name: str) -> Path | None:
    """Return the kernel file that is a user-defined operation's `reference`, without importing it."""
    file = MODULES.file(name)
    if file is None:
        return None
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            nodes = node.targets if isinstance(node, ast.Assign) else [node.target]
            targets = [target.id for target in nodes if isinstance(target, ast.Name)]
            if targets == ["reference"] and isinstance(node.value.value, str):
                return user_defined.kernel(node.value.value, file)
    return None


def written(name: str, folders: Iterable[Path]) -> Operation:
    """Load the operation of a file that was just written into one of the folders."""
    _instance.cache_clear()
    MODULES.use(folders)
    return load(name)


def load(name: str, where: object = "front matter") -> Operation:
    """Load an operation that ``where`` names. Raises UserError if unknown, or if its file has not one `Operation`."""
    MODULES.check(name, where, "operation")
    return _instance(name, MODULES.file(name))


def work(job: Job) -> Work:
    return load(job.operation, job.source).work(job.shape, job.dtypes)
