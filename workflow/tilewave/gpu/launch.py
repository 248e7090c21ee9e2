"""Launches of kernels: load a cubin, pack arguments, enqueue.
The launch is the driver's: cuda.core's takes no struct, FP8 number or tensor map by value."""

import ctypes
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewave.basics import elf
from tilewave.gpu.buffers import DeviceMemory
from tilewave.gpu.device import CudaError, Gpu, cuda_errors, ok
from tilewave.gpu.tensor_maps import Maps
from tilewave.kernel import arguments
from tilewave.kernel.job import Job

PLAIN_SHARED_BYTES = 48 << 10
"""Static + dynamic shared memory of a launch without an attribute (CUDA programming guide)."""


class Arguments:
    """Kernel arguments as C values; they must live until the launch call has returned."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = list(values)
        addresses = [ctypes.addressof(value) for value in self._values]
        self._array = (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
        self.address = ctypes.addressof(self._array)
        """Address of the void** for cuLaunchKernelEx."""


def pointer(address: int) -> Any:
    return ctypes.c_uint64(address)


Values = Sequence[arguments.Value | arguments.StructLayout]


def values(
    job: Job,
    buffers: Collection[str],
    maps: Collection[str],
    alpha: float,
    beta: float,
    sizes: Sequence[int] | None = None,
) -> Values:
    """Return a job's arguments from `arguments.values`. Raises CudaError for arguments that do not fit."""
    try:
        return arguments.values(job, buffers, maps, alpha, beta, sizes)
    except ValueError as error:
        raise CudaError("CUDA_ERROR_INVALID_VALUE", str(error)) from error


def pack(signature: Values, pointers: Mapping[str, int], maps: Mapping[str, Any]) -> Arguments:
    """Pack arguments in the kernel's order: pointers of buffers and resident tensor maps, tensor maps, numbers."""

    def value(name: str, number: Any) -> Any:
        if number is None:
            return pointer(pointers[name]) if name in pointers else maps[name]
        data = number.tobytes()
        return (ctypes.c_char * len(data)).from_buffer_copy(data)

    def struct(parameter: arguments.StructLayout) -> Any:
        data = bytearray(parameter.size)
        for offset, member in parameter.members:
            inside = bytes(value(*member))
            data[offset : offset + len(inside)] = inside
        return (ctypes.c_char * parameter.size).from_buffer_copy(data)

    layout = arguments.StructLayout
    packed = [struct(entry) if isinstance(entry, layout) else value(*entry) for entry in signature]
    return Arguments(packed)


class Module:
    """A cubin, loaded with its first function, which raises CudaError for code of another GPU."""

    def __init__(self, image: bytes) -> None:
        from cuda.core import ObjectCode

        self.image = image
        with cuda_errors():
            self._code = ObjectCode.from_cubin(image)

    def function(self, entry: str) -> Any:
        """Return the cuda.core Kernel of a symbol in the cubin; the code stays loaded while one is in use."""
        with cuda_errors():
            return self._code.get_kernel(entry)

    def close(self) -> None:
        self._code = None


def _allow(kernel: Any, attribute: str, value: int) -> None:
    """Set an attribute of a kernel by the driver: in cuda.core 1.2.0 attributes are read-only."""
    from cuda.bindings import driver

    name = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{attribute}")
    device = ok(driver.cuCtxGetDevice())
    ok(driver.cuKernelSetAttribute(name, value, driver.CUkernel(int(kernel.handle)), device))


def allow_shared(kernel: Any, dynamic_bytes: int) -> None:
    """Raise the dynamic shared-memory limit of a kernel that needs more than 48 KiB in total."""
    with cuda_errors():
        static = int(kernel.attributes.shared_size_bytes)
    if dynamic_bytes and static + dynamic_bytes > PLAIN_SHARED_BYTES:
        try:
            _allow(kernel, "MAX_DYNAMIC_SHARED_SIZE_BYTES", dynamic_bytes)
        except CudaError as error:
            detail = f"{dynamic_bytes} bytes of dynamic and {static} of static shared memory"
            raise CudaError(error.name, detail) from error


