/*---
title: Waits for a flag that nobody sets
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
macros: {BLOCK: [128]}
block: [BLOCK]
grid: ["ceil(n / BLOCK)"]
requires: {arch: 75}
arguments: [a, b, c, n]
---*/

// The last warp adds and the others wait until it has; the thread that should say so does not exist.
extern "C" __global__ void infinite_spin(const float* a, const float* b, float* c, int n)
{
    __shared__ volatile int done;
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    if (threadIdx.x >= BLOCK - 32) {
        for (int i = blockIdx.x * BLOCK + threadIdx.x % 32; i < min(n, (blockIdx.x + 1) * BLOCK); i += 32) {
            c[i] = a[i] + b[i];
        }
        if (threadIdx.x == blockDim.x) done = 1;  // one too far: blockDim.x - 1 is the last thread
        return;
    }
    while (done == 0) {  // BUG: for ever
    }
}
