/*---
title: NAME
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
block: [256]
grid: ["ceil(n / 256)"]
arguments: [a, b, c, n]
---*/
#include <cassert>
MORE
extern "C" __global__ void NAME(const float* a, const float* b, float* c, int n)
{
    const long long i = blockIdx.x * 256ll + threadIdx.x;
    FAULT
    if (i < n) c[i] = a[i] + b[i];
}
