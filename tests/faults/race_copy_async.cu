/*---
title: Reads a tile while its asynchronous copy is on the way
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {MISSING: [wait, barrier, group, none], TILE: [16]}
tile: [TILE, TILE, TILE]
block: [TILE, TILE]
grid: ["n // TILE", "m // TILE"]
requires: {arch: 80, m: TILE, n: TILE, k: TILE}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Tiles come by cp.async, four bytes a thread. A reader must know that its own copies have landed (the wait)
// and that everybody else's have (the barrier). MISSING wait leaves out the one, barrier the other; group
// waits for all groups but the last, which is the one that is read.

#define MISSING_none 0
#define MISSING_wait 1
#define MISSING_barrier 2
#define MISSING_group 3
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)
#define LEFT_OUT WORD(MISSING_, MISSING)

__device__ __forceinline__ void copy(float* destination, const float* source)
{
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(destination));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(address), "l"(source) : "memory");
}

extern "C" __global__ void race_copy_async(const float* __restrict__ a, const float* __restrict__ b,
                                           float* __restrict__ c, int m, int n, int k, float alpha, float beta)
{
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int base = 0; base < k; base += TILE) {
        copy(&a_tile[y][x], a + (long long)row * k + base + x);     // BUG copy
        copy(&b_tile[y][x], b + (long long)(base + y) * n + column);  // BUG copy
        asm volatile("cp.async.commit_group;" ::: "memory");
#if LEFT_OUT == MISSING_group
        asm volatile("cp.async.wait_group 1;" ::: "memory");
#elif LEFT_OUT != MISSING_wait
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#endif
#if LEFT_OUT != MISSING_barrier
        __syncthreads();
#endif
        for (int i = 0; i < TILE; ++i) {
            sum += a_tile[y][i] * b_tile[i][x];  // BUG: the words may still be on their way
        }
        __syncthreads();
    }
    float* target = c + (long long)row * n + column;
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
