"""---
title: Triple loop on one CPU core
operation: matmul
flop_rate: 4.0e+8
provider: cpu
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
layouts: {a: row, b: row, c: row}
macros: {REAL: [f32, f64]}
requires: {}
entry: matmul_cpu
---"""

# The definition of the matrix product and nothing else: rows, columns, then the sum, on one core,
# compiled to machine code but neither blocked nor vectorised nor reassociated. It is what the
# GPU kernels divide among threads, and the floor that every other variant is compared with.

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]


# fastmath stays off: with it LLVM may reorder the sum, which would be another algorithm.
@numba.njit(fastmath=False, parallel=False, error_model="numpy")
def _triple_loop(a, b, c, alpha, beta, zero):  # type: ignore[no-untyped-def]
    m, k = a.shape
    n = b.shape[1]
    for i in range(m):
        for j in range(n):
            total = zero  # of the matrices' own type, so that f32 sums are rounded to f32
            for p in range(k):
                total += a[i, p] * b[p, j]
            if beta == zero:
                c[i, j] = alpha * total  # C may hold NaN here: it must not be read
            else:
                c[i, j] = alpha * total + beta * c[i, j]


def matmul_cpu(a: Matrix, b: Matrix, c: Matrix, alpha: float, beta: float) -> None:
    """C[m,n] = alpha A[m,k] B[k,n] + beta C in place, all of one dtype, C-contiguous.

    The first call with a dtype compiles (about a second), so a timing must call it once before.
    """
    real = c.dtype.type
    _triple_loop(a, b, c, real(alpha), real(beta), real(0))
