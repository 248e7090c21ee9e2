/*---
title: Shared-memory tiles, two rows per thread
follows: matmul_tiled
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros: {TILE: [32, 16]}
tile: [TILE, TILE, TILE]
block: [TILE, "TILE // 2"]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The tile of matmul_tiled with half the threads: each owns two elements of a column, half a tile
// apart. An element of B that was read from shared memory now serves two multiply-adds instead of
// one, and the two sums are independent, so one can be issued while the other is under way.

static_assert(TILE >= 4 && TILE % 2 == 0 && TILE * TILE / 2 <= 1024,
              "a block has TILE x TILE/2 threads, at most 1024, and two rows for each");

extern "C" __global__ void __launch_bounds__(TILE * TILE / 2)
matmul_two_outputs(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                   int m, int n, int k, float alpha, float beta)
{
    constexpr int OUTPUTS = 2;
    constexpr int HALF = TILE / OUTPUTS;

    __shared__ __align__(16) float a_tile[TILE][TILE];
    __shared__ __align__(16) float b_tile[TILE][TILE];

    const int x = threadIdx.x;
    const int y = threadIdx.y;
    const int row = blockIdx.y * TILE + y;  // and row + HALF
    const int column = blockIdx.x * TILE + x;

    float sum[OUTPUTS] = {0.0f, 0.0f};
    for (int base = 0; base < k; base += TILE) {
        const int a_column = base + x;
        // Half the threads fill the same two tiles, so each brings two elements of both. Zeros
        // beyond the edge add nothing, and the loop below needs no bounds.
#pragma unroll
        for (int i = 0; i < OUTPUTS; ++i) {
            const int tile_row = y + i * HALF;
            const int a_row = row + i * HALF;
            const int b_row = base + tile_row;
            // 64-bit offsets: a matrix may have more than 2^31 elements.
            a_tile[tile_row][x] =
                a_row < m && a_column < k ? a[static_cast<long long>(a_row) * k + a_column] : 0.0f;
            b_tile[tile_row][x] =
                b_row < k && column < n ? b[static_cast<long long>(b_row) * n + column] : 0.0f;
        }
        __syncthreads();

#pragma unroll
        for (int j = 0; j < TILE; ++j) {
            const float b_element = b_tile[j][x];
#pragma unroll
            for (int i = 0; i < OUTPUTS; ++i) {
                sum[i] += a_tile[y + i * HALF][j] * b_element;
            }
        }
        // Nobody may overwrite a tile that a slower warp still reads.
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < OUTPUTS; ++i) {
        const int c_row = row + i * HALF;
        if (c_row < m && column < n) {
            float* target = c + static_cast<long long>(c_row) * n + column;
            // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
            *target = beta == 0.0f ? alpha * sum[i] : alpha * sum[i] + beta * *target;
        }
    }
}
