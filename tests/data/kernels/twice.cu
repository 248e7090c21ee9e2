/*---
title: Twice
operation: twice
dtypes: {x: f32, y: f32}
block: [64]
grid: ["ceil(n / 64)"]
arguments: [x, y, n]
---*/

extern "C" __global__ void NAME(const float* x, float* y, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
