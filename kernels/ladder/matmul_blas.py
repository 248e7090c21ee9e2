"""---
title: numpy's matmul (the CPU's BLAS)
follows: matmul_cpu
operation: matmul
flop_rate: 2.5e+10
provider: cpu
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
layouts: {a: row, b: row, c: row}
macros: {REAL: [f32, f64]}
requires: {}
entry: matmul_blas
---"""

# The same product from the BLAS that numpy is linked with: blocked for the caches, vectorised, on
# every core that it may use. The distance to matmul_cpu is what those three buy on a CPU, and the
# fair CPU figure to set a GPU's against.

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.floating[Any]]


def matmul_blas(a: Matrix, b: Matrix, c: Matrix, alpha: float, beta: float) -> None:
    """C[m,n] = alpha A[m,k] B[k,n] + beta C in place, all of one dtype."""
    real = c.dtype.type
    if beta == 0:
        np.matmul(a, b, out=c)  # overwrites C without reading it
        if alpha != 1:
            c *= real(alpha)
        return
    product = np.matmul(a, b)
    product *= real(alpha)
    c *= real(beta)
    c += product
