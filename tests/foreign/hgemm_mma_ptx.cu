/*---
title: mma.sync with ldmatrix, rows without padding
operation: matmul
dtypes: {a: f16, b: f16, c: f16, accumulate: f32}
layouts: {a: row, b: col, c: row}
block: [128]
grid: ["n // 64", "m // 64"]
requires: {arch: 80, m: 64, n: 64, k: 32}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Inline PTX as in many notes: a block of 64 x 64 x 32 with four warps of 32 x 32. B lies in memory column by
// column, so that ldmatrix needs no transposition; rows of 64 bytes meet in the same banks.
#include <cuda_fp16.h>

#define LDMATRIX_X4(r0, r1, r2, r3, address)                                            \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n" \
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)                               \
                 : "r"(address))
#define MMA_16816(d, x, y0, y1)                                                                          \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, " \
                 "{%8, %9}, {%0, %1, %2, %3};\n"                                                         \
                 : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                \
                 : "r"((x)[0]), "r"((x)[1]), "r"((x)[2]), "r"((x)[3]), "r"(y0), "r"(y1))

extern "C" __global__ void __launch_bounds__(128)
hgemm_mma_ptx(const half* a, const half* b, half* c, int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(128) half sa[64 * 32];
    __shared__ __align__(128) half sb[64 * 32];  // [column][k]
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int warp_m = warp / 2 * 32, warp_n = warp % 2 * 32;
    const half* block_a = a + (size_t)blockIdx.y * 64 * K;
    const half* block_b = b + (size_t)blockIdx.x * 64 * K;
    float acc[2][4][4] = {};

    for (int base = 0; base < K; base += 32) {
        // 64 rows of four 16-byte pieces each: two pieces a thread, for either matrix.
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int row = (tid + 128 * i) / 4, piece = (tid + 128 * i) % 4 * 8;
            *reinterpret_cast<int4*>(&sa[row * 32 + piece]) =
                *reinterpret_cast<const int4*>(block_a + (size_t)row * K + base + piece);
            *reinterpret_cast<int4*>(&sb[row * 32 + piece]) =
                *reinterpret_cast<const int4*>(block_b + (size_t)row * K + base + piece);
        }
        __syncthreads();

        unsigned fb[4][4];  // column tile; k 0-7, 8-15, 16-23, 24-31
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const unsigned address =
                __cvta_generic_to_shared(&sb[(warp_n + j * 8 + lane % 8) * 32 + lane / 8 * 8]);
            LDMATRIX_X4(fb[j][0], fb[j][1], fb[j][2], fb[j][3], address);
        }
#pragma unroll
        for (int step = 0; step < 2; ++step) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                unsigned fa[4];
                const unsigned address =
                    __cvta_generic_to_shared(&sa[(warp_m + i * 16 + lane % 16) * 32 + step * 16 + lane / 16 * 8]);
                LDMATRIX_X4(fa[0], fa[1], fa[2], fa[3], address);
#pragma unroll
                for (int j = 0; j < 4; ++j) MMA_16816(acc[i][j], fa, fb[j][2 * step], fb[j][2 * step + 1]);
            }
        }
        __syncthreads();
    }

    const int group = lane / 4, pair = lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int half_ = 0; half_ < 2; ++half_) {
                const int row = blockIdx.y * 64 + warp_m + i * 16 + half_ * 8 + group;
                const int col = blockIdx.x * 64 + warp_n + j * 8 + pair;
                half2* out = reinterpret_cast<half2*>(c + (size_t)row * N + col);
                float2 made = make_float2(alpha * acc[i][j][2 * half_], alpha * acc[i][j][2 * half_ + 1]);
                if (beta != 0.0f) {
                    const float2 old = __half22float2(*out);
                    made.x += beta * old.x;
                    made.y += beta * old.y;
                }
                *out = __float22half2_rn(made);
            }
        }
    }
}
