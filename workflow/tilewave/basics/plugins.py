"""Modules that are found by name: those of a package, and files in folders that the config names.
A user's file is imported when something needs it, not before."""

import ast
import functools
import hashlib
import importlib
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from types import ModuleType

from tilewave.basics.errors import UserError

_parsed = functools.lru_cache(maxsize=64)(ast.parse)


def of_file(path: Path, name: str) -> ModuleType:
    """Import a Python file as a module of this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic looks there for the types of `Options`
    spec.loader.exec_module(module)
    return module


class Modules:
    """The modules of one kind.

    kind: its name in config and messages. package, path: name and folders of Tilewave's package. variable:
    environment variable with the users' folders, which child processes inherit. helpers: modules of the
    package that are not of the kind.
    """

    def __init__(
        self,
        kind: str,
        package: str,
        path: Iterable[str],
        variable: str,
        helpers: Collection[str] = (),
    ) -> None:
        self._kind, self._package, self._variable = kind, package, variable
        names = (module.name for module in pkgutil.iter_modules(path))
        self._ours = {name for name in names if not name.startswith("_") and name not in helpers}
        self._searched = ""
        self._user_files: dict[str, Path] = {}

    def use(self, folders: Iterable[Path]) -> None:
        """Search these folders besides the package."""
        self._searched, self._user_files = "", {}
        os.environ[self._variable] = os.pathsep.join(str(folder.resolve()) for folder in folders)

    def folders(self) -> list[str]:
        return [folder for folder in os.environ.get(self._variable, "").split(os.pathsep) if folder]

    def _files(self) -> dict[str, Path]:
        """Return the users' files by name. Each setting of the folders is searched once."""
        setting = os.environ.get(self._variable, "")
        if setting != self._searched:
            files: dict[str, Path] = {}
            for folder in self.folders():
                for path in sorted(Path(folder).glob("[!_.]*.py")):
                    if path.stem in files or path.stem in self._ours:
                        problem = f"there is another {self._kind} named {path.stem}"
                        raise UserError.because(path, problem, "Rename this file", path.stem)
                    files[path.stem] = path
            self._searched, self._user_files = setting, files
        return self._user_files

    def names(self) -> list[str]:
        return sorted(self._ours | set(self._files()))

    def file(self, name: str) -> Path | None:
        return self._files().get(name)

    def code(self, name: str) -> str:
        """Return the digest of a user's file; empty for a module of the package, which the library's digest covers."""
        path = self.file(name)
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path else ""

    def check(self, name: str, where: object, key: object) -> None:
        """Refuse a name that does not exist, or a file that is not Python, without importing it. Raises UserError."""
        if name not in self._ours and name not in self._files():
            raise UserError(where, key, name, self.names())
        path = self.file(name)
        if path is not None:
            try:
                _parsed(path.read_bytes())
            except (SyntaxError, ValueError) as error:
                line = f"line {getattr(error, 'lineno', None) or 1}"
                problem = f"{line} is not Python: {error}"
                raise UserError.because(path, problem, "Correct it", line) from error

    def load(self, name: str, where: object, key: object) -> ModuleType:
        """Import the module. Raises UserError as `check` does, and where a user's file cannot be imported."""
        self.check(name, where, key)
        path = self.file(name)
        if path is None:
            return importlib.import_module(f"{self._package}.{name}")
        try:
            return of_file(path, f"tilewave_{self._kind}_{name}")
        except (Exception, SystemExit) as error:
            problem = f"the file cannot be imported: {type(error).__name__}: {error}"
            raise UserError.because(path, problem, "Correct it", "import") from error
