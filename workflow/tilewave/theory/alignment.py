"""Alignment of a matrix product's dimensions, the operands it concerns, and NVIDIA's recommendations.

A tensor-core kernel loads its operands with 16-byte accesses. A row of a matrix (a column, where it is
stored by columns) begins at a whole number of row strides. So the largest power of two that divides the
stride in bytes limits the access that fits every row. The stride is the *contiguous*, fastest varying
dimension of the operand; the other dimension is the number of rows.

Matrices are ``a`` (m x k), ``b`` (k x n) and ``c`` (m x n), layouts ``row`` or ``col``; sizes are in elements.
"""

from collections.abc import Mapping

from tilewave.theory.quantization import positive

EXTENTS = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}
"""Rows and columns of each operand."""


def alignment(size: int) -> int:
    """Return the largest power of two that divides a size: 4095 -> 1, 4088 -> 8, 3968 -> 128. Raises ValueError."""
    positive(size=size)
    return size & -size


def contiguous(layouts: Mapping[str, str]) -> dict[str, str]:
    """Return the fastest varying dimension of each operand, by rows by default. Raises ValueError."""
    dimensions = {}
    for name, (rows, columns) in EXTENTS.items():
        layout = layouts.get(name, "row")
        if layout not in ("row", "col"):
            raise ValueError(f"layout of {name}: found {layout!r}, allowed: row, col")
        dimensions[name] = columns if layout == "row" else rows
    return dimensions


def operands_along(dimension: str, layouts: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, along in contiguous(layouts).items() if along == dimension)


RECOMMENDED: Mapping[str, tuple[int, int]] = {
    "f16": (8, 64), "i8": (16, 128), "tf32": (4, 32), "f64": (2, 16),
}  # fmt: skip
"""Multiples of elements that m, n and k should be, by dtype of the inputs: in general, and on an A100. Since cuBLAS
11.0 every multiple runs on the tensor cores. Source: NVIDIA, "Matrix Multiplication Background User's Guide", Tensor
Core requirements by library version. In bytes all rows are equal: 16, one access of a thread, and 128, a cache line."""
