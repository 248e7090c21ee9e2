/*---
title: Vector addition, one element per thread
operation: vector_add
dtypes: {a: f32, b: f32, c: f32}
macros: {BLOCK: [256]}
block: [BLOCK]
grid: ["ceil(n / BLOCK)"]
requires: {arch: 75}
arguments: [a, b, c, n]
---*/

// c = a + b, the smallest whole kernel: one thread an element, the grid rounded up so that a
// length that is no multiple of the block is covered. Nothing is reused, so its time is that of
// 12 bytes of memory traffic an element and it measures bandwidth, not arithmetic.

using f32 = float;

static_assert(BLOCK >= 32 && BLOCK <= 1024 && BLOCK % 32 == 0,
              "BLOCK must be whole warps, at most 1024 threads");

extern "C" __global__ void __launch_bounds__(BLOCK)
vector_add(const f32* __restrict__ a, const f32* __restrict__ b, f32* __restrict__ c, int n)
{
    // 64-bit: with n near 2^31 the rounded-up grid has indices that an int cannot hold.
    const long long i = static_cast<long long>(blockIdx.x) * BLOCK + threadIdx.x;
    // The last block has threads beyond the end; they must not touch memory.
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
