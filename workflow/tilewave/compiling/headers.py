"""The CUDA headers that a kernel includes, handed to NVRTC in memory.

Headers on disk would put their absolute paths into the cubin's line table, and the same kernel
would give other bytes on every machine. In memory a header has only the name it is included by.
"""

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewave.kernel.includes import (
    INCLUDE,
    INSTEAD,
    INSTEAD_OF_HOST,
    STAND_INS,
    folders,
    of_host,
    read_header,
)


@dataclass(frozen=True)
class Toolkit:
    """Name -> text of headers that are not the kernel's own."""

    texts: Mapping[str, str]

    @functools.cached_property
    def digest(self) -> str:
        digest = hashlib.sha256()
        for name, text in self.texts.items():
            digest.update(f"{name}\0{text}\0".encode())
        return digest.hexdigest()


def toolkit(text: str, mine: Mapping[str, str], nvcc: bool = False) -> Toolkit:
    """The headers besides its own (mine, as of `own`) that ``text`` includes, directly or not.

    Headers of the C library that NVRTC does without, and cuda.h, have stand-ins, with ``nvcc`` also those of the
    host's code; any other that is found nowhere is left to NVRTC, which says so with file and line.
    """
    asked = {name for one in (text, *mine.values()) for _, name in INCLUDE.findall(one)}
    # crt/ last: it has an mma.h of its own, and the runtime's may lie in another site folder.
    places = (*folders(), *(folder / "crt" for folder in folders()))
    return _toolkit(tuple(sorted(asked - set(mine))), places, nvcc)


@functools.lru_cache(maxsize=256)
def _toolkit(asked: tuple[str, ...], places: tuple[Path, ...], nvcc: bool) -> Toolkit:
    found: dict[str, str] = {}
    waiting: list[tuple[str, tuple[Path, ...], bool]] = [(name, (), True) for name in asked]
    while waiting:
        name, near, mine = waiting.pop()
        if name in found:
            continue
        of_the_host = nvcc and mine and of_host(name)
        path = next((one / name for one in (*near, *places) if (one / name).is_file()), None)
        if path is not None and name not in INSTEAD and not of_the_host:
            found[name], included = read_header(path)
            waiting += [
                (one, (path.parent,) if mark == '"' else (), False) for mark, one in included
            ]
            continue
        instead = STAND_INS.get(name)
        if of_the_host:
            instead = INSTEAD_OF_HOST.get(name, instead or "#pragma once\n")
        if instead is not None:
            found[name] = instead
            waiting += [(one, (), False) for _, one in INCLUDE.findall(instead)]
    return Toolkit(dict(sorted(found.items())))
