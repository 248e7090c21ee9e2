"""What the fixture kernels are: read from the KERNEL lines of the .cu files beside this module."""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPECIFIC = HERE / "sm_90a"
"""Of files with what that architecture alone has."""
DECLARATION = re.compile(
    r"^KERNEL(?P<needs>\d*)(?:_TIGHT)?"
    r"\((?P<name>\w+), (?P<results>\d+), (?P<kinds>\w+, \w+, \w+)\)",
    re.M,
)

BLOCK = 128
THREADS = 512
"""Threads of a kernel where nothing else is said. Fixtures read each other's operands: 256 at
least, and a power of two."""

KEPT = 128
"""Threads whose results are kept whole; of the others a checksum a warp and result is kept."""

TENSOR_THREADS = 128
MORE_THREADS = {"mufu_plain": 2048, "mufu_near": 1024, "mufu_denormal": 1024}

RACES = {"memory_spin"}
"""Kernels that share memory without barriers, by a lock and a flag."""

UNSUPPORTED = {"mma_sparse_f16_16832": "HMMA.SP", "mma_sparse_bf16_16832": "HMMA.SP"}
"""Kernels with an instruction that the executor does not know, and which."""

_ULP = 2.0**-23
_SAME = (0.0, 0.0)
_SINE = (_ULP, 2.0**-20)
_TANH = (2.0**-15, 0.0)
APPROXIMATE: dict[str, tuple[str, list[tuple[float, float]]]] = {
    # Result by result: relative and absolute distance; none for EX2, LG2, RCP, RSQ and
    # SQRT of f32, which are the hardware's.
    "mufu_plain": ("f32", [*[_SAME] * 5, *[_SINE] * 4, _TANH]),
    "mufu_near": ("f32", [*[_SAME] * 5, _TANH, *[_SAME] * 2]),
    "mufu_denormal": ("f32", [_SAME] * 8),
    "mufu_double": ("f64", [(2.0**-19, 0)] * 2),
    "mufu_half": ("f16", [(2.0**-9, 2.0**-24)] * 8),
    "mufu_bf16": ("bf16", [(2.0**-6, 0)] * 8),
    "mufu_library": ("f32", [*[_SAME] * 3, _SINE, *[_SAME] * 4]),
    "mufu_library_more": ("f32", [_SAME] * 5),
    "mufu_library_huge": ("f32", [_SAME] * 2),
    "mufu_library_f64": ("f64", [_SAME] * 4),
}


@dataclass(frozen=True)
class Kernel:
    """One fixture. ``results`` counts the 32-bit words that a thread writes, ``kinds`` are those
    of the operands a, b and c, ``needs`` is the least architecture (90 for sm_90)."""

    file: str
    name: str
    results: int
    kinds: tuple[str, str, str]
    needs: int

    @property
    def threads(self) -> int:
        usual = TENSOR_THREADS if self.file == "tensor.cu" else THREADS
        return MORE_THREADS.get(self.name, usual)

    @property
    def exact(self) -> bool:
        """Whether results must agree in every bit: MUFU's last bits are the hardware's."""
        return not self.name.startswith("mufu_")

    @property
    def kept(self) -> int:
        """Threads whose results are kept whole: all where a distance is to be measured."""
        return min(KEPT, self.threads) if self.exact else self.threads


def files() -> list[Path]:
    return sorted(HERE.glob("*.cu"))


def specific_files() -> list[Path]:
    """Those that are compiled for ``sm_90a``."""
    return sorted(SPECIFIC.glob("*.cu"))


def kernels() -> dict[str, Kernel]:
    """Name -> kernel, in the order of the files."""
    found: dict[str, Kernel] = {}
    for path in (*files(), *specific_files()):
        for one in DECLARATION.finditer(path.read_text()):
            a, b, c = one["kinds"].split(", ")
            name, needs = one["name"], int(one["needs"] or 80)
            file = path.relative_to(HERE).as_posix()
            found[name] = Kernel(file, name, int(one["results"]), (a, b, c), needs)
    return found
