/*---
title: Pieces of k for any number of blocks, their parts added by a second launch, f64
follows: matmul_dmma_teams
operation: matmul
dtypes: {a: f64, b: f64, c: f64, accumulate: f64}
layouts: {a: row, b: row, c: row}
macros:
  TEAMS: [2, 4, 1, 8]   # of a block, each with a piece of that
  TILE_M: [64, 128, 96, 32] # outputs of a tile
  TILE_N: [64, 128, 96, 32]
  WARP_M: [32, 64, 48]  # rows of a warp's tile of 32 columns
  STAGES: [4, 3, 6]     # chunks of 16 k of a team, in flight or in use
  PARTS: [0, 2, 3]      # blocks that share a tile along k; 0: as many as the SMs have room for at a time
  OVERLAP: [0, 1]       # 1: a launch begins while the one before it ends
let:
  team: TILE_M // WARP_M * TILE_N  # threads
  shared: TEAMS * STAGES * (TILE_M + TILE_N) * 128
  threads: "384 if WARP_M == 48 else 256"  # of an SM
  rows: ceil(m / TILE_M)
  columns: ceil(n / TILE_N)
  # blocks that share a tile along k: as many as the SMs have room for, one or two each
  parts: max(1, min(PARTS if PARTS else floor(sms * (threads // (TEAMS * team)) / (rows * columns)), floor(ceil(k / 16) / TEAMS)))
  slices: "2 if parts >= 4 else 1"  # of a block that adds them
where:
  # all of them one block's, or two blocks' with half of the shared memory each
  - "TILE_M % WARP_M == 0 and WARP_M % (4 * TEAMS) == 0 and (TEAMS * team == threads or (2 * TEAMS * team == threads and shared <= 115712))"
programmatic: OVERLAP
tile: [TILE_M, TILE_N, 16]
buffers:
  partials: {dtype: f64, size: "parts * rows * columns * TILE_M * TILE_N"}
requires:
  arch: 80
  conditions: ["shared <= shared_per_block_optin"]
launches:
  - entry: multiplied
    block: [team, TEAMS]
    grid: [columns, rows, parts]
    shared_bytes: shared
    arguments: [a, b, m, n, k, partials]
  - entry: added
    block: [team, TEAMS, slices]
    # four sums of each thread
    grid: [columns, rows, "WARP_M // (4 * TEAMS)"]
    arguments: [c, m, n, k, parts, alpha, beta, partials]
---*/

// A cluster of eight leaves SMs out, and of 256 x 256 there are 16 tiles, which want eight blocks each. So these blocks
// leave their parts in global memory, and a second launch adds them, wherever the first one ran: for four sums of each
// thread of a tile a thread, or two where parts are many (part_slices.cuh).

#define EVERY 1
#define DEPTH 8
#define RESIDENT (WARP_M == 48 ? 12 : 8)
#define SPLITS 1  // no cluster

#include "dmma_teams.cuh"
#include "overlap.cuh"
#include "part_slices.cuh"

namespace dmma {

constexpr int GROUP_SUMS = 4;  // of two rows and two columns
constexpr int GROUP_PIECES = GROUP_SUMS / PIECE;
constexpr int SLICES = 2;  // at most

__device__ __forceinline__ Place place_of_block() {
    return {static_cast<int>(blockIdx.y) * TILE_M, static_cast<int>(blockIdx.x) * TILE_N};
}

// This thread's first two sums in the part that a block of a tile has. Every access is 512 contiguous bytes of a warp.
__device__ __forceinline__ double2* piece_of(f64* partials, int part) {
    const long long tile = (static_cast<long long>(part) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    return reinterpret_cast<double2*>(partials + tile * (TILE_M * TILE_N)) + team() * QUADS * THREADS + Thread().id;
}

template <int KIND>
__device__ __forceinline__ void multiply_piece(const Problem& problem, const Place& place, unsigned stages,
                                               f64* partials) {
    const int number = blockIdx.z * TEAMS + team(), teams = gridDim.z * TEAMS;
    const int first = first_chunk(problem, number, teams), end = first_chunk(problem, number + 1, teams);
    Sums sums;
    if (first == end) {
        clear(sums);
    } else {
        Loop<KIND> loop(problem, place, first, stages + team() * TEAM_BYTES);
        loop.run(sums, end - first);
    }
    f64 own[OF_TEAM];
    add_teams(own, reinterpret_cast<const f64(&)[COUNT]>(sums), stages);
    double2* const target = piece_of(partials, blockIdx.z);
#pragma unroll
    for (int i = 0; i < QUADS; ++i) __stcg(target + i * THREADS, make_double2(own[2 * i], own[2 * i + 1]));
}

}  // namespace dmma

extern "C" __global__ void __launch_bounds__(dmma::THREADS * TEAMS, RESIDENT / (dmma::WARPS * TEAMS))
    multiplied(const f64* __restrict__ a, const f64* __restrict__ b, int m, int n, int k, f64* __restrict__ partials) {
    extern __shared__ __align__(128) unsigned char memory[];
    const dmma::Problem problem = {a, b, nullptr, m, n, k, 1.0, 0.0};
    const unsigned stages = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const dmma::Place place = dmma::place_of_block();
    overlap::let_next_begin();
    overlap::wait_for_launch_before();
    if ((n | k) % 2 != 0) {
        dmma::multiply_piece<dmma::ELEMENTS>(problem, place, stages, partials);
    } else if (place.edge(problem)) {
        dmma::multiply_piece<dmma::PIECES>(problem, place, stages, partials);
    } else {
        dmma::multiply_piece<dmma::INSIDE>(problem, place, stages, partials);
    }
}

// Group blockIdx.z of each thread's sums, part by part in the order of k.
extern "C" __global__ void __launch_bounds__(dmma::THREADS * TEAMS * dmma::SLICES, 1)
    added(f64* __restrict__ c, int m, int n, int k, int parts, f64 alpha, f64 beta, f64* __restrict__ partials) {
    using namespace dmma;
    const Problem problem = {nullptr, nullptr, c, m, n, k, alpha, beta};
    overlap::let_next_begin();
    overlap::wait_for_launch_before();
    double2 pieces[GROUP_PIECES];
    const int thread = team() * THREADS + Thread().id;
    const bool all = part_slices::sum<SLICES, TEAMS * THREADS, THREADS>(
        pieces, parts, threadIdx.z, blockDim.z, thread,
        [&](int part) { return piece_of(partials, part) + blockIdx.z * GROUP_PIECES * THREADS; });
    if (!all) return;
    const f64(&sums)[GROUP_SUMS] = reinterpret_cast<const f64(&)[GROUP_SUMS]>(pieces);
    const int first = team() * OF_TEAM + blockIdx.z * GROUP_SUMS;
    if (n % 2 != 0) {
        store_share<ELEMENTS>(sums, first, GROUP_SUMS, problem, place_of_block());
    } else {
        store_share<PIECES>(sums, first, GROUP_SUMS, problem, place_of_block());
    }
}
