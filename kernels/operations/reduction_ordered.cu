/*---
title: Sum of an array in one order, the last block adding up the blocks' parts
operation: reduction
follows: reduction_atomic
dtypes: {x: f32, total: f32}
block: [256]
grid: ["min(ceil(n / 1024), 8 * sms)"]
requires: {arch: 75, n: 4}
arguments: [x, total, parts, arrived, n]
buffers:
  parts: {dtype: f32, size: "8 * sms"}
  arrived: {dtype: i32, size: 1, zeroed: true}
---*/

// No float is added by an atomic: each block writes its part, and the one that arrives last, which a
// counter tells, adds them up in the order of the blocks. The same numbers give the same bits in every run.
// Vectors of 16 bytes keep more of memory in flight.

__device__ float of_block(float sum)
{
    __shared__ float parts[8];
    for (int distance = 16; distance; distance /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, distance);
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    sum = 0;
    for (int warp = 0; warp < 8; ++warp) {
        sum += parts[warp];
    }
    __syncthreads();
    return sum;
}

extern "C" __global__ void __launch_bounds__(256)
reduction_ordered(const float* x, float* total, float* parts, int* arrived, int n)
{
    const float4* fours = reinterpret_cast<const float4*>(x);
    float sum = 0;
    for (long long i = blockIdx.x * 256 + threadIdx.x; i < n / 4; i += gridDim.x * 256) {
        const float4 four = fours[i];
        sum += (four.x + four.y) + (four.z + four.w);
    }
    sum = of_block(sum);

    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();  // the part is there before the counter says so
        last = atomicAdd(arrived, 1) == static_cast<int>(gridDim.x) - 1;
    }
    __syncthreads();
    if (!last) {
        return;
    }
    __threadfence();
    sum = 0;
    for (int i = threadIdx.x; i < gridDim.x; i += 256) {
        sum += __ldcg(parts + i);
    }
    sum = of_block(sum);
    if (threadIdx.x == 0) {
        *total += sum;
        *arrived = 0;  // for the next launch
    }
}