def configuration(
    gpu: Gpu,
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int = 0,
    cluster: Sequence[int] | None = None,
    programmatic: bool = False,
    cooperative: bool = False,
) -> Any:
    """Return a CUlaunchConfig on the GPU's stream. The grid counts blocks, also with a cluster."""
    from cuda.bindings import driver

    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = (int(size) for size in grid)
    config.blockDimX, config.blockDimY, config.blockDimZ = (int(size) for size in block)
    config.sharedMemBytes = int(shared_bytes)
    config.hStream = gpu.handle
    attributes = []

    def added(name: str) -> Any:
        attributes.append(driver.CUlaunchAttribute())
        attributes[-1].id = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        return attributes[-1].value

    if cluster:
        dimensions = added("CLUSTER_DIMENSION").clusterDim
        dimensions.x, dimensions.y, dimensions.z = (int(size) for size in cluster)
    if programmatic:
        added("PROGRAMMATIC_STREAM_SERIALIZATION").programmaticStreamSerializationAllowed = 1
    if cooperative:
        added("COOPERATIVE").cooperative = 1
    if attributes:
        config.attrs = attributes
    config.numAttrs = len(attributes)
    return config


def handle(kernel: Any) -> Any:
    """Return the CUfunction of a cuda.core Kernel, whose module must stay loaded."""
    from cuda.bindings import driver

    return driver.CUfunction(int(kernel.handle))


def enqueue(config: Any, function: Any, arguments: Arguments) -> None:
    """Launch a CUfunction once. Raises CudaError for an invalid configuration, which the context survives."""
    from cuda.bindings import driver

    ok(driver.cuLaunchKernelEx(config, function, arguments.address, 0))


class _Launch:
    """A launch of a job (of `Job.steps`), which can be enqueued any number of times."""

    def __init__(self, gpu: Gpu, job: Job, module: Module) -> None:
        self._job, launch = job, job.launch
        self.function = module.function(job.entry)
        self._sizes = elf.parameter_sizes(module.image, job.entry)
        sizes = zip(job.arguments, self._sizes)
        self.by_address = {name for name, size in sizes if size == arguments.ADDRESS}
        if launch.cluster and math.prod(launch.cluster) > 8:  # the portable limit
            _allow(self.function, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", 1)
        self._handle = handle(self.function)
        self._values: dict[tuple[object, ...], Values] = {}
        self._config = configuration(
            gpu, launch.grid, launch.block, launch.shared_bytes, launch.cluster,
            launch.programmatic, launch.cooperative,
        )  # fmt: skip

    def prepare(
        self,
        pointers: Mapping[str, int],
        copies: Mapping[str, int],
        maps: Mapping[str, Any],
        alpha: float,
        beta: float,
    ) -> Callable[[], None]:
        """Return a function that enqueues the launch; copies: addresses of the resident tensor maps."""
        by_address = {name: address for name, address in copies.items() if name in self.by_address}
        pointers = {**pointers, **by_address}
        # A case has up to 32 sets of buffers, which differ only in addresses.
        key = (alpha, beta, tuple(pointers), tuple(maps))
        if key not in self._values:
            self._values[key] = values(self._job, pointers, maps, alpha, beta, self._sizes)
        packed = pack(self._values[key], pointers, maps)
        return lambda: enqueue(self._config, self._handle, packed)


class NvrtcKernel:
    """The kernel or series of kernels of a job. module: its loaded cubin, which stays loaded."""

    def __init__(self, gpu: Gpu, job: Job, module: Module | None = None) -> None:
        self._owns_module = module is None
        self._module = module or Module(Path(job.cubin).read_bytes())
        self._job = job
        self._memory = DeviceMemory(gpu)
        self._launches = [_Launch(gpu, step, self._module) for step in job.steps]
        by_address = {name for launch in self._launches for name in launch.by_address}
        self._maps = Maps(job.launch.tensor_maps, self._memory, by_address)
        most: dict[str, int] = {}  # all launches of a function share one limit
        for step in job.steps:
            most[step.entry] = max(most.get(step.entry, 0), step.launch.shared_bytes)
        for entry, shared_bytes in most.items():
            allow_shared(self._module.function(entry), shared_bytes)

    def blocks_per_sm(self) -> int:
        """Return the driver's number of resident blocks on an SM for the leading launch."""
        launch, kernel = self._job.launch, self._launches[self._job.leading].function
        ask = kernel.occupancy.max_active_blocks_per_multiprocessor
        with cuda_errors():
            return int(ask(math.prod(launch.block), launch.shared_bytes))

    def prepare(
        self, pointers: Mapping[str, int], alpha: float = 1.0, beta: float = 0.0
    ) -> Callable[[], None]:
        """Return a function that enqueues the launches once, in their order, with these buffers."""
        maps, copies = self._maps.of(pointers), self._maps.addresses(pointers)
        shared = (pointers, copies, maps, alpha, beta)
        prepared = [launch.prepare(*shared) for launch in self._launches]

        def enqueue_all() -> None:
            for enqueue_next in prepared:
                enqueue_next()

        return enqueue_all

    def close(self) -> None:
        self._memory.close()
        if self._owns_module:
            self._module.close()
