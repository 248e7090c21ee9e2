"""Tensor maps (TMA descriptors) of a job's arrays, encoded once for each buffer.
They are passed by value, or by the address of a copy in the GPU's memory."""

import ctypes
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from tilewave.gpu.buffers import DeviceMemory
from tilewave.gpu.device import CudaError, ok
from tilewave.kernel.launches import MapPlan
from tilewave.theory.dtypes import DTYPES
from tilewave.theory.tensor_map_limits import L2_PROMOTIONS, SWIZZLES

ALIGNMENT = 64
"""Alignment in bytes that cuTensorMapEncodeTiled requires for its result."""
VERSION = 12000
"""CUDA version that introduced tensor maps, in the format of cuGetProcAddress."""

_u64s, _u32s = ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32)
# Result; map, type, rank, address, sizes, pitches, box, steps, interleave, swizzle, L2, fill.
ENCODE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    *(ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p),
    *(_u64s, _u64s, _u32s, _u32s),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int),
)


class Map(ctypes.Structure):
    _fields_ = (("opaque", ctypes.c_uint64 * 16),)


@functools.cache
def _encoder() -> Callable[..., int]:
    """Return the driver's cuTensorMapEncodeTiled. Raises CudaError for a driver before CUDA 12.
    That of cuda.bindings keeps its result in a Python object, whose address is no multiple of 64."""
    from cuda.bindings import driver

    flags = driver.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
    address, _ = ok(driver.cuGetProcAddress(b"cuTensorMapEncodeTiled", VERSION, int(flags)))
    if not address:
        raise CudaError("CUDA_ERROR_NOT_SUPPORTED", "tensor maps need a driver of CUDA 12 or later")
    return ENCODE(int(address))


@functools.lru_cache(maxsize=16)  # a case encodes each map for up to 32 sets of buffers
def _encode_arguments(wanted: MapPlan) -> tuple[Any, ...]:
    """Return the arguments of cuTensorMapEncodeTiled in its order, without the addresses."""
    from cuda.bindings import driver

    def number(kind: str, word: str) -> int:
        return int(getattr(getattr(driver, kind), f"CU_TENSOR_MAP_{word}"))

    rank = len(wanted.sizes)
    return (
        number("CUtensorMapDataType", f"DATA_TYPE_{DTYPES[wanted.dtype].tensor_map}"),
        rank,
        (ctypes.c_uint64 * rank)(*wanted.sizes),
        (ctypes.c_uint64 * rank)(*wanted.pitches),  # one less than rank, but no empty array
        (ctypes.c_uint32 * rank)(*wanted.box),
        (ctypes.c_uint32 * rank)(*wanted.steps),
        number("CUtensorMapInterleave", "INTERLEAVE_NONE"),
        number("CUtensorMapSwizzle", f"SWIZZLE_{SWIZZLES[wanted.swizzle]}"),
        number("CUtensorMapL2promotion", f"L2_PROMOTION_{L2_PROMOTIONS[wanted.l2]}"),
        number("CUtensorMapFloatOOBfill", "FLOAT_OOB_FILL_NONE"),
    )


def encode(wanted: MapPlan, address: int) -> Map:
    """Return the map of the array at a device address; reads out of bounds give zero. Raises CudaError."""
    memory = (ctypes.c_uint8 * (ctypes.sizeof(Map) + ALIGNMENT))()  # the map keeps it alive
    tensor_map = Map.from_buffer(memory, -ctypes.addressof(memory) % ALIGNMENT)
    kind, rank, *how = _encode_arguments(wanted)
    code = _encoder()(ctypes.addressof(tensor_map), kind, rank, address, *how)
    if code:
        from cuda.bindings import driver

        name = driver.CUresult(code).name
        raise CudaError(name, f"the driver refuses the tensor map {wanted.document()}")
    return tensor_map


class Maps:
    """A job's tensor maps, each encoded once for a buffer, however many launches use it.
    resident: names of the maps that the kernel takes by address; memory: holds their copies."""

    def __init__(
        self,
        wanted: Sequence[MapPlan],
        memory: DeviceMemory | None = None,
        resident: Collection[object] = (),
    ) -> None:
        self._wanted, self._memory, self._resident = wanted, memory, resident
        self._encoded, self._copied = functools.cache(encode), functools.cache(self._copy)

    def of(self, pointers: Mapping[str, int]) -> dict[str, Map]:
        """Return name -> map for these buffers. Raises CudaError."""
        return {plan.name: self._encoded(plan, pointers[plan.of]) for plan in self._wanted}

    def addresses(self, pointers: Mapping[str, int]) -> dict[str, int]:
        """Return name -> address of the copy, for resident maps. Raises CudaError."""
        resident = [plan for plan in self._wanted if plan.name in self._resident]
        return {plan.name: self._copied(plan, pointers[plan.of]) for plan in resident}

    def _copy(self, plan: MapPlan, address: int) -> int:
        assert self._memory is not None
        # An allocation is aligned to 256 bytes, and a map needs 64.
        copy = self._memory.new(plan.name, ctypes.sizeof(Map), guarded=False)
        copy.upload(np.frombuffer(bytes(self._encoded(plan, address)), np.uint8))
        return copy.pointer
