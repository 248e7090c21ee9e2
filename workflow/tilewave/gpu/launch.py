"""Load a cubin, pack arguments, launch; functions of the CPU provider; what a worker keeps open."""

from __future__ import annotations

import ctypes
import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewave import arguments, operations
from tilewave.gpu.buffers import Kept, Memory
from tilewave.gpu.device import CudaError, Gpu, ok
from tilewave.gpu.tensor_maps import Maps
from tilewave.jobs import Job
from tilewave.machine import cubin

if TYPE_CHECKING:
    from tilewave.gpu.clocks import Clocks
    from tilewave.gpu.cublaslt import CublasLt, Unavailable
    from tilewave.gpu.reference import Support

PLAIN_SHARED_BYTES = 48 << 10
"""Static + dynamic shared memory that a launch gets without asking (CUDA programming guide)."""


class Arguments:
    """Kernel arguments as C values; keep it alive until the launch call has returned."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = list(values)
        addresses = [ctypes.addressof(value) for value in self._values]
        self._array = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)

    @property
    def address(self) -> int:
        """The void** that cuLaunchKernelEx reads."""
        return ctypes.addressof(self._array)


def pointer(address: int) -> Any:
    return ctypes.c_uint64(address)


def pack(
    job: Job,
    pointers: Mapping[str, int],
    alpha: float,
    beta: float,
    maps: Mapping[str, Any] | None = None,
    sizes: Sequence[int] | None = None,
) -> Arguments:
    """A job's arguments in its own order: buffers by their pointers (and tensor maps that have one),
    other tensor maps, numbers.

    sizes: bytes of each parameter of the kernel, where they are known. Raises CudaError for what is
    not the kernel's (see `arguments.values`).
    """
    maps = maps or {}
    try:
        given = arguments.values(job, pointers, maps, alpha, beta, sizes)
    except ValueError as error:
        raise CudaError("CUDA_ERROR_INVALID_VALUE", str(error)) from error

    def one(name: str, number: Any) -> Any:
        if number is None:
            return pointer(pointers[name]) if name in pointers else maps[name]
        data = number.tobytes()
        return (ctypes.c_char * len(data)).from_buffer_copy(data)

    def struct(whole: arguments.Struct) -> Any:
        data = bytearray(whole.size)
        for at, member in whole.members:
            inside = bytes(one(*member))
            data[at : at + len(inside)] = inside
        return (ctypes.c_char * whole.size).from_buffer_copy(data)

    return Arguments([struct(x) if isinstance(x, arguments.Struct) else one(*x) for x in given])


class Module:
    """A loaded cubin. Raises CudaError where it is no code for this GPU."""

    def __init__(self, image: bytes) -> None:
        from cuda.bindings import driver

        self.image = image
        self._module = ok(driver.cuModuleLoadData(image))

    def function(self, entry: str) -> Any:
        """The CUfunction of an `extern "C"` kernel."""
        from cuda.bindings import driver

        return ok(driver.cuModuleGetFunction(self._module, entry.encode()))

    def close(self) -> None:
        from cuda.bindings import driver

        if self._module is not None:
            driver.cuModuleUnload(self._module)
            self._module = None


def allow_shared(function: Any, dynamic_bytes: int) -> None:
    """Raise the dynamic shared-memory limit of a kernel that needs more than 48 KiB in all.

    The carveout between L1 and shared memory stays the driver's choice.
    """
    from cuda.bindings import driver

    attribute = driver.CUfunction_attribute
    static = ok(driver.cuFuncGetAttribute(attribute.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function))
    if dynamic_bytes and static + dynamic_bytes > PLAIN_SHARED_BYTES:
        limit = attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        try:
            ok(driver.cuFuncSetAttribute(function, limit, dynamic_bytes))
        except CudaError as error:
            raise CudaError(
                error.name, f"{dynamic_bytes} bytes of dynamic and {static} of static shared memory"
            ) from error


def configuration(
    gpu: Gpu,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int = 0,
    cluster: Sequence[int] | None = None,
) -> Any:
    """A CUlaunchConfig on the GPU's stream. The grid counts blocks, with a cluster too."""
    from cuda.bindings import driver

    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = (int(size) for size in grid)
    config.blockDimX, config.blockDimY, config.blockDimZ = (int(size) for size in block)
    config.sharedMemBytes = int(shared_bytes)
    config.hStream = gpu.handle
    config.numAttrs = 0
    if cluster:
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dimensions = attribute.value.clusterDim
        dimensions.x, dimensions.y, dimensions.z = (int(size) for size in cluster)
        config.attrs = [attribute]
        config.numAttrs = 1
    return config


def enqueue(config: Any, function: Any, arguments: Arguments) -> None:
    """Launch once. Raises CudaError for an invalid configuration (the context survives that)."""
    from cuda.bindings import driver

    ok(driver.cuLaunchKernelEx(config, function, arguments.address, 0))


class _Launch:
    """One launch of a job (of `Job.steps`), ready to be made any number of times."""

    def __init__(self, gpu: Gpu, job: Job, module: Module) -> None:
        self._job, launch = job, job.launch
        self.function = module.function(job.entry)
        self._sizes = cubin.read(module.image, job.entry).parameter_sizes
        self.by_address = {
            name for name, size in zip(job.arguments, self._sizes) if size == arguments.ADDRESS
        }
        if launch.cluster and math.prod(launch.cluster) > 8:  # what is portable
            from cuda.bindings import driver

            key = driver.CUfunction_attribute
            name = key.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            ok(driver.cuFuncSetAttribute(self.function, name, 1))
        self._config = configuration(
            gpu, launch.grid, launch.block, launch.shared_bytes, launch.cluster
        )

    def prepare(
        self,
        pointers: Mapping[str, int],
        copies: Mapping[str, int],
        maps: Mapping[str, Any],
        alpha: float,
        beta: float,
    ) -> Callable[[], None]:
        """copies: addresses of tensor maps, of which a launch takes some by address."""
        mine = {name: address for name, address in copies.items() if name in self.by_address}
        packed = pack(self._job, {**pointers, **mine}, alpha, beta, maps, self._sizes)
        return lambda: enqueue(self._config, self.function, packed)


