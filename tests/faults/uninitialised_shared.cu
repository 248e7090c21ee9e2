/*---
title: Leaves the tile's edge unwritten
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {TILE: [16]}
tile: [TILE, TILE, TILE]
block: [TILE, TILE]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Threads beyond the edge load nothing instead of zeros. With k = 8 half of each tile is never written, and
// the sum runs over the whole of it.
extern "C" __global__ void uninitialised_shared(const float* __restrict__ a, const float* __restrict__ b,
                                                float* __restrict__ c, int m, int n, int k, float alpha,
                                                float beta)
{
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int base = 0; base < k; base += TILE) {
        if (row < m && base + x < k) a_tile[y][x] = a[(long long)row * k + base + x];
        if (base + y < k && column < n) b_tile[y][x] = b[(long long)(base + y) * n + column];
        __syncthreads();
        for (int i = 0; i < TILE; ++i) sum += a_tile[y][i] * b_tile[i][x];  // BUG: i up to 15, 8 are there
        __syncthreads();
    }
    if (row >= m || column >= n) return;
    float* target = c + (long long)row * n + column;
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
