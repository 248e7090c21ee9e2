"""The CUDA headers that a kernel includes, handed to NVRTC in memory.

Headers on disk would put their absolute paths into the cubin's line table, and the same kernel
would give other bytes on every machine. In memory a header has only the name it is included by.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"]", re.MULTILINE)


@functools.cache
def folders() -> tuple[Path, ...]:
    """Folders of the CUDA headers: the runtime's (with ``crt/``) and CCCL's.

    The wheels of one toolkit may lie in several site folders; all of them count, the wheels first.
    """
    import nvidia
    from cuda import pathfinder

    found = []
    for place in nvidia.__path__:
        found += sorted(Path(place).glob("cu1[3-9]/include"))
    for library in ("cudart", "cccl"):
        folder = pathfinder.find_nvidia_header_directory(library)
        if folder:
            found.append(Path(folder))
    found += [folder / "cccl" for folder in found if (folder / "cccl").is_dir()]
    return tuple(dict.fromkeys(found))


def _included(text: str, places: list[Path]) -> dict[str, str]:
    """Name -> text of the headers that ``text`` includes, directly or not, each from the first of
    ``places`` that has it."""
    found: dict[str, str] = {}
    waiting = INCLUDE.findall(text)
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        path = next((place / name for place in places if (place / name).is_file()), None)
        if path is not None:
            found[name] = path.read_text(encoding="utf-8", errors="replace")
            waiting += INCLUDE.findall(found[name])
    return dict(sorted(found.items()))


def own(text: str, folder: Path) -> dict[str, str]:
    """Name -> text of the headers in the kernel's own folder that ``text`` includes, directly or
    not. CUDA's headers are left out: no toolkit is needed to ask."""
    return _included(text, [folder])


def closure(text: str, own_folder: Path | None = None) -> dict[str, str]:
    """Name -> text of every header that ``text`` includes, directly or not.

    Headers of the kernel's own folder come first. One that is found nowhere is left to NVRTC,
    which says so with file and line.
    """
    places = [own_folder] if own_folder else []
    for folder in folders():
        places += [folder, folder / "crt"]
    return _included(text, places)
