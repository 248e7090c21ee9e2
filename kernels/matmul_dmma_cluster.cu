/*---
title: The staged f64 main loop, pieces of k for the blocks of a cluster
follows: matmul_dmma_stream_k
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  SPLITS: [4, 2, 8, 3, 5, 6, 7]  # blocks of a cluster, each with a piece of k
  TILE_M: [64, 128]          # outputs of a tile
  TILE_N: [64, 128]
  WARP_M: [32, 64]           # rows of a warp's tile of 32 columns
  STAGES: [4, 6]             # chunks of 16 k in flight or in use
where: ["TILE_M * TILE_N >= 128 * WARP_M", "(WARP_M == 32) == (TILE_M * TILE_N == 64 * 64)"]
let:
  # what the others have of a block's share of a tile, which is dealt out by four outputs of each thread
  parts: TILE_M * TILE_N // WARP_M * 32 * ceil(WARP_M / (4 * SPLITS)) * (SPLITS - 1)
  shared: STAGES * (TILE_M + TILE_N) * 128 + parts
tile: [TILE_M, TILE_N, 16]
block: ["(TILE_M / WARP_M) * TILE_N"]
cluster: [SPLITS]
grid: ["SPLITS * ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: shared
requires:
  arch: 90
  conditions: [clusters, "shared <= shared_per_block_optin"]
entry: matmul_dmma_cluster
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// 512 x 512 are 16 tiles of 128x128. Stream-K gives them to 128 blocks, of which one a tile adds what seven others
// left in global memory while these have ended. Here the blocks that share a tile are a cluster: each sends the others
// their shares of its sums and completes its own one (cluster_parts.cuh).

#define EVERY 1
#define DEPTH 8

#include "cluster_parts.cuh"
#include "dmma_tile.cuh"
#include "pieces.cuh"

namespace dmma {

constexpr int COUNT = TILES_M * 2 * TILES_N * 4;  // sums of a thread
using Parts = cluster_parts::Exchange<SPLITS, THREADS, f64, COUNT, 2>;
// Shared memory holds stages and parts of no more; the registers of a third block are better used.
constexpr int BLOCKS = BLOCKS_PER_SM > 2 ? 2 : BLOCKS_PER_SM;

// The share of a thread's sums that block `rank` completes, two columns at a time.
template <int KIND>
__device__ __forceinline__ void store_share(const f64 (&own)[Parts::SHARE], const Problem& problem, const Place& place,
                                            int rank) {
    const Thread thread;
    const int column_of_thread = place.column + thread.warp_column() + thread.quad() * 2;
    const int row_of_thread = place.row + thread.warp_row() + thread.of_quad() * 2;
#pragma unroll
    for (int i = 0; i < Parts::QUADS / 2; ++i) {
        if (2 * i >= Parts::quads_of(rank)) break;
        const int number = Parts::first(rank) / 2 + i;  // of two rows and two columns
        const int column = column_of_thread + number % TILES_N * COLUMNS;
#pragma unroll
        for (int which = 0; which < 2; ++which) {
            const int row = row_of_thread + number / TILES_N * 8 + which;
            if (KIND != INSIDE && (row >= problem.m || column >= problem.n)) continue;
            f64* const target = problem.c + static_cast<long long>(row) * problem.n + column;
            const bool two = KIND != ELEMENTS || column + 1 < problem.n;
            f64 left = problem.alpha * own[4 * i + which], right = problem.alpha * own[4 * i + 2 + which];
            // beta == 0 must not read C: it may hold NaN, and 0 * NaN is NaN.
            if (problem.beta != 0.0) {
                left += problem.beta * target[0];
                if (two) right += problem.beta * target[1];
            }
            if (KIND != ELEMENTS) {
                *reinterpret_cast<double2*>(target) = make_double2(left, right);
            } else {
                target[0] = left;
                if (two) target[1] = right;
            }
        }
    }
}

template <int KIND>
__device__ __forceinline__ void share(const Problem& problem, const Place& place, unsigned stages, const Parts& parts,
                                      int rank) {
    const int chunks = chunks_of(problem);
    const int first = pieces::begin(chunks, rank, SPLITS), end = pieces::begin(chunks, rank + 1, SPLITS);
    Sums sums;
    if (first == end) {
        clear(sums);
    } else {
        Loop<KIND> loop(problem, place, first, stages);
        loop.run(sums, end - first);
    }
    f64 own[Parts::SHARE];
    parts.send(own, reinterpret_cast<const f64(&)[COUNT]>(sums), rank);
    parts.add(own, rank);
    store_share<KIND>(own, problem, place, rank);
}

}  // namespace dmma

extern "C" __global__ void __launch_bounds__(dmma::THREADS, dmma::BLOCKS)
    matmul_dmma_cluster(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n, int k,
                        f64 alpha, f64 beta) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ unsigned long long arrived;
    const dmma::Problem problem = {a, b, c, m, n, k, alpha, beta};
    const unsigned stages = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const dmma::Parts parts = {stages + STAGES * dmma::STAGE_BYTES,
                               static_cast<unsigned>(__cvta_generic_to_shared(&arrived))};
    const int rank = cluster_parts::rank();
    if (threadIdx.x == 0) parts.begin(rank);
    cluster_parts::arrive();
    const dmma::Place place = dmma::place_of(blockIdx.x / SPLITS, problem);
    if ((n | k) % 2 != 0) {
        dmma::share<dmma::ELEMENTS>(problem, place, stages, parts, rank);
    } else if (place.edge(problem)) {
        dmma::share<dmma::PIECES>(problem, place, stages, parts, rank);
    } else {
        dmma::share<dmma::INSIDE>(problem, place, stages, parts, rank);
    }
}
