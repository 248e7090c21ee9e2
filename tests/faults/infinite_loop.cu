/*---
title: A grid-stride loop whose stride is 0
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
macros: {BLOCK: [128]}
block: [BLOCK]
grid: [1]
requires: {arch: 75}
arguments: [a, b, c, n]
---*/

// Half the grid strides over each half of the vectors, and half of one block is none.
extern "C" __global__ void infinite_loop(const float* a, const float* b, float* c, int n)
{
    const int stride = gridDim.x / 2 * BLOCK;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += stride) {  // BUG: stride is 0
        c[i] = a[i] + b[i];  // BUG: again and again
    }
}
