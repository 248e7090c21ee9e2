"""Compilation of the fixtures, and their results on a GPU and in the recording."""

import ctypes
import functools
import json
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

import keeping
from opcodes import manifest
from opcodes.manifest import Kernel
from tilewave.compiling import nvrtc
from tilewave.execution.machine import launch, program
from tilewave.kernel import includes
from tilewave.records.store import write_atomically

RECORDED = Path(__file__).resolve().parent / "h200.npz"
POISON = 0xA5A5A5A5
STACK_BYTES = 8 << 10
"""Stack of a thread on the GPU, because recursion needs an unknown number of bytes."""


@dataclass(frozen=True)
class Source:
    """The facts about a file without front matter that `nvrtc.compile_kernel` needs."""

    path: Path
    text: str
    entries: tuple[str, ...] = ()
    front: ClassVar[Any] = SimpleNamespace(compiler=SimpleNamespace(options=()))

    @property
    def headers(self) -> dict[str, str]:
        return includes.kernel_headers(self.text, self.path.parent, manifest.HERE)

    def compiler_options(self, macros: object) -> list[str]:
        return []


def _source(path: Path, arch: str) -> tuple[Any, str]:
    """Return what NVRTC compiles of a fixture file, and for what: ``sm_90a`` if it is in that folder."""
    return Source(
        path, path.read_text()
    ), manifest.SPECIFIC.name if path.parent == manifest.SPECIFIC else arch


def compiled_now(path: Path, arch: str) -> bytes:
    """Return NVRTC's cubin of a fixture file. Raises RuntimeError with the compiler's log."""
    source, arch = _source(path, arch)
    done = nvrtc.compile_kernel(source, arch, {})
    if done.cubin is None:
        raise RuntimeError(f"{path.name} for {arch}: {done.log}")
    return done.cubin


def key_of(path: Path, arch: str) -> str:
    source, arch = _source(path, arch)
    return nvrtc.cache_key(source, arch, {})


def cubin_of(path: Path, arch: str) -> bytes:
    """Return the cubin of a fixture file as `compiled_now` does, once. The checkout's store keeps it."""
    key = key_of(path, arch)
    stored = keeping.FIXTURES / f"{key}.cubin"
    if not stored.is_file():
        write_atomically(stored, keeping.kept(key) or compiled_now(path, arch))
    return stored.read_bytes()


@functools.cache
def compiled(path: Path, arch: str) -> tuple[bytes, str]:
    """Return the cubin of a fixture file and its listing."""
    cubin = cubin_of(path, arch)
    return cubin, keeping.of_cubin(cubin)


def launched(
    cubin: bytes,
    entry: str,
    listing: str,
    arguments: Sequence[Any],
    blocks: int,
    threads: int,
    **limits: Any,
) -> launch.Execution:
    """Execute a kernel on the CPU; arrays among its arguments are buffers."""
    values = [
        launch.Buffer(f"b{number}", argument) if isinstance(argument, np.ndarray) else argument
        for number, argument in enumerate(arguments)
    ]
    code, how = program.load(cubin, entry, listing), launch.Limits(**limits)
    return launch.execute(code, (blocks, 1, 1), (threads, 1, 1), values, limits=how)


class Card:
    """A GPU for the fixtures. Raises CudaError if there is none."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        from tilewave.gpu.device import ok, open_gpu

        self.gpu = open_gpu()
        ok(driver.cuCtxSetLimit(driver.CUlimit.CU_LIMIT_STACK_SIZE, STACK_BYTES))

    def run(
        self, cubin: bytes, entry: str, arrays: list[np.ndarray], results: int, threads: int
    ) -> np.ndarray:
        """Launch once, and return uint32 of shape (threads, results)."""
        from tilewave.gpu import launch as launching
        from tilewave.gpu.buffers import DeviceMemory

        given = [*arrays, np.full((threads, results), POISON, np.uint32)]
        module = launching.Module(cubin)
        with closing(module), DeviceMemory(self.gpu) as memory:
            buffers = [memory.new(entry, array.nbytes) for array in given]
            for buffer, array in zip(buffers, given):
                buffer.upload(array)
            pointers = [launching.pointer(buffer.pointer) for buffer in buffers]
            blocks, block = (threads // manifest.BLOCK, 1, 1), (manifest.BLOCK, 1, 1)
            config = launching.configuration(self.gpu, blocks, block)
            arguments = launching.Arguments([*pointers, ctypes.c_int32(threads)])
            launching.enqueue(config, launching.handle(module.function(entry)), arguments)
            return buffers[-1].download(np.dtype(np.uint32)).reshape(threads, results)


def checksums(results: np.ndarray) -> np.ndarray:
    """Return the CRC-32 of each result over each warp: uint32 of shape (warps, results)."""
    warps = results.astype("<u4").reshape(-1, 32, results.shape[1]).transpose(0, 2, 1)
    sums = [[zlib.crc32(column.tobytes()) for column in warp] for warp in warps]
    return np.array(sums, np.uint32)


def pack(kernel: Kernel, results: np.ndarray) -> dict[str, np.ndarray]:
    """Return the part of a kernel's results that is kept, as arrays of an npz file."""
    packed = {kernel.name: np.ascontiguousarray(results[: kernel.kept].T)}
    if kernel.kept < kernel.threads:
        packed[f"{kernel.name}.crc"] = checksums(results[kernel.kept :])
    return packed


def recorded(path: Path = RECORDED) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the recording's description (GPU, NVRTC, digests) and its arrays. Raises OSError."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(arrays.pop("about").tobytes()), arrays


def differences(
    kernel: Kernel, results: np.ndarray, arrays: dict[str, np.ndarray]
) -> list[tuple[int, int, int, int]]:
    """Return (result, thread, actual, expected) for each difference from the recording.
    For threads that are kept as checksums, the warp's first thread stands for the warp, and the expected
    word is unknown (-1)."""
    kept = arrays[kernel.name].T
    rows = [
        (int(k), int(i), int(results[i, k]), int(kept[i, k]))
        for i, k in np.argwhere(results[: len(kept)] != kept)
    ]
    if f"{kernel.name}.crc" in arrays:
        wrong = checksums(results[len(kept) :]) != arrays[f"{kernel.name}.crc"]
        for warp, k in np.argwhere(wrong):
            first = len(kept) + 32 * int(warp)
            rows.append((int(k), first, int(results[first, k]), -1))
    return rows
