/*---
title: Sum of an array by atomics, of each thread's, warp's or block's part
operation: reduction
dtypes: {x: f32, total: f32}
macros: {ADDS: [thread, warp, block]}
block: [256]
grid: ["min(ceil(n / 256), 8 * sms)"]
requires: {arch: 75}
arguments: [x, total, n]
---*/

// Every thread adds up a part of the array, and the parts are added in memory by atomics: of each thread,
// of each warp (five shuffles before), or of each block (through shared memory). Atomics on one address
// follow each other in the L2, so fewer of them cost less. The order in which they come is
// not the same from run to run: with numbers that need rounding, neither is the sum.

enum Adds { thread, warp, block };

__device__ float of_warp(float sum)
{
    for (int distance = 16; distance; distance /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    }
    return sum;
}

extern "C" __global__ void __launch_bounds__(256)
reduction_atomic(const float* x, float* total, int n)
{
    float sum = 0;
    for (long long i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) {
        sum += x[i];
    }
    if (ADDS == thread) {
        atomicAdd(total, sum);
        return;
    }
    sum = of_warp(sum);
    const int lane = threadIdx.x % 32;
    if (ADDS == block) {
        __shared__ float parts[8];
        if (lane == 0) {
            parts[threadIdx.x / 32] = sum;
        }
        __syncthreads();
        if (threadIdx.x >= 32) {
            return;
        }
        sum = of_warp(lane < 8 ? parts[lane] : 0.0f);
    }
    if (lane == 0) {
        atomicAdd(total, sum);
    }
}
