"""The chosen GPU, its lock, and CUDA errors."""

from __future__ import annotations

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
"""An ordinal (``1``) or a UUID (``GPU-...``, or the beginning of one); default 0."""

_POISON_WORDS = """ILLEGAL_ADDRESS MISALIGNED_ADDRESS INVALID_ADDRESS_SPACE INVALID_PC
    ILLEGAL_INSTRUCTION HARDWARE_STACK_ERROR LAUNCH_FAILED LAUNCH_TIMEOUT ASSERT ECC_UNCORRECTABLE
    EXTERNAL_DEVICE TENSOR_MEMORY_LEAK CONTAINED CONTEXT_IS_DESTROYED UNKNOWN"""
_ECC = "CUDA_ERROR_ECC_UNCORRECTABLE"
_POISONS = frozenset("CUDA_ERROR_" + word for word in _POISON_WORDS.split())


class CudaError(RuntimeError):
    """A CUDA call that failed. `name` is e.g. CUDA_ERROR_ILLEGAL_ADDRESS. passing: other processes or the
    hardware are to blame, so that the next run may fare better."""

    def __init__(self, name: str, detail: str = "", passing: bool = False) -> None:
        super().__init__(f"{name} ({detail})" if detail else name)
        self.name, self.passing = name, passing or name == _ECC

    @property
    def poisoned(self) -> bool:
        """The context is lost (CUDA driver API, "sticky" errors): only a new process helps."""
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
    """What a cuda.bindings call returned behind its error code: None, a value or a tuple.

    Raises CudaError.
    """
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
    """Turn what cuda.core and cuBLASLt raise into CudaError where it names a CUDA error."""
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
    """An opened GPU: its primary context is current in this thread.

    `device` and `stream` are cuda.core objects; `handle` is the stream's CUstream, `stream_address`
    its integer. Sizes in bytes. `arch` is e.g. ``sm_90``.
    """

    ordinal: int
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
        """Wait for the stream. Raises CudaError for what any launch before did."""
        from cuda.bindings import driver

        ok(driver.cuStreamSynchronize(self.handle))

    def free_bytes(self) -> int:
        """Device memory that is free now."""
        from cuda.bindings import driver

        return int(ok(driver.cuMemGetInfo())[0])

    def event(self) -> Any:
        """A cuda.core event that can be timed; `later - earlier` is in milliseconds."""
        from cuda.core import EventOptions

        return self.device.create_event(EventOptions(timing_enabled=True))


def open_gpu() -> Gpu:
    """Open the GPU whose number the environment variable TILEWAVE_GPU holds.

    Raises ValueError for a choice that no GPU matches, CudaError and ImportError where there is no
    usable driver or no cuda-python.
    """
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
        raise ValueError(f"{CHOICE_VARIABLE} = {wanted!r}: no such GPU; there are {uuids}")

    from cuda.core import Device

    device = Device(ordinal)
    device.set_current()

    def attribute(name: str) -> int:
        key = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(ok(driver.cuDeviceGetAttribute(key, devices[ordinal])))

    major = attribute("COMPUTE_CAPABILITY_MAJOR")
    minor = attribute("COMPUTE_CAPABILITY_MINOR")
    return Gpu(
        ordinal=ordinal,
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
"""Where the locks lie: one place for all users, whatever the TMPDIR of each."""


def _lock_file(path: Path) -> int:
    """A file descriptor of the lock at ``path``, which is made where there is none.

    Nothing is written to it, and it is opened for reading alone: whoever put it there, all that is done
    with it is flock. A link is not followed. Raises OSError.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, flags)
        with contextlib.suppress(FileExistsError):  # somebody was faster
            number = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
            os.fchmod(number, 0o644)  # whatever the umask says, other users open it too
            return number


@contextlib.contextmanager
def gpu_lock(
    uuid: str,
    waiting: Callable[[], None] = lambda: None,
    shared: bool = False,
    wait: bool = True,
) -> Iterator[Path | None]:
    """Hold the machine-wide lock of a GPU; `waiting` is called once if another process has it.

    shared: with others who hold it so, because nothing is measured; who measures has it alone. Without ``wait`` it
    gives None where another process has it.

    The file lies in the temporary folder that all users share, so that their runs exclude each
    other too; the kernel drops the lock when the process ends, however it ends. Not a file of the
    driver: a container may not have the one of this GPU, or not lock it.

    Raises UserError where something else lies in its place: a link, a folder, a pipe.
    """
    import fcntl

    path = SHARED / f"tilewave-{uuid}.lock"
    while True:
        try:
            number = _lock_file(path)
        except OSError as error:
            raise UserError(
                "GPU", path, error.strerror, "a file for the lock: remove it"
            ) from error
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, number)
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise UserError("GPU", path, "no file", "a file for the lock: remove it")
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
            if (
                still_there
            ):  # else somebody cleaned up meanwhile, and the next one locks another file
                yield path
                return


@contextlib.contextmanager
def claimed(uuids: Sequence[str], waiting: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Hold one of these GPUs for a part of a run: the first that no other part, of whatever run, holds.

    It is another lock than the one that workers hold while they use the GPU. `waiting` is called once where all are
    taken.
    """
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
