/*---
title: Producers that do not wait until a buffer is empty
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
macros: {PIECES: [6]}
block: [128]
grid: ["ceil(n / (64 * PIECES))"]
requires: {arch: 75}
arguments: [a, b, c, n]
---*/

// As named_barriers_ok with a single buffer, and with the barrier for `full` alone, at which both sides meet.
// After it the producers fill the buffer with the next piece while the consumers still read this one.

__device__ __forceinline__ void wait_full() { asm volatile("bar.sync 1, 128;" ::: "memory"); }

extern "C" __global__ void race_named_barriers(const float* a, const float* b, float* c, int n)
{
    __shared__ float sums[64];
    const int lane = threadIdx.x % 64;
    const int first = blockIdx.x * 64 * PIECES;
    if (threadIdx.x < 64) {
#pragma unroll 1
        for (int piece = 0; piece < PIECES; ++piece) {
            const int i = first + piece * 64 + lane;
            sums[lane] = i < n ? a[i] + b[i] : 0.0f;  // BUG: the piece before may not have been read
            wait_full();
        }
    } else {
        const int mirror = 63 - lane;
#pragma unroll 1
        for (int piece = 0; piece < PIECES; ++piece) {
            const int i = first + piece * 64 + mirror;
            wait_full();
            const float sum = sums[mirror];  // BUG: the next piece may be here already
            if (i < n) c[i] = sum;
        }
    }
}
