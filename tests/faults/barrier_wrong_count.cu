/*---
title: A barrier that counts more threads than come
operation: reverse
dtypes: {d: i32}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, n: 64, conditions: ["n <= 512"]}
arguments: [d, n]
---*/

// Each pair of warps reverses its own 64 elements and needs a barrier of 64 threads; the count says 96. Which
// pair has which barrier is in a register, so the count is all that is wrong.
extern "C" __global__ void barrier_wrong_count(int* d, int n)
{
    extern __shared__ int parked[];
    const int i = threadIdx.x;
    parked[n - 1 - i] = d[i];
    const int pair = min(i, n - 1 - i) / 32 + 1;  // the two warps that mirror each other
    asm volatile("bar.sync %0, %1;" ::"r"(pair), "n"(96) : "memory");  // BUG: 64 threads come
    d[i] = parked[i];
}
