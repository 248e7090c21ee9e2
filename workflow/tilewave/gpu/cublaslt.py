"""cuBLASLt products through nvmath-python: the baseline of every matrix-product kernel, single or batched.

The baseline computes the same as the kernel. f32 is true single precision (COMPUTE_32F excludes TF32), tf32 is
COMPUTE_32F_FAST_TF32 on f32 storage. f16 accumulates in the job's f32 or f16, i8 in i32 with whole alpha and
beta. FP8 has a scale for each operand, `fp8_scales`. An accumulator f22 means FAST_ACCUM; f32 means that the
library promotes partial sums to f32.
"""

import contextlib
import ctypes
import hashlib
import json
import statistics
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tilewave.basics.tables import table_beside
from tilewave.gpu.blocks import Block
from tilewave.gpu.buffers import DeviceMemory
from tilewave.gpu.device import CudaError, Gpu, cuda_errors
from tilewave.kernel.operations.matmul import Matmul
from tilewave.records.store import write_atomically
from tilewave.theory.dtypes import DTYPES

WORKSPACE_BYTES = 32 << 20
# Reductions of split-K: CUBLASLT_REDUCTION_SCHEME_INPLACE adds in C, ..._COMPUTE_TYPE in a workspace;
# ..._OUTPUT_TYPE is excluded (cuBLAS documentation).
INPLACE, COMPUTE_TYPE = 1, 2
METHOD = SimpleNamespace(**table_beside(__file__))
"""How algorithms are requested and chosen, and operands scaled; cublaslt.yaml has the reasons."""
MISSING = "cuBLASLt is not installed: pip install -r requirements/gpu.txt"


class Unavailable(RuntimeError):
    """nvmath-python or the cuBLAS library is missing; the text says what to do."""


def _scalar(dtype: str, value: float) -> Any:
    """Return alpha or beta in the scale dtype. Raises ValueError for a fraction with i32."""
    if dtype == "i32":
        if value != int(value):
            raise ValueError(f"alpha or beta is {value!r}, but an i32 product needs whole numbers")
        return ctypes.c_int32(int(value))
    if dtype == "f64":
        return ctypes.c_double(value)
    if dtype in ("f32", "f22"):
        return ctypes.c_float(value)
    return ctypes.c_uint16(int(np.float16(value).view(np.uint16)))


def contiguous_layouts(
    shape: Mapping[str, int], layouts: Mapping[str, str], strides: Collection[str] = ()
) -> dict[str, str]:
    """Return layouts of a, b and c in which a vector without a given leading dimension is contiguous. Its
    bytes are the same in either, but a leading dimension of 1 excludes algorithms that need aligned rows."""
    chosen = {name: layouts.get(name, "row") for name in "abc"}
    for name in chosen:
        rows, columns = Matmul.operands[name].sizes(shape)
        if f"ld{name}" in strides:
            continue
        if rows != 1 and columns == 1:
            chosen[name] = "col"
        elif rows == 1 and columns != 1:
            chosen[name] = "row"
    return chosen


def _set(setter: Callable[..., Any], of: Any, key: Any, value: Any) -> None:
    """Set an attribute of a descriptor, a layout or a preference to a C value."""
    setter(of, int(key), ctypes.addressof(value), ctypes.sizeof(value))


