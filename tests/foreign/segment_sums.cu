/*---
title: Sums of rows of unequal length
operation: probe
block: [128]
grid: [1]
requires: {arch: 75}
arguments: [lengths, data, sums, rows]
buffers:
  lengths: {dtype: i32, size: 100}
  data: {dtype: i32, size: 4000}
  sums: {dtype: i32, size: 100, expect: "min(7 * lane % 33, 5 * lane % 40) * lane + min(7 * lane % 33, 5 * lane % 40) * (min(7 * lane % 33, 5 * lane % 40) - 1) // 2"}
cases:
  rows:
    # row r holds r, r + 1, ... and ends at a -1 (element 5 r % 40) or after 7 r % 33 elements
    values:
      lengths: "7 * lane % 33"
      data: "(lane // 40 + lane % 40) * (lane % 40 != lane // 40 * 5 % 40) - (lane % 40 == lane // 40 * 5 % 40)"
    scalars: {rows: 100}
---*/

// A thread a row: lanes leave the loop at different times and for two reasons, some threads have no row and
// some rows no element.
extern "C" __global__ void segment_sums(const int* lengths, const int* data, int* sums, int rows)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const int length = lengths[row];
    if (length == 0) {
        sums[row] = 0;
        return;
    }
    int sum = 0;
    int i = 0;
    while (true) {
        const int value = data[row * 40 + i];
        if (value < 0) break;
        sum += value;
        if (++i == length) break;
    }
    sums[row] = sum;
}
