/*---
title: The staged f64 main loop, pieces of k for teams of a block's warps
follows: matmul_dmma_stream_k
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  TEAMS: [2, 4, 1]      # of a block, each with a piece of k
  SPLITS: [1, 2]        # blocks of a cluster, each with a piece of k that its teams divide
  TILE_M: [64, 32, 128, 48]  # outputs of a tile
  TILE_N: [64, 32, 128]
  WARP_M: [32, 64, 48]  # rows of a warp's tile of 32 columns
  STAGES: [4, 3]        # chunks of 16 k of a team, in flight or in use
  RESIDENT: [8, 12]     # warps that an SM holds
  OVERLAP: [0, 1]       # 1: the next launch begins while this one ends
let:
  team: TILE_M // WARP_M * TILE_N  # threads
  warps: TEAMS * team // 32
  # what the others of the cluster have of a team's share of the tile, which is dealt out by four outputs of each thread
  parts: (SPLITS - 1) * TEAMS * team * 32 * ceil(WARP_M / (4 * TEAMS * SPLITS))
  shared: TEAMS * STAGES * (TILE_M + TILE_N) * 128 + parts
where:
  - "TILE_M % WARP_M == 0 and RESIDENT % (TEAMS * (TILE_M // WARP_M) * (TILE_N // 32)) == 0"
  - "TEAMS * SPLITS <= WARP_M // 4 and WARP_M % (4 * TEAMS) == 0 and STAGES >= 3"
  - "8 % (TILE_M // WARP_M) == 0 and 8 * WARP_M % TILE_N == 0" # a team copies a chunk in whole passes
tile: [TILE_M, TILE_N, 16]
block: [team, TEAMS]
cluster: [SPLITS]
grid: ["SPLITS * ceil(n / TILE_N)", "ceil(m / TILE_M)"]
shared_bytes: shared
programmatic: OVERLAP
requires: {arch: 90, conditions: [clusters, "shared <= shared_per_block_optin"]}
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// 512 x 512 are 64 tiles of 64x64, and 132 SMs want two blocks for each. Four or eight would give every quarter of an
// SM the two warps that hide each other's waits, but clusters of more than two leave SMs out, and all that they send
// each other waits for the last one. Here a block has several teams of warps: each computes the whole tile for its own
// piece of k, with stages and a barrier of its own, at its own pace. They add their sums in shared memory; across two
// blocks what is left of them (cluster_parts.cuh).

#define DEPTH 8

#include "dmma_teams.cuh"
#include "overlap.cuh"

namespace dmma {

template <int KIND>
__device__ __forceinline__ void share(const Problem& problem, const Place& place, unsigned stages, const Parts& parts,
                                      int rank) {
    const int number = rank * TEAMS + team();
    const int first = first_chunk(problem, number, SPLITS * TEAMS), end = first_chunk(problem, number + 1, SPLITS * TEAMS);
    Sums sums;
    if (first == end) {
        clear(sums);
    } else {
        Loop<KIND> loop(problem, place, first, stages + team() * TEAM_BYTES);
        loop.run(sums, end - first);
    }
    complete<KIND>(sums, problem, place, stages, parts, rank);
}

}  // namespace dmma

extern "C" __global__ void __launch_bounds__(dmma::THREADS * TEAMS, RESIDENT / (dmma::WARPS * TEAMS))
    matmul_dmma_teams(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n, int k,
                      f64 alpha, f64 beta) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ unsigned long long arrived[TEAMS];
    const dmma::Problem problem = {a, b, c, m, n, k, alpha, beta};
    const unsigned stages = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const dmma::Parts parts = dmma::parts_of(stages + TEAMS * dmma::TEAM_BYTES, arrived);
    const int rank = cluster_parts::rank();
    overlap::let_next_begin();
    if constexpr (SPLITS > 1) {
        if (threadIdx.x == 0) parts.begin(rank);
        cluster_parts::arrive();
    }
    overlap::wait_for_launch_before();
    // Row by row: nothing is divided before the first copy, and what is this small stays in L2 in any order.
    const dmma::Place place = {static_cast<int>(blockIdx.y) * TILE_M, static_cast<int>(blockIdx.x) / SPLITS * TILE_N};
    if ((n | k) % 2 != 0) {
        dmma::share<dmma::ELEMENTS>(problem, place, stages, parts, rank);
    } else if (place.edge(problem)) {
        dmma::share<dmma::PIECES>(problem, place, stages, parts, rank);
    } else {
        dmma::share<dmma::INSIDE>(problem, place, stages, parts, rank);
    }
}
