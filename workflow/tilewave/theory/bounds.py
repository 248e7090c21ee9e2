"""The least time of a launch, from the instructions it executes.

Each pipe has a least time: its work over its rate. The longest one bounds the launch, and its pipe is the
*limiter*. A measurement is longer by exposed latency, by pipes that wait for one another, and by work that
is not counted.

A block stays on its SM. Of `b` equal blocks on `s` SMs the busiest SM has ceil(b / s), so it does ceil(b / s) / b of
the launch (tail and wave quantization, `tilewave.theory.quantization`). DRAM serves all SMs together and has no tail.

The head of bounds.yaml has the sources of the rates.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tilewave.basics.tables import table_beside
from tilewave.theory.data_sheets import DataSheet
from tilewave.theory.quantization import rounds_on_sms

ISSUE, FP32, FP64, FP16, ALU, SPECIAL, TENSOR, DATA, PORT, DRAM = (
    "issue slots", "FP32", "FP64", "FP16", "ALU", "special function", "tensor cores",
    "shared memory and L1", "L2 port", "DRAM",
)  # fmt: skip
"""Pipes. Shared memory and L1 have the data path DATA in common; PORT carries sectors between an SM and the L2."""


@dataclass(frozen=True)
class Rates:
    """Rates of an SM, per clock.

    issue: warp instructions. f32, f64, f16, alu, special: threads' instructions (f16: a pair counts
    once). tensor: FLOP by unit and type (``wgmma f16``; ``mma 8x8x4 f64`` is the small instruction).
    wavefronts: of shared memory and L1, 128 bytes each. sectors: of 32 bytes between it and the L2.
    """

    f64: float
    tensor: Mapping[str, float]
    f32: float = 128
    f16: float = 128
    alu: float = 64
    special: float = 16
    issue: float = 4
    wavefronts: float = 1
    sectors: float = 2


RATES: Mapping[str, Rates] = {name: Rates(**row) for name, row in table_beside(__file__).items()}
"""Rates by compute capability."""


@dataclass(frozen=True)
class Counts:
    """Work of a launch, summed over all SMs.

    instructions: of warps. f32, f64, f16, alu, special: instructions of threads. tensor: FLOP by unit and
    type (see `Rates`), with the suffix `` f16 sum`` for an f16 product with such a sum. wavefronts: of shared
    memory, with operands of wgmma. accesses: wavefronts of global memory in L1. port: sectors that surely
    cross the ports to L2 (stores, copies that bypass L1).
    """

    instructions: float = 0
    f32: float = 0
    f64: float = 0
    f16: float = 0
    alu: float = 0
    special: float = 0
    tensor: Mapping[str, float] = field(default_factory=dict)
    wavefronts: float = 0
    accesses: float = 0
    port: float = 0


def scaled(shallow: Counts, deep: Counts, depth: float, area: float) -> Counts:
    """Return the counts of a product of whole tiles from two smaller ones: each is linear in k and in the
    tiles. depth: (k - k of shallow) / (k of deep - k of shallow). area: tiles over theirs."""

    def line(low: float, high: float) -> float:
        return area * (low + (high - low) * depth)

    names = [count.name for count in fields(Counts) if count.name != "tensor"]
    plain: dict[str, Any] = {n: line(getattr(shallow, n), getattr(deep, n)) for n in names}
    kinds = dict.fromkeys([*shallow.tensor, *deep.tensor])
    tensor = {kind: line(shallow.tensor.get(kind, 0), deep.tensor.get(kind, 0)) for kind in kinds}
    return Counts(**plain, tensor=tensor)


def busiest_share(blocks: int, sms: int) -> float:
    """Return the least share of a launch on its busiest SM: ceil(blocks / sms) / blocks."""
    return rounds_on_sms(blocks, sms) / blocks


@dataclass(frozen=True)
class Bound:
    """The cycles that each pipe of the busiest SM needs."""

    pipes: Mapping[str, float]
    clock_mhz: float

    @property
    def limiter(self) -> str:
        """The pipe that needs the most cycles."""
        return max(self.pipes, key=self.pipes.__getitem__)

    @property
    def cycles(self) -> float:
        return self.pipes[self.limiter]

    @property
    def microseconds(self) -> float:
        """The least time of the launch, at the GPU's largest clock."""
        return self.cycles / self.clock_mhz


def tensor_rate(kind: str, gpu: DataSheet) -> float:
    """Return the FLOP per clock and SM of a unit and type. Raises KeyError if the architecture lacks it."""
    rates = RATES[gpu.capability].tensor
    plain = kind.removesuffix(" f16 sum")
    name = plain if plain in rates else "mma " + plain.split()[-1]
    f32_sums = not kind.endswith(" f16 sum") and plain.split()[-1] in ("f16", "bf16", "tf32")
    return rates[name] * (gpu.f32_sums if f32_sums else 1.0)


def bound(counts: Counts, gpu: DataSheet, blocks: int, compulsory_bytes: float = 0) -> Bound:
    """Return the least cycles of each pipe for a launch of equal blocks. compulsory_bytes: each array once
    from DRAM, less what fits into L2. Raises KeyError for an unknown GPU or tensor instruction."""
    rates, share = RATES[gpu.capability], busiest_share(blocks, gpu.sms)
    needed = {
        ISSUE: counts.instructions / rates.issue,
        FP32: counts.f32 / rates.f32,
        FP64: counts.f64 / rates.f64,
        FP16: counts.f16 / rates.f16,
        ALU: counts.alu / rates.alu,
        SPECIAL: counts.special / rates.special,
        TENSOR: math.fsum(flop / tensor_rate(kind, gpu) for kind, flop in counts.tensor.items()),
        DATA: (counts.wavefronts + counts.accesses) / rates.wavefronts,
        PORT: counts.port / rates.sectors,
    }
    pipes = {name: share * cycles for name, cycles in needed.items()}
    from_dram = max(0.0, compulsory_bytes - gpu.l2_bytes)
    pipes[DRAM] = from_dram / gpu.machine.bandwidth * gpu.clock_mhz * 1e6
    return Bound(pipes, gpu.clock_mhz)


def in_turn(launches: Iterable[Bound]) -> Bound:
    """Return the bound of launches that follow one another on a GPU: the sum of each pipe's cycles."""
    bounds = list(launches)
    pipes = {name: math.fsum(each.pipes[name] for each in bounds) for name in bounds[0].pipes}
    return Bound(pipes, bounds[0].clock_mhz)
