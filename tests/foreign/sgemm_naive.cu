/*---
title: One output a thread, lanes along the rows
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
block: [32, 32]
grid: ["ceil(m / 32)", "ceil(n / 32)"]
requires: {arch: 75}
arguments: [m, n, k, alpha, a, b, beta, c]
---*/

// The first rung of most ladders: x counts rows, so neighbouring lanes are a whole row apart in A and in C.
extern "C" __global__ void sgemm_naive(int M, int N, int K, float alpha, const float* A, const float* B,
                                       float beta, float* C)
{
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned col = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int p = 0; p < K; ++p) acc += A[row * K + p] * B[p * N + col];
        const float old = beta == 0.0f ? 0.0f : beta * C[row * N + col];
        C[row * N + col] = alpha * acc + old;
    }
}
