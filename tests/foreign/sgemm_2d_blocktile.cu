/*---
title: A square of outputs a thread
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {BM: [128, 64], BN: [128, 64], BK: [8], TM: [8], TN: [8]}
where: ["BM == BN"]
block: ["BM * BN // (TM * TN)"]
grid: ["n // BN", "m // BM"]
requires: {arch: 75, m: BM, n: BN, k: BK}
arguments: [m, n, k, alpha, a, b, beta, c]
---*/

// TM x TN outputs from TM + TN operands; the tiles are loaded in strides, since a block has fewer threads
// than a tile has elements.
extern "C" __global__ void __launch_bounds__((BM * BN) / (TM * TN), 1)
sgemm_2d_blocktile(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C)
{
    constexpr int THREADS = BM * BN / (TM * TN);
    __shared__ float sa[BM * BK];
    __shared__ float sb[BK * BN];
    const int tc = threadIdx.x % (BN / TN), tr = threadIdx.x / (BN / TN);
    const int ac = threadIdx.x % BK, ar = threadIdx.x / BK;
    const int bc = threadIdx.x % BN, br = threadIdx.x / BN;
    constexpr int A_STEP = THREADS / BK;
    // 64 threads and 64 columns: one row a pass
    constexpr int B_STEP = THREADS / BN;
    static_assert(B_STEP > 0, "at least a row of B a pass");

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;

    float acc[TM * TN] = {0.0f};
    float ra[TM] = {0.0f};
    float rb[TN] = {0.0f};
    for (int base = 0; base < K; base += BK) {
        for (int i = 0; i < BM; i += A_STEP) sa[(ar + i) * BK + ac] = A[(ar + i) * K + ac];
        for (int i = 0; i < BK; i += B_STEP) sb[(br + i) * BN + bc] = B[(br + i) * N + bc];
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int p = 0; p < BK; ++p) {
            for (int i = 0; i < TM; ++i) ra[i] = sa[(tr * TM + i) * BK + p];
            for (int i = 0; i < TN; ++i) rb[i] = sb[p * BN + tc * TN + i];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i * TN + j] += ra[i] * rb[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) {
            float* out = C + (tr * TM + i) * N + tc * TN + j;
            *out = beta == 0.0f ? alpha * acc[i * TN + j] : alpha * acc[i * TN + j] + beta * *out;
        }
    }
}
