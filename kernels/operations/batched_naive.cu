/*---
title: Batched product, each thread one element
operation: batched_matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
macros: {REAL: [f32, f64]}
tile: [16, 16, 1]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)", batch]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The naive product with the batch as the grid's third dimension: small products fill the GPU together.

using f32 = float;
using f64 = double;

extern "C" __global__ void __launch_bounds__(256)
batched_naive(const REAL* a, const REAL* b, REAL* c, int m, int n, int k, REAL alpha, REAL beta)
{
    const int column = blockIdx.x * 16 + threadIdx.x;
    const int row = blockIdx.y * 16 + threadIdx.y;
    if (row >= m || column >= n) {
        return;
    }
    const long long at = blockIdx.z;
    a += at * m * k;
    b += at * k * n;
    c += at * m * n;
    REAL sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += a[static_cast<long long>(row) * k + i] * b[static_cast<long long>(i) * n + column];
    }
    REAL* target = c + static_cast<long long>(row) * n + column;
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
