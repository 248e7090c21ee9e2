"""The library files that a module's results depend on: the closure of its imports, read as text.
Rules take the digest as a parameter, because Snakemake does not see the modules that a script imports."""

import functools
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from tilewave.basics.paths import LIBRARY, TEMPLATES

FROM = re.compile(r"^\s*from (tilewave[\w.]*) import (\([^)]*\)|.*)$", re.MULTILINE)
# Processes are started by a module's name, so a name in quotation marks counts too.
NAMED = re.compile(r"^\s*import (tilewave[\w.]*)|[\"'](tilewave(?:\.\w+)+)[\"']", re.MULTILINE)
WORD = re.compile(r"\w+")


def _file(module: str) -> Path | None:
    base = LIBRARY.joinpath(*module.split(".")[1:])
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return path if path.is_file() else None


@functools.cache
def _needs(path: Path) -> frozenset[Path]:
    """Return the files that one file names: modules that it imports or starts, and data beside it."""
    text = path.read_text(encoding="utf-8")
    names = {name for groups in NAMED.findall(text) for name in groups if name}
    for package, members in FROM.findall(text):
        names.add(package)
        names |= {f"{package}.{member}" for member in WORD.findall(members)}
    beside = (file for file in path.parent.iterdir() if file.is_file() and file.suffix != ".py")
    data = {file for file in beside if file.name in text or file.name.split(".")[0] == path.stem}
    return frozenset(filter(None, map(_file, names))) | data


def closure(*modules: str) -> set[Path]:
    """Return the files of these modules (``pipeline.run``) and of all their imports. Raises KeyError."""
    files, waiting = set[Path](), list[Path]()
    for module in modules:
        if (path := _file(f"tilewave.{module}")) is None:
            raise KeyError(module)
        waiting.append(path)
    while waiting:
        path = waiting.pop()
        if path not in files:
            files.add(path)
            waiting += _needs(path) if path.suffix == ".py" else ()
    return files


def _digest(paths: Iterable[Path]) -> str:
    sha = hashlib.sha256()
    for path in sorted(paths):
        sha.update(str(path.relative_to(LIBRARY)).encode() + b"\0" + path.read_bytes())
    return sha.hexdigest()[:16]


@functools.cache
def digest(*modules: str) -> str:
    """Return the digest of the files in the closure of these modules."""
    return _digest(closure(*modules))


@functools.cache
def templates_digest() -> str:
    return _digest(TEMPLATES.iterdir())
