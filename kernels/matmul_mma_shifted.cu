/*---
title: mma.sync for rows that begin anywhere, shifted into place in shared memory
follows: matmul_mma
operation: matmul
dtypes:
  a: TYPE
  b: TYPE
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f32"
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8]
  TILE_M: [64, 128, 32]      # outputs of a thread block
  TILE_N: [64, 128]
  STAGES: [4, 5, 6]          # chunks of shared memory in flight or in use
  SPLITS: [1, 2, 4, 8]       # blocks of a cluster that share a tile, each with a piece of k
  OVERLAP: [0, 1]            # 1: the next launch begins while this one ends
where: ["TILE_M != 32 or TILE_N == 64", "SPLITS <= TILE_M * TILE_N // 512"]
let:
  parts: "(SPLITS - 1) * ceil(TILE_M * TILE_N / (512 * SPLITS)) * 2048"  # of a tile, that a block gets from the others
  shared: "STAGES * (TILE_M + TILE_N) * 128 + parts"
tile: [TILE_M, TILE_N, 128 // size(TYPE)]
block: [128]
cluster: [SPLITS]
grid: ["SPLITS * ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: shared
programmatic: OVERLAP
requires:
  arch: 80
  conditions:
    - "shared <= shared_per_block_optin"
    - "SPLITS == 1 or clusters"
    - "k * size(TYPE) < 2**31 - 4096"
entry: matmul_mma_shifted
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// What a tile is made of has its lesson in mma_shifted.cuh.
//
// Rows of C begin anywhere as well. Results go through shared memory, so that a warp stores neighbours of one row.
//
// Where tiles are few the blocks of a cluster share one (SPLITS): each has a piece of k, and completes a share of the sums.

#include "cluster_parts.cuh"
#include "mma_shifted.cuh"
#include "pieces.cuh"

namespace mma_tile {

using Parts = cluster_parts::Exchange<SPLITS, THREADS, Sum, MMAS_M * MMAS_N * 4>;
constexpr int PARTS_BYTES = (SPLITS - 1) * Parts::SLOT_BYTES;
constexpr int RESIDENT = 227 * 1024 / (PIPELINE * STAGE_BYTES + PARTS_BYTES + 1024);  // blocks that an H100's SM holds
constexpr int RESULT_ROW = WARP_N + 8;  // four rows of eight results lie in different banks

static_assert(THREADS == 128, "the front matter launches this many threads");
static_assert(WARPS * WARP_M * RESULT_ROW * 4 <= PIPELINE * STAGE_BYTES, "the results find room");

// C = alpha sums + beta C: of all sums of each thread the share of block `rank`.
__device__ __forceinline__ void store_rows(const Sum (&own)[Parts::SHARE], const Problem& problem, int row, int column,
                                           int rank) {
    const Thread thread;
    const int lane = thread.lane();
    Sum* const results = reinterpret_cast<Sum*>(stages) + thread.id / WARP * WARP_M * RESULT_ROW;
    __syncthreads();  // all have read their last operands
#pragma unroll
    for (int i = 0; i < Parts::SHARE; ++i) {
        const int quad = Parts::first(rank) + i / 4, e = i % 4;  // an instruction's four
        if (i / 4 >= Parts::quads_of(rank)) break;
        results[(quad / MMAS_N * MMA_M + e / 2 * 8 + lane / 4) * RESULT_ROW + quad % MMAS_N * MMA_N + lane % 4 * 2 + e % 2] =
            own[i];
    }
    __syncwarp();
    row += thread.warp_row();
    column += thread.warp_column() + lane;
#pragma unroll
    for (int first = 0; first < WARP_N; first += WARP) {
        if (column + first >= problem.n) return;
        Out* target = problem.c + static_cast<long long>(row) * problem.n + column + first;
#pragma unroll 8
        for (int i = 0; i < min(WARP_M, problem.m - row); ++i, target += problem.n) {
            const int quad = i / MMA_M * MMAS_N + (first + lane) / MMA_N - Parts::first(rank);
            if (SPLITS > 1 && (quad < 0 || quad >= Parts::quads_of(rank))) continue;
            const Out before = problem.beta == 0 ? Out() : *target;
            *target = static_cast<Out>(scaled(problem, results[i * RESULT_ROW + first + lane], before));
        }
    }
}

}  // namespace mma_tile

extern "C" __global__ void __launch_bounds__(mma_tile::THREADS, mma_tile::RESIDENT)
    matmul_mma_shifted(const TYPE* __restrict__ a, const TYPE* __restrict__ b, mma_tile::Out* __restrict__ c, int m,
                       int n, int k, mma_tile::Sum alpha, mma_tile::Sum beta) {
    overlap::let_next_begin();
    const mma_tile::Problem problem = {a, b, c, m, n, k, alpha, beta};
    __shared__ unsigned long long arrived;
    const mma_tile::Parts parts = {static_cast<unsigned>(__cvta_generic_to_shared(mma_tile::stages)) +
                                       mma_tile::PIPELINE * mma_tile::STAGE_BYTES,
                                   static_cast<unsigned>(__cvta_generic_to_shared(&arrived))};
    const int rank = SPLITS == 1 ? 0 : cluster_parts::rank();
    const int chunks = mma_tile::chunks_of(problem);
    const int first = SPLITS == 1 ? 0 : pieces::begin(chunks, rank, SPLITS);
    const int end = SPLITS == 1 ? chunks : pieces::begin(chunks, rank + 1, SPLITS);
    if (SPLITS > 1) {
        if (threadIdx.x == 0) parts.begin(rank);
        cluster_parts::arrive();
    }
    const raster::Square square(blockIdx.x / SPLITS, mma_tile::tile_rows(problem), mma_tile::tile_columns(problem),
                                mma_tile::GROUP);
    const int row = square.row() * TILE_M;
    const int column = square.column() * TILE_N;
    mma_tile::Sums sums;
    mma_tile::accumulate(sums, problem, row, column, first, end - first);
    if constexpr (SPLITS == 1) {
        using All = const mma_tile::Sum(&)[mma_tile::Parts::SHARE];
        mma_tile::store_rows(reinterpret_cast<All>(sums), problem, row, column, rank);
    } else {
        using All = const mma_tile::Sum(&)[mma_tile::MMAS_M * mma_tile::MMAS_N * 4];
        mma_tile::Sum own[mma_tile::Parts::SHARE];
        parts.send(own, reinterpret_cast<All>(sums), rank);
        parts.add(own, rank);
        mma_tile::store_rows(own, problem, row, column, rank);
    }
}
