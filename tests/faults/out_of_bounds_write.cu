/*---
title: Writes past the end of its vector
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
macros: {BLOCK: [256]}
block: [BLOCK]
grid: ["ceil(n / BLOCK)"]
requires: {arch: 75}
arguments: [a, b, c, n]
---*/

// The inputs are guarded by the length, the output is not: the last block's spare threads store as well.
extern "C" __global__ void out_of_bounds_write(const float* a, const float* b, float* c, int n)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    float sum = 0;
    if (i < n) sum = a[i] + b[i];
    c[i] = sum;  // BUG: i may be n or more
}
