"""The CUDA headers that a kernel includes, handed to NVRTC in memory.

Headers on disk would put their absolute paths into the cubin's line table, and the same kernel
would give other bytes on every machine. In memory a header has only the name it is included by.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from tilewave.compiling import source

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"]+)[>\"]", re.MULTILINE)

# NVRTC has no C library, and knows printf, assert and the mathematical functions without a header:
# files written for nvcc include these all the same. Found in no folder, they stand for themselves.
WIDTHS = {8: "char", 16: "short", 32: "int", 64: "long long"}
STDINT = "#pragma once\n" + "".join(
    f"typedef signed {kind} int{bits}_t;\ntypedef unsigned {kind} uint{bits}_t;\n"
    for bits, kind in WIDTHS.items()
) + "typedef unsigned long long uintptr_t;\ntypedef long long intptr_t;\n"  # fmt: skip
EMPTY = "assert.h cassert cmath cstdio cstdlib cstring math.h stdio.h stdlib.h string.h".split()
# CUDA's own cuda.h declares functions of the host, which NVRTC refuses. What device code takes from it
# is the type of a tensor map, 64-byte aligned as the PTX ISA wants it (Tensor-map).
CUDA = """\
#pragma once
struct alignas(64) CUtensorMap_st { unsigned long long opaque[16]; };
typedef CUtensorMap_st CUtensorMap;
"""
INSTEAD = {"cuda.h": CUDA}
"""Taken instead of what lies in CUDA's folders; a header of the kernel's own folder wins."""
STAND_INS = {
    **INSTEAD,
    **dict.fromkeys(EMPTY, "#pragma once\n"),
    "stdint.h": STDINT,
    "cstdint": STDINT,
}

# What a kernel's own files include of the standard library: libcu++ has it as cuda::std. Not for what
# CUDA's headers include, which know NVRTC themselves.
STANDARD = (
    "array bit cmath complex concepts cstddef functional initializer_list iterator limits numeric "
    "optional ratio span tuple type_traits utility variant"
).split()
FLOATS = {
    "FLT": ("24", "3.402823466e+38F", "1.175494351e-38F", "1.192092896e-07F"),
    "DBL": ("53", "1.7976931348623157e+308", "2.2250738585072014e-308", "2.2204460492503131e-16"),
}
CFLOAT = "#pragma once\n" + "".join(
    f"#define {kind}_{name} {value}\n"
    for kind, values in FLOATS.items()
    for name, value in zip(("MANT_DIG", "MAX", "MIN", "EPSILON"), values)
)
CLIMITS = "#pragma once\n#include <cuda/std/climits>\n"
CSTDINT = STDINT + "namespace std {\n" + "".join(
    f"using ::{sign}int{bits}_t;\n" for sign in ("", "u") for bits in WIDTHS
) + "using ::intptr_t; using ::uintptr_t;\n}\n"  # fmt: skip
# What only functions of the host use.
HOST = (
    "chrono ctime ctype.h cublasLt.h cublas_v2.h cudaProfiler.h cudaTypedefs.h "
    "cuda_profiler_api.h curand.h exception fstream iomanip iostream map memory mutex omp.h ostream "
    "random set sstream stdexcept string sys/time.h sys/types.h thread time.h unistd.h unordered_map "
    "vector"
).split()
ALGORITHM = "".join(f"#include <cuda/std/__algorithm/{name}.h>\n" for name in ("max", "min"))
IN_STD = "namespace std { using namespace cuda::std; }\n"
OF_A_KERNEL = {
    **dict.fromkeys(HOST, "#pragma once\n"),
    **{name: f"#pragma once\n#include <cuda/std/{name}>\n{IN_STD}" for name in STANDARD},
    **dict.fromkeys(("cfloat", "float.h"), CFLOAT),
    **dict.fromkeys(("climits", "limits.h"), CLIMITS),
    "cstdint": CSTDINT,
    "stddef.h": "#pragma once\n#include <cuda/std/cstddef>\n",
    "algorithm": f"#pragma once\n{ALGORITHM}#include <cuda/std/utility>\n{IN_STD}",
}
"""Stand-ins for headers that a kernel's own files name, where none of its folders has them."""
WORDS = {"host_words.h": "".join(
    f"typedef unsigned {kind} u{kind};\n" for kind in ("int", "short", "long")
)}  # fmt: skip
"""Types that glibc's headers bring to every file that nvcc compiles."""
WORD = re.compile(r"\bu(?:int|short|long)\b")


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


