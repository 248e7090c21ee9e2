"""The helper kernels of support.cu: random inputs, the float64 product, the comparison, a gate."""

import ctypes
import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tilewave.gpu.buffers import GUARD_BYTES, DeviceBuffer, DeviceMemory
from tilewave.gpu.device import CudaError, Gpu, ok
from tilewave.gpu.launch import Arguments, Module, configuration, enqueue, handle, pointer
from tilewave.kernel.tolerance import OutputComparison
from tilewave.records.store import write_atomically
from tilewave.theory.dtypes import DTYPES

Pair = tuple[DeviceBuffer, DeviceBuffer]
SOURCE = Path(__file__).with_name("support.cu")
ENTRIES = ("f64", "f32", "f16", "bf16", "i8", "e4m3")
"""Types of A and B with a specialised reference kernel."""
COMPARE_BLOCKS = 512
WATCH_NS, PAUSE_NS = 5_000_000, 100_000
"""Time of a watch for other processes, and the shortest pause that counts as theirs."""
CLOCK_NS = 100_000
"""Time over which cycles are counted for one reading of the SM clock."""
LATELY_S = 1.0
"""Age up to which the watch at a case's end also serves the beginning of the next case."""
CACHE_SHARE = 0.0625
"""Share of the device's memory up to which each checking worker keeps references."""


def compile_support(arch: str, cache: Path | None = None) -> bytes:
    """Compile support.cu for e.g. ``sm_90``, or read it from `cache`. Raises CudaError with the compiler's message."""
    from cuda.bindings import nvrtc
    from cuda.core import Program, ProgramOptions

    source, version = SOURCE.read_text(encoding="utf-8"), ok(nvrtc.nvrtcVersion())
    digest = hashlib.sha256(repr((source, arch, version)).encode()).hexdigest()
    kept = cache / f"reference-{digest[:24]}.cubin" if cache else None
    if kept and kept.is_file():
        return kept.read_bytes()
    options = ProgramOptions(arch=arch, std="c++17", name="support.cu")
    try:
        image: bytes = Program(source, "c++", options).compile("cubin").code
    except Exception as error:  # its class is private to cuda.core
        raise CudaError("NVRTC_ERROR_COMPILATION", str(error)) from error
    if kept:
        write_atomically(kept, image)
    return image


def _code(dtype: str) -> int:
    """Return a dtype's number in support.cu. Raises KeyError for an unsupported one."""
    code = DTYPES[dtype].support
    if code is None:
        raise KeyError(dtype)
    return code


