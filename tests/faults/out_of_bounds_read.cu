/*---
title: Reads one step past the end of its matrices
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
tile: [16, 16, 1]
block: [16, 16]
grid: ["ceil(n / 16)", "ceil(m / 16)"]
requires: {arch: 75}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The loop takes k + 1 steps. Along the last row of B that is a whole row past its end; A's rows flow into
// each other, so only its last row leaves the buffer.
extern "C" __global__ void out_of_bounds_read(const float* a, const float* b, float* c, int m, int n, int k,
                                              float alpha, float beta)
{
    const int row = blockIdx.y * 16 + threadIdx.y;
    const int column = blockIdx.x * 16 + threadIdx.x;
    if (row >= m || column >= n) return;
    float sum = 0;
    for (int i = 0; i <= k; ++i) {  // the mistake is the <=
        sum += a[(long long)row * k + i] * b[(long long)i * n + column];  // BUG: reads past both ends
    }
    float* target = c + (long long)row * n + column;
    *target = beta == 0 ? alpha * sum : alpha * sum + beta * *target;
}
