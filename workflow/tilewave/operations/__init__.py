"""Operations: what a kernel computes (see `base.Operation`). One small module each, with one class; a
new one is a new file here, or in a folder that the config names (`operation_folders`)."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from tilewave.errors import UserError
from tilewave.operations.base import Operation

FOLDERS = "TILEWAVE_OPERATIONS"
"""Environment variable with the users' folders, for the processes that a run starts."""
HELPERS = frozenset({"base"})


def use(folders: Iterable[Path]) -> None:
    """Look for operations in these folders, too; nothing of them is imported until a case needs it."""
    os.environ[FOLDERS] = os.pathsep.join(str(one.resolve()) for one in folders)
    _files.cache_clear()
    load.cache_clear()


@functools.cache
def _files() -> dict[str, Path | None]:
    """Operation -> the file of a user's; the folders are looked at once."""
    found: dict[str, Path | None] = {
        one.name: None for one in pkgutil.iter_modules(__path__) if one.name not in HELPERS
    }
    for folder in filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)):
        for path in sorted(Path(folder).glob("[!_]*.py")):
            if path.stem in found:
                raise UserError(path, "operation", path.stem, "a name that no operation has yet")
            found[path.stem] = path
    return found


def names() -> list[str]:
    """Names of the operations that exist."""
    return sorted(_files())


def source(name: str) -> Path | None:
    """The file of a user's operation, None for one of ours."""
    return _files().get(name)


def _module(name: str, path: Path | None) -> ModuleType:
    if path is None:
        return importlib.import_module(f"{__name__}.{name}")
    spec = importlib.util.spec_from_file_location(f"tilewave_operation_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        raise UserError(path, "import", told, "a Python file that can be imported") from error
    return module


@functools.cache
def load(name: str, where: object = "front matter") -> Operation:
    """An operation.

    Raises UserError, which lists the operations that exist, where it does not, or where its file has
    not one class of `base.Operation`; ``where`` is the file that asks for it.
    """
    if name not in _files():
        raise UserError(where, "operation", name, names())
    module = _module(name, path := _files()[name])
    made = [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and issubclass(one, Operation)
        and one.__module__ == module.__name__
    ]
    if len(made) != 1:
        found = [one.__name__ for one in made]
        raise UserError(path or name, "operation", found, "one class of operations.base.Operation")
    made[0].name = name
    return made[0]()
