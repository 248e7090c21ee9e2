/*---
title: Memory that lives longer than a launch
operation: copy
dtypes: {a: f32, b: f32}
macros: {BUG: [0, 1, 2, 3]}
block: [128]
grid: ["ceil(n / 128)"]
requires: {arch: 75, n: 128}
buffers:
  parts: {dtype: f32, size: n}
arguments: [a, b, n, parts]
---*/

__device__ unsigned arrived;

// The last block copies. BUG 1: it does not reset the counter. 2: it reads parts that no block wrote. 3: a barrier in both
// branches, which is a hint.
extern "C" __global__ void lasting(const float* a, float* b, int n, float* parts)
{
    __shared__ bool last;
    const int at = blockIdx.x * 128 + threadIdx.x;
    if (BUG != 2 || threadIdx.x) parts[at] = a[at];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
    if (BUG == 3 && threadIdx.x < 64) {
        __syncthreads();
        if (last) b[at] = 0;
    } else {
        __syncthreads();
    }
    if (!last) return;
    for (int i = threadIdx.x; i < n; i += 128) b[i] = parts[i];
    if (BUG != 1 && threadIdx.x == 0) arrived = 0;
}
