"""The fixture kernels, from the KERNEL lines of the .cu files beside this module."""

import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPECIFIC = HERE / "sm_90a"
"""Files with instructions of that architecture only."""
DECLARATION = re.compile(
    r"^KERNEL(?P<needs>\d*)(?:_TIGHT)?"
    r"\((?P<name>\w+), (?P<results>\d+), (?P<kinds>\w+, \w+, \w+)\)",
    re.M,
)

BLOCK = 128
THREADS = 512
"""Default threads of a kernel: a power of two, and at least 256, because threads read each other's operands."""

KEPT = 128
"""Threads whose results are kept; the rest has a checksum for each warp and result."""

TENSOR_THREADS = 128
MORE_THREADS = {"mufu_plain": 2048, "mufu_near": 1024, "mufu_denormal": 1024}

RACES = {"memory_spin"}
"""Kernels that share memory without barriers, by a lock and a flag."""

UNSUPPORTED = {"mma_sparse_f16_16832": "HMMA.SP", "mma_sparse_bf16_16832": "HMMA.SP"}
"""Kernels with an unsupported instruction, and the instruction."""

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
    """A fixture.
    results: number of 32-bit words that a thread writes. kinds: of the operands a, b and c. needs: the least
    architecture (90 for sm_90)."""

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
        """True if results must agree in every bit; MUFU's last bits depend on the hardware."""
        return not self.name.startswith("mufu_")

    @property
    def kept(self) -> int:
        """Threads whose results are kept; all of them if results are compared by distance."""
        return min(KEPT, self.threads) if self.exact else self.threads


def files() -> list[Path]:
    return sorted(HERE.glob("*.cu"))


def specific_files() -> list[Path]:
    """Return the files that are compiled for ``sm_90a``."""
    return sorted(SPECIFIC.glob("*.cu"))


def kernels() -> dict[str, Kernel]:
    by_name: dict[str, Kernel] = {}
    for path in (*files(), *specific_files()):
        for match in DECLARATION.finditer(path.read_text()):
            a, b, c = match["kinds"].split(", ")
            name, needs = match["name"], int(match["needs"] or 80)
            file = path.relative_to(HERE).as_posix()
            by_name[name] = Kernel(file, name, int(match["results"]), (a, b, c), needs)
    return by_name
