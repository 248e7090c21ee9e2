/*---
title: A test kernel
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

#include <cuda_fp16.h>
struct Five { int numbers[5]; };
extern "C" __global__ void NAME(const float* a, const float* b, float* c, PARAMETERS)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= n || y >= m) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[y * k + i] * b[i * n + x];
    float* target = c + (size_t)y * n + x;
    *target = float(alpha) * sum + (float(beta) == 0 ? 0 : float(beta) * *target);
}
