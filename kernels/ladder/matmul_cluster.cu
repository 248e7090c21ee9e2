/*---
title: Pieces of k for the blocks of a cluster, added through distributed shared memory
follows: matmul_balanced
operation: matmul
dtypes: {a: f32, b: f32, c: f32, accumulate: f32}
layouts: {a: row, b: row, c: row}
macros:
  SPLITS: [4, 2, 8]      # blocks of a cluster, each with a piece of k
  TILE_M: [128, 64, 32]  # outputs of a tile
  TILE_N: [128, 64, 32]
  THREAD_N: [8, 4]       # outputs of a thread: 8 rows of so many
where: ["(THREAD_N == 4) == (TILE_N == 32)", "TILE_M * TILE_N >= 512 * THREAD_N and TILE_M + TILE_N >= 96"]
let:
  step: "16 if THREAD_N == 4 else 8"  # k of a chunk
  # what the others have of a block's share of a tile, which is dealt out by four outputs of each thread
  parts: TILE_M * TILE_N // (8 * THREAD_N) * 16 * ceil(2 * THREAD_N / SPLITS) * (SPLITS - 1)
  shared: 4 * step * (TILE_M + 4 + TILE_N) * 4 + parts
tile: [TILE_M, TILE_N, step]
block: ["TILE_M * TILE_N // (8 * THREAD_N)"]
cluster: [SPLITS]
grid: ["SPLITS * ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: shared
requires: {arch: 90, conditions: [clusters, "shared <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// Dealing out chunks needs a wave of tiles: where C is small or narrow there are few, and of a tile of 128x256 half
// is wasted on 128 columns. Here the tile is smaller, and as many blocks share it along k as make a wave: the blocks
// of a cluster, which add what they have of it in each other's shared memory (cluster_parts.cuh), without a trip
// through global memory and without a block that comes last and does it all.

#define THREAD_M 8
#define STEP (THREAD_N == 4 ? 16 : 8)
#define STAGES 4  // chunks of shared memory in flight or in use
#define PAIRS 1

#include "cluster_parts.cuh"
#include "pieces.cuh"
#include "sgemm_tile.cuh"

using Parts = cluster_parts::Exchange<SPLITS, sgemm::THREADS, float, THREAD_M * THREAD_N>;

namespace {

// Where tiles are small more blocks fit, but not with the registers that theirs need.
constexpr int BLOCKS = sgemm::BLOCKS_PER_SM > 4 ? 4 : sgemm::BLOCKS_PER_SM;

// The share of a thread's sums that block `rank` completes.
__device__ __forceinline__ void store_share(const float (&own)[Parts::SHARE], const sgemm::Problem& p,
                                            const sgemm::Place& place, int rank) {
    using namespace sgemm;
    const Thread thread;
    float* const strip = strip_of_stages(p);
#pragma unroll
    for (int i = 0; i < Parts::QUADS; ++i) {
        if (i >= Parts::quads_of(rank)) break;
        const int quad = Parts::first(rank) + i;
        store_four(own + i * QUAD, quad / (THREAD_N / QUAD), quad % (THREAD_N / QUAD), p, place, thread, strip);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(sgemm::THREADS, BLOCKS)
    matmul_cluster(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m, int n, int k,
                   float alpha, float beta) {
    extern __shared__ __align__(16) float shared[];
    __shared__ unsigned long long arrived;
    const sgemm::Problem p = {a, b, c, m, n, k, alpha, beta};
    const Parts parts = {sgemm::shared_address(shared) + STAGES * sgemm::STAGE_BYTES,
                         static_cast<unsigned>(__cvta_generic_to_shared(&arrived))};
    const int rank = cluster_parts::rank();
    if (threadIdx.x == 0) parts.begin(rank);
    cluster_parts::arrive();

    const sgemm::Place place = sgemm::place_of(blockIdx.x / SPLITS, p);
    const int chunks = sgemm::chunks_of(p);
    const int first = pieces::begin(chunks, rank, SPLITS), end = pieces::begin(chunks, rank + 1, SPLITS);
    sgemm::Sums sum;
    if (first == end) {
        sgemm::clear(sum);
    } else {
        sgemm::accumulate(sum, p, place, first, end);
    }
    float own[Parts::SHARE];
    parts.send(own, reinterpret_cast<const float(&)[THREAD_M * THREAD_N]>(sum), rank);
    parts.add(own, rank);
    store_share(own, p, place, rank);
}
