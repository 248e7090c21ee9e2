/*---
title: A copy, in vectors of 16 bytes
operation: copy
dtypes: {a: f32, b: f32}
macros: {BLOCK: [256]}
block: [BLOCK]
grid: ["ceil(n / (4 * BLOCK))"]
requires: {arch: 75, n: 4}
arguments: [a, b, n]
---*/

// As little as can be done with memory: each thread moves 16 bytes. Kernels that are bound by memory are
// held against it: the bytes that they must move, in the time that a copy moves as many.

extern "C" __global__ void __launch_bounds__(BLOCK) copy(const float* a, float* b, int n)
{
    const long long i = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
    if (4 * i < n) {
        reinterpret_cast<float4*>(b)[i] = reinterpret_cast<const float4*>(a)[i];
    }
}
