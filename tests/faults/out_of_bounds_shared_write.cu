/*---
title: Gets a quarter of the shared memory it fills
operation: reverse
dtypes: {d: i32}
block: ["n"]
grid: [1]
shared_bytes: "n"
requires: {arch: 75, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// The launch counts elements where bytes are wanted: three quarters of the stores fall outside.
extern "C" __global__ void out_of_bounds_shared_write(int* d, int n)
{
    extern __shared__ int parked[];
    const int i = threadIdx.x;
    parked[i] = d[i];  // BUG: 4 n bytes are written, n are there
    __syncthreads();
    d[i] = parked[n - 1 - i];
}
