/*---
title: Reads C where beta is 0
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
tile: [16, 16, 1]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// 0 times what nobody wrote is not 0 where that happens to be NaN or an infinity.
extern "C" __global__ void uninitialised_global(const float* a, const float* b, float* c, int m, int n, int k,
                                                float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    float* target = c + (long long)row * n + column;
    *target = alpha * sum + beta * *target;  // BUG: reads C before anybody wrote it
}
