"""What vendors print of GPUs, for comparisons with machines that are not here.

Sources: NVIDIA A100 and H200 data sheets (dense rates of the SXM modules); NVIDIA Ada GPU
architecture white paper and the GeForce RTX 4060 specifications (SMs, boost clock, bandwidth); CUDA
C++ Programming Guide, tensor-core data types by compute capability.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilewave.architectures import ARCHITECTURES
from tilewave.theory.traffic import Machine


@dataclass(frozen=True)
class DataSheet:
    """A GPU as printed; ``machine`` has the dense FP16 tensor rate and the memory's bandwidth."""

    name: str
    sms: int
    machine: Machine


def rate(sms: int, flop_per_clock: float, clock_mhz: float) -> float:
    """FLOP/s of ``sms`` SMs that do ``flop_per_clock`` operations each in a clock."""
    return sms * flop_per_clock * clock_mhz * 1e6


A100 = DataSheet("A100-SXM4-40GB", 108, Machine(312e12, 1555e9))
H200 = DataSheet("H200", 132, Machine(989.4e12, 4800e9))
# 512 FP16 multiply-adds an SM and clock where the sum is FP16 too (compute capability 8.9).
RTX_4060 = DataSheet("RTX 4060", 24, Machine(rate(24, 2 * 512, 2460), 272e9))

KNOWN = (A100, H200, RTX_4060)

TENSOR_INPUTS: Mapping[str, frozenset[str]] = {
    one.capability: one.tensor_inputs for one in ARCHITECTURES.values() if one.tensor_inputs
}
"""Types that tensor cores multiply, by compute capability, those under 8 bits left out."""


def data_sheet(gpu: str) -> DataSheet | None:
    """The data sheet of a GPU by the name that its driver tells ("NVIDIA H200"), if it is known."""
    name = gpu.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return next((one for one in KNOWN if one.name == name), None)
