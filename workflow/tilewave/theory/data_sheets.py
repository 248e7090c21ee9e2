"""Vendors' data sheets of GPUs, for comparisons with GPUs that are not here.

Sources: NVIDIA A100, L4, H100, H200 and HGX B200 data sheets (dense rates of the SXM modules, memory
bandwidth); NVIDIA A100, H100, Ada GPU and Blackwell architecture white papers and the GeForce RTX 4060 and
4090 specifications (SMs, boost clock, L2); CUDA C++ Programming Guide, tensor-core data types by compute
capability. The driver gave the largest clock of H100, H200 and B200, and the L2 of H200 and B200.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tilewave.theory.architectures import ARCHITECTURES
from tilewave.theory.traffic import Machine

MIB = 2**20


@dataclass(frozen=True)
class DataSheet:
    """A GPU's data sheet; ``machine`` has the dense FP16 tensor rate and the memory's bandwidth.

    clock_mhz: the largest clock of the SMs. f32_sums: the tensor rate of f16, bf16 and tf32 with f32 sums,
    over the architecture's. GeForce cards halve it (white paper of Ada, appendix A).
    """

    name: str
    sms: int
    machine: Machine
    capability: str
    clock_mhz: float
    l2_bytes: int
    f32_sums: float = 1.0


def rate(sms: int, flop_per_clock: float, clock_mhz: float) -> float:
    return sms * flop_per_clock * clock_mhz * 1e6


A100 = DataSheet("A100-SXM4-40GB", 108, Machine(312e12, 1555e9), "8.0", 1410, 40 * MIB)
A100_80 = DataSheet("A100-SXM4-80GB", 108, Machine(312e12, 2039e9), "8.0", 1410, 40 * MIB)
L4 = DataSheet("L4", 58, Machine(121e12, 300e9), "8.9", 2040, 48 * MIB)
# 512 FP16 multiply-adds per SM and clock with an FP16 sum (compute capability 8.9).
RTX_4060 = DataSheet(
    "RTX 4060", 24, Machine(rate(24, 2 * 512, 2460), 272e9), "8.9", 2460, 24 * MIB, f32_sums=0.5
)
RTX_4090 = DataSheet(
    "RTX 4090", 128, Machine(rate(128, 2 * 512, 2520), 1008e9), "8.9", 2520, 72 * MIB, f32_sums=0.5
)
H100 = DataSheet("H100 80GB HBM3", 132, Machine(989.4e12, 3350e9), "9.0", 1980, 50 * MIB)
H200 = DataSheet("H200", 132, Machine(989.4e12, 4800e9), "9.0", 1980, 60 * MIB)
B200 = DataSheet("B200", 148, Machine(2250e12, 8000e9), "10.0", 1965, 126 * MIB)

DATA_SHEETS = (A100, A100_80, L4, RTX_4060, RTX_4090, H100, H200, B200)
SHORT: Mapping[str, DataSheet] = {
    "a100": A100,
    "a100-80gb": A100_80,
    "l4": L4,
    "rtx4060": RTX_4060,
    "rtx4090": RTX_4090,
    "h100": H100,
    "h200": H200,
    "b200": B200,
}
"""Names for a command line."""

TENSOR_INPUTS: Mapping[str, frozenset[str]] = {
    row.capability: row.tensor_inputs for row in ARCHITECTURES.values() if row.tensor_inputs
}
"""Types of at least 8 bits that tensor cores multiply, by compute capability."""


def data_sheet(gpu: str) -> DataSheet | None:
    """Return the data sheet of a GPU by its driver's name ("NVIDIA H200"), if known."""
    name = gpu.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return next((sheet for sheet in DATA_SHEETS if sheet.name == name), None)
