/*---
title: Transpose through a swizzled tile, in vectors of 16 bytes
operation: transpose
follows: transpose_tiled
dtypes: {a: f32, b: f32}
block: [8, 32]
grid: ["ceil(n / 32)", "ceil(m / 32)"]
requires: {arch: 75, m: 4, n: 4}
arguments: [a, b, m, n]
---*/

// Padding would break the alignment that vectors of 16 bytes need. Instead the four words of a vector are
// stored at places that depend on the row: word (row, column) lies at column ^ row, so that a column of the
// tile is spread over all banks and no word of memory is lost. Each thread moves four words from and to
// memory with one instruction.

__device__ int place(int row, int column)
{
    return row * 32 + (column ^ row);
}

extern "C" __global__ void __launch_bounds__(256)
transpose_swizzled(const float* a, float* b, int m, int n)
{
    __shared__ float tile[32 * 32];
    const int x = threadIdx.x * 4, y = threadIdx.y;

    if (const int row = blockIdx.y * 32 + y, column = blockIdx.x * 32 + x; row < m && column < n) {
        const float4 four =
            *reinterpret_cast<const float4*>(a + static_cast<long long>(row) * n + column);
        tile[place(y, x)] = four.x;
        tile[place(y, x + 1)] = four.y;
        tile[place(y, x + 2)] = four.z;
        tile[place(y, x + 3)] = four.w;
    }
    __syncthreads();
    if (const int row = blockIdx.x * 32 + y, column = blockIdx.y * 32 + x; row < n && column < m) {
        const float4 four = make_float4(tile[place(x, y)], tile[place(x + 1, y)],
                                        tile[place(x + 2, y)], tile[place(x + 3, y)]);
        *reinterpret_cast<float4*>(b + static_cast<long long>(row) * m + column) = four;
    }
}
