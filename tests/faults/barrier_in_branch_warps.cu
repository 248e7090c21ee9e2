/*---
title: A barrier that only the first half of the block waits at
operation: reverse
dtypes: {d: i32}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, n: 64, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// The barrier stands in a branch, and the branch is taken by whole warps. Those that do not take it go on and
// read what the others may not have parked yet; they end, and so the barrier opens for the rest.
extern "C" __global__ void barrier_in_branch_warps(int* d, int n)
{
    extern __shared__ int parked[];
    const int i = threadIdx.x;
    parked[i] = d[i];  // BUG: the other half's reads are not ordered behind this
    if (i < n / 2) __syncthreads();  // BUG: the upper half does not wait
    d[i] = parked[n - 1 - i];  // BUG: read without a barrier
}
