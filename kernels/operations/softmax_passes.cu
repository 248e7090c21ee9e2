/*---
title: Softmax of rows in three passes
operation: softmax
dtypes: {x: f32, y: f32}
block: [256]
grid: [rows]
requires: {arch: 75}
arguments: [x, y, columns]
---*/

// A block a row: the maximum, then the sum of the exponentials, then the quotients. Each pass reads the
// row again; what is small comes from the L1 then, what is large from the L2.

template <typename Combine>
__device__ float of_block(float value, Combine combine)
{
    __shared__ float parts[8];
    for (int distance = 16; distance; distance /= 2) {
        value = combine(value, __shfl_xor_sync(0xffffffff, value, distance));
    }
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < 8; ++warp) {
        value = combine(value, parts[warp]);
    }
    __syncthreads();
    return value;
}

extern "C" __global__ void __launch_bounds__(256)
softmax_passes(const float* x, float* y, int columns)
{
    const float* row = x + static_cast<long long>(blockIdx.x) * columns;
    float* out = y + static_cast<long long>(blockIdx.x) * columns;

    float largest = -__int_as_float(0x7f800000);
    for (int j = threadIdx.x; j < columns; j += 256) {
        largest = fmaxf(largest, row[j]);
    }
    largest = of_block(largest, [](float a, float b) { return fmaxf(a, b); });

    float sum = 0;
    for (int j = threadIdx.x; j < columns; j += 256) {
        sum += __expf(row[j] - largest);
    }
    sum = of_block(sum, [](float a, float b) { return a + b; });

    for (int j = threadIdx.x; j < columns; j += 256) {
        out[j] = __expf(row[j] - largest) / sum;
    }
}
