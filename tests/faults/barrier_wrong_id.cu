/*---
title: Half of the block waits at another barrier
operation: reverse
dtypes: {d: i32}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, n: 64, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// Both barriers count the whole block, and each gets half of it: nobody ever goes on.
extern "C" __global__ void barrier_wrong_id(int* d, int n)
{
    extern __shared__ int parked[];
    const int i = threadIdx.x;
    parked[i] = d[i];
    if (i < n / 2) {
        asm volatile("bar.sync 1;" ::: "memory");  // BUG: the lower half waits here
    } else {
        asm volatile("bar.sync 2;" ::: "memory");  // BUG: and the upper half here
    }
    d[i] = parked[n - 1 - i];
}
