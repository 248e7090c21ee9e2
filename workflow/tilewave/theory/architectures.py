"""The architectures of GPUs: one row each, and all that the project knows of it without asking one.

An architecture goes by its compute capability times ten. Sources: CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability" and "Feature Set Compiler Targets"; PTX ISA (wgmma);
``cuda_occupancy.h`` (shared memory); the others were measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_AMPERE = frozenset({"f16", "i8", "bf16", "tf32", "f64"})
_BLACKWELL: dict[str, Any] = {
    "targets": "af", "clusters": True, "shared_start": 0x400, "block_at": 0x360, "grid_at": 0x370,
    "windows_at": 0x2F0,
}  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """What an SM holds, what there is, and how code of it is compiled and executed.

    warps, blocks: slots of an SM. shared, shared_per_block: bytes of shared memory, dynamic with the
    attribute for large blocks. shared_reserved: bytes of a block's that the driver keeps;
    shared_unit: bytes that a block's share is rounded up to. None: not known here.

    targets: suffixes of its architecture- (``a``) and family-specific (``f``) compiler targets.
    clusters: thread block clusters and tensor maps. wgmma: products of a warpgroup. tensor_inputs:
    what its tensor cores multiply, types under 8 bits left out. one_sum: its tensor cores are as fast
    with an f32 sum as with an f16 sum, and ncu counts both together.

    shared_start: bytes at the start of a block's shared window that code leaves to the system.
    block_at, grid_at, windows_at: where constant bank 0 keeps the sizes of block and grid, and the generic
    addresses of shared and of local memory (bytes).
    cluster_constants: those of the cluster stand there too, where ptxas of sm_90 reads them.
    hmma_two_steps: an HMMA adds the two halves of its depth one after the other.
    """

    arch: int
    warps: int | None = None
    blocks: int | None = None
    shared: int | None = None
    shared_per_block: int | None = None
    shared_reserved: int = 1024
    shared_unit: int = 128
    targets: str = ""
    clusters: bool = False
    wgmma: bool = False
    tensor_inputs: frozenset[str] = frozenset()
    one_sum: bool = False
    shared_start: int = 0
    block_at: int = 0x0
    grid_at: int = 0xC
    windows_at: int = 0x18
    cluster_constants: bool = False
    hmma_two_steps: bool = False

    def declared(self, shared: int) -> int:
        """Bytes of shared memory that a kernel declares: its section's, less those of the system."""
        return max(0, shared - self.shared_start)

    @property
    def capability(self) -> str:
        """The compute capability: ``9.0``."""
        return f"{self.arch / 10:.1f}"


ARCHITECTURES: Mapping[int, Architecture] = {
    one.arch: one
    for one in (
        Architecture(
            70, 64, 32, 98304, 98304, shared_reserved=0, shared_unit=256,
            tensor_inputs=frozenset({"f16"}), one_sum=True, hmma_two_steps=True,
        ),
        Architecture(
            75, 32, 16, 65536, 65536, shared_reserved=0, shared_unit=256,
            tensor_inputs=frozenset({"f16", "i8"}), hmma_two_steps=True,
        ),
        Architecture(
            80, 64, 32, 167936, 166912, tensor_inputs=_AMPERE, one_sum=True, hmma_two_steps=True,
        ),
        Architecture(86, 48, 16, 102400, 101376, tensor_inputs=_AMPERE, hmma_two_steps=True),
        Architecture(89, 48, 24, 102400, 101376, tensor_inputs=_AMPERE | {"f8"}, hmma_two_steps=True),
        Architecture(
            90, 64, 32, 233472, 232448, targets="a", clusters=True, wgmma=True,
            tensor_inputs=_AMPERE | {"f8"}, one_sum=True, shared_start=0x400,
            cluster_constants=True,
        ),
        Architecture(100, 64, 32, 233472, 232448, one_sum=True, **_BLACKWELL),
        Architecture(110, **_BLACKWELL),
        Architecture(120, **_BLACKWELL),
    )
}  # fmt: skip


def of(arch: int) -> Architecture:
    """The row of an architecture; one that has none is like the nearest before it."""
    return ARCHITECTURES[max((one for one in ARCHITECTURES if one <= arch), default=70)]


def number(name: str) -> int:
    """Compute capability times ten of ``sm_90`` or ``sm_90a``."""
    return int("".join(filter(str.isdigit, name)))


def first(feature: str) -> Architecture:
    """The first architecture that has a feature (`FEATURES`)."""
    return next(one for one in ARCHITECTURES.values() if getattr(one, feature))


FEATURES = ("clusters", "wgmma")
"""What a kernel may require by name: `Architecture.clusters`, `Architecture.wgmma`."""
NAMES = (*FEATURES, "warps_per_sm")
"""What an expression may ask of an architecture."""


def names(arch: int | None) -> dict[str, Any]:
    """Values of `NAMES`, as far as they are known."""
    if arch is None:
        return {}
    row = of(int(arch))
    known = {**{name: getattr(row, name) for name in FEATURES}, "warps_per_sm": row.warps}
    return {name: value for name, value in known.items() if value is not None}
