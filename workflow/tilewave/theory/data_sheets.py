"""Vendors' data sheets of GPUs, for comparisons with GPUs that are not here.

Sources: NVIDIA A100, L4, H100, H200 and HGX B200 data sheets (dense rates of the SXM modules, memory
bandwidth); NVIDIA A100, H100, Ada GPU and Blackwell architecture white papers and the GeForce RTX 4060 and
4090 specifications (SMs, boost clock, L2); CUDA C++ Programming Guide, tensor-core data types by compute
capability. The driver gave the largest clock of H100, H200 and B200, and the L2 of H200 and B200.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tilewave.basics.tables import table_beside
from tilewave.theory.architectures import ARCHITECTURES
from tilewave.theory.traffic import Machine


@dataclass(frozen=True)
class DataSheet:
    """A GPU's data sheet; ``machine`` has the dense FP16 tensor rate and the memory's bandwidth.
    clock_mhz: the largest clock of the SMs. f32_sums: the tensor rate of f16, bf16 and tf32 with f32 sums,
    over the architecture's. GeForce cards halve it (white paper of Ada, appendix A)."""

    machine: Machine
    name: str
    sms: int
    capability: str
    clock_mhz: float
    l2_bytes: int
    f32_sums: float = 1.0


SHORT: Mapping[str, DataSheet] = {
    name: DataSheet(Machine(*row.pop("machine")), l2_bytes=row.pop("l2_mib") * 2**20, **row)
    for name, row in table_beside(__file__).items()
}
"""Data sheets by their names on a command line."""
DATA_SHEETS = tuple(SHORT.values())
_KNOWN = (row for row in ARCHITECTURES.values() if row.tensor_inputs)
TENSOR_INPUTS = {row.capability: row.tensor_inputs for row in _KNOWN}
"""Types of at least 8 bits that tensor cores multiply, by compute capability."""


def data_sheet(gpu: str) -> DataSheet | None:
    """Return the data sheet of a GPU by its driver's name ("NVIDIA H200"), if known."""
    name = gpu.removeprefix("NVIDIA ").removeprefix("GeForce ")
    return next((sheet for sheet in DATA_SHEETS if sheet.name == name), None)
