/*---
title: Tiles without one of their barriers
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {MISSING: [first, second, none], TILE: [16]}
tile: [TILE, TILE, TILE]
block: [TILE, TILE]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// MISSING first: a warp reads the tile before the others have written it. MISSING second: a fast warp writes
// the next tile over the one that a slow warp still reads. MISSING none is the kernel as it should be.

#define MISSING_none 0
#define MISSING_first 1
#define MISSING_second 2
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)
#define LEFT_OUT WORD(MISSING_, MISSING)

extern "C" __global__ void race_read_write(const float* __restrict__ a, const float* __restrict__ b,
                                           float* __restrict__ c, int m, int n, int k, float alpha, float beta)
{
    __shared__ float a_tile[TILE][TILE];
    __shared__ float b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int base = 0; base < k; base += TILE) {
        a_tile[y][x] = row < m && base + x < k ? a[(long long)row * k + base + x] : 0.0f;                // BUG second
        b_tile[y][x] = base + y < k && column < n ? b[(long long)(base + y) * n + column] : 0.0f;  // BUG second
#if LEFT_OUT != MISSING_first
        __syncthreads();
#endif
        for (int i = 0; i < TILE; ++i) {
            sum += a_tile[y][i] * b_tile[i][x];  // BUG first
        }
#if LEFT_OUT != MISSING_second
        __syncthreads();
#endif
    }
    if (row >= m || column >= n) return;
    float* target = c + (long long)row * n + column;
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
