/*---
title: A test kernel
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
macros: {REAL: [f32, f64], TILE: [16, 32]}
tile: [TILE, TILE, 1]
block: [TILE, TILE]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

using f32 = float;
using f64 = double;
extern "C" __global__ void NAME(const REAL* a, const REAL* b, REAL* c, int m, int n, int k,
                                REAL alpha, REAL beta)
{
    __shared__ REAL held[TILE];
    const int column = blockIdx.x * TILE + threadIdx.x;
    const int row = blockIdx.y * TILE + threadIdx.y;
    if (threadIdx.y == 0) {
        held[threadIdx.x] = alpha;
    }
    __syncthreads();
    if (row >= m || column >= n) {
        return;
    }
    REAL sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    }
    REAL* target = c + (long long)row * n + column;
    *target = beta == 0 ? held[threadIdx.x] * sum : held[threadIdx.x] * sum + beta * *target;
}
