/*---
title: The staged f64 main loop, pieces of k for teams of a block's warps
follows: matmul_dmma_cluster
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  TEAMS: [2, 4, 1, 8]   # of a block, each with a piece of k
  SPLITS: [1, 2, 4]     # blocks of a cluster, each with a piece of k that its teams divide
  TILE_M: [64, 32, 128] # outputs of a tile
  TILE_N: [64, 32, 128]
  WARP_M: [32, 64]      # rows of a warp's tile of 32 columns
  STAGES: [4, 3, 5, 6]  # chunks of 16 k of a team, in flight or in use
  RESIDENT: [8, 12, 16] # warps that an SM holds
let:
  team: TILE_M // WARP_M * TILE_N  # threads
  warps: TEAMS * team // 32
  # what the others of the cluster have of a team's share of the tile, which is dealt out by four outputs of each thread
  parts: (SPLITS - 1) * TEAMS * team * 32 * ceil(WARP_M / (4 * TEAMS * SPLITS))
  shared: TEAMS * STAGES * (TILE_M + TILE_N) * 128 + parts
where:
  - "TILE_M % WARP_M == 0 and RESIDENT % (TEAMS * (TILE_M // WARP_M) * (TILE_N // 32)) == 0"
  - "TEAMS * SPLITS <= WARP_M // 4 and STAGES >= 3"
tile: [TILE_M, TILE_N, 16]
block: [team, TEAMS]
cluster: [SPLITS]
grid: ["SPLITS * ceil(n / TILE_N)", "ceil(m / TILE_M)"]
shared_bytes: shared
requires:
  arch: 90
  conditions: [clusters, "shared <= shared_per_block_optin"]
entry: matmul_dmma_teams
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// 512 x 512 are 64 tiles of 64x64, and 132 SMs want two blocks for each. Four or eight would give every quarter of an
// SM the two warps that hide each other's waits, but clusters of more than two leave SMs out, and all that they send
// each other waits for the last one. Here a block has several teams of warps: each computes the whole tile for its own
// piece of k, with stages and a barrier of its own, at its own pace. They add their sums in shared memory; across two
// blocks what is left of them (cluster_parts.cuh).

#define EVERY 1
#define DEPTH 8

#include "cluster_parts.cuh"
#include "dmma_tile.cuh"

namespace dmma {

constexpr int COUNT = TILES_M * 2 * TILES_N * 4;  // sums of a thread
constexpr int OF_TEAM = COUNT / TEAMS;            // that it completes for its block
constexpr int QUADS = OF_TEAM / PIECE;
constexpr int LOT_BYTES = QUADS * THREADS * PIECE_BYTES;  // what a team has for another one
constexpr int TEAM_BYTES = STAGES * STAGE_BYTES;
using Parts = cluster_parts::Exchange<SPLITS, THREADS, f64, OF_TEAM, 2>;

static_assert((TEAMS - 1) * LOT_BYTES <= TEAM_BYTES, "what a team gets fits where its stages were");

// The same for all lanes of a warp, which the compiler knows only of a broadcast.
__device__ __forceinline__ int team() { return TEAMS == 1 ? 0 : __shfl_sync(0xffffffffu, threadIdx.y, 0); }

// The sums of all teams of the block, of which every team gets a share. Those of the team that comes j + 1 behind
// another one, in the circle of teams, lie in lot j of that one.
__device__ __forceinline__ void add_teams(f64 (&own)[OF_TEAM], const f64 (&sums)[COUNT], unsigned stages) {
    const Thread thread;
    cp_async::wait<0>();
    __syncthreads();  // nobody reads stages any more, nothing is written there
#pragma unroll
    for (int to = 0; to < TEAMS; ++to) {
        if (to == team()) {
#pragma unroll
            for (int e = 0; e < OF_TEAM; ++e) own[e] = sums[to * OF_TEAM + e];
            continue;
        }
        const int lot = (team() + TEAMS - 1 - to) % TEAMS;
        const unsigned at = stages + to * TEAM_BYTES + lot * LOT_BYTES + thread.id * PIECE_BYTES;
#pragma unroll
        for (int i = 0; i < QUADS; ++i) {
            const f64* const two = sums + to * OF_TEAM + i * PIECE;
            asm volatile("st.shared.v2.f64 [%0], {%1, %2};\n" ::"r"(at + i * THREADS * PIECE_BYTES), "d"(two[0]),
                         "d"(two[1])
                         : "memory");
        }
    }
    __syncthreads();
#pragma unroll
    for (int lot = 0; lot < TEAMS - 1; ++lot) {
        const unsigned at = stages + team() * TEAM_BYTES + lot * LOT_BYTES + thread.id * PIECE_BYTES;
#pragma unroll
        for (int i = 0; i < QUADS; ++i) cluster_parts::add_quad(own + i * PIECE, at + i * THREADS * PIECE_BYTES);
    }
}

// Sums of a thread from `first` on, in groups of two rows and two columns, two columns at a time.
template <int KIND, int SIZE>
__device__ __forceinline__ void store_share(const f64 (&own)[SIZE], int first, int count, const Problem& problem,
                                            const Place& place) {
    const Thread thread;
    const int column_of_thread = place.column + thread.warp_column() + thread.quad() * 2;
    const int row_of_thread = place.row + thread.warp_row() + thread.of_quad() * 2;
#pragma unroll
    for (int i = 0; i < SIZE / 4; ++i) {
        if (4 * i >= count) break;
        const int number = first / 4 + i;
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
    // The piece of one of SPLITS * TEAMS teams.
    const int chunks = chunks_of(problem), number = rank * TEAMS + team(), teams = SPLITS * TEAMS;
    const int first = chunks * number / teams, end = chunks * (number + 1) / teams;
    Sums sums;
    if (first == end) {
        clear(sums);
    } else {
        Loop<KIND> loop(problem, place, first, stages + team() * TEAM_BYTES);
        loop.run(sums, end - first);
    }
    f64 of_team[OF_TEAM];
    add_teams(of_team, reinterpret_cast<const f64(&)[COUNT]>(sums), stages);
    if constexpr (SPLITS == 1) {
        store_share<KIND>(of_team, team() * OF_TEAM, OF_TEAM, problem, place);
    } else {
        f64 own[Parts::SHARE];
        parts.send(own, of_team, rank);
        parts.add(own, rank);
        store_share<KIND>(own, team() * OF_TEAM + Parts::first(rank) * PIECE, Parts::quads_of(rank) * PIECE, problem,
                          place);
    }
}

}  // namespace dmma

extern "C" __global__ void __launch_bounds__(dmma::THREADS * TEAMS, RESIDENT / (dmma::WARPS * TEAMS))
    matmul_dmma_teams(const f64* __restrict__ a, const f64* __restrict__ b, f64* __restrict__ c, int m, int n, int k,
                      f64 alpha, f64 beta) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ unsigned long long arrived[TEAMS];
    const dmma::Problem problem = {a, b, c, m, n, k, alpha, beta};
    const unsigned stages = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const dmma::Parts parts = {
        stages + TEAMS * dmma::TEAM_BYTES + dmma::team() * (SPLITS - 1) * dmma::Parts::SLOT_BYTES,
        static_cast<unsigned>(__cvta_generic_to_shared(arrived + dmma::team()))};
    const int rank = cluster_parts::rank();
    if constexpr (SPLITS > 1) {
        if (threadIdx.x == 0) parts.begin(rank);
        cluster_parts::arrive();
    }
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
