/*---
title: One output per thread, straight from global memory
follows: matmul_cpu
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
layouts: {a: row, b: row, c: row}
macros: {REAL: [f32, f64], WIDTH: [32], HEIGHT: [8]}
tile: [HEIGHT, WIDTH, 1]
block: [WIDTH, HEIGHT]
grid: ["ceil(n / WIDTH)", "ceil(m / HEIGHT)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The two outer loops of the CPU's triple loop become the grid: each thread owns one element of C
// and walks a row of A and a column of B. Threads of a warp own neighbouring columns, so that B and
// C are read and written in full sectors and A's element is one address for the whole warp; still
// every multiply-add asks the memory system for two operands, and that is what limits it.

using f32 = float;
using f64 = double;

static_assert(WIDTH == 32, "a warp must lie along a row: then B is coalesced and A is a broadcast");
static_assert(WIDTH * HEIGHT <= 1024, "a block has at most 1024 threads");

extern "C" __global__ void __launch_bounds__(WIDTH * HEIGHT)
matmul_naive(const REAL* __restrict__ a, const REAL* __restrict__ b, REAL* __restrict__ c,
             int m, int n, int k, REAL alpha, REAL beta)
{
    const int column = blockIdx.x * WIDTH + threadIdx.x;
    const int row = blockIdx.y * HEIGHT + threadIdx.y;
    if (row >= m || column >= n) {
        return;
    }

    // 64-bit offsets: a matrix may have more than 2^31 elements.
    const REAL* a_row = a + static_cast<long long>(row) * k;
    const REAL* b_column = b + column;
    REAL sum = 0;
    for (int i = 0; i < k; ++i) {
        sum += a_row[i] * b_column[static_cast<long long>(i) * n];
    }

    REAL* target = c + static_cast<long long>(row) * n + column;
    // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
