"""Alignment of a matrix product's dimensions: what it is, whom it concerns, what is recommended.

A tensor-core kernel brings its operands in with 16-byte accesses. A row of a matrix (a column, where
it is stored by columns) begins at a whole number of row strides, so the widest access that fits
every row is decided by the largest power of two that divides the stride in bytes, and the stride is
the *contiguous* dimension of the operand: its fastest varying one. The other dimension only says
how many rows there are.

Matrices are ``a`` (m x k), ``b`` (k x n) and ``c`` (m x n), layouts ``row`` or ``col``; sizes are in
elements.
"""

from collections.abc import Mapping
from dataclasses import dataclass

EXTENTS = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n")}
"""Rows and columns of each operand."""


def alignment(size: int) -> int:
    """The largest power of two that divides a size: 4095 -> 1, 4088 -> 8, 3968 -> 128.

    Raises ValueError where the size is not positive.
    """
    if size < 1:
        raise ValueError(f"a size must be positive, found {size}")
    return size & -size


def contiguous(layouts: Mapping[str, str]) -> dict[str, str]:
    """The fastest varying dimension of each operand: columns where it is stored by rows.

    An operand that is not named is stored by rows. Raises ValueError for another word.
    """
    found = {}
    for name, (rows, columns) in EXTENTS.items():
        layout = layouts.get(name, "row")
        if layout not in ("row", "col"):
            raise ValueError(f"layout of {name}: found {layout!r}, allowed: row, col")
        found[name] = columns if layout == "row" else rows
    return found


def operands_along(dimension: str, layouts: Mapping[str, str]) -> tuple[str, ...]:
    """The operands in which a dimension is contiguous; none means that it only counts rows."""
    return tuple(name for name, along in contiguous(layouts).items() if along == dimension)


def least_share(size: int, reference: int) -> float:
    """The least share of the reference's rate (TFLOP/s) that needs no alignment to explain.

    A product that is smaller in one dimension, all else equal, has no more tiles and no more waves
    than the reference and so takes no longer; its rate is then at least ``size / reference`` of the
    reference's, and at most all of it. What falls below is the price of the alignment (or of another
    algorithm, or of another clock). Raises ValueError unless 0 < size <= reference.
    """
    if not 0 < size <= reference:
        raise ValueError(f"needs 0 < size <= {reference}, found {size}")
    return size / reference


@dataclass(frozen=True)
class Recommendation:
    """Multiples of elements for m, n and k that a dtype's tensor-core products should keep.

    Since cuBLAS 11.0 and cuDNN 7.6.3 every multiple runs on the tensor cores; ``recommended`` is most
    efficient, and ``on_a100`` on that GPU.
    """

    dtype: str
    recommended: int
    on_a100: int


RECOMMENDED: Mapping[str, Recommendation] = {
    one.dtype: one
    for one in (
        Recommendation("f16", 8, 64),
        Recommendation("i8", 16, 128),
        Recommendation("tf32", 4, 32),
        Recommendation("f64", 2, 16),
    )
}
"""By dtype of the inputs. Source: NVIDIA, "Matrix Multiplication Background User's Guide", Tensor Core
requirements by library version; the lecture on GEMM performance repeats it. In bytes
every row says the same: 16, one access of a thread, and 128 on A100, one cache line."""


def recommendation(label: str) -> Recommendation | None:
    """The recommendation for a dtype label (``f16_f32``: inputs, then accumulator), if there is one."""
    return RECOMMENDED.get(label.partition("_")[0])
