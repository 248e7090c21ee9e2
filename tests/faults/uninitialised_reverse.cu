/*---
title: Parks only every other element
operation: reverse
dtypes: {d: i32}
block: ["n // 2"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, n: 2, conditions: ["n <= 2048"]}
arguments: [d, n]
---*/

// Two elements a thread. The second one goes back to front without having been parked.
extern "C" __global__ void uninitialised_reverse(int* d, int n)
{
    extern __shared__ int parked[];
    const int i = threadIdx.x, half = blockDim.x;
    parked[i] = d[i];  // and parked[i + half] = d[i + half] was forgotten
    __syncthreads();
    const int low = parked[n - 1 - i];  // BUG: the upper half was never written
    const int high = parked[n - 1 - i - half];
    d[i] = low;
    d[i + half] = high;
}
