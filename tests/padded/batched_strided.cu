/*---
title: A batched product with strides
operation: batched_matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {SKIPS: [0, 1]}
strides: {lda: "k + 1", stride_a: "m * lda + 5", ldb: n, stride_c: "m * ldc + 7"}
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)", batch]
arguments: [a, lda, stride_a, b, ldb, stride_b, c, ldc, stride_c, m, n, k, alpha, beta]
---*/

// Between the matrices of A and of C there is something that is not theirs.

extern "C" __global__ void batched_strided(const float* a, int lda, long long stride_a, const float* b, int ldb,
                                           long long stride_b, float* c, int ldc, long long stride_c, int m,
                                           int n, int k, float alpha, float beta)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    a += blockIdx.z * stride_a;
    b += blockIdx.z * stride_b;
    c += blockIdx.z * stride_c;
    if (SKIPS && x < 7 && y == 0 && blockIdx.z == 0) c[stride_c - 7 + x] = 1;
    if (x >= n || y >= m) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[y * lda + i] * b[i * ldb + x];
    c[y * ldc + x] = beta == 0 ? alpha * sum : alpha * sum + beta * c[y * ldc + x];
}
