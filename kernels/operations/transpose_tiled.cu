/*---
title: Transpose through a tile in shared memory, with and without a column of padding
operation: transpose
follows: transpose_naive
dtypes: {a: f32, b: f32}
macros: {PAD: [0, 1]}
block: [32, 8]
grid: ["ceil(n / 32)", "ceil(m / 32)"]
requires: {arch: 75}
arguments: [a, b, m, n]
---*/

// A block turns a tile of 32 x 32 in shared memory, so that both its reads and its writes are whole rows.
// Reading the tile by columns, a warp's 32 words are 32 + PAD words apart: without padding all of them lie
// in one bank, and the load takes 32 wavefronts; with one word of padding they lie in 32 banks.

extern "C" __global__ void __launch_bounds__(256)
transpose_tiled(const float* a, float* b, int m, int n)
{
    __shared__ float tile[32][32 + PAD];
    const int x = threadIdx.x;

    for (int y = threadIdx.y; y < 32; y += 8) {
        const int row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x;
        if (row < m && column < n) {
            tile[y][x] = a[static_cast<long long>(row) * n + column];
        }
    }
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8) {
        const int row = blockIdx.x * 32 + y, column = blockIdx.y * 32 + x;
        if (row < n && column < m) {
            b[static_cast<long long>(row) * m + column] = tile[x][y];
        }
    }
}
