"""Facts about the architectures of GPUs, one row each.

An architecture's number is its compute capability times ten. Sources: CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability" and "Feature Set Compiler Targets"; PTX ISA (wgmma);
``cuda_occupancy.h`` (shared memory). The rest was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewave.basics.tables import table_beside


@dataclass(frozen=True)
class Architecture:
    """Limits of an SM, features, and rules for compiling and executing code.

    warps, blocks: slots of an SM. shared, shared_per_block: bytes of shared memory; dynamic with the
    attribute for large blocks. shared_reserved: bytes of each block that the driver keeps. shared_unit:
    bytes to which a block's share is rounded up. None: unknown.

    targets: suffixes of its architecture- (``a``) and family-specific (``f``) compiler targets.
    clusters: thread block clusters and tensor maps. wgmma: products of a warpgroup. tensor_inputs:
    types of at least 8 bits that its tensor cores multiply. sums_alike: tensor cores are as fast with an
    f32 sum as with an f16 sum, and ncu counts both together.

    shared_start: bytes at the start of a block's shared window that the system uses. block_at, grid_at, windows_at,
    sms_at: byte offsets in constant bank 0 of the sizes of block and grid, of the generic addresses of shared and local
    memory, and of the number of SMs. cluster_constants: the bank has the cluster's sizes too, where ptxas of sm_90
    reads them. hmma_two_steps: an HMMA adds the two halves of its depth one after the other.
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
    sums_alike: bool = False
    shared_start: int = 0
    block_at: int = 0x0
    grid_at: int = 0xC
    windows_at: int = 0x18
    sms_at: int = 0x10C
    cluster_constants: bool = False
    hmma_two_steps: bool = False

    def declared(self, shared: int) -> int:
        """Return the bytes of shared memory that a kernel declares: its section less the system's part."""
        return max(0, shared - self.shared_start)

    @property
    def capability(self) -> str:
        """The compute capability: ``9.0``."""
        return f"{self.arch / 10:.1f}"


ARCHITECTURES: Mapping[int, Architecture] = {
    row["arch"]: Architecture(**row | {"tensor_inputs": frozenset(row.get("tensor_inputs", ()))})
    for row in table_beside(__file__)
}


def of(arch: int) -> Architecture:
    """Return the row of an architecture, or of the nearest one before it."""
    return ARCHITECTURES[max((number for number in ARCHITECTURES if number <= arch), default=70)]


def number(name: str) -> int:
    """Return the compute capability times ten of ``sm_90`` or ``sm_90a``."""
    return int("".join(filter(str.isdigit, name)))


def first(feature: str) -> Architecture:
    """Return the first architecture with a feature (`FEATURES`)."""
    return next(row for row in ARCHITECTURES.values() if getattr(row, feature))


FEATURES = ("clusters", "wgmma")
"""Features that a kernel may require by name: `Architecture.clusters`, `Architecture.wgmma`."""
NAMES = (*FEATURES, "warps_per_sm")
"""Names of an architecture's facts in expressions."""


def names(arch: int | None) -> dict[str, Any]:
    """Return the values of `NAMES` that are known."""
    if arch is None:
        return {}
    row = of(int(arch))
    values = {**{name: getattr(row, name) for name in FEATURES}, "warps_per_sm": row.warps}
    return {name: value for name, value in values.items() if value is not None}
