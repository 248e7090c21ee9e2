/*---
title: Threads that end before a barrier
operation: reverse
dtypes: {d: i32}
block: [1024]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// Right: a block of fixed size, and whoever has no element ends before the barrier. From compute capability
// 7.0 on a barrier does not wait for threads that have ended, neither whole warps nor lanes of one.
extern "C" __global__ void early_exit_ok(int* d, int n)
{
    extern __shared__ int parked[];
    const int i = threadIdx.x;
    if (i >= n) return;
    parked[i] = d[i];
    __syncthreads();
    d[i] = parked[n - 1 - i];
}
