/*---
title: Warp tiles from templates
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
macros: {BM: [128, 64], BN: [128, 64], BK: [16, 8], WM: [64, 32], WN: [64, 32], WNITER: [4, 2], TM: [8, 4], TN: [4]}
where:
  - "BM == BN and WM == WN and BM // WM == 2"
  - "WM * WN // (32 * TM * TN * WNITER) * (32 * TM * TN * WNITER) == WM * WN"
  - "(WN // WNITER) % TN == 0"
block: ["BM // WM * (BN // WN) * 32"]
grid: ["n // BN", "m // BM"]
requires: {arch: 75, m: BM, n: BN, k: BK}
arguments: [m, n, k, alpha, a, b, beta, c]
---*/

// Block tile, warp tile, the warp's sub-tiles and the thread's: four levels, all of them template parameters
// of two device functions.

namespace {

template <int BM_, int BN_, int BK_, int THREADS>
__device__ void to_shared(const float* A, const float* B, float* sa, float* sb, int N, int K)
{
    constexpr int A_STEP = THREADS * 4 / BK_;
    constexpr int B_STEP = THREADS * 4 / BN_;
    const unsigned ar = threadIdx.x / (BK_ / 4), ac = threadIdx.x % (BK_ / 4);
    const unsigned br = threadIdx.x / (BN_ / 4), bc = threadIdx.x % (BN_ / 4);
    for (unsigned i = 0; i + A_STEP <= BM_; i += A_STEP) {
        const float4 quad = reinterpret_cast<const float4*>(&A[(ar + i) * K + ac * 4])[0];
        sa[(ac * 4 + 0) * BM_ + ar + i] = quad.x;
        sa[(ac * 4 + 1) * BM_ + ar + i] = quad.y;
        sa[(ac * 4 + 2) * BM_ + ar + i] = quad.z;
        sa[(ac * 4 + 3) * BM_ + ar + i] = quad.w;
    }
    for (unsigned i = 0; i + B_STEP <= BK_; i += B_STEP) {
        reinterpret_cast<float4*>(&sb[(br + i) * BN_ + bc * 4])[0] =
            reinterpret_cast<const float4*>(&B[(br + i) * N + bc * 4])[0];
    }
}

template <int BM_, int BN_, int BK_, int WM_, int WN_, int MITER, int NITER, int SUBM, int SUBN, int TM_, int TN_>
__device__ void from_shared(float* ra, float* rb, float* acc, const float* sa, const float* sb, unsigned wr,
                            unsigned wc, unsigned tr, unsigned tc)
{
    for (unsigned p = 0; p < BK_; ++p) {
        for (unsigned u = 0; u < MITER; ++u)
            for (unsigned i = 0; i < TM_; ++i)
                ra[u * TM_ + i] = sa[p * BM_ + wr * WM_ + u * SUBM + tr * TM_ + i];
        for (unsigned v = 0; v < NITER; ++v)
            for (unsigned j = 0; j < TN_; ++j)
                rb[v * TN_ + j] = sb[p * BN_ + wc * WN_ + v * SUBN + tc * TN_ + j];
        for (unsigned u = 0; u < MITER; ++u)
            for (unsigned v = 0; v < NITER; ++v)
                for (unsigned i = 0; i < TM_; ++i)
                    for (unsigned j = 0; j < TN_; ++j)
                        acc[(u * TM_ + i) * (NITER * TN_) + v * TN_ + j] += ra[u * TM_ + i] * rb[v * TN_ + j];
    }
}

constexpr int THREADS = BM / WM * (BN / WN) * 32;
constexpr int WMITER = WM * WN / (32 * TM * TN * WNITER);
constexpr int WSUBM = WM / WMITER;
constexpr int WSUBN = WN / WNITER;
static_assert(WSUBM / TM * (WSUBN / TN) == 32, "a sub-tile has a thread tile for each lane");
static_assert(BM * BK % (4 * THREADS) == 0 && BN * BK % (4 * THREADS) == 0, "whole passes of wide loads");

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
sgemm_warptile(int M, int N, int K, float alpha, float* A, float* B, float beta, float* C)
{
    __shared__ float sa[BM * BK];
    __shared__ float sb[BK * BN];
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const unsigned wc = warp % (BN / WN), wr = warp / (BN / WN);
    const unsigned tc = lane % (WSUBN / TN), tr = lane / (WSUBN / TN);

    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += (blockIdx.y * BM + wr * WM) * N + blockIdx.x * BN + wc * WN;

    float acc[WMITER * TM * WNITER * TN] = {0.0f};
    float ra[WMITER * TM] = {0.0f};
    float rb[WNITER * TN] = {0.0f};
    for (unsigned base = 0; base < K; base += BK) {
        to_shared<BM, BN, BK, THREADS>(A, B, sa, sb, N, K);
        __syncthreads();
        from_shared<BM, BN, BK, WM, WN, WMITER, WNITER, WSUBM, WSUBN, TM, TN>(ra, rb, acc, sa, sb, wr, wc, tr, tc);
        A += BK;
        B += BK * N;
        __syncthreads();
    }
    for (unsigned u = 0; u < WMITER; ++u) {
        for (unsigned v = 0; v < WNITER; ++v) {
            float* sub = C + (u * WSUBM) * N + v * WSUBN;
            for (unsigned i = 0; i < TM; ++i) {
                float4* out = reinterpret_cast<float4*>(&sub[(tr * TM + i) * N + tc * TN]);
                const float* sum = acc + (u * TM + i) * (WNITER * TN) + v * TN;
                float4 made = beta == 0.0f ? make_float4(0.0f, 0.0f, 0.0f, 0.0f) : *out;
                made.x = alpha * sum[0] + beta * made.x;
                made.y = alpha * sum[1] + beta * made.y;
                made.z = alpha * sum[2] + beta * made.z;
                made.w = alpha * sum[3] + beta * made.w;
                *out = made;
            }
        }
    }
}
