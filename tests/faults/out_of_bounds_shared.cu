/*---
title: Reads past its dynamic shared memory
operation: reverse
dtypes: {d: i32}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// The mirror image of element i is n - 1 - i; without the 1, thread 0 reads the word behind the last one.
extern "C" __global__ void out_of_bounds_shared(int* d, int n)
{
    extern __shared__ int parked[];
    const int i = threadIdx.x;
    parked[i] = d[i];
    __syncthreads();
    d[i] = parked[n - i];  // BUG: parked[n] for thread 0
}
