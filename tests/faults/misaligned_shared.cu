/*---
title: Wide loads from a tile padded by one word
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {TILE: [16]}
tile: [TILE, TILE, TILE]
block: [TILE, TILE]
grid: ["ceil(n / TILE)", "ceil(m / TILE)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The padding that cures the bank conflicts of narrow reads moves every row but each fourth off the 16-byte
// grid that wide reads need.
extern "C" __global__ void misaligned_shared(const float* __restrict__ a, const float* __restrict__ b,
                                             float* __restrict__ c, int m, int n, int k, float alpha, float beta)
{
    __shared__ __align__(16) float a_tile[TILE][TILE + 1];
    __shared__ __align__(16) float b_tile[TILE][TILE];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
    float sum = 0;
    for (int base = 0; base < k; base += TILE) {
        a_tile[y][x] = row < m && base + x < k ? a[(long long)row * k + base + x] : 0.0f;
        b_tile[y][x] = base + y < k && column < n ? b[(long long)(base + y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i += 4) {
            const float4 four = *reinterpret_cast<const float4*>(&a_tile[y][i]);  // BUG: row y begins at 68 y bytes
            sum += four.x * b_tile[i][x] + four.y * b_tile[i + 1][x];
            sum += four.z * b_tile[i + 2][x] + four.w * b_tile[i + 3][x];
        }
        __syncthreads();
    }
    if (row >= m || column >= n) return;
    float* target = c + (long long)row * n + column;
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
