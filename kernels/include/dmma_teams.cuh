// Teams of a block's warps, each with a piece of k of the same tile, and how their sums become one (matmul_dmma_teams):
// in shared memory where they are of one block, then across the blocks of a cluster.
//
// Who includes this defines TEAMS and SPLITS (blocks of a cluster) besides what dmma_tile.cuh asks for.

#pragma once

#include "cluster_parts.cuh"
#include "dmma_tile.cuh"
#include "pieces.cuh"

namespace dmma {

constexpr int COUNT = TILES_M * 2 * TILES_N * 4;  // sums of a thread
constexpr int OF_TEAM = COUNT / TEAMS;            // that it completes for its block
constexpr int QUADS = OF_TEAM / PIECE;
constexpr int SUMS_BYTES = TILE_M * TILE_N * sizeof(f64);  // of a team
constexpr int TEAM_BYTES = STAGES * STAGE_BYTES;
using Parts = cluster_parts::Exchange<SPLITS, THREADS, f64, OF_TEAM, 2>;

static_assert(TEAMS == 1 || SUMS_BYTES <= TEAM_BYTES, "a team's sums fit where its stages were");

// The same for all lanes of a warp, which the compiler knows only of a broadcast.
__device__ __forceinline__ int team() { return TEAMS == 1 ? 0 : __shfl_sync(0xffffffffu, threadIdx.y, 0); }

// The sums of all teams of the block, of which every team gets a share: number team() of TEAMS.
__device__ __forceinline__ void add_teams(f64 (&own)[OF_TEAM], const f64 (&sums)[COUNT], unsigned stages) {
    if constexpr (TEAMS == 1) {
#pragma unroll
        for (int e = 0; e < COUNT; ++e) own[e] = sums[e];
    } else {
        const unsigned of_thread = stages + Thread().id * PIECE_BYTES;
        cp_async::wait<0>();
        __syncthreads();  // nobody reads stages any more, nothing is written there
#pragma unroll
        for (int i = 0; i < COUNT / PIECE; ++i) {
            asm volatile("st.shared.v2.f64 [%0], {%1, %2};\n" ::"r"(of_thread + team() * SUMS_BYTES +
                                                                    i * THREADS * PIECE_BYTES),
                         "d"(sums[i * PIECE]), "d"(sums[i * PIECE + 1])
                         : "memory");
        }
        __syncthreads();
#pragma unroll
        for (int e = 0; e < OF_TEAM; ++e) own[e] = 0.0;
        const unsigned share = of_thread + team() * QUADS * THREADS * PIECE_BYTES;
#pragma unroll
        for (int of = 0; of < TEAMS; ++of) {
#pragma unroll
            for (int i = 0; i < QUADS; ++i) {
                cluster_parts::add_quad(own + i * PIECE, share + of * SUMS_BYTES + i * THREADS * PIECE_BYTES);
            }
        }
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

// Where the piece of k of a team begins, of `teams` that share a tile.
__device__ __forceinline__ int first_chunk(const Problem& problem, int number, int teams) {
    return pieces::begin(chunks_of(problem), number, teams);
}

// The parts that the other blocks of the cluster send to this thread's team lie from `slots` on.
__device__ __forceinline__ Parts parts_of(unsigned slots, const unsigned long long* arrived) {
    return {slots + team() * (SPLITS - 1) * Parts::SLOT_BYTES,
            static_cast<unsigned>(__cvta_generic_to_shared(arrived + team()))};
}

// What all teams have of a tile, stored. `stages`: those of the first team.
template <int KIND>
__device__ __forceinline__ void complete(Sums& sums, const Problem& problem, const Place& place, unsigned stages,
                                         const Parts& parts, int rank) {
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
