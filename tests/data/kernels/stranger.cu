/*---
title: A test kernel
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
macros: {SIDE: [16]}
let: {area: m * k}
arguments: [m, n, k, alpha, a, k, b, n, beta, c, n, area, 2 * SIDE, null, 1.0, 7, true]
---*/

extern "C" __global__ void NAME(
    int m, int n, size_t k, float alpha, const float* a, int lda, const float* b, long ldb, float beta,
    float* c, int ldc, long long area, short side, const float* bias, double one, unsigned char seven,
    bool sure)
{
    const int x = blockIdx.x * SIDE + threadIdx.x, y = blockIdx.y * SIDE + threadIdx.y;
    if (x >= n || y >= m) return;
    float sum = bias ? bias[x] : 0;
    for (int i = 0; i < k; ++i) sum += a[y * lda + i] * b[i * ldb + x];
    if (area != m * k || side != 32 || one != 1.0 || seven != 7 || !sure) sum = 0;
    c[y * ldc + x] = alpha * sum + (beta == 0 ? 0 : beta * c[y * ldc + x]);
}
