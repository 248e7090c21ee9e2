"""The chosen GPU, its lock, and CUDA errors."""

import contextlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewave.basics.errors import UserError
from tilewave.gpu.facts import uuid_text

POLL_S = 0.5
CHOICE_VARIABLE = "TILEWAVE_GPU"
"""CUDA's number of the GPU; default 0."""

_POISON_WORDS = """ILLEGAL_ADDRESS MISALIGNED_ADDRESS INVALID_ADDRESS_SPACE INVALID_PC
    ILLEGAL_INSTRUCTION HARDWARE_STACK_ERROR LAUNCH_FAILED LAUNCH_TIMEOUT ASSERT ECC_UNCORRECTABLE
    EXTERNAL_DEVICE TENSOR_MEMORY_LEAK CONTAINED CONTEXT_IS_DESTROYED UNKNOWN"""
_ECC = "CUDA_ERROR_ECC_UNCORRECTABLE"
_POISONS = frozenset("CUDA_ERROR_" + word for word in _POISON_WORDS.split())


class CudaError(RuntimeError):
    """A failed CUDA call. `name` is e.g. CUDA_ERROR_ILLEGAL_ADDRESS.
    transient: other processes or the hardware caused it, so the next run may succeed."""

    def __init__(self, name: str, detail: str = "", transient: bool = False) -> None:
        super().__init__(f"{name} ({detail})" if detail else name)
        self.name, self.transient = name, transient or name == _ECC

    @property
    def poisoned(self) -> bool:
        """True if the context is lost (CUDA driver API, "sticky" errors): only a new process helps."""
        return self.name in _POISONS

    @property
    def status(self) -> str:
        """Status of the case that met the error."""
        if self.name in ("CUDA_ERROR_OUT_OF_MEMORY", "REFERENCE_ERROR", _ECC):
            return "not measured"
        if self.name == "CUDA_ERROR_LAUNCH_TIMEOUT":
            return "timed out"
        if self.name == "CUBLAS_STATUS_NOT_SUPPORTED":
            return "unsupported"
        if self.name == "CUDA_ERROR_ASSERT":
            return "assertion failed"
        return "invalid access" if self.poisoned else "failed to launch"


def ok(answer: tuple[Any, ...]) -> Any:
    """Return what a cuda.bindings call gave after its error code: None, a value or a tuple. Raises CudaError."""
    error, values = answer[0], answer[1:]
    if int(error) != 0:
        from cuda.bindings import driver, nvrtc

        detail = ""
        if isinstance(error, driver.CUresult):
            code, text = driver.cuGetErrorString(error)
            if int(code) == 0 and text:
                detail = text.decode()
        elif isinstance(error, nvrtc.nvrtcResult):
            detail = "NVRTC"
        raise CudaError(getattr(error, "name", str(error)), detail)
    return values[0] if len(values) == 1 else (values or None)


@contextlib.contextmanager
def cuda_errors() -> Iterator[None]:
    """Turn exceptions of cuda.core and cuBLASLt that name a CUDA error into CudaError."""
    try:
        yield
    except CudaError:
        raise
    except Exception as error:
        named = re.search(r"(?:CUDA_ERROR|CUBLAS_STATUS)_\w+", str(error))
        kind = type(error).__name__
        if named is None and kind not in ("CUDAError", "cuBLASLtError", "cuBLASError"):
            raise
        # A cuBLAS that cannot name a status leaves it to nvmath: "NOT_SUPPORTED (15)".
        short = re.match(r"[A-Z][A-Z_]+(?= \(\d+\))", str(error))
        unnamed = f"CUBLAS_STATUS_{short.group() if short else 'ERROR'}"
        name = named.group() if named else unnamed
        raise CudaError(name, str(error).strip().split("\n")[0][:200]) from error


@dataclass(frozen=True)
class Gpu:
    """An opened GPU, whose primary context is current in this thread. Sizes in bytes. `device` and `stream`
    are cuda.core objects; `handle` is the stream's CUstream, `stream_address` its integer."""

    name: str
    uuid: str
    arch: str
    sms: int
    l2_bytes: int
    memory_bytes: int
    device: Any
    stream: Any

    @property
    def handle(self) -> Any:
        return self.stream.handle

    @property
    def stream_address(self) -> int:
        return int(self.stream.handle)

    def sync(self) -> None:
        """Wait for the stream. Raises CudaError for an error of any earlier launch."""
        from cuda.bindings import driver

        ok(driver.cuStreamSynchronize(self.handle))

    def free_bytes(self) -> int:
        """Return the bytes of device memory that are free now."""
        from cuda.bindings import driver

        return int(ok(driver.cuMemGetInfo())[0])

    def event(self) -> Any:
        """Create a cuda.core event with timing; `later - earlier` is in milliseconds."""
        from cuda.core import EventOptions

        return self.device.create_event(EventOptions(timing_enabled=True))


