/*---
title: A dot product by one block, halving through shared memory
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {BLOCK: [256, 1024]}
block: [BLOCK]
grid: [1]
requires: {arch: 75, conditions: ["m == 1", "n == 1"]}
arguments: [a, b, c, k, alpha, beta]
---*/

// The reduction of many courses: a strided loop, halving with a barrier each, the last warp by shuffles.
extern "C" __global__ void dot_reduce(const float* a, const float* b, float* c, int K, float alpha, float beta)
{
    __shared__ float held[BLOCK];
    const unsigned tid = threadIdx.x;
    float acc = 0.0f;
    for (int p = tid; p < K; p += BLOCK) acc += a[p] * b[p];
    held[tid] = acc;
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 32; s >>= 1) {
        if (tid < s) held[tid] += held[tid + s];
        __syncthreads();
    }
    if (tid >= 32) return;
    acc = held[tid] + held[tid + 32];
    for (int distance = 16; distance; distance >>= 1) acc += __shfl_down_sync(0xffffffffu, acc, distance);
    if (tid == 0) *c = beta == 0.0f ? alpha * acc : alpha * acc + beta * *c;
}
