"""The headers that a kernel file includes: those in its folders, and those that are provided."""

import functools
import os
import posixpath
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import yaml

from tilewave.basics.files import lies_in

VARIABLE = "TILEWAVE_INCLUDE"
"""The environment variable with folders outside the kernel's that `compiler: include` may name."""
GIVEN = os.environ.get(VARIABLE, "")


def allow(folders: Iterable[Path], anew: bool = False) -> None:
    """Let front matter name these folders, besides those before or, ``anew``, of the user's environment."""
    before = GIVEN if anew else os.environ.get(VARIABLE, "")
    names = [before, *(str(folder.resolve()) for folder in folders)]
    os.environ[VARIABLE] = os.pathsep.join(filter(None, names))


def allowed(folder: Path, home: Path) -> bool:
    """Return whether a kernel file in the folder ``home`` may name a folder of headers."""
    names = os.environ.get(VARIABLE, "").split(os.pathsep)
    return lies_in(folder, [home, *map(Path, filter(None, names))])


INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"\n\0]+)[>\"]", re.MULTILINE)

TABLES = yaml.safe_load(Path(__file__).with_name("headers.yaml").read_text("utf-8"))
"""Headers that stand in for those which NVRTC lacks, or refuses."""
INSTEAD, INSTEAD_OF_HOST = TABLES["instead"], TABLES["instead_of_host"]
OF_HOST = re.compile("|".join(TABLES["of_host"]))
STAND_INS = {**INSTEAD, **dict.fromkeys(TABLES["empty"].split(), "#pragma once\n")}
STAND_INS |= dict.fromkeys(("stdint.h", "cstdint"), TABLES["stdint"])


def of_host(name: str) -> str:
    """Return the text that stands in for a header of host code, of which device code needs little; empty for another."""
    stand_ins = (text for pattern, text in INSTEAD_OF_HOST.items() if re.fullmatch(pattern, name))
    return next(stand_ins, STAND_INS.get(name, "#pragma once\n") if OF_HOST.fullmatch(name) else "")


def provided(name: str) -> bool:
    """Return whether a header exists without the user's doing: CUDA's, or one with a stand-in."""
    parents = [parent for folder in folders() for parent in (folder, folder / "crt")]
    paths = (parent / name for parent in parents)
    return name in STAND_INS or bool(of_host(name)) or any(path.is_file() for path in paths)


@functools.cache
def folders() -> tuple[Path, ...]:
    """Return the folders of the CUDA headers: the runtime's (with ``crt/``) and CCCL's, the wheels' first.
    A toolkit's wheels may lie in several site folders. Without the extra `execute` there are none."""
    try:
        import nvidia
        from cuda import pathfinder
    except ModuleNotFoundError:
        return ()

    include_folders = []
    for site in nvidia.__path__:
        include_folders += sorted(Path(site).glob("cu1[3-9]/include"))
    for library in ("cudart", "cccl"):
        folder = pathfinder.find_nvidia_header_directory(library)
        if folder:
            include_folders.append(Path(folder))
    include_folders += [folder / "cccl" for folder in include_folders if (folder / "cccl").is_dir()]
    return tuple(dict.fromkeys(include_folders))


@functools.lru_cache(maxsize=4096)
def _read(path: Path, stamp: tuple[int, int]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Read a header and the names that it includes. ``stamp`` is the state of the file, for the cache."""
    text = path.read_text(encoding="utf-8-sig", errors="replace")
    return text, tuple(INCLUDE.findall(text))


def read_header(path: Path) -> tuple[str, tuple[tuple[str, str], ...]]:
    state = path.stat()
    return _read(path, (state.st_mtime_ns, state.st_size))


REFUSED = (
    "#error this header is not read: it lies out of the kernel's folder and of those that front matter names"
    " (compiler: {include: [FOLDER]})\n"
)

LARGE = "#error this header is not read: {} more than {} MiB\n"

MOST_MIB, MOST_MIB_IN_ALL = 4, 64
"""Limits of a header in the kernel's folders, and of all that a kernel file includes."""
_lies_in = functools.lru_cache(maxsize=4096)(lies_in)


def _kernel_header(
    name: str, folders: Sequence[Path], kernel_folders: tuple[Path, ...]
) -> Path | str | None:
    """Return the path of an included header, the text in place of one that must not be read, or None without
    one in the folders. The result does not show whether a file outside the folders exists."""
    out = os.path.isabs(name) or ".." in Path(name).parts
    for folder in folders:
        path = folder / name
        if path.is_file():
            if _lies_in(path, kernel_folders):
                small = path.stat().st_size <= MOST_MIB << 20
                return path if small else LARGE.format("it has", MOST_MIB)
            out = True
        out = out or path.is_symlink()
    return REFUSED if out else None


def kernel_headers(text: str, *folders: Path, taken: Collection[str] = ()) -> dict[str, str]:
    """Return name -> text of the headers in the kernel's folders that ``text`` includes, directly or not.

    CUDA's headers are not among them, so no toolkit is needed. A name in quotation marks is searched first in the
    folder of the header that includes it. A header must lie in these folders, links followed; any other is `REFUSED`,
    and one that would exceed the limit of all is not read. NVRTC knows no folders: a header beside its includer whose
    name another header has (in these folders, or ``taken``) is included by its path from the kernel's folder.
    """
    texts, room = dict[str, str](), MOST_MIB_IN_ALL << 20
    renamed: dict[str, list[tuple[str, str]]] = {}
    names = INCLUDE.findall(text)
    waiting: list[tuple[str, tuple[Path, ...], str]] = [(name, (), "") for _, name in names]
    while waiting:
        name, near, includer = waiting.pop()
        full_name = posixpath.normpath(posixpath.join(posixpath.dirname(includer), name))
        if near and _ambiguous(near[0] / name, name, full_name, folders, taken):
            renamed.setdefault(includer, []).append((name, full_name))
            name = full_name
        if name in texts:
            continue
        header = _kernel_header(name, (*near, *folders), folders)
        if isinstance(header, str):
            texts[name] = header
        elif header is not None and (header.parent in folders or name not in INSTEAD):
            room -= header.stat().st_size
            if room < 0:
                texts[name] = LARGE.format("the headers of this kernel have", MOST_MIB_IN_ALL)
                continue
            texts[name], included = read_header(header)
            beside = (header.parent,)
            waiting += [(of, beside if mark == '"' else (), name) for mark, of in included]
    for includer, names in renamed.items():
        for name, full_name in names:
            quoted = re.compile(rf'^([ \t]*#[ \t]*include[ \t]*"){re.escape(name)}"', re.MULTILINE)
            texts[includer] = quoted.sub(rf'\g<1>{full_name}"', texts[includer])
    return dict(sorted(texts.items()))


def _ambiguous(
    beside: Path, name: str, full_name: str, folders: Sequence[Path], taken: Collection[str]
) -> bool:
    """Return whether the short name of the header beside its includer also names another header."""
    if name == full_name or not beside.is_file():
        return False
    another = name in taken or any((folder / name).is_file() for folder in folders)
    return another and any((folder / full_name).is_file() for folder in folders)
