/*---
title: wmma from global memory, a warp a tile, C in single precision
operation: matmul
dtypes: {a: f16, b: f16, c: f32, accumulate: f32}
macros: {LAYOUT: [row, col]}
layouts: {a: row, b: LAYOUT, c: row}
block: [128, 4]
grid: ["ceil(m / 64)", "ceil(n / 64)"]
requires: {arch: 75, m: 16, n: 16, k: 16}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The introduction to tensor cores as it is usually given: four by four warps a block, no shared memory, the
// old C as a fragment that is scaled element by element.
#include <cuda_fp16.h>
#include <mma.h>

#define IS_row true
#define IS_col false
#define LAYOUT_row nvcuda::wmma::row_major
#define LAYOUT_col nvcuda::wmma::col_major
#define JOINED(left, right) left##right
#define WORD(left, right) JOINED(left, right)

extern "C" __global__ void hgemm_wmma_simple(const half* a, const half* b, float* c, int M, int N, int K,
                                             float alpha, float beta)
{
    using namespace nvcuda;
    using LayoutB = WORD(LAYOUT_, LAYOUT);
    constexpr bool B_BY_ROW = WORD(IS_, LAYOUT);
    const int warp_m = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    const int warp_n = blockIdx.y * blockDim.y + threadIdx.y;
    const int row = warp_m * 16, col = warp_n * 16;
    if (row >= M || col >= N) return;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, LayoutB> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int p = 0; p < K; p += 16) {
        wmma::load_matrix_sync(fa, a + row * K + p, K);
        if (B_BY_ROW) {
            wmma::load_matrix_sync(fb, b + p * N + col, N);
        } else {
            wmma::load_matrix_sync(fb, b + col * K + p, K);
        }
        wmma::mma_sync(acc, fa, fb, acc);
    }
    if (beta != 0.0f) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> old;
        wmma::load_matrix_sync(old, c + row * N + col, N, wmma::mem_row_major);
        for (int i = 0; i < acc.num_elements; ++i) acc.x[i] = alpha * acc.x[i] + beta * old.x[i];
    } else {
        for (int i = 0; i < acc.num_elements; ++i) acc.x[i] *= alpha;
    }
    wmma::store_matrix_sync(c + row * N + col, acc, N, wmma::mem_row_major);
}