def open_gpu() -> Gpu:
    """Open the GPU whose number is in the environment variable TILEWAVE_GPU. Raises ValueError for a number
    that no GPU has, CudaError without a driver, ImportError without cuda-python."""
    from cuda.bindings import driver

    wanted = (os.environ.get(CHOICE_VARIABLE) or "0").strip()
    try:
        ok(driver.cuInit(0))
    except RuntimeError as error:
        if isinstance(error, CudaError):
            raise
        raise CudaError("CUDA_ERROR_NO_DEVICE", str(error)) from error  # no libcuda here
    devices = [ok(driver.cuDeviceGet(i)) for i in range(ok(driver.cuDeviceGetCount()))]
    uuids = [uuid_text(ok(driver.cuDeviceGetUuid(handle)).bytes) for handle in devices]
    ordinal = int(wanted)
    if not 0 <= ordinal < len(uuids):
        raise ValueError(f"{CHOICE_VARIABLE} is {wanted!r}, but the {len(uuids)} GPUs count from 0")

    from cuda.core import Device

    device = Device(ordinal)
    device.set_current()

    def attribute(name: str) -> int:
        key = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(ok(driver.cuDeviceGetAttribute(key, devices[ordinal])))

    major = attribute("COMPUTE_CAPABILITY_MAJOR")
    minor = attribute("COMPUTE_CAPABILITY_MINOR")
    return Gpu(
        name=device.name,
        uuid=uuids[ordinal],
        arch=f"sm_{major}{minor}",
        sms=attribute("MULTIPROCESSOR_COUNT"),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        memory_bytes=int(ok(driver.cuDeviceTotalMem(devices[ordinal]))),
        device=device,
        stream=device.create_stream(),
    )


SHARED = Path("/tmp")
"""Folder of the locks, the same for all users, whatever their TMPDIR."""


def _lock_file(path: Path) -> int:
    """Open the lock at ``path``, and create it if there is none. Return its file descriptor. Raises OSError.
    It is opened for reading only, whoever created it. A link is not followed."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):  # another process was faster
            number = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(number, 0o644)  # other users open it too, whatever the umask is
            return number


def _no_lock(path: Path, reason: str | None) -> UserError:
    problem = f"the lock of the GPU, {path}, cannot be used ({reason})"
    return UserError.because("GPU", problem, "Remove what lies there")


@contextlib.contextmanager
def gpu_lock(
    uuid: str, waiting: Callable[[], None] = lambda: None, shared: bool = False, wait: bool = True
) -> Iterator[Path | None]:
    """Hold the machine-wide lock of a GPU; call `waiting` once if another process has it.

    shared: share it with other holders, because nothing is measured. Without ``wait`` it yields None if another process
    has the lock. The file lies in a folder of all users. The kernel drops the lock when the process ends. A device file
    would not do: a container may lack it, or may not lock it. Raises UserError for a path that is no regular file.
    """
    import fcntl

    path = SHARED / f"tilewave-{uuid}.lock"
    while True:
        try:
            number = _lock_file(path)
        except OSError as error:
            raise _no_lock(path, error.strerror) from error
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, number)
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise _no_lock(path, "it is no regular file")
            how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            try:
                fcntl.flock(number, how | fcntl.LOCK_NB)
            except BlockingIOError:
                if not wait:
                    yield None
                    return
                waiting()
                fcntl.flock(number, how)
            try:
                still_there = os.path.samestat(os.fstat(number), path.lstat())
            except FileNotFoundError:
                still_there = False
            # If the file was removed meanwhile, the next process locks another one.
            if still_there:
                yield path
                return


@contextlib.contextmanager
def claimed(uuids: Sequence[str], waiting: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Hold the first of these GPUs that no other part of any run holds, and yield its UUID.
    This lock is separate from `gpu_lock` of the GPU itself, which workers hold."""
    announced = False
    while True:
        for uuid in uuids:
            with gpu_lock(f"{uuid}.part", wait=False) as lock:
                if lock is not None:
                    yield uuid
                    return
        if not announced:
            announced = True
            waiting()
        time.sleep(POLL_S)
