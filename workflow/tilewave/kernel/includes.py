"""The headers that a kernel file includes: those in its folders, and those that are provided."""

import functools
import os
import posixpath
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

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

# NVRTC has no C library, and knows printf, assert and the mathematical functions without a header.
# Files written for nvcc include these all the same. `EMPTY` and STDINT stand in for them.
WIDTHS = {8: "char", 16: "short", 32: "int", 64: "long long"}

STDINT = "#pragma once\n" + "".join(
    f"typedef signed {kind} int{bits}_t;\ntypedef unsigned {kind} uint{bits}_t;\n"
    for bits, kind in WIDTHS.items()
) + "typedef unsigned long long uintptr_t;\ntypedef long long intptr_t;\n"  # fmt: skip

EMPTY = "assert.h cassert cmath cstdio cstdlib cstring math.h stdio.h stdlib.h string.h".split()

# CUDA's cuda.h declares functions of the host, which NVRTC refuses. Device code takes from it only the type
# of a tensor map, aligned to 64 bytes as the PTX ISA requires (Tensor-map).
CUDA = """\
#pragma once
struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; };
typedef CUtensorMap_st CUtensorMap;
"""

INSTEAD = {"cuda.h": CUDA}
"""Replacements for headers in CUDA's folders; a header in the kernel's folder wins."""

# Headers that a file for nvcc includes for its host code. They are empty here.
OF_HOST = re.compile(
    r"[a-z_]+|(?:bits|sys|arpa|net|netinet|x86intrin|boost|nvtx3|thrust|torch|ATen|c10|pybind11|gtest|gflags)/.*"
    r"|cutlass/(?:util/.*|cluster_launch\.hpp)"
    r"|(?:ctype|errno|fcntl|float|getopt|inttypes|limits|locale|malloc|memory|mpi|omp|pthread|sched|signal"
    r"|stdarg|stdbool|stddef|time|unistd|wchar|windows|immintrin)\.h"
    r"|(?:cublas|cublasLt|cublasXt|cusparse|cusolver|cufft|curand|cudnn|nccl|nvToolsExt|nvml|nvrtc)"
    r"(?:_\w+)?\.h|helper_\w+\.h|cuda(?:_profiler_api|Profiler|_profiler)\.h"
)

NARROW = "#pragma once\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"

INSTEAD_OF_HOST = {
    "cudaTypedefs.h": "#include <cuda.h>\n",
    **dict.fromkeys(("cublas_v2.h", "cublas_api.h", "cublasLt.h", "cublasXt.h"), NARROW),
    "cub/cub.cuh": "".join(
        f"#include <cub/{name}.cuh>\n"
        for name in "block/block_load block/block_store block/block_reduce block/block_scan "
        "block/block_exchange block/block_discontinuity block/block_radix_sort block/block_merge_sort "
        "block/block_histogram warp/warp_reduce warp/warp_scan warp/warp_load warp/warp_store "
        "warp/warp_exchange thread/thread_load thread/thread_store".split()
    ),
}
"""The parts of CUDA's headers that device code can use: cub.cuh without its device-wide algorithms, and the types of
cuBLAS."""

STAND_INS = {**INSTEAD, **dict.fromkeys(EMPTY, "#pragma once\n")}
STAND_INS |= dict.fromkeys(("stdint.h", "cstdint"), STDINT)


def of_host(name: str) -> bool:
    """Return whether a header serves host code, and device code needs nothing or little of it."""
    return name in INSTEAD_OF_HOST or OF_HOST.fullmatch(name) is not None


def provided(name: str) -> bool:
    """Return whether a header exists without the user's doing: CUDA's, or one with a stand-in."""
    parents = [parent for folder in folders() for parent in (folder, folder / "crt")]
    paths = (parent / name for parent in parents)
    return name in STAND_INS or of_host(name) or any(path.is_file() for path in paths)


@functools.cache
def folders() -> tuple[Path, ...]:
    """Return the folders of the CUDA headers: the runtime's (with ``crt/``) and CCCL's.

    The wheels of one toolkit may lie in several site folders; all of them count, the wheels first. Without the
    packages of the extra `execute` there is none.
    """
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
    """Return the path of an included header, or the text that replaces it because it must not be read.

    None where the folders have no such header. The result does not show whether a file outside the folders
    exists.
    """
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
    folder of the header that includes it. A header must lie in these folders, links followed; any other is
    `REFUSED`, and one that would exceed the limit of all is not read. NVRTC knows no folders: a header beside its
    includer whose name another header has (in these folders, or ``taken``) is included by its path from the
    kernel's folder.
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
