/*---
title: A product with leading dimensions
operation: matmul
dtypes: {a: REAL, b: REAL, c: SUM, accumulate: SUM}
macros: {REAL: [f32, f64, i8], SUM: [f32, f64, i32], ORDER: [row, col], FAULT: [none, reads, writes]}
where: ["REAL != i8 or SUM == i32", "REAL == i8 or REAL == SUM"]
layouts: {a: ORDER, b: row, c: ORDER}
let: {padded: "ceil(k / 8) * 8 + 8"}
strides: {lda: "padded if ORDER == row else m + 8", ldc: "(n if ORDER == row else m) + 3"}
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
arguments: [m, n, k, alpha, a, lda, b, ldb, beta, c, ldc, "lda * size(REAL)"]
---*/

// A kernel as libraries have them. B has no padding, and `ldb` is its extent.

using f32 = float;
using f64 = double;
using i8 = signed char;
using i32 = int;

constexpr int row = 0, col = 1, none = 0, reads = 1, writes = 2;

extern "C" __global__ void gemm_leading(int m, int n, int k, SUM alpha, const REAL* a, int lda, const REAL* b,
                                        int ldb, SUM beta, SUM* c, long long ldc, size_t pitch)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= n || y >= m || pitch != lda * sizeof(REAL)) return;
    SUM sum = 0;
    for (int i = 0; i < k; ++i) {
        // The last element comes from behind the row.
        const int from = FAULT == reads && i == k - 1 ? k : i;
        const REAL* one = ORDER == row ? a + (long long)y * lda + from : a + (long long)from * lda + y;
        sum += SUM(*one) * SUM(b[(long long)i * ldb + x]);
    }
    SUM* target = c + (ORDER == row ? y * ldc + x : x * ldc + y);
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
    if (FAULT == writes && (ORDER == row ? x == n - 1 : y == m - 1)) c[ORDER == row ? y * ldc + n : x * ldc + m] = 0;
}
