"""cuBLASLt plans, against a stand-in that computes and refuses according to the library's documentation."""

import ctypes
import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from samples import a_job, shipped
from tilewave.basics.errors import UserError
from tilewave.gpu.cublaslt import METHOD, ProductPlan, contiguous_layouts
from tilewave.gpu.device import CudaError, cuda_errors
from tilewave.kernel import operations
from tilewave.kernel.front_matter import load_kernel
from tilewave.kernel.inputs import storage
from tilewave.kernel.job import Job
from tilewave.kernel.variants import Variant, choices, variant
from tilewave.theory.dtypes import DTYPES

# cudaDataType of library_types.h, and cublasComputeType_t of cublas_api.h.
NUMPY = {0: np.float32, 1: np.float64, 2: np.float16, 3: np.int8, 10: np.int32, 14: np.uint16,
         28: np.uint8, 29: np.uint8}  # fmt: skip
NAMES = {dtype.cuda: dtype for name, dtype in DTYPES.items() if name in ("bf16", "e4m3", "e5m2")}
COMPUTE = {"COMPUTE_16F": 64, "COMPUTE_32F": 68, "COMPUTE_64F": 70, "COMPUTE_32I": 72,
           "COMPUTE_32F_FAST_TF32": 77}  # fmt: skip
N, T = 0, 1


class cuBLASLtError(Exception):
    """An error with the library's class name, which the runtime looks for."""


