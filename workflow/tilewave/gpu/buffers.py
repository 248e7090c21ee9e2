"""Device buffers between guard bands, always freed.
The bands are poisoned: a kernel that uses values from outside a buffer gives a wrong result."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from tilewave.gpu.device import CudaError, Gpu, ok
from tilewave.kernel.padding import POISON

GUARD_BYTES = 64 << 10
OWN_BYTES = 2 << 30
"""Device memory of a process besides its buffers: context, code, workspaces of libraries."""


@dataclass
class DeviceBuffer:
    """A buffer of `nbytes` at device address `pointer`, with GUARD_BYTES before and after it."""

    name: str
    pointer: int
    nbytes: int
    gpu: Gpu = field(repr=False)

    def poison(self) -> None:
        """Fill with 0xff bytes, on the stream."""
        self._set(self.pointer, self.nbytes)

    def clear(self) -> None:
        """Fill with zeros, on the stream."""
        self._set(self.pointer, self.nbytes, 0)

    def _set(self, address: int, count: int, byte: int = POISON) -> None:
        from cuda.bindings import driver

        if count:
            ok(driver.cuMemsetD8Async(address, byte, count, self.gpu.handle))

    def upload(self, data: np.ndarray) -> None:
        """Copy host data in. Raises ValueError if the sizes differ."""
        from cuda.bindings import driver

        if data.nbytes != self.nbytes:
            raise ValueError(f"{self.name}: {data.nbytes} bytes of data for {self.nbytes} bytes")
        data = np.ascontiguousarray(data)
        if self.nbytes:  # on the stream, which does not wait for the default stream
            address, stream = data.ctypes.data, self.gpu.handle
            ok(driver.cuMemcpyHtoDAsync(self.pointer, address, self.nbytes, stream))
        self.gpu.sync()

    def copy_from(self, source: DeviceBuffer) -> None:
        """Copy a buffer of the same size in, on the stream."""
        from cuda.bindings import driver

        if self.nbytes:
            ok(driver.cuMemcpyDtoDAsync(self.pointer, source.pointer, self.nbytes, self.gpu.handle))

    def download(self, dtype: np.dtype) -> np.ndarray:
        """Return the contents as a one-dimensional host array, once the stream is done."""
        return self._read(self.pointer, self.nbytes).view(dtype)

    def item(self, dtype: np.dtype, index: int) -> np.ndarray:
        size = dtype.itemsize
        return self._read(self.pointer + index * size, size).view(dtype)

    def _read(self, address: int, count: int) -> np.ndarray:
        from cuda.bindings import driver

        host = np.empty(count, np.uint8)
        if count:
            ok(driver.cuMemcpyDtoHAsync(host.ctypes.data, address, count, self.gpu.handle))
        self.gpu.sync()
        return host

    def set_guards(self) -> None:
        self._set(self.pointer - GUARD_BYTES, GUARD_BYTES)
        self._set(self.pointer + self.nbytes, GUARD_BYTES)

    def broken_guard(self) -> str:
        """Return a sentence with the position of the first write into a band; empty if both are intact."""
        before = np.flatnonzero(self._read(self.pointer - GUARD_BYTES, GUARD_BYTES) != POISON)
        if before.size:
            distance = GUARD_BYTES - int(before[-1])
            return f"wrote {distance} bytes before buffer {self.name}"
        behind = np.flatnonzero(self._read(self.pointer + self.nbytes, GUARD_BYTES) != POISON)
        if behind.size:
            return f"wrote {int(behind[0])} bytes behind the end of buffer {self.name}"
        return ""


class DeviceMemory(contextlib.AbstractContextManager["DeviceMemory"]):
    """Buffers with one lifetime, a context manager."""

    held: ClassVar[int] = 0  # bytes of all instances in this process

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu
        self._sizes: dict[int, int] = {}

    def __exit__(self, *_: object) -> None:
        self.close()

    def new(self, name: str, nbytes: int, guarded: bool = True) -> DeviceBuffer:
        """Allocate a buffer. Raises CudaError (CUDA_ERROR_OUT_OF_MEMORY with the size)."""
        from cuda.bindings import driver

        guard = GUARD_BYTES if guarded else 0
        size = max(nbytes + 2 * guard, 256)
        try:
            address = int(ok(driver.cuMemAlloc(size)))
        except CudaError as error:
            if error.name != "CUDA_ERROR_OUT_OF_MEMORY":
                raise
            free = self.gpu.free_bytes()
            detail = f"buffer {name} needs {nbytes / 2**20:.0f} MiB, {free / 2**20:.0f} are free"
            elsewhere = self.gpu.memory_bytes - free - DeviceMemory.held
            if elsewhere < OWN_BYTES:
                raise CudaError(error.name, detail) from error
            detail += f", other processes hold about {elsewhere / 2**20:.0f}"
            raise CudaError(error.name, detail, transient=True) from error
        self._sizes[address] = size
        DeviceMemory.held += size
        buffer = DeviceBuffer(name, address + guard, nbytes, self.gpu)
        if guarded:
            buffer.set_guards()
        return buffer

    def close(self) -> None:
        """Free all buffers. It ignores errors, because a poisoned context frees with its process."""
        from cuda.bindings import driver

        driver.cuStreamSynchronize(self.gpu.handle)
        while self._sizes:
            address, size = self._sizes.popitem()
            driver.cuMemFree(address)
            DeviceMemory.held -= size


Sets = list[dict[str, DeviceBuffer]]


class KeptBuffers:
    """The buffers of the last case, for a next case with buffers of the same sizes, which must rewrite them.
    Allocating and freeing the many sets of a small product takes longer than filling them."""

    def __init__(self, gpu: Gpu) -> None:
        self._memory = DeviceMemory(gpu)
        self._sizes: dict[str, int] = {}
        self._sets: Sets = []

    def sets(self, sizes: dict[str, int], allocate: Callable[[DeviceMemory], Sets]) -> Sets:
        """Return sets of buffers of these sizes, new ones if the sizes differ."""
        if sizes != self._sizes:
            self.close()
            try:
                self._sets = allocate(self._memory)
            except BaseException:
                self.close()
                raise
            self._sizes = dict(sizes)
        return self._sets

    def of_sizes(self, sizes: dict[str, int]) -> dict[str, DeviceBuffer]:
        """Return one set of buffers of these sizes."""
        names = sizes.items()
        return self.sets(sizes, lambda memory: [{n: memory.new(n, size) for n, size in names}])[0]

    def close(self) -> None:
        self._sizes, self._sets = {}, []
        self._memory.close()