class NvrtcKernel:
    """The kernel of a job, or all that it launches in a row, ready to be launched any number of times.

    module: its loaded cubin, which then stays loaded (see `Session.module`).
    """

    def __init__(self, gpu: Gpu, job: Job, module: Module | None = None) -> None:
        self._own = module is None
        self._module = module or Module(Path(job.cubin).read_bytes())
        self._job = job
        self._memory = Memory(gpu)
        self._launches = [_Launch(gpu, one, self._module) for one in job.steps]
        by_address = {name for one in self._launches for name in one.by_address}
        self._maps = Maps(job.launch.tensor_maps, self._memory, by_address)
        most: dict[str, int] = {}  # a function may be launched several times, and has one limit
        for one in job.steps:
            most[one.entry] = max(most.get(one.entry, 0), one.launch.shared_bytes)
        for entry, shared_bytes in most.items():
            allow_shared(self._module.function(entry), shared_bytes)

    def blocks_per_sm(self) -> int:
        """Blocks that the driver says an SM holds at a time, of the launch that leads."""
        from cuda.bindings import driver

        launch, function = self._job.launch, self._launches[self._job.leading].function
        ask = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor
        return int(ok(ask(function, math.prod(launch.block), launch.shared_bytes)))

    def prepare(
        self, pointers: Mapping[str, int], alpha: float = 1.0, beta: float = 0.0
    ) -> Callable[[], None]:
        """A function that enqueues the launches once, one behind the other, with these buffers."""
        maps, copies = self._maps.of(pointers), self._maps.addresses(pointers)
        made = [one.prepare(pointers, copies, maps, alpha, beta) for one in self._launches]

        def launch() -> None:
            for enqueued in made:
                enqueued()

        return launch

    def close(self) -> None:
        self._memory.close()
        if self._own:
            self._module.close()


class Session:
    """What a worker keeps from job to job on one GPU: helper kernels, cuBLASLt, the cache folder."""

    def __init__(self, gpu: Gpu, cache: Path | None = None) -> None:
        self.gpu = gpu
        self.cache = cache
        self.empty_us: float | None = None  # blocks.empty_us keeps its measurement here
        self._loaded: tuple[tuple[Any, ...], Module] | None = None

    def module(self, job: Job) -> Module:
        """The cubin of a job, loaded; the last job's where it is the same one.

        For profiling, where to load one is work for ncu, too. A function keeps what `NvrtcKernel`
        allows it, so launches of other shared memory or another cluster get a module of their own.
        """
        allowed = [(one.entry, one.launch.shared_bytes, one.launch.cluster) for one in job.steps]
        key = (job.cubin, *allowed)
        if self._loaded is None or self._loaded[0] != key:
            self._unload()
            self._loaded = (key, Module(Path(job.cubin).read_bytes()))
        return self._loaded[1]

    def _unload(self) -> None:
        if self._loaded is not None:
            self._loaded[1].close()
            self._loaded = None

    @cached_property
    def kept(self) -> Kept:
        return Kept(self.gpu)

    @cached_property
    def clocks(self) -> Clocks:
        from tilewave.gpu.clocks import Clocks

        return Clocks(self.gpu.uuid)

    @cached_property
    def support(self) -> Support:
        from tilewave.gpu.reference import Support

        return Support(self.gpu, self.cache)

    @cached_property
    def _cublaslt(self) -> CublasLt | Unavailable:
        from tilewave.gpu.cublaslt import CublasLt, Unavailable

        try:
            return CublasLt(self.gpu)
        except Unavailable as error:
            return error  # remembered: asking again would search the disk for every case

    @property
    def cublaslt(self) -> CublasLt:
        """The library. Raises cublaslt.Unavailable, every time."""
        if isinstance(self._cublaslt, Exception):
            raise self._cublaslt
        return self._cublaslt

    def close(self) -> None:
        self._unload()
        for name in ("kept", "support", "_cublaslt", "clocks"):
            kept = self.__dict__.pop(name, None)
            if kept is not None and not isinstance(kept, Exception):
                kept.close()


CpuFunction = Callable[..., object]
"""Takes the operands with their dimensions, then alpha and beta."""


def cpu_function(job: Job) -> CpuFunction:
    """The Python function `entry` of a CPU kernel file, imported from `source`."""
    path = Path(job.source)
    spec = importlib.util.spec_from_file_location(f"tilewave_kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: CpuFunction = getattr(module, job.entry)
    return function


def cpu_arrays(job: Job, given: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """The operands with their dimensions, in the job's layouts and with the GPU's numbers.

    given: the operation's `inputs`, where the caller has them; the arrays are views of these.
    """
    operation = operations.load(job.operation, job.source)
    given = operation.inputs(job) if given is None else given
    made = {}
    for name in operation.arrays(job):
        dtype, count = operation.stored(job, name)
        flat = given[name] if name in given else np.empty(count, dtype)
        made[name] = flat.reshape(operation.extents(job, name), order=operation.order(job, name))
    return made
