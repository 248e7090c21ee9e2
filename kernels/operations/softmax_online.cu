/*---
title: Softmax of rows, maximum and sum in one pass
operation: softmax
follows: softmax_passes
dtypes: {x: f32, y: f32}
block: [256]
grid: [rows]
requires: {arch: 75}
arguments: [x, y, columns]
---*/

// The sum is kept relative to the largest element so far: where a larger one comes, what was summed is
// scaled by exp(old - new). So one pass finds both, and the row is read twice instead of three times.

struct Running {
    float largest, sum;
};

__device__ Running merged(Running a, Running b)
{
    const float largest = fmaxf(a.largest, b.largest);
    if (a.largest == largest && b.largest == largest) {
        return {largest, a.sum + b.sum};  // infinity less infinity is no number
    }
    return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
}

extern "C" __global__ void __launch_bounds__(256)
softmax_online(const float* x, float* y, int columns)
{
    const float* row = x + static_cast<long long>(blockIdx.x) * columns;
    float* out = y + static_cast<long long>(blockIdx.x) * columns;

    Running seen = {-__int_as_float(0x7f800000), 0};
    for (int j = threadIdx.x; j < columns; j += 256) {
        seen = merged(seen, {row[j], 1});
    }
    for (int distance = 16; distance; distance /= 2) {
        seen = merged(seen, {__shfl_xor_sync(0xffffffff, seen.largest, distance),
                             __shfl_xor_sync(0xffffffff, seen.sum, distance)});
    }
    __shared__ Running parts[8];
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = seen;
    }
    __syncthreads();
    seen = parts[0];
    for (int warp = 1; warp < 8; ++warp) {
        seen = merged(seen, parts[warp]);
    }
    for (int j = threadIdx.x; j < columns; j += 256) {
        out[j] = __expf(row[j] - seen.largest) / seen.sum;
    }
}
