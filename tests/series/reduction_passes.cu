/*---
title: Sum of an array in three launches of two instances of a template
operation: reduction
dtypes: {x: f32, total: f32}
macros: {BLOCK: [128, 64]}
requires: {arch: 75}
let: {some: "ceil(n / (4 * BLOCK))", few: "ceil(some / (4 * BLOCK))"}
buffers:
  parts: {dtype: f32, size: some}
  fewer: {dtype: f32, size: few}
launches:
  - {entry: "sums<BLOCK, false>", block: [BLOCK], grid: [some], arguments: [x, parts, n]}
  - {entry: "sums<BLOCK, false>", block: [BLOCK], grid: [few], arguments: [parts, fewer, some]}
  - {entry: "sums<BLOCK, true>", block: [BLOCK], arguments: [fewer, total, few]}
---*/

// A block adds up its part of the array; the last launch adds the few that are left to the total.

template <int THREADS, bool ADDED>
__global__ void sums(const float* in, float* out, int count)
{
    __shared__ float parts[THREADS];
    float sum = 0;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) sum += in[i];
    parts[threadIdx.x] = sum;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = ADDED ? out[blockIdx.x] + parts[0] : parts[0];
}
