/*---
title: Addition NUMBER
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
macros: {BLOCK: [32, 64]}
block: [BLOCK]
grid: ["ceil(n / BLOCK)"]
requires: {arch: 75}
arguments: [a, b, c, n]
---*/

// c = a + b. The branch that no launch takes makes the code another one than its neighbours'.
extern "C" __global__ void NAME(const float* a, const float* b, float* c, int n)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (n < -NUMBER) c[i] = NUMBER.0f;
    if (i < n) c[i] = a[i] + b[i];
}