class FakeLt:
    """The calls of `nvmath.bindings.cublasLt` that a plan makes; handles are indices + 1."""

    MatmulDescAttribute = SimpleNamespace(
        TRANSA=3, TRANSB=4, A_SCALE_POINTER=17, B_SCALE_POINTER=18, FAST_ACCUM=25
    )
    MatrixLayoutAttribute = SimpleNamespace(BATCH_COUNT=5, STRIDED_BATCH_OFFSET=6)
    MatmulPreferenceAttribute = SimpleNamespace(MAX_WORKSPACE_BYTES=1, REDUCTION_SCHEME_MASK=3)
    cuBLASLtError = cuBLASLtError
    matmul_heuristic_result_dtype = np.dtype(
        [("algo", np.uint64, (8,)), ("workspace_size", np.uint64), ("state", np.int32)]
    )

    def __init__(self, algorithms: int = 2) -> None:
        self.kept: list[Any] = []
        self.alive = 0
        self.algorithms = algorithms
        self.batches: dict[int, dict[int, int]] = {}

    def _keep(self, value: Any) -> int:
        self.kept.append(value)
        self.alive += 1
        return len(self.kept)

    def _drop(self, handle: int) -> None:
        assert self.kept[handle - 1] is not None
        self.kept[handle - 1] = None
        self.alive -= 1

    def matmul_desc_create(self, compute: int, scale: int) -> int:
        return self._keep({"compute": compute, "scale": scale, 3: N, 4: N})

    @staticmethod
    def _value(kinds: dict, key: int, address: int, size: int) -> Any:
        """Read the value of an attribute; refuse another size."""
        kind = kinds.get(key, ctypes.c_int32)
        assert size == ctypes.sizeof(kind)
        return kind.from_address(address).value

    def matmul_desc_set_attribute(self, handle: int, key: int, address: int, size: int) -> None:
        kinds = {17: ctypes.c_void_p, 18: ctypes.c_void_p, 25: ctypes.c_int8}
        self.kept[handle - 1][key] = self._value(kinds, key, address, size)

    def matrix_layout_create(self, dtype: int, rows: int, columns: int, ld: int) -> int:
        assert ld >= rows
        return self._keep((dtype, rows, columns, ld))

    def matrix_layout_set_attribute(self, handle: int, key: int, address: int, size: int) -> None:
        value = self._value({6: ctypes.c_int64}, key, address, size)
        self.batches.setdefault(handle, {})[key] = value

    def matmul_preference_create(self) -> int:
        return self._keep({})

    def matmul_preference_set_attribute(self, *_: Any) -> None:
        pass

    matmul_desc_destroy = matrix_layout_destroy = matmul_preference_destroy = _drop

    def _refusal(self, operation: dict, first: tuple, second: tuple, out: tuple) -> str:
        in_form = operation[3] == T and operation[4] == N
        if {first[0], second[0]} & {28, 29}:
            narrow = {first[0], second[0]} in ({28}, {28, 29}) and out[0] == 14
            aligned = first[3] % 16 == second[3] % 16 == out[3] % 8 == 0
            return "" if narrow and aligned and in_form else "CUBLAS_STATUS_NOT_SUPPORTED (15)"
        if first[0] != 3:
            return ""
        if operation["compute"] != 72 or operation["scale"] != 10 or out[0] != 10:
            return "CUBLAS_STATUS_INVALID_VALUE"
        divides = all(ld % 4 == 0 for *_, ld in (first, second, out))
        return "" if in_form and divides else "CUBLAS_STATUS_NOT_SUPPORTED (15): (unsupported)"

    def matmul_algo_get_heuristic(
        self, handle: int, operation: int, a: int, b: int, c: int, d: int, preference: int,
        requested: int, results: int, count: int,
    ) -> None:  # fmt: skip
        descriptors = (self.kept[descriptor - 1] for descriptor in (operation, a, b, c))
        if refusal := self._refusal(*descriptors):
            raise cuBLASLtError(refusal)
        assert c == d and self.algorithms <= requested
        rows = np.zeros(requested, self.matmul_heuristic_result_dtype)
        rows["algo"][: self.algorithms, 0] = np.arange(1, self.algorithms + 1)
        ctypes.memmove(results, rows.ctypes.data, rows.nbytes)
        ctypes.c_int.from_address(count).value = self.algorithms

    @staticmethod
    def _matrix(pointer: int, layout: tuple) -> np.ndarray:
        dtype, rows, columns, ld = layout
        kind = np.dtype(NUMPY[dtype])
        raw = (ctypes.c_char * (ld * columns * kind.itemsize)).from_address(pointer)
        return np.frombuffer(raw, kind).reshape((ld, columns), order="F")[:rows]

    def _numbers(self, pointer: int, layout: tuple) -> np.ndarray:
        matrix = self._matrix(pointer, layout)
        dtype = NAMES.get(layout[0])
        return dtype.read(matrix) if dtype else matrix.astype(np.float64)

    def matmul(
        self, handle: int, operation: int, alpha: int, a: int, a_layout: int, b: int,
        b_layout: int, beta: int, c: int, c_layout: int, d: int, d_layout: int, *_: Any,
    ) -> None:  # fmt: skip
        """Compute the products of a batch, with the strides of the layouts."""
        assert (c, c_layout) == (d, d_layout)
        handles = (a_layout, b_layout, c_layout)
        layouts = [self.kept[descriptor - 1] for descriptor in handles]
        (count,) = {self.batches.get(descriptor, {}).get(5, 1) for descriptor in handles}
        apart = [self.batches.get(descriptor, {}).get(6, 0) for descriptor in handles]
        steps = [stride * np.dtype(NUMPY[at[0]]).itemsize for stride, at in zip(apart, layouts)]
        desc = self.kept[operation - 1]
        kind = np.dtype(NUMPY[desc["scale"]])
        scales = [
            float(np.frombuffer((ctypes.c_char * kind.itemsize).from_address(at), kind)[0])
            for at in (alpha, beta)
        ]
        for at in range(count):
            places = [first + at * step for first, step in zip((a, b, c), steps, strict=True)]
            self._product(desc, *scales, places, layouts)

    def _product(self, desc: dict, alpha: float, beta: float, places: Any, layouts: Any) -> None:
        left, right = map(self._numbers, places[:2], layouts[:2])
        for key in (17, 18):
            if pointer := desc.get(key):
                if pointer % 16:  # measured: the heuristic says nothing, the product refuses
                    raise cuBLASLtError("CUBLAS_STATUS_NOT_SUPPORTED (15)")
                left = left * ctypes.c_float.from_address(pointer).value
        left, right = (x.T if t == T else x for x, t in ((left, desc[3]), (right, desc[4])))
        out = self._matrix(places[2], layouts[2])
        assert out.shape == (left.shape[0], right.shape[1])
        out.flags.writeable = True
        product = alpha * (left @ right)
        if beta:
            product += beta * self._numbers(places[2], layouts[2])
        if out.dtype == np.uint16:  # bf16, to nearest
            bits = product.astype(np.float32).view(np.uint32)
            product = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        out[...] = product


