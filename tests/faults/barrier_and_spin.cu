/*---
title: One warp at a barrier, the others spin until it has passed
operation: reverse
dtypes: {d: i32}
block: ["n"]
grid: [1]
shared_bytes: "n * size(i32)"
requires: {arch: 75, n: 64, conditions: ["n <= 1024"]}
arguments: [d, n]
---*/

// Warp 0 announces itself after the barrier, and the others come to the barrier after the announcement.
extern "C" __global__ void barrier_and_spin(int* d, int n)
{
    extern __shared__ int parked[];
    __shared__ volatile int announced;
    const int i = threadIdx.x;
    if (i == 0) announced = 0;
    __syncthreads();
    parked[i] = d[i];
    if (i >= 32) {
        while (announced == 0) {  // BUG: spins for ever
        }
    }
    __syncthreads();  // BUG: warp 0 waits for the spinning ones
    if (i == 0) announced = 1;
    d[i] = parked[n - 1 - i];
}
