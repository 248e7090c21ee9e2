/*---
title: Transposed
follows: elsewhere
operation: OPERATION
dtypes: {a: f32, b: f32}
block: [32, 32]
grid: ["ceil(n / 32)", "ceil(m / 32)"]
entry: transposed
arguments: [a, b, m, n]
---*/
__global__ void transposed(const float* from, float* to, int rows, int columns)
{
    PADDED
    int row = blockIdx.y * 32 + threadIdx.y, column = blockIdx.x * 32 + threadIdx.x;
    if (row < rows && column < columns)
        tile[threadIdx.y][threadIdx.x] = from[row * columns + column];
    __syncthreads();
    row = blockIdx.x * 32 + threadIdx.y, column = blockIdx.y * 32 + threadIdx.x;
    if (row < columns && column < rows)
        to[row * rows + column] = tile[threadIdx.x][threadIdx.y];
}