SCALES = np.array(METHOD.fp8_scales, np.float32).repeat(METHOD.scale_pitch // 4)


@pytest.fixture
def library() -> Any:
    return SimpleNamespace(
        lt=FakeLt(), blas=SimpleNamespace(ComputeType=SimpleNamespace(**COMPUTE)), handle=0,
        gpu=SimpleNamespace(uuid="GPU-0", stream_address=0), version=130100,
        workspace=SimpleNamespace(pointer=0), scales=SimpleNamespace(pointer=SCALES.ctypes.data),
    )  # fmt: skip


CUBLAS, BATCHED = (load_kernel(shipped(name)) for name in ("cublas", "cublas_batched"))

MATMUL = operations.load("matmul")


def cublas(**macros: str) -> Variant:
    return variant(CUBLAS, macros, "config", "macros")


def job(chosen: Variant, *sizes: int, **more: Any) -> Job:
    shape = dict(zip(operations.load(more.get("operation", "matmul")).dimensions, sizes))
    about = {"dtypes": chosen.dtypes, "layouts": chosen.layouts, **more}
    return a_job(case=chosen.id, provider="cublaslt", shape=shape, **about)


def multiplied(library: Any, work: Job, alpha: float, beta: float) -> np.ndarray:
    """Return C as the library leaves it in memory."""
    operation = operations.load(work.operation)
    given = operation.inputs(work).items()
    buffers = {name: operation.in_memory(work, name, data) for name, data in given}
    if not beta:
        buffers["c"].view(np.uint8).fill(0xFF)
    pointers = {name: data.ctypes.data for name, data in buffers.items()}
    with ProductPlan(library, work.shape, work.dtypes, work.layouts, work.strides) as plan:
        plan.prepare(pointers, alpha, beta)()
    assert library.lt.alive == 0
    return buffers["c"]


def right(library: Any, work: Job) -> None:
    """Check that the library computes the operation's product for every alpha and beta, and keeps the padding."""
    operation = operations.load(work.operation)
    for alpha, beta in operation.runs(work):
        outputs = {"c": multiplied(library, work, alpha, beta)}
        assert operation.changed(work, outputs.__getitem__) == ""
        judged = operation.judge(work, outputs, None, alpha, beta)
        assert judged.verdict == "correct", judged.reason


def taken(library: Any, chosen: Variant, layouts: dict[str, str], *sizes: int) -> bool:
    """Return whether the library has an algorithm; a refusal must be *unsupported*."""
    with ProductPlan(library, dict(zip("mnk", sizes)), chosen.dtypes, layouts) as plan:
        try:
            return bool(plan.algorithms)
        except CudaError as error:
            assert error.status == "unsupported"
            return False


@pytest.mark.parametrize("strides", [{}, {"lda": 11, "ldb": 17, "ldc": 16}])
@pytest.mark.parametrize(
    "layouts", [{}, {"a": "col"}, {"b": "col"}, {"a": "col", "b": "col"}, {"a": "col", "c": "col"}]
)
@pytest.mark.parametrize(("dtype", "shape"), [
    *((dtype, (7, 13, 5)) for dtype in ("f64", "f32", "tf32", "f16_f32")),
    *(("f32", shape) for shape in itertools.product((1, 4), (1, 5), (1, 3))),
])  # fmt: skip
def test_products_and_vectors_in_every_layout(library, dtype, shape, layouts, strides):
    work = job(cublas(TYPE=dtype), *shape)
    right(library, replace(work, layouts={**work.layouts, **layouts}, strides=strides))


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("shape", [(1, 7, 13, 5), (3, 7, 13, 5), (2, 4, 1, 3), (2, 1, 4, 3)])
def test_a_batch_is_its_products_in_order(library, shape, dtype):
    chosen = variant(BATCHED, {"REAL": dtype}, "x", "macros")
    operation = operations.load("batched_matmul")
    assert operation.vendor == chosen.kernel.provider == "cublaslt"
    work = job(chosen, *shape, operation="batched_matmul", layouts={})
    right(library, work)
    assert len(library.lt.batches) == 3 * len(operation.runs(work))


def test_a_batch_has_a_separate_choice_of_algorithms(library, tmp_path):
    """The file of a single product keeps its name, so that choices from before batches stay valid."""
    dtypes, shape = cublas().dtypes, {"m": 4, "n": 4, "k": 4}
    files = []
    for more in ({}, {"batch": 1}, {"batch": 2}):
        with ProductPlan(library, {**shape, **more}, dtypes, {}) as plan:
            files.append(plan._file(tmp_path))
            assert plan.shape == {**more, **shape}
    assert len(set(files)) == 3
    assert files[0].stem == "96116dfaf4811f060f8018bd49739abe"


def test_bytes_are_multiplied_exactly_and_judged_so(library):
    work = job(cublas(TYPE="i8", B="col"), 7, 12, 20)
    assert work.dtypes == {"a": "i8", "b": "i8", "c": "i32", "accumulate": "i32"}
    assert MATMUL.runs(work) == [(1.0, 0.0), (2.0, -1.0)]
    matrices = MATMUL.inputs(work)
    assert [matrices[name].dtype for name in "abc"] == [np.int8, np.int8, np.int32]
    for alpha, beta in MATMUL.runs(work):
        got = multiplied(library, work, alpha, beta)
        assert got.dtype == storage("i32")
        judged = MATMUL.judge(work, {"c": got}, matrices, alpha, beta)
        assert judged.verdict == "correct" and judged.badness == (False, 0.0)
        got[5 * 12 + 3] += 1  # one unit in one element is wrong
        judged = MATMUL.judge(work, {"c": got}, matrices, alpha, beta)
        assert judged.badness == (True, np.inf)
        assert f"C[5, 3] is {got[63]}, expected {got[63] - 1}" in judged.reason


@pytest.mark.parametrize("kind", ["e4m3_f22", "e4m3_f32", "e5m2_f22"])
def test_fp8_has_scales_and_a_single_form(library, kind):
    chosen = cublas(TYPE=kind, B="col")
    work = job(chosen, 7, 24, 48)
    right(library, work)
    with ProductPlan(library, work.shape, work.dtypes, work.layouts) as plan:
        assert library.lt.kept[plan._operation - 1][25] == (kind.endswith("f22"))
    for sizes in ((1, 8, 16), (8, 4, 16), (8, 8, 8)):
        supported = chosen.supports(dict(zip("mnk", sizes)), {"arch": 90}) == ""
        assert taken(library, chosen, chosen.layouts, *sizes) == supported
    with pytest.raises(UserError, match="e4m3"):
        cublas(TYPE=kind)


def test_bytes_have_a_single_form_and_a_fraction_is_refused(library):
    """The `where` and `requires` of cublas.yaml exclude exactly the cases that the library refuses."""
    device, chosen = {"arch": 90}, cublas(TYPE="i8", B="col")
    for a, b in itertools.product(("row", "col"), repeat=2):
        form = taken(library, chosen, {"a": a, "b": b}, 7, 8, 16)
        assert form == ((a, b) == ("row", "col"))
    with pytest.raises(UserError, match="TYPE != 'i8' or"):
        cublas(TYPE="i8")
    for sizes in ((7, 8, 16), (8, 7, 16), (8, 8, 18), (9, 4, 4), (1, 2, 4)):
        supported = chosen.supports(dict(zip("mnk", sizes)), device) == ""
        assert taken(library, chosen, chosen.layouts, *sizes) == supported
    assert chosen.supports({"m": 1, "n": 7, "k": 8}, device) == "n = 7 is not a multiple of 4"
    plan = ProductPlan(library, dict.fromkeys("mnk", 4), chosen.dtypes, chosen.layouts)
    with plan, pytest.raises(ValueError, match="whole numbers"):
        plan.prepare(dict.fromkeys("abc", 0), 0.75, 0.0)


def test_a_vector_is_contiguous(library):
    matrix = {"m": 8192, "n": 8192, "k": 8192}
    rows, columns = dict.fromkeys("abc", "row"), dict.fromkeys("abc", "col")
    assert contiguous_layouts(matrix, {}) == rows
    # n = 1: B and C are columns, and as row-major ones their leading dimension would be 1.
    vector = {**matrix, "n": 1}
    assert contiguous_layouts(vector, rows) == {**columns, "a": "row"}
    assert contiguous_layouts({**matrix, "m": 1}, columns) == {**rows, "b": "col"}
    assert contiguous_layouts({"m": 1, "n": 1, "k": 1}, rows) == rows
    with ProductPlan(library, vector, cublas().dtypes, rows) as plan:
        assert {library.lt.kept[layout - 1][3] for layout in plan._layouts.values()} == {8192}


@pytest.mark.parametrize(
    ("text", "name", "status"),
    [
        ("CUBLAS_STATUS_NOT_SUPPORTED (15): not supported", "NOT_SUPPORTED", "unsupported"),
        ("not supported (CUBLAS_STATUS_NOT_SUPPORTED)", "NOT_SUPPORTED", "unsupported"),
        ("CUBLAS_STATUS_EXECUTION_FAILED (13)", "EXECUTION_FAILED", "failed to launch"),
        ("something else", "ERROR", "failed to launch"),
    ],
)
def test_errors_of_the_library(text, name, status):
    with pytest.raises(CudaError) as caught, cuda_errors():
        raise cuBLASLtError(text)
    properties = (caught.value.name, caught.value.status, caught.value.poisoned)
    assert properties == (f"CUBLAS_STATUS_{name}", status, False)


def test_a_type_without_a_product_or_an_algorithm_is_unsupported(library):
    dtypes = {"a": "i8", "b": "i8", "c": "f32", "accumulate": "f32"}
    with pytest.raises(CudaError) as caught:
        ProductPlan(library, {"m": 4, "n": 4, "k": 4}, dtypes, {})
    assert caught.value.status == "unsupported"
    library.lt.algorithms = 0
    assert not taken(library, cublas(), cublas().layouts, 4, 4, 4)


def test_ids_of_the_row_major_variants_have_no_layout_in_them():
    assert cublas().id == "cublas" and set(cublas().layouts.values()) == {"row"}
    assert cublas(TYPE="tf32", B="col").id == "cublas-typetf32-bcol"
    variants = choices(CUBLAS, "each_dtype", Path("x"), "macros")
    plain = {chosen.dtype: chosen.id for chosen in variants}
    for dtype, form in {"i8": "-bcol", "e4m3_f22": "-bcol", "bf16_f32": "", "f16_f32": ""}.items():
        assert plain[dtype] == f"cublas-type{dtype}{form}"


class Drifting:
    """Launches that take longer soon after a heavy kernel."""

    def __init__(self, us: float) -> None:
        self.alone, self.closed, self.runs = us, False, 0

    def run(self) -> float:
        Drifting.ran += 1
        self.runs += 1
        return self.alone * (1 + 0.2 * 0.8**Drifting.ran)

    us = run

    def close(self) -> None:
        self.closed = True


def chosen(**us: float) -> bytes:
    plan = ProductPlan.__new__(ProductPlan)
    plan.__dict__["algorithms"] = [name.encode() for name in us]
    blocks = {name.encode(): Drifting(time) for name, time in us.items()}

    def block_of(algorithm: bytes) -> Drifting:
        if algorithm == b"broken":
            raise CudaError("CUBLAS_STATUS_NOT_SUPPORTED", "not here")
        return blocks[algorithm]

    Drifting.ran = 0
    picked = plan.choose(block_of, None)  # type: ignore[arg-type]
    assert all(block.closed for name, block in blocks.items() if name != b"broken")
    ran = [block for block in blocks.values() if block.runs]
    ratios = [block.alone / min(block.alone for block in ran) for block in ran]
    assert [block.runs for block in ran] == [3 - (ratio > 1.15) - (ratio > 2) for ratio in ratios]
    return picked


def test_the_fastest_algorithm_is_chosen_while_the_clock_recovers() -> None:
    assert chosen(first=100, second=106, broken=1, third=108) == b"first"
    assert chosen(first=106, second=104, third=100) == b"third"
    assert chosen(first=230, second=104, third=100) == b"third"
    # Among equal algorithms the heuristic's first.
    assert chosen(first=120, second=100.3, third=100) == b"second"
