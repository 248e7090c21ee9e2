/*---
title: Square tiles in shared memory, pointers that move
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {SIDE: [32, 16]}
block: ["SIDE * SIDE"]
grid: ["m // SIDE", "n // SIDE"]
requires: {arch: 75, m: SIDE, n: SIDE, k: SIDE}
arguments: [m, n, k, alpha, a, b, beta, c]
---*/

// No bounds at all, 32-bit offsets, and the three pointers walk instead of an index.
extern "C" __global__ void sgemm_smem_block(int M, int N, int K, float alpha, const float* A, const float* B,
                                            float beta, float* C)
{
    __shared__ float sa[SIDE * SIDE];
    __shared__ float sb[SIDE * SIDE];
    const int tr = threadIdx.x / SIDE;
    const int tc = threadIdx.x % SIDE;

    A += blockIdx.x * SIDE * K;
    B += blockIdx.y * SIDE;
    C += blockIdx.x * SIDE * N + blockIdx.y * SIDE;

    float acc = 0.0f;
    for (int done = 0; done < K; done += SIDE) {
        sa[tr * SIDE + tc] = A[tr * K + tc];
        sb[tr * SIDE + tc] = B[tr * N + tc];
        __syncthreads();
        A += SIDE;
        B += SIDE * N;
        for (int p = 0; p < SIDE; ++p) acc += sa[tr * SIDE + p] * sb[p * SIDE + tc];
        __syncthreads();
    }
    const float old = beta == 0.0f ? 0.0f : beta * C[tr * N + tc];
    C[tr * N + tc] = alpha * acc + old;
}
