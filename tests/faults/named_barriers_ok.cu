/*---
title: Producer and consumer warps with named barriers
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
macros: {PIECES: [6]}
block: [128]
grid: ["ceil(n / (64 * PIECES))"]
requires: {arch: 75}
arguments: [a, b, c, n]
---*/

// Right: two warps add, the two others store, and pieces of 64 sums go from the ones to the others through two
// buffers in shared memory. A buffer is full when 64 producers have arrived and 64 consumers wait, and empty
// the other way round: bar.arrive counts without waiting. Both barriers of a buffer therefore count 128.

__device__ __forceinline__ void wait(int barrier) { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void arrive(int barrier)
{
    asm volatile("bar.arrive %0, 128;" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ int full(int buffer) { return 1 + buffer; }
__device__ __forceinline__ int empty(int buffer) { return 3 + buffer; }

extern "C" __global__ void named_barriers_ok(const float* a, const float* b, float* c, int n)
{
    __shared__ float sums[2][64];
    const int lane = threadIdx.x % 64;
    const int first = blockIdx.x * 64 * PIECES;
    if (threadIdx.x < 64) {
#pragma unroll 1
        for (int piece = 0; piece < PIECES; ++piece) {
            const int buffer = piece % 2;
            const int i = first + piece * 64 + lane;
            if (piece >= 2) wait(empty(buffer));
            sums[buffer][lane] = i < n ? a[i] + b[i] : 0.0f;
            arrive(full(buffer));
        }
    } else {
        const int mirror = 63 - lane;
#pragma unroll 1
        for (int piece = 0; piece < PIECES; ++piece) {
            const int buffer = piece % 2;
            const int i = first + piece * 64 + mirror;
            wait(full(buffer));
            const float sum = sums[buffer][mirror];
            // The producers fill a buffer again two pieces later: nobody waits for the last two.
            if (piece + 2 < PIECES) arrive(empty(buffer));
            if (i < n) c[i] = sum;
        }
    }
}
