/*---
title: Softmax of rows in two launches
operation: softmax
dtypes: {x: f32, y: f32}
requires: {arch: 75}
entry: quotients
buffers:
  largest: {dtype: f32, size: rows}
  sums: {dtype: f32, size: rows}
launches:
  - {entry: statistics, block: [32], grid: [rows], arguments: [x, largest, sums, columns]}
  - entry: quotients
    block: [128]
    grid: ["ceil(columns / 128)", rows]
    arguments: [x, y, largest, sums, columns]
---*/

// A warp a row finds the maximum and the sum; then a thread an element divides.

extern "C" __global__ void statistics(const float* x, float* largest, float* sums, int columns)
{
    const float* row = x + static_cast<long long>(blockIdx.x) * columns;
    float most = -__int_as_float(0x7f800000), sum = 0;
    for (int j = threadIdx.x; j < columns; j += 32) most = fmaxf(most, row[j]);
    for (int d = 16; d; d /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, d));
    for (int j = threadIdx.x; j < columns; j += 32) sum += __expf(row[j] - most);
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
    if (threadIdx.x == 0) {
        largest[blockIdx.x] = most;
        sums[blockIdx.x] = sum;
    }
}

extern "C" __global__ void quotients(const float* x, float* y, const float* largest,
                                     const float* sums, int columns)
{
    const int j = blockIdx.x * 128 + threadIdx.x;
    if (j >= columns) return;
    const long long at = static_cast<long long>(blockIdx.y) * columns + j;
    y[at] = __expf(x[at] - largest[blockIdx.y]) / sums[blockIdx.y];
}
