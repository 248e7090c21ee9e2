/*---
title: One output a thread, lanes along the columns
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {SIDE: [32, 16]}
block: ["SIDE * SIDE"]
grid: ["ceil(m / SIDE)", "ceil(n / SIDE)"]
requires: {arch: 75}
arguments: [m, n, k, alpha, a, b, beta, c]
---*/

// A block of one dimension; row and column are quotient and remainder.
extern "C" __global__ void sgemm_coalesced(int M, int N, int K, float alpha, const float* A, const float* B,
                                           float beta, float* C)
{
    const int row = blockIdx.x * SIDE + (threadIdx.x / SIDE);
    const int col = blockIdx.y * SIDE + (threadIdx.x % SIDE);
    if (row >= M || col >= N) return;
    float acc = 0.0f;
#pragma unroll 4
    for (int p = 0; p < K; ++p) acc = fmaf(A[row * K + p], B[p * N + col], acc);
    C[row * N + col] = beta == 0.0f ? alpha * acc : fmaf(alpha, acc, beta * C[row * N + col]);
}
