/*---
title: Batched product through tiles in shared memory
operation: batched_matmul
follows: batched_naive
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
macros: {REAL: [f32, f64]}
tile: [16, 16, 16]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)", batch]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Each element of a tile is read from memory once for the block and 16 times from shared memory.

using f32 = float;
using f64 = double;

extern "C" __global__ void __launch_bounds__(256)
batched_tiled(const REAL* a, const REAL* b, REAL* c, int m, int n, int k, REAL alpha, REAL beta)
{
    __shared__ REAL left[16][16], right[16][16];
    const int x = threadIdx.x, y = threadIdx.y;
    const int column = blockIdx.x * 16 + x;
    const int row = blockIdx.y * 16 + y;
    const long long at = blockIdx.z;
    a += at * m * k;
    b += at * k * n;
    c += at * m * n;

    REAL sum = 0;
    for (int i = 0; i < k; i += 16) {
        left[y][x] = row < m && i + x < k ? a[static_cast<long long>(row) * k + i + x] : REAL(0);
        right[y][x] = i + y < k && column < n ? b[static_cast<long long>(i + y) * n + column] : REAL(0);
        __syncthreads();
        for (int j = 0; j < 16; ++j) {
            sum += left[y][j] * right[j][x];
        }
        __syncthreads();
    }
    if (row < m && column < n) {
        REAL* target = c + static_cast<long long>(row) * n + column;
        *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
    }
}
