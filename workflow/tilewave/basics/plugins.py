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
        self._ours = {one for one in names if not one.startswith("_") and one not in helpers}
        self._asked = ""
        self._found: dict[str, Path] = {}

    def use(self, folders: Iterable[Path]) -> None:
        """Look in these folders, too."""
        self._asked, self._found = "", {}
        os.environ[self._variable] = os.pathsep.join(str(one.resolve()) for one in folders)

    def folders(self) -> list[str]:
        """The users' folders."""
        return [one for one in os.environ.get(self._variable, "").split(os.pathsep) if one]

    def _theirs(self) -> dict[str, Path]:
        """The users' files by name; the folders are looked at once."""
        asked = os.environ.get(self._variable, "")
        if asked != self._asked:
            found: dict[str, Path] = {}
            for folder in self.folders():
                for path in sorted(Path(folder).glob("[!_.]*.py")):
                    if path.stem in found or path.stem in self._ours:
                        raise UserError(path, self._kind, path.stem, "a name that nothing else has")
                    found[path.stem] = path
            self._asked, self._found = asked, found
        return self._found

    def names(self) -> list[str]:
        """What there is, sorted."""
        return sorted(self._ours | set(self._theirs()))

    def file(self, name: str) -> Path | None:
        """The file of a user's module, None for one of ours."""
        return self._theirs().get(name)

    def code(self, name: str) -> str:
        """Digest of a user's file, empty for a module of ours: that one is the library's."""
        path = self.file(name)
        return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path else ""

    def check(self, name: str, where: object, key: object) -> None:
        """Raise UserError, which lists what exists, where a name does not; ``where`` and ``key`` are
        what asks for it. A user's file must be Python, which is asked without importing it."""
        if name not in self._ours and name not in self._theirs():
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
        known = f"tilewave_{self._kind}_{name}"
        spec = importlib.util.spec_from_file_location(known, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module  # where pydantic looks for the names in the types of `Options`
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            told = f"{type(error).__name__}: {error}"
            raise UserError(path, "import", told, "a Python file that can be imported") from error
        return module
