/*---
title: Wide accesses, A transposed on its way into shared memory
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {BM: [128], BN: [128], BK: [8], TM: [8], TN: [8]}
block: ["BM * BN // (TM * TN)"]
grid: ["n // BN", "m // BM"]
requires: {arch: 75, m: BM, n: BN, k: BK}
arguments: [m, n, k, alpha, a, b, beta, c]
---*/

// Every global access is 16 bytes wide, and so are the reads of both tiles.
extern "C" __global__ void sgemm_vectorized(int M, int N, int K, float alpha, float* A, float* B, float beta,
                                            float* C)
{
    __shared__ float sa[BK * BM];  // [k][row]
    __shared__ float sb[BK * BN];
    const int tc = threadIdx.x % (BN / TN), tr = threadIdx.x / (BN / TN);
    const unsigned ar = threadIdx.x / (BK / 4), ac = threadIdx.x % (BK / 4);
    const unsigned br = threadIdx.x / (BN / 4), bc = threadIdx.x % (BN / 4);
    static_assert(BM * BK == 4 * (BM * BN / (TM * TN)), "one wide load a thread for A");
    static_assert(BN * BK == 4 * (BM * BN / (TM * TN)), "one wide load a thread for B");

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[TM * TN] = {0.0f};
    float ra[TM], rb[TN];
    for (int base = 0; base < K; base += BK) {
        const float4 quad = reinterpret_cast<float4*>(&A[ar * K + ac * 4])[0];
        sa[(ac * 4 + 0) * BM + ar] = quad.x;
        sa[(ac * 4 + 1) * BM + ar] = quad.y;
        sa[(ac * 4 + 2) * BM + ar] = quad.z;
        sa[(ac * 4 + 3) * BM + ar] = quad.w;
        reinterpret_cast<float4*>(&sb[br * BN + bc * 4])[0] = reinterpret_cast<float4*>(&B[br * N + bc * 4])[0];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int p = 0; p < BK; ++p) {
            for (int i = 0; i < TM; ++i) ra[i] = sa[p * BM + tr * TM + i];
            for (int i = 0; i < TN; ++i) rb[i] = sb[p * BN + tc * TN + i];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i * TN + j] += ra[i] * rb[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; j += 4) {
            float4* out = reinterpret_cast<float4*>(&C[(tr * TM + i) * N + tc * TN + j]);
            const float* sum = acc + i * TN + j;
            float4 made = make_float4(alpha * sum[0], alpha * sum[1], alpha * sum[2], alpha * sum[3]);
            if (beta != 0.0f) {
                const float4 old = *out;
                made.x += beta * old.x;
                made.y += beta * old.y;
                made.z += beta * old.z;
                made.w += beta * old.w;
            }
            *out = made;
        }
    }
}
