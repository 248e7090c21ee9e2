"""Blocks that fit on an SM, by registers, shared memory, warps and block slots.

The rules are those of ``cuda_occupancy.h`` in the CUDA toolkit (the occupancy calculator's source) for
compute capability 7.0 and later:

* a warp gets registers in units of 256 (``cudaOccRegAllocationGranularity``), from one of the four
  sub-partitions of the register file, so a quarter with room for 2.8 warps holds 2;
* a block gets shared memory in units of 128 bytes (256 before compute capability 8.0), and from 8.0 on the
  driver keeps 1 KB of it for each block;
* the SM has a fixed number of warp and block slots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewave.theory import architectures

WARP = 32
REGISTER_UNIT = 256  # registers, for one warp
SUB_PARTITIONS = 4
MAX_REGISTERS_PER_THREAD = 255
REGISTERS = 65536  # of an SM


@dataclass(frozen=True)
class SmLimits:
    """Limits of an SM. Shared memory in bytes; registers are 32-bit."""

    max_warps: int
    max_blocks: int
    registers: int
    shared: int
    shared_per_block: int
    shared_reserved: int
    shared_unit: int = 128
    registers_per_block: int | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, Any]) -> SmLimits:
        """Return the limits of the environment's GPU. Raises KeyError with the name of a missing fact."""
        capability = float(str(environment.get("compute_capability") or 8))
        registers = int(environment["registers_per_sm"])
        return cls(
            max_warps=int(environment["max_warps_per_sm"]),
            max_blocks=int(environment["max_blocks_per_sm"]),
            registers=registers,
            shared=int(environment["shared_per_sm"]),
            shared_per_block=int(environment["shared_per_block_optin"]),
            shared_reserved=int(environment["shared_reserved_per_block"]),
            shared_unit=architectures.of(round(10 * capability)).shared_unit,
            registers_per_block=int(environment.get("registers_per_block") or registers),
        )

    @classmethod
    def if_known(cls, environment: Mapping[str, Any]) -> SmLimits | None:
        """Return the limits of the environment's GPU, or None if a fact is missing."""
        try:
            return cls.from_environment(environment)
        except (KeyError, TypeError, ValueError):
            return None

    @classmethod
    def of(cls, arch: int) -> SmLimits:
        """Return the limits of an architecture, for use without a GPU. Raises KeyError if its SM is unknown."""
        row = architectures.ARCHITECTURES[arch]
        sizes = row.warps, row.blocks, row.shared, row.shared_per_block
        if None in sizes:
            raise KeyError(arch)
        warps, blocks, shared, per_block = (int(size or 0) for size in sizes)
        reserved, unit = row.shared_reserved, row.shared_unit
        return cls(warps, blocks, REGISTERS, shared, per_block, reserved, unit)


TURING, HOPPER = SmLimits.of(75), SmLimits.of(90)


@dataclass(frozen=True)
class Occupancy:
    """Blocks and warps on an SM; ``limits`` has the blocks that each resource alone allows."""

    blocks: int
    warps: int
    fraction: float
    limits: dict[str, int]

    @property
    def limiters(self) -> tuple[str, ...]:
        """The resources that allow no more blocks."""
        return tuple(name for name, blocks in self.limits.items() if blocks == self.blocks)


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def block_registers(warps: int, registers: int) -> int:
    """Return the registers of a block, as the launch check counts them: all sub-partitions used alike."""
    return round_up(registers * WARP, REGISTER_UNIT) * round_up(warps, SUB_PARTITIONS)


def register_blocks(limits: SmLimits, warps: int, registers: int) -> int | None:
    """Return the blocks of ``warps`` warps that the register file holds; None for no limit."""
    if registers <= 0:
        return None
    if registers > MAX_REGISTERS_PER_THREAD:
        return 0
    per_warp = round_up(registers * WARP, REGISTER_UNIT)
    if block_registers(warps, registers) > (limits.registers_per_block or limits.registers):
        return 0
    return limits.registers // SUB_PARTITIONS // per_warp * SUB_PARTITIONS // warps


def shared_blocks(limits: SmLimits, shared_bytes: int) -> int | None:
    """Return the blocks with ``shared_bytes`` (static and dynamic) each; None for no limit."""
    if shared_bytes > limits.shared_per_block:
        return 0
    allocated = round_up(shared_bytes + limits.shared_reserved, limits.shared_unit)
    return limits.shared // allocated if allocated else None


def occupancy(limits: SmLimits, threads: int, registers: int, shared_bytes: int = 0) -> Occupancy:
    """Return the theoretical occupancy of blocks of ``threads`` threads. Raises ValueError without threads.
    registers: per thread. shared_bytes: per block, static plus dynamic, without the driver's kilobyte."""
    if threads < 1:
        raise ValueError(f"a block needs threads, found {threads}")
    warps = -(-threads // WARP)
    allowed = {
        "warps": limits.max_warps // warps,
        "registers": register_blocks(limits, warps, registers),
        "shared memory": shared_blocks(limits, shared_bytes),
        "blocks": limits.max_blocks,
    }
    bounds = {name: blocks for name, blocks in allowed.items() if blocks is not None}
    blocks = min(bounds.values())
    return Occupancy(blocks, blocks * warps, blocks * warps / limits.max_warps, bounds)


def if_known(
    limits: SmLimits | None, threads: float | None, registers: float | None, shared: float | None
) -> Occupancy | None:
    """Return the occupancy; None where the limits, the block's threads or the registers are unknown (None, NaN, 0)."""
    if limits is None or not (threads and threads > 0 and registers and registers > 0):
        return None
    shared = shared if shared and shared > 0 else 0
    return occupancy(limits, int(threads), int(registers), int(shared))
