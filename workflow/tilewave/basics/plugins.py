"""Modules that are found by name: those of a package of ours, and files in folders that the config names.

Nothing of a user's folder is imported until something needs it.
"""

import ast
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


class Modules:
    """The modules of one kind.

    kind: what the config and messages call one. package: name and path of ours. variable: environment
    variable with the users' folders, which the processes that a run starts inherit. helpers: modules of
    the package that are none of the kind.
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
        """Look in these folders, too."""
        self._searched, self._user_files = "", {}
        os.environ[self._variable] = os.pathsep.join(str(folder.resolve()) for folder in folders)

    def folders(self) -> list[str]:
        """The users' folders."""
        return [folder for folder in os.environ.get(self._variable, "").split(os.pathsep) if folder]

    def _files(self) -> dict[str, Path]:
        """The users' files by name; the folders are looked at once."""
        setting = os.environ.get(self._variable, "")
        if setting != self._searched:
            files: dict[str, Path] = {}
            for folder in self.folders():
                for path in sorted(Path(folder).glob("[!_.]*.py")):
                    if path.stem in files or path.stem in self._ours:
                        raise UserError(path, self._kind, path.stem, "a name that nothing else has")
                    files[path.stem] = path
            self._searched, self._user_files = setting, files
        return self._user_files

    def names(self) -> list[str]:
        """What there is, sorted."""
        return sorted(self._ours | set(self._files()))

    def file(self, name: str) -> Path | None:
        """The file of a user's module, None for one of ours."""
        return self._files().get(name)

    def code(self, name: str) -> str:
        """Digest of a user's file, empty for a module of ours: that one is the library's."""
        path = self.file(name)
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path else ""

    def check(self, name: str, where: object, key: object) -> None:
        """Raise UserError, which lists what exists, where a name does not; ``where`` and ``key`` are
        what asks for it. A user's file must be Python, which is asked without importing it."""
        if name not in self._ours and name not in self._files():
            raise UserError(where, key, name, self.names())
        path = self.file(name)
        if path is not None:
            try:
                ast.parse(path.read_bytes())
            except (SyntaxError, ValueError) as error:
                at = f"line {getattr(error, 'lineno', None) or 1}"
                raise UserError(path, at, str(error), "Python") from error

    def load(self, name: str, where: object, key: object) -> ModuleType:
        """The module.

        Raises UserError as `check` does, and where a user's file cannot be imported.
        """
        self.check(name, where, key)
        path = self.file(name)
        if path is None:
            return importlib.import_module(f"{self._package}.{name}")
        module_name = f"tilewave_{self._kind}_{name}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = (
            module  # where pydantic looks for the names in the types of `Options`
        )
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            told = f"{type(error).__name__}: {error}"
            raise UserError(path, "import", told, "a Python file that can be imported") from error
        return module