@functools.lru_cache(maxsize=4096)
def _read(path: Path, stamp: tuple[int, int]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """A header's text and what it includes; ``stamp`` is the state of the file that was read."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return text, tuple(INCLUDE.findall(text))


def _header(path: Path) -> tuple[str, tuple[tuple[str, str], ...]]:
    state = path.stat()
    return _read(path, (state.st_mtime_ns, state.st_size))


def _included(text: str, own: list[Path], places: Sequence[Path] = ()) -> dict[str, str]:
    """Name -> text of the headers that ``text`` includes, directly or not.

    Each from ``own`` or the first of ``places`` that has it, those of INSTEAD from ``own`` only; a name
    in quotation marks first from the folder of the header that includes it.
    """
    found: dict[str, str] = {}
    waiting: list[tuple[str, str, Path | None]] = [
        (mark, name, None) for mark, name in INCLUDE.findall(text)
    ]
    while waiting:
        mark, name, folder = waiting.pop()
        if name in found:
            continue
        near = [folder] if folder is not None and mark == '"' else []
        path = next((one / name for one in (*near, *own, *places) if (one / name).is_file()), None)
        if path is not None and (name not in INSTEAD or path.parent in own):
            found[name], included = _header(path)
            waiting += [(*one, path.parent) for one in included]
    return dict(sorted(found.items()))


def own(text: str, *folders: Path) -> dict[str, str]:
    """Name -> text of the headers in the kernel's own folders that ``text`` includes, directly or
    not. CUDA's headers are left out: no toolkit is needed to ask."""
    return _included(text, list(folders))


def before(text: str, *own_folders: Path) -> dict[str, str]:
    """Name -> text of what is included before the kernel: words that its own files use of glibc's."""
    mine = own(text, *own_folders)
    used = any(WORD.search(source.code(one)) for one in (text, *mine.values()))
    return dict(WORDS) if used else {}


def closure(text: str, *own_folders: Path) -> dict[str, str]:
    """Name -> text of every header that ``text`` includes, directly or not.

    Headers of the kernel's own folders come first. Headers of the C library that NVRTC does without,
    and cuda.h, have stand-ins; any other that is found nowhere is left to NVRTC, which says so with file and line.
    """
    places: list[Path] = []
    for folder in folders():
        places += [folder, folder / "crt"]
    mine = own(text, *own_folders)
    direct = {name for one in (text, *mine.values()) for _, name in INCLUDE.findall(one)} - set(
        mine
    )
    asked = {name: OF_A_KERNEL[name] for name in sorted(direct & set(OF_A_KERNEL))}
    found = _included("\n".join((text, *asked.values())), list(own_folders), places) | asked
    named = {name for one in (text, *found.values()) for _, name in INCLUDE.findall(one)}
    stand_ins = {name: STAND_INS[name] for name in named & set(STAND_INS) if name not in found}
    return dict(sorted((found | stand_ins).items()))


def toolkit_digest(text: str, *own_folders: Path) -> str:
    """Digest of the headers of `closure` that do not lie in the kernel's own folders."""
    mine = own(text, *own_folders)
    names = tuple(
        sorted(
            {name for one in (text, *mine.values()) for _, name in INCLUDE.findall(one)} - set(mine)
        )
    )
    return _toolkit_digest(names)


@functools.lru_cache(maxsize=256)
def _toolkit_digest(names: tuple[str, ...]) -> str:
    digest = hashlib.sha256()
    for name, text in closure("".join(f"#include <{name}>\n" for name in names)).items():
        digest.update(f"{name}\0{text}\0".encode())
    return digest.hexdigest()
