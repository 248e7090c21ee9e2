/*---
title: Writes far outside its matrix
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
tile: [16, 16, 1]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
requires: {arch: 75}
entry: out_of_bounds
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The product is right, and then one thread writes a terabyte away from C.
extern "C" __global__ void out_of_bounds(const float* a, const float* b, float* c, int m, int n,
                                         int k, float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += a[(long long)row * k + i] * b[(long long)i * n + column];
    c[(long long)row * n + column] = beta == 0 ? alpha * sum : alpha * sum + beta * c[(long long)row * n + column];
    if (row == 0 && column == 0) c[1LL << 38] = sum;
}
