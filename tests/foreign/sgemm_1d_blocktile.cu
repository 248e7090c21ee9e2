/*---
title: A column of outputs a thread
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {BM: [64], BN: [64], BK: [8], TM: [8]}
where: ["BM == BN", "BM // TM == BK"]
block: ["BM * BN // TM"]
grid: ["n // BN", "m // BM"]
requires: {arch: 75, m: BM, n: BN, k: BK}
arguments: [m, n, k, alpha, a, b, beta, c]
---*/

// TM outputs below each other reuse one element of B from a register.
extern "C" __global__ void sgemm_1d_blocktile(int M, int N, int K, float alpha, const float* A, const float* B,
                                              float beta, float* C)
{
    __shared__ float sa[BM * BK];
    __shared__ float sb[BK * BN];
    const unsigned tc = threadIdx.x % BN, tr = threadIdx.x / BN;
    const unsigned ac = threadIdx.x % BK, ar = threadIdx.x / BK;
    const unsigned bc = threadIdx.x % BN, br = threadIdx.x / BN;

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[TM] = {0.0f};
    for (unsigned base = 0; base < K; base += BK) {
        sa[ar * BK + ac] = A[ar * K + ac];
        sb[br * BN + bc] = B[br * N + bc];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (unsigned p = 0; p < BK; ++p) {
            const float held = sb[p * BN + tc];
            for (unsigned i = 0; i < TM; ++i) acc[i] += sa[(tr * TM + i) * BK + p] * held;
        }
        __syncthreads();
    }
    for (unsigned i = 0; i < TM; ++i) {
        float* out = C + (tr * TM + i) * N + tc;
        *out = beta == 0.0f ? alpha * acc[i] : alpha * acc[i] + beta * *out;
    }
}
