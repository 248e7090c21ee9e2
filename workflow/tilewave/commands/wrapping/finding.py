"""The files around a kernel's that its launch and its headers may be in."""

import functools
import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tilewave.commands.wrapping.reading import Source
from tilewave.kernel import includes

SOURCES = (".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc")
MOST_FILES, MOST_BYTES, LEVELS, CROWD = 2000, 1 << 19, 3, 200
"""Limits of the search for launches and headers: files, bytes of a file, folders above the kernel's, and entries
of a folder (a larger one is no project's)."""
MOST_IN_ALL = 1 << 26
"""Limit of the bytes of all files that are searched."""
HOMES = (Path.home(), Path("/"), Path("/tmp"))
PROJECT = re.compile(r"README.*|LICEN[SC]E.*|CMakeLists\.txt|[Mm]akefile|\.gitignore")
"""Files in the first folder of a project."""
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
OTHERS = re.compile(r"\..*|site-packages|node_modules")
"""Folders of installed packages, and hidden folders."""


def _root(path: Path) -> Path:
    """Return where to look for launches: the repository or project, else the folder above if it belongs to the kernel's."""
    near = path.parents[: LEVELS + 1]
    repository = next((entry for entry in near if (entry / ".git").exists()), None)
    names = {entry: os.listdir(entry) for entry in near if entry not in HOMES}
    small = [entry for entry in names if len(names[entry]) <= CROWD]
    projects = [entry for entry in small if any(map(PROJECT.fullmatch, names[entry]))]
    above = [entry for entry in near[1:2] if entry in small and _belongs(entry, names[entry], path)]
    named = includes.INCLUDE.findall(path.read_text(errors="replace"))
    ups = max((name.count("../") for _, name in named), default=0)
    headers = [of for of in small if any((of / "include" / name).is_file() for _, name in named)]
    above += [entry for entry in near[2 : ups + 1] if entry in small] + headers
    return repository or min([*projects, *above, near[0]], key=lambda entry: len(entry.parts))


def _belongs(folder: Path, names: Sequence[str], path: Path) -> bool:
    """Return whether a folder has headers for a file in a folder of it, or code that includes from there."""
    near = itertools.islice((*folder.iterdir(), *folder.glob("*/*")), MOST_FILES)
    code = [of for of in near if of.suffix in SOURCES and of.parent != path.parent and of.is_file()]
    inner = [
        (file.parent / name, name)
        for file in code
        for _, name in includes.INCLUDE.findall(file.read_text(errors="replace"))
    ]
    ours = {*os.listdir(path.parent)}
    inside = any(name.startswith(f"{path.parent.name}/") for _, name in inner)
    inside = inside or any(name in ours and not file.exists() for file, name in inner)
    return inside or "include" in names or '"../' in path.read_text(errors="replace")


def _code(root: Path) -> Iterator[Path]:
    """Yield the files with code in a folder and those in it, but for folders of others."""
    for folder, inner, names in os.walk(root):
        inner[:] = [name for name in inner if not OTHERS.fullmatch(name)]
        yield from (Path(folder, name) for name in names if name.endswith(SOURCES))


def _around(path: Path) -> list[Path]:
    """Return files with code, those in the kernel's folder first."""
    files = itertools.islice(_code(_root(path)), MOST_FILES)
    sizes = {entry: entry.stat().st_size for entry in files if entry.is_file()}
    readable = [entry for entry, size in sizes.items() if size <= MOST_BYTES]
    ordered = sorted(readable, key=lambda entry: (entry.parent != path.parent, str(entry)))
    ends = itertools.accumulate(sizes[entry] for entry in ordered)
    return [entry for entry, end in zip(ordered, ends) if end <= MOST_IN_ALL]


def _folder(name: str, file: Path, home: Path) -> Path | None:
    """Return the folder in which an include's name is this file, else None; `..` starts at ``home``."""
    parts = Path(name).parts
    if ".." in parts:
        return file.parent if Path(os.path.normpath(home / name)) == file else None
    return file.parents[len(parts) - 1] if file.parts[-len(parts) :] == parts else None


def read(
    path: Path, include: Sequence[Path] = (), macros: Sequence[str] = ()
) -> tuple[Source, tuple[Path, ...]]:
    """Read a file with those around it; return the folders of headers that it needs, searched behind ``include``."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    around = _around(path)
    folders = [folder.resolve() for folder in include]
    while True:
        headers = includes.kernel_headers(text, path.parent, *folders)
        missing = {
            name
            for text in (text, *headers.values())
            for mark, name in includes.INCLUDE.findall(text)
            if headers.get(name, includes.REFUSED) == includes.REFUSED
            and not includes.provided(name)
        }
        searched = (None, *folders, path.resolve().parent)
        pairs = itertools.product(sorted(missing), around)
        candidates = (_folder(name, file, path.parent) for name, file in pairs)
        folder = next((folder for folder in candidates if folder not in searched), None)
        if folder is None:
            break
        folders.append(folder)
    kernel_texts = {path: text}
    texts = {file: file.read_text(encoding="utf-8-sig", errors="replace") for file in around}
    by_text = {text: file for file, text in texts.items()}
    for header in headers.values():
        kernel_texts.setdefault(by_text.get(header, path.parent / str(len(kernel_texts))), header)
    texts = {file: text for file, text in texts.items() if file != path.resolve()}
    names = [name for text in kernel_texts.values() for name in MACRO.findall(text)]
    names += [definition.partition("=")[0] for definition in macros]
    macro_names = dict.fromkeys(kernel_texts, frozenset(names))
    texts |= kernel_texts
    return Source(path, texts, tuple(kernel_texts), macro_names, missing=missing), tuple(folders)


@functools.lru_cache(maxsize=8)
def bearing(source: Source, kernel: str, later: int = 0) -> Source:
    """Keep the files that bear on a kernel: those that name it, its file or its launcher, and their headers.
    A neighbour's constants say nothing about it, nor does a file with a kernel of the same name."""
    files, names = list(source.kernel_files), [kernel, source.path.name]
    for name in names:  # the list grows meanwhile, as that of files does
        word = re.compile(rf"\b{re.escape(name)}\b")
        items = [entry for entry in source.declarations(name) if name in entry[1].identifiers]
        launch = re.compile(rf"\b{re.escape(name)}\s*(?:<[^;<>]*>\s*)?<<<")
        another = {
            file
            for file, item in items
            if item.name == name and item.defined  # a host function may be the kernel's launcher
            and ("__global__" in item.identifiers or not launch.search(source.texts[file]))
        } - {*files}  # fmt: skip
        texts = {file: of for file, of in source.texts.items() if file not in another}
        files += [file for file, of in texts.items() if word.search(of)]
        launchers = {item.name for file, item in items if file not in another and name == kernel}
        names += launchers - {"main", "", kernel}
    files, by_name = [*dict.fromkeys(files)], dict[str, list[Path]]()
    for file in source.texts:
        by_name.setdefault(file.name, []).append(file)
    taken = {*files}
    for file in files:
        for _, name in includes.INCLUDE.findall(source.texts[file]):
            alike = by_name.get(name.rpartition("/")[2], ())
            ends = [entry for entry in alike if _folder(name, entry, file.parent)]
            nearest = sorted(ends, key=lambda entry: entry.parent != file.parent)[:1]
            files += [entry for entry in nearest if entry not in taken]
            taken |= {*nearest}
    kept = {file: of for file, of in source.texts.items() if file in taken}
    return replace(source, texts=kept, later=later)
