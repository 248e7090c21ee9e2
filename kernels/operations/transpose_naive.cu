/*---
title: Transpose, each thread one element
operation: transpose
dtypes: {a: f32, b: f32}
block: [32, 8]
grid: ["ceil(n / 32)", "ceil(m / 8)"]
requires: {arch: 75}
arguments: [a, b, m, n]
---*/

// A warp reads 32 neighbours of a row, which is four sectors, and writes them into 32 rows of the result: 32
// sectors, an eighth of each used. The L2 may put them together before they go to memory; the way there
// has them all.

extern "C" __global__ void __launch_bounds__(256)
transpose_naive(const float* a, float* b, int m, int n)
{
    const int column = blockIdx.x * 32 + threadIdx.x;
    const int row = blockIdx.y * 8 + threadIdx.y;
    if (row < m && column < n) {
        b[static_cast<long long>(column) * m + row] = a[static_cast<long long>(row) * n + column];
    }
}
