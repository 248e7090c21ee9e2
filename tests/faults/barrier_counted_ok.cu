/*---
title: A barrier whose number and count are in registers
operation: reverse
dtypes: {d: i32}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, n: 64, conditions: ["n <= 512"]}
arguments: [d, n]
---*/

// Right: as barrier_wrong_count, with the count that is needed. The machine takes number and count from one
// register.
extern "C" __global__ void barrier_counted_ok(int* d, int n)
{
    extern __shared__ int parked[];
    const int i = threadIdx.x;
    parked[n - 1 - i] = d[i];
    const int pair = min(i, n - 1 - i) / 32 + 1;  // the two warps that mirror each other
    asm volatile("bar.sync %0, %1;" ::"r"(pair), "r"(min(n, 64)) : "memory");
    d[i] = parked[i];
}
