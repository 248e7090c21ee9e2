/*---
# Compiled from
#include "mine.cu"
title: Made elsewhere
operation: matmul
cubin: mine_{SIDE}.cubin
entry: mine
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {SIDE: [16, 8]}
block: [SIDE, SIDE]
grid: ["ceil(n / SIDE)", "ceil(m / SIDE)"]
arguments: [a, b, c, m, n, k]
---*/

extern "C" __global__ void NAME(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float row[SIDE][SIDE];
    const int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
    row[threadIdx.y][threadIdx.x] = 0;
    if (x >= n || y >= m) return;
    for (int i = 0; i < k; ++i) row[threadIdx.y][threadIdx.x] += a[y * k + i] * b[i * n + x];
    c[y * n + x] = row[threadIdx.y][threadIdx.x];
}
