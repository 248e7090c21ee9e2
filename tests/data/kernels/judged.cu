/*---
title: A test kernel
operation: matmul
dtypes: {a: DTYPE, b: DTYPE, c: DTYPE, accumulate: DTYPE}
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
arguments: [a, b, c, m, n, k]
---*/

#include <cuda_fp16.h>
using f32 = float;
using f16 = __half;
extern "C" __global__ void NAME(const DTYPE* a, const DTYPE* b, DTYPE* c, int m, int n, int k)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= n || y >= m) return;
    DTYPE sum = 0.f;
    for (int i = 0; i < k; ++i) sum = FMA(a[y * k + i], b[i * n + x], sum);
    c[y * n + x] = LAST;
}
