"""What cuBLASLt is told of a product, read back with column-major eyes; no GPU, no library."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewave.gpu.cublaslt import Plan, contiguous_layouts
from tilewave.gpu.device import CudaError, cuda_errors


class FakeLt:
    """Keeps descriptors as cuBLASLt would."""

    MatmulDescAttribute = SimpleNamespace(TRANSA=3, TRANSB=4)

    def __init__(self) -> None:
        self.matrices: list[tuple[int, int, int]] = []
        self.transposed: dict[int, int] = {}

    def matmul_desc_create(self, compute: int, scale: int) -> int:
        return 1

    def matmul_desc_set_attribute(self, desc: int, key: int, address: int, size: int) -> None:
        self.transposed[key] = ctypes.c_int32.from_address(address).value

    def matrix_layout_create(self, dtype: int, rows: int, columns: int, leading: int) -> int:
        self.matrices.append((rows, columns, leading))
        return len(self.matrices) - 1

    def matmul_desc_destroy(self, desc: int) -> None: ...

    def matrix_layout_destroy(self, layout: int) -> None: ...


def plan_of(shape: dict[str, int], layouts: dict[str, str]) -> tuple[Any, FakeLt]:
    lt = FakeLt()
    library: Any = SimpleNamespace(
        lt=lt, blas=SimpleNamespace(ComputeType=SimpleNamespace(COMPUTE_32F=68))
    )
    return Plan(library, shape, dict.fromkeys(("a", "b", "c", "accumulate"), "f32"), layouts), lt


@pytest.mark.parametrize("layouts", [{}, {"a": "col"}, {"b": "col"}, {"a": "col", "c": "col"}])
@pytest.mark.parametrize("m", [1, 4])
@pytest.mark.parametrize("n", [1, 5])
@pytest.mark.parametrize("k", [1, 3])
def test_the_descriptors_describe_the_product(
    m: int, n: int, k: int, layouts: dict[str, str]
) -> None:
    sizes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    matrices = {
        name: np.arange(1.0, 1 + rows * columns).reshape(rows, columns)
        for name, (rows, columns) in sizes.items()
    }
    stored = {
        name: matrix.ravel("F" if layouts.get(name) == "col" else "C")
        for name, matrix in matrices.items()
    }
    plan, lt = plan_of({"m": m, "n": n, "k": k}, layouts)

    def seen(name: str, transposed: int = 0) -> np.ndarray:
        rows, columns, leading = lt.matrices[plan._layouts[name]]
        assert leading == rows
        matrix = stored[name].reshape(rows, columns, order="F")
        return matrix.T if transposed else matrix

    first, second = plan._names
    product = seen(first, lt.transposed[3]) @ seen(second, lt.transposed[4])
    rows, columns, _ = lt.matrices[plan._layouts["c"]]
    assert product.shape == (rows, columns)
    # As cuBLASLt writes it, and as the project's layout of C reads it.
    order: Any = "F" if layouts.get("c") == "col" else "C"
    assert np.array_equal(
        product.ravel("F").reshape(m, n, order=order), matrices["a"] @ matrices["b"]
    )


def test_a_vector_is_contiguous() -> None:
    matrix = {"m": 8192, "n": 8192, "k": 8192}
    rows = {"a": "row", "b": "row", "c": "row"}
    assert contiguous_layouts(matrix, {}) == rows
    # n = 1: B and C are columns, and as row-major ones their leading dimension would be 1.
    assert contiguous_layouts({**matrix, "n": 1}, rows) == {"a": "row", "b": "col", "c": "col"}
    assert contiguous_layouts({**matrix, "m": 1}, dict.fromkeys("abc", "col")) == {
        "a": "row", "b": "col", "c": "row",
    }  # fmt: skip
    assert contiguous_layouts({"m": 1, "n": 1, "k": 1}, rows) == rows
    _, lt = plan_of({**matrix, "n": 1}, rows)
    assert all(leading == 8192 for _, _, leading in lt.matrices)


class cuBLASLtError(Exception):
    """Named as nvmath names its own."""


@pytest.mark.parametrize(
    "text",
    ["the functionality is not supported (CUBLAS_STATUS_NOT_SUPPORTED)", "NOT_SUPPORTED (15)"],
)
def test_what_the_library_does_not_take_is_unsupported(text: str) -> None:
    with pytest.raises(CudaError) as caught, cuda_errors():
        raise cuBLASLtError(text)
    assert (caught.value.name, caught.value.status) == (
        "CUBLAS_STATUS_NOT_SUPPORTED",
        "unsupported",
    )
    assert not caught.value.poisoned
    with pytest.raises(CudaError) as caught, cuda_errors():
        raise cuBLASLtError("something else")
    assert (caught.value.name, caught.value.status) == ("CUBLAS_STATUS_ERROR", "failed to launch")
