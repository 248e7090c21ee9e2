/*---
title: Tensor cores, one warp a 16x16 tile, operands straight from global memory
follows: matmul_tiled
operation: matmul
dtypes: {a: f16, b: f16, c: f16, accumulate: ACCUMULATE}
layouts: {a: row, b: row, c: row}
macros:
  WARPS: [4, 1, 8]           # warps of a thread block, side by side along n
  ACCUMULATE: [f32, f16]
tile: [16, "16 * WARPS", 16]
block: ["32 * WARPS"]
grid: ["ceil(n / (16 * WARPS))", "m // 16", 1]
requires:
  arch: 75
  m: 16
  n: 16
  k: 16
  conditions: ["m <= 65535 * 16"]     # the grid's second dimension
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// A warp owns one 16x16 tile of C and walks along k in steps of 16, one wmma operation a step. The matrix
// unit replaces 16 * 16 * 16 scalar multiply-adds by one warp-wide instruction; nothing is kept for reuse
// but what L1 and L2 happen to hold, so the kernel shows how far tensor cores get when they are not fed.
// The warps of a block stand side by side along n: they share A's rows, and their rows of B are
// neighbouring bytes.

#include <cuda_fp16.h>
#include <mma.h>

using f32 = float;
using f16 = __half;

namespace {

namespace wmma = nvcuda::wmma;

constexpr int WARP = 32;
constexpr int MMA = 16;
// 8 elements of padding: the rows of a staged tile then start in different banks.
constexpr int OUT_ROW = MMA + 8;
constexpr int PIECE = 8;  // halves of one 16-byte store; 32 lanes x 8 = one tile

static_assert(WARPS >= 1 && WARPS <= 32, "WARPS: a thread block has 1 to 32 warps");
static_assert(WARP * PIECE == MMA * MMA, "each lane stores one piece of the tile");

}  // namespace

extern "C" __global__ void __launch_bounds__(WARPS * WARP)
    hgemm_wmma(const f16* __restrict__ a, const f16* __restrict__ b, f16* __restrict__ c, int m, int n, int k,
               f32 alpha, f32 beta) {
    __shared__ __align__(128) ACCUMULATE staged[WARPS][MMA * OUT_ROW];

    const int warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    const int row = blockIdx.y * MMA;
    const int column = (blockIdx.x * WARPS + warp) * MMA;
    // Whole warps leave, as the wmma operations demand; there is no barrier of the block below.
    if (row >= m || column >= n) return;

    wmma::fragment<wmma::accumulator, MMA, MMA, MMA, ACCUMULATE> sum;
    wmma::fill_fragment(sum, 0.0f);
    const f16* a_tile = a + static_cast<long long>(row) * k;
    const f16* b_tile = b + column;
    for (int step = 0; step < k; step += MMA) {
        wmma::fragment<wmma::matrix_a, MMA, MMA, MMA, f16, wmma::row_major> a_part;
        wmma::fragment<wmma::matrix_b, MMA, MMA, MMA, f16, wmma::row_major> b_part;
        wmma::load_matrix_sync(a_part, a_tile, k);
        wmma::load_matrix_sync(b_part, b_tile, n);
        wmma::mma_sync(sum, a_part, b_part, sum);
        a_tile += MMA;
        b_tile += static_cast<long long>(MMA) * n;
    }

    // Which lane holds which element of a fragment is not defined; shared memory gives them an order.
    wmma::store_matrix_sync(staged[warp], sum, OUT_ROW, wmma::mem_row_major);
    __syncwarp();
    const int piece_row = lane / 2;
    const int piece_column = lane % 2 * PIECE;
    const ACCUMULATE* const source = staged[warp] + piece_row * OUT_ROW + piece_column;
    uint4* const target =
        reinterpret_cast<uint4*>(c + static_cast<long long>(row + piece_row) * n + column + piece_column);
    const uint4 old = beta != 0.0f ? *target : make_uint4(0, 0, 0, 0);  // beta = 0 must not read C
    const unsigned before[4] = {old.x, old.y, old.z, old.w};
    unsigned after[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        float low = alpha * static_cast<float>(source[2 * i]);
        float high = alpha * static_cast<float>(source[2 * i + 1]);
        if (beta != 0.0f) {
            const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&before[i]));
            low += beta * pair.x;
            high += beta * pair.y;
        }
        const __half2 result = __floats2half2_rn(low, high);
        after[i] = *reinterpret_cast<const unsigned*>(&result);
    }
    *target = make_uint4(after[0], after[1], after[2], after[3]);
}