class Support:
    """The helper kernels on one GPU, and the references computed there."""

    def __init__(self, gpu: Gpu, cache: Path | None = None) -> None:
        self.gpu = gpu
        self.empty_us: float | None = None  # the measurement of blocks.empty_us
        self._paused, self._watched_at = 0.0, -math.inf
        self._module = Module(compile_support(gpu.arch, cache))
        self._functions: dict[str, Any] = {}
        self._memory = DeviceMemory(gpu)
        self._references = OrderedDict[tuple[Any, ...], tuple[DeviceBuffer, DeviceMemory]]()

    def _launch(self, entry: str, grid: int, block: int, *values: Any) -> None:
        if entry not in self._functions:
            self._functions[entry] = handle(self._module.function(entry))
        config = configuration(self.gpu, (grid, 1, 1), (block, 1, 1))
        enqueue(config, self._functions[entry], Arguments(values))

    def fill(self, buffer: DeviceBuffer, dtype: str, seed: int, stream: int) -> None:
        """Fill a buffer with uniform numbers, the bits of `inputs.uniform(seed, stream, count, dtype)`."""
        count = buffer.nbytes // DTYPES[dtype].size
        if count:
            blocks = min((count + 255) // 256, 32 * self.gpu.sms)
            self._launch(
                f"fill_{dtype}", blocks, 256,
                pointer(buffer.pointer), ctypes.c_uint64(count),
                ctypes.c_uint32(seed & 0xFFFFFFFF), ctypes.c_uint32(stream),
            )  # fmt: skip

    def gate(self, cycles: int = 200_000) -> None:
        """Hold the stream for about this many SM clock cycles (200,000: 0.1 ms)."""
        self._launch("gate", 1, 1, ctypes.c_int64(cycles))

    def paused(self, lately: bool = False) -> float:
        """Return the share (0 to 1) of the next milliseconds in which another process has the GPU.
        lately: reuse the last watch if it is recent and saw no other process. Processes on one GPU take turns of about a
        millisecond. Kernels that run at the same time (MPS) are not noticed."""
        if lately and not self._paused and time.monotonic() - self._watched_at < LATELY_S:
            return 0.0
        span, least = ctypes.c_uint64(WATCH_NS), ctypes.c_uint64(PAUSE_NS)
        self._launch("watch", 1, 1, span, least, pointer(self._answer.pointer))
        pauses, span_ns = (int(count) for count in self._answer.download(np.dtype(np.uint64)))
        self._paused, self._watched_at = pauses / span_ns, time.monotonic()
        return self._paused

    def sm_clock(self) -> float:
        """Count the SM clock (MHz) after the work on the stream. NVML's reading lags by 100 ms, this does not."""
        pointers = (ctypes.c_uint64(CLOCK_NS), pointer(self._answer.pointer))
        self._launch("clock_rate", 1, 1, *pointers)
        cycles, nanoseconds = (int(count) for count in self._answer.download(np.dtype(np.uint64)))
        return 1e3 * cycles / nanoseconds

    @cached_property
    def _answer(self) -> DeviceBuffer:
        return self._memory.new("answer", 16, guarded=False)

    def unharmed(self, buffers: Iterable[DeviceBuffer], copies: Iterable[Pair]) -> bool:
        """Return whether the guard bands are intact, and both buffers of each pair hold the same bits.
        It waits for the GPU once: beside other processes that check, a wait takes as long as their turns."""
        different = pointer(self._answer.pointer)
        self._answer.clear()
        for buffer in buffers:
            sizes = map(ctypes.c_uint64, (buffer.nbytes, GUARD_BYTES))
            self._launch("broken", 32, 256, pointer(buffer.pointer), *sizes, different)
        for left, right in copies:
            blocks = max(1, min(8 * self.gpu.sms, -(-left.nbytes // 2048)))
            pointers = (pointer(left.pointer), pointer(right.pointer))
            self._launch("differ", blocks, 256, *pointers, ctypes.c_uint64(left.nbytes), different)
        return not self._answer.download(np.dtype(np.uint64))[0]

    def prepare_empty(self) -> Callable[[], None]:
        """Return a function that enqueues an empty kernel of one warp."""
        function = handle(self._module.function("empty"))
        config, arguments = configuration(self.gpu, (1, 1, 1), (32, 1, 1)), Arguments(())
        return lambda: enqueue(config, function, arguments)

    def multiply(
        self,
        out: int,
        pointers: Mapping[str, int],
        shape: Mapping[str, int],
        dtypes: Mapping[str, str],
        layouts: Mapping[str, str],
        alpha: float,
        beta: float,
    ) -> None:
        """Compute out (f64, in C's layout) = alpha A B + beta C, from device addresses of all four."""
        m, n, k = (int(shape[name]) for name in "mnk")
        codes = [_code(dtypes[name]) for name in "abc"]
        specialised = (dtype for dtype in ENTRIES if codes[:2] == [_code(dtype)] * 2)
        entry = next(specialised, "any")
        columns = [ctypes.c_int(layouts.get(name, "row") == "col") for name in "abc"]
        blocks = -(-m // 64) * -(-n // 64)
        self._launch(
            f"reference_{entry}", blocks, 128,
            *(pointer(pointers[name]) for name in "abc"), pointer(out),
            *(ctypes.c_int(size) for size in (m, n, k)),
            ctypes.c_double(alpha), ctypes.c_double(beta),
            *(ctypes.c_int(code) for code in codes), *columns,
        )  # fmt: skip

    def reference(
        self, key: tuple[Any, ...], count: int, compute: Callable[[int], None]
    ) -> tuple[DeviceBuffer, bool]:
        """Return the reference, an output of ``count`` elements, and whether it is a new one.
        key: identifies the inputs. compute: fills it, from its address."""
        if key in self._references:
            self._references.move_to_end(key)
            return self._references[key][0], False
        nbytes = 8 * count
        held = sum(buffer.nbytes for buffer, _ in self._references.values())
        while self._references and held + nbytes > CACHE_SHARE * self.gpu.memory_bytes:
            _, (old, memory) = self._references.popitem(last=False)
            held -= old.nbytes
            memory.close()
        memory = DeviceMemory(self.gpu)
        try:
            out = memory.new("reference", nbytes, guarded=False)
            compute(out.pointer)
            self.gpu.sync()
        except BaseException:
            memory.close()
            raise
        self._references[key] = (out, memory)
        return out, True

    @cached_property
    def _partial(self) -> DeviceBuffer:
        """Three sums of each block of a comparison, then two counts of each."""
        return self._memory.new("partial", 8 * 5 * COMPARE_BLOCKS, guarded=False)

    def compare(
        self,
        got: DeviceBuffer,
        dtype: str,
        want: DeviceBuffer,
        relative: float,
        absolute: float,
        least_norm: float = 0.0,
    ) -> OutputComparison:
        """Compare all elements: wrong is not (|error| <= relative |reference| + absolute). `relative_error`:
        Frobenius norm of the error over the reference's, or `least_norm` if larger. A NaN is only wrong."""
        count = want.nbytes // 8
        sums = self._partial.pointer
        blocks = max(1, min(COMPARE_BLOCKS, (count + 255) // 256))
        self._launch(
            "compare", blocks, 256,
            pointer(got.pointer), pointer(want.pointer), ctypes.c_uint64(count),
            ctypes.c_int(_code(dtype)), ctypes.c_double(relative), ctypes.c_double(absolute),
            pointer(sums), pointer(sums + 8 * 3 * COMPARE_BLOCKS),
        )  # fmt: skip
        partial = self._partial.download(np.dtype(np.uint64))
        parts = partial[: 3 * blocks].view(np.float64).reshape(-1, 3)
        tally = partial[3 * COMPARE_BLOCKS :].reshape(-1, 2)[:blocks]
        wrong = int(tally[:, 0].sum())
        first = int(tally[:, 1].min()) if wrong else -1
        norm = max(float(np.sqrt(parts[:, 2].sum())), least_norm)
        error = float(np.sqrt(parts[:, 1].sum()))
        relative_error = error / norm if norm else error
        return OutputComparison(float(parts[:, 0].max()), relative_error, wrong, first)

    def close(self) -> None:
        for _, memory in self._references.values():
            memory.close()
        self._references.clear()
        self._memory.close()
        self._module.close()
