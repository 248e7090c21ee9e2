/*---
title: mma.sync from a swizzled multi-stage pipeline
operation: matmul
dtypes: {a: f16, b: f16, c: f16, accumulate: f32}
macros: {STAGES: [3, 2, 4]}
block: [256]
grid: ["n // 128", "m // 128"]
shared_bytes: "STAGES * (128 * 32 + 32 * 128) * 2"
requires: {arch: 80, m: 128, n: 128, k: 32}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// 128 x 128 x 32 with eight warps of 64 x 32. Both matrices lie row by row: B's fragments come through
// ldmatrix.trans. Instead of padding, the 16-byte pieces of a row change places by an XOR with the row.
#include <cuda_fp16.h>

#define CP_ASYNC_CG(dst, src) \
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], %2;\n" ::"r"(dst), "l"(src), "n"(16))
#define CP_ASYNC_COMMIT() asm volatile("cp.async.commit_group;\n" ::)
#define CP_ASYNC_WAIT(n) asm volatile("cp.async.wait_group %0;\n" ::"n"(n))

namespace {

constexpr int BM = 128, BN = 128, BK = 32;
constexpr int A_BYTES = BM * BK * 2;
constexpr int STAGE_BYTES = A_BYTES + BK * BN * 2;

// Byte offsets of a 16-byte piece: A's rows have 4 of them (two rows a wavefront), B's have 16.
__device__ __forceinline__ unsigned place_a(int row, int piece) { return row * 64 + ((piece ^ (row >> 1 & 3)) << 4); }
__device__ __forceinline__ unsigned place_b(int row, int piece) { return row * 256 + ((piece ^ (row & 7)) << 4); }

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
hgemm_mma_swizzle_cpasync(const half* __restrict__ a, const half* __restrict__ b, half* __restrict__ c, int M, int N,
                          int K, float alpha, float beta)
{
    extern __shared__ __align__(128) unsigned char smem[];
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(smem));
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const int warp_m = (warp >> 2) * 64, warp_n = (warp & 3) * 32;
    const half* ga = a + (size_t)blockIdx.y * BM * K;
    const half* gb = b + (size_t)blockIdx.x * BN;

    const auto load = [&](int stage, int tile) {
        const unsigned to = base + stage * STAGE_BYTES;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int id = tid + i * 256;
            const int row = id >> 2, piece = id & 3;
            CP_ASYNC_CG(to + place_a(row, piece), ga + (size_t)row * K + tile * BK + piece * 8);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int id = tid + i * 256;
            const int row = id >> 4, piece = id & 15;
            CP_ASYNC_CG(to + A_BYTES + place_b(row, piece), gb + (size_t)(tile * BK + row) * N + piece * 8);
        }
    };

    const int tiles = K / BK;
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < tiles) load(stage, stage);
        CP_ASYNC_COMMIT();
    }

    float acc[4][4][4] = {};
    for (int tile = 0; tile < tiles; ++tile) {
        CP_ASYNC_WAIT(STAGES - 2);
        __syncthreads();
        // Everybody has left the stage that was multiplied last: it is the one to fill.
        if (tile + STAGES - 1 < tiles) load((tile + STAGES - 1) % STAGES, tile + STAGES - 1);
        CP_ASYNC_COMMIT();

        const unsigned from = base + tile % STAGES * STAGE_BYTES;
#pragma unroll
        for (int step = 0; step < 2; ++step) {
            unsigned fa[4][4], fb[2][4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const unsigned address = from + place_a(warp_m + i * 16 + (lane & 15), step * 2 + (lane >> 4));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                             : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                             : "r"(address));
            }
#pragma unroll
            for (int j = 0; j < 2; ++j) {  // 16 columns: registers 0 and 1 are the first eight, 2 and 3 the others
                const unsigned address =
                    from + A_BYTES + place_b(step * 16 + (lane & 15), (warp_n >> 3) + j * 2 + (lane >> 4));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                             : "=r"(fb[j][0]), "=r"(fb[j][1]), "=r"(fb[j][2]), "=r"(fb[j][3])
                             : "r"(address));
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    float* d = acc[i][j];
                    asm volatile(
                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                        "{%8, %9}, {%0, %1, %2, %3};\n"
                        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                        : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j / 2][j % 2 * 2]),
                          "r"(fb[j / 2][j % 2 * 2 + 1]));
                }
            }
        }
    }
    CP_ASYNC_WAIT(0);

#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int row = blockIdx.y * BM + warp_m + i * 16 + (lane >> 2);
            const int col = blockIdx.x * BN + warp_n + j * 8 + (lane & 3) * 2;
            half2* upper = reinterpret_cast<half2*>(c + (size_t)row * N + col);
            half2* lower = reinterpret_cast<half2*>(c + (size_t)(row + 8) * N + col);
            const float* d = acc[i][j];
            if (beta == 0.0f) {
                *upper = __floats2half2_rn(alpha * d[0], alpha * d[1]);
                *lower = __floats2half2_rn(alpha * d[2], alpha * d[3]);
            } else {
                *upper = __floats2half2_rn(alpha * d[0] + beta * __low2float(*upper),
                                           alpha * d[1] + beta * __high2float(*upper));
                *lower = __floats2half2_rn(alpha * d[2] + beta * __low2float(*lower),
                                           alpha * d[3] + beta * __high2float(*lower));
            }
        }
    }
}