class CublasLt:
    """A cuBLASLt handle and its workspace on one GPU. Raises Unavailable."""

    def __init__(self, gpu: Gpu) -> None:
        try:
            from nvmath.bindings import cublas, cublasLt

            self.lt, self.blas = cublasLt, cublas
            self.handle = cublasLt.create()
            self.version = int(cublasLt.get_version())
        except Exception as error:  # ImportError, or nvmath's own where it finds no library
            detail = str(error).splitlines()[0][:160] if str(error) else type(error).__name__
            missing = isinstance(error, ImportError) or "ound" in detail or "load" in detail
            raise Unavailable(MISSING if missing else f"{MISSING} ({detail})") from error
        self.gpu = gpu
        self._memory = DeviceMemory(gpu)
        self.workspace = self._memory.new("workspace", WORKSPACE_BYTES, guarded=False)
        nbytes = METHOD.scale_pitch * len(METHOD.fp8_scales)
        self.scales = self._memory.new("scales", nbytes, guarded=False)
        self.scales.upload(np.array(METHOD.fp8_scales, np.float32).repeat(METHOD.scale_pitch // 4))

    def close(self) -> None:
        self._memory.close()
        with contextlib.suppress(Exception):
            self.lt.destroy(self.handle)


class ProductPlan(contextlib.AbstractContextManager["ProductPlan"]):
    """Descriptors of a product, or of a batch if the shape has one.

    They cover shape, dtypes, layouts, and strides (`lda`, `stride_a`) with gaps. cuBLASLt uses column-major matrices.
    For a row-major C it computes the transpose, B^T A^T. So the first operand is A (C column-major) or B (C row-major),
    and an operand is transposed if its layout differs from C's. Raises CudaError for dtypes without a cuBLASLt product.
    """

    def __init__(
        self,
        library: CublasLt,
        shape: Mapping[str, int],
        dtypes: Mapping[str, str],
        layouts: Mapping[str, str],
        strides: Mapping[str, int] | None = None,
    ) -> None:
        self.library = library
        self.strides = dict(strides or {})
        self.shape = {name: int(shape[name]) for name in ("batch", *"mnk") if name in shape}
        self.dtypes = {name: dtypes[name] for name in ("a", "b", "c", "accumulate")}
        self.layouts = contiguous_layouts(self.shape, layouts, self.strides)
        # alpha and beta have the accumulator's type.
        operand, self.scale = DTYPES[self.dtypes["a"]], self.dtypes["accumulate"]
        b = DTYPES[self.dtypes["b"]]
        if self.scale not in operand.sums or not (b == operand or (b.fp8 and operand.fp8)):
            named = ", ".join(f"{name} {dtype}" for name, dtype in self.dtypes.items())
            raise CudaError("CUBLAS_STATUS_NOT_SUPPORTED", f"no product of dtypes {named}")
        self._stack = contextlib.ExitStack()
        lt = library.lt
        try:
            with cuda_errors():
                code = int(getattr(library.blas.ComputeType, operand.sums[self.scale]))
                self._operation = lt.matmul_desc_create(code, DTYPES[self.scale].cuda)
                self._stack.callback(lt.matmul_desc_destroy, self._operation)
                self._names = ("b", "a") if self.layouts["c"] == "row" else ("a", "b")
                attribute = lt.MatmulDescAttribute
                keys = (attribute.TRANSA, attribute.TRANSB)
                for name, key in zip(self._names, keys, strict=True):
                    transposed = self.layouts[name] != self.layouts["c"]
                    self._describe(key, ctypes.c_int32(transposed))  # CUBLAS_OP_N = 0, _T = 1
                if operand.fp8:
                    scales, pitch = library.scales.pointer, METHOD.scale_pitch
                    self._describe(attribute.FAST_ACCUM, ctypes.c_int8(self.scale == "f22"))
                    self._describe(attribute.A_SCALE_POINTER, ctypes.c_void_p(scales))
                    self._describe(attribute.B_SCALE_POINTER, ctypes.c_void_p(scales + pitch))
                self._layouts = {name: self._layout(name) for name in "abc"}
        except BaseException:
            self._stack.close()
            raise

    def _describe(self, key: Any, value: Any) -> None:
        _set(self.library.lt.matmul_desc_set_attribute, self._operation, key, value)

    def _layout(self, name: str) -> int:
        """Create the layout of a matrix in column-major terms: contiguous size first."""
        rows, columns = Matmul.operands[name].sizes(self.shape)
        if self.layouts[name] == "row":
            rows, columns = columns, rows
        lt = self.library.lt
        leading = self.strides.get(f"ld{name}", rows)
        layout = lt.matrix_layout_create(DTYPES[self.dtypes[name]].cuda, rows, columns, leading)
        self._stack.callback(lt.matrix_layout_destroy, layout)
        if "batch" in self.shape:
            key, setter = lt.MatrixLayoutAttribute, lt.matrix_layout_set_attribute
            # Elements from a matrix to the next one.
            offset = ctypes.c_int64(self.strides.get(f"stride_{name}", leading * columns))
            _set(setter, layout, key.BATCH_COUNT, ctypes.c_int32(self.shape["batch"]))
            _set(setter, layout, key.STRIDED_BATCH_OFFSET, offset)
        return int(layout)

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def _reductions(self) -> int:
        """Reduction schemes that keep the width of the sums: adding in a narrower C rounds them.
        Measured: f16 products of sizes that are no multiple of 8 were off by a rounding of C."""
        narrow = DTYPES[self.dtypes["c"]].size < DTYPES[self.dtypes["accumulate"]].size
        return COMPUTE_TYPE if narrow else INPLACE | COMPUTE_TYPE

    @cached_property
    def algorithms(self) -> list[bytes]:
        """Opaque cublasLtMatmulAlgo_t in the order of the heuristic. Raises CudaError if none fits the workspace."""
        lt = self.library.lt
        results = np.zeros(METHOD.requested_algorithms, lt.matmul_heuristic_result_dtype)
        returned = ctypes.c_int(0)
        first, second = (self._layouts[name] for name in self._names)
        with cuda_errors():
            preference = lt.matmul_preference_create()
            try:
                key, setter = lt.MatmulPreferenceAttribute, lt.matmul_preference_set_attribute
                limit, schemes = ctypes.c_uint64(WORKSPACE_BYTES), ctypes.c_uint32(self._reductions)
                _set(setter, preference, key.MAX_WORKSPACE_BYTES, limit)
                # Without this, split-K may add its parts in the narrow type of C, which changes the product.
                _set(setter, preference, key.REDUCTION_SCHEME_MASK, schemes)
                lt.matmul_algo_get_heuristic(
                    self.library.handle, self._operation, first, second, self._layouts["c"],
                    self._layouts["c"], preference, METHOD.requested_algorithms,
                    results.ctypes.data, ctypes.addressof(returned),
                )  # fmt: skip
            finally:
                lt.matmul_preference_destroy(preference)
        chosen = [row["algo"].tobytes() for row in results[: returned.value] if row["state"] == 0]
        if not chosen:
            raise CudaError("CUBLAS_STATUS_NOT_SUPPORTED", "the heuristic returned no algorithm")
        return chosen

    def prepare(
        self,
        pointers: Mapping[str, int],
        alpha: float = 1.0,
        beta: float = 0.0,
        algorithm: bytes | None = None,
    ) -> Callable[[], None]:
        """Return a function that enqueues one product, in place in c (default: the first algorithm)."""
        library, lt = self.library, self.library.lt
        value = algorithm if algorithm is not None else self.algorithms[0]
        kept = ctypes.create_string_buffer(value, len(value))
        scalars = (_scalar(self.scale, alpha), _scalar(self.scale, beta))
        first, second = self._names
        # Built once: a block has a thousand launches.
        arguments = (
            library.handle, self._operation, ctypes.addressof(scalars[0]),
            pointers[first], self._layouts[first], pointers[second], self._layouts[second],
            ctypes.addressof(scalars[1]), pointers["c"], self._layouts["c"],
            pointers["c"], self._layouts["c"], ctypes.addressof(kept),
            library.workspace.pointer, WORKSPACE_BYTES, library.gpu.stream_address,
        )  # fmt: skip

        def enqueue() -> None:
            assert kept and scalars  # keeps alive what the arguments only point to
            with cuda_errors():
                lt.matmul(*arguments)

        return enqueue

    def _file(self, cache: Path) -> Path:
        gpu = self.library.gpu
        key = [gpu.uuid, self.library.version, self.shape, self.dtypes, self.layouts]
        limits = [WORKSPACE_BYTES, METHOD.requested_algorithms, METHOD.equal, self._reductions]
        key += [self.strides] if self.strides else []  # stored choices keep their file names
        text = json.dumps([*key, *limits], sort_keys=True)
        return cache / "cublaslt" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"

    def remembered(self, cache: Path | None) -> bytes | None:
        """Return the fastest algorithm of an earlier choose(), if there was one."""
        if cache is None:
            return None
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            return bytes.fromhex(json.loads(self._file(cache).read_text())["algorithm"])
        return None

    def choose(self, block_of: Callable[[bytes], Block], cache: Path | None) -> bytes:
        """Time all algorithms in turn and store the fastest; among equals the heuristic's first.
        An algorithm that fails is skipped, unless it poisons the context."""
        remembered = self.remembered(cache)
        if remembered is not None:
            return remembered
        times = self._timed(block_of)
        if not times:
            raise CudaError("CUBLAS_STATUS_NOT_SUPPORTED", "no algorithm ran")
        best = min(times.values())
        rank = min(index for index, us in times.items() if us <= METHOD.equal * best)
        chosen = self.algorithms[rank]
        if cache is not None:
            record = {"rank": rank, "algorithm": chosen.hex()}
            write_atomically(self._file(cache), (json.dumps(record, indent=1) + "\n").encode())
        return chosen

    def _timed(self, block_of: Callable[[bytes], Block]) -> dict[int, float]:
        """Return rank -> microseconds of a product: of the fastest the median of three blocks, of others
        fewer. The order alternates, because a heavy kernel lowers the clock for the next one."""
        with contextlib.ExitStack() as stack:
            blocks: dict[int, Block] = {}
            for rank, algorithm in enumerate(self.algorithms):
                try:
                    blocks[rank] = block_of(algorithm)
                    stack.callback(blocks[rank].close)
                except CudaError as error:
                    if error.poisoned:
                        raise
            # Each block has run once while it was built.
            runs = {rank: [block.us()] for rank, block in blocks.items()}
            ranks = list(runs)
            for most in (METHOD.beaten, METHOD.close):
                limit = most * min((sum(runs[rank]) for rank in ranks), default=0.0)
                ranks = [rank for rank in reversed(ranks) if sum(runs[rank]) <= limit]
                for rank in ranks:
                    runs[rank].append(blocks[rank].run())
        return {rank: statistics.median(runs[rank]) for rank in ranks}
