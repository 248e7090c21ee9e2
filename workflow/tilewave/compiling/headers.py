"""The CUDA headers that a kernel includes, passed to NVRTC in memory.
On disk, their absolute paths would enter the cubin's line table, and its bytes would differ by machine."""

import functools
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tilewave.kernel import includes
from tilewave.kernel.includes import folders


class Toolkit(NamedTuple):
    """The headers from outside the kernel's folders, name -> text, and their SHA-256."""

    texts: Mapping[str, str]
    digest: str


def toolkit(text: str, kernel_headers: Mapping[str, str], nvcc: bool = False) -> Toolkit:
    """Return the headers that ``text`` includes, directly or not, besides ``kernel_headers``. cuda.h, headers
    of the C library and (``nvcc``) of host code have stand-ins where NVRTC lacks them."""
    texts = (text, *kernel_headers.values())
    wanted = {name for source in texts for _, name in includes.INCLUDE.findall(source)}
    # crt/ last: it has another mma.h, and the runtime's may lie in a later site folder.
    search_path = (*folders(), *(folder / "crt" for folder in folders()))
    return _toolkit(tuple(sorted(wanted - set(kernel_headers))), search_path, nvcc)


@functools.lru_cache(maxsize=256)
def _toolkit(wanted: tuple[str, ...], search_path: tuple[Path, ...], nvcc: bool) -> Toolkit:
    texts: dict[str, str] = {}
    waiting: list[tuple[str, tuple[Path, ...], bool]] = [(name, (), True) for name in wanted]
    while waiting:
        name, near, direct = waiting.pop()
        if name in texts:
            continue
        instead = includes.of_host(name) if nvcc and direct else ""
        paths = (folder / name for folder in (*near, *search_path))
        path = next((path for path in paths if path.is_file()), None)
        if path is not None and name not in includes.INSTEAD and not instead:
            texts[name], included = includes.read_header(path)
            near = (path.parent,)
            waiting += [(header, near if mark == '"' else (), False) for mark, header in included]
            continue
        if (stand_in := instead or includes.STAND_INS.get(name)) is not None:
            texts[name] = stand_in
            waiting += [(header, (), False) for _, header in includes.INCLUDE.findall(stand_in)]
    texts = dict(sorted(texts.items()))
    content = "".join(f"{name}\0{text}\0" for name, text in texts.items())
    return Toolkit(texts, hashlib.sha256(content.encode()).hexdigest())
