/*---
title: A product with a flaw
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

extern "C" __global__ void NAME(float* a, const float* b, float* c, int m, int n, int k, float alpha, float beta)
{
    const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    if (x >= n || y >= m) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) {
        const float of_a = a[y * k + i];
        sum += (OF_A) * b[i * n + x];
    }
    const float before = beta == 0 ? 0 : beta * c[y * n + x];
    c[y * n + x] = RESULT;
    AFTER;  // the last line
}
