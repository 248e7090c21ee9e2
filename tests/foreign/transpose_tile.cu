/*---
title: A transposition through shared memory
operation: probe
macros: {PLACE: [padded, plain, swizzled]}
block: [32, 8]
grid: [3, 2]
requires: {arch: 75}
arguments: [x, y, rows, columns]
buffers:
  x: {dtype: i32, size: 3500}
  y: {dtype: i32, size: 3500, expect: "lane % 50 * 70 + lane // 50"}
cases:
  padded: {macros: {PLACE: padded}, values: {x: "lane"}, scalars: {rows: 50, columns: 70}}
  plain: {macros: {PLACE: plain}, values: {x: "lane"}, scalars: {rows: 50, columns: 70}}
  swizzled: {macros: {PLACE: swizzled}, values: {x: "lane"}, scalars: {rows: 50, columns: 70}}
---*/

// 32 x 32 words, written by rows and read by columns: 32 lanes in one bank, unless a row is padded or its words
// change places.
#define PLACE_plain 0
#define PLACE_padded 1
#define PLACE_swizzled 2
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)
#define HOW WORD(PLACE_, PLACE)

extern "C" __global__ void transpose_tile(const int* x, int* y, int rows, int columns)
{
    constexpr int PITCH = HOW == PLACE_padded ? 33 : 32;
    __shared__ int tile[32 * PITCH];
    const auto at = [&](int row, int column) -> int& {
        return tile[row * PITCH + (HOW == PLACE_swizzled ? column ^ row : column)];
    };
    const int column = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        const int row = blockIdx.y * 32 + j;
        if (row < rows && column < columns) at(j, threadIdx.x) = x[row * columns + column];
    }
    __syncthreads();
    const int new_column = blockIdx.y * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += 8) {
        const int new_row = blockIdx.x * 32 + j;
        if (new_row < columns && new_column < rows) y[new_row * rows + new_column] = at(threadIdx.x, j);
    }
}
