/*---
title: Teams fed by the TMA, f64
follows: matmul_dmma_teams
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
tensor_maps:
  map_a: {of: a, box: [16, TILE_M], swizzle: 128}
  map_b: {of: b, box: [16, 16], swizzle: 128}
requires:
  arch: 90
  n: 2
  k: 2
  conditions: [clusters, "shared + 2048 <= shared_per_block_optin"]
entry: matmul_dmma_tma
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// A third of what the staged f64 loop issues is there to copy: addresses, predicates, the copies, and reads without
// effect that ptxas puts before them. A lone team of one warp has twice as much to copy for each of its products, and
// waits for all of it before the first one. Here a thread of each team asks the TMA for whole chunks and the others do
// nothing but read and multiply. Boxes have lines of 128 bytes, 16 k of a row of A or 16 columns of a row of B, whose
// pieces the TMA permutes by the row's number modulo 8. The instructions do not care which k they get: octet o of a chunk
// is its pieces {0, 5, 2, 7} or {4, 1, 6, 3}, so that the two rows of A and the four rows of B that a quarter-warp
// reads at once meet every bank once.

#define EVERY 1
#define DEPTH 8

#include <cuda.h>

#include "dmma_teams.cuh"

namespace dmma {

constexpr int PANEL_BYTES = CHUNK * LINE_BYTES;  // a box of B
constexpr int PANELS = TILE_N / COLUMNS;

__device__ __forceinline__ void load_box(unsigned to, const CUtensorMap& map, int along, int across, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\n" ::"r"(
            to),
        "l"(reinterpret_cast<unsigned long long>(&map)), "r"(along), "r"(across), "r"(barrier)
        : "memory");
}

// A team's chunks on their way: stages, each with an mbarrier that counts its bytes.
struct Ring {
    const CUtensorMap &map_a, &map_b;
    Place place;
    unsigned stages, barriers;
    int next_k, left;  // of the chunk that is asked for next; chunks that nobody has asked for yet
    int target = 0;    // its stage

    // By one thread, and so is `ask`.
    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n" ::"r"(barriers + 8 * s) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#pragma unroll 1
        for (int s = 0; s < STAGES - 1; ++s) ask();
    }

    __device__ __forceinline__ void ask() {
        if (left == 0) return;
        const unsigned stage = stages + target * STAGE_BYTES, barrier = barriers + 8 * target;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "n"(STAGE_BYTES)
                     : "memory");
        load_box(stage, map_a, next_k, place.row, barrier);
#pragma unroll
        for (int j = 0; j < PANELS; ++j) {
            load_box(stage + A_BYTES + j * PANEL_BYTES, map_b, place.column + j * COLUMNS, next_k, barrier);
        }
        next_k += CHUNK;
        --left;
        target = target + 1 == STAGES ? 0 : target + 1;
    }

    __device__ __forceinline__ void wait(int stage, int parity) const {
        unsigned done = 0;
        do {
            asm volatile(
                "{\n"
                ".reg .pred done;\n"
                "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
                "selp.u32 %0, 1, 0, done;\n"
                "}\n"
                : "=r"(done)
                : "r"(barriers + 8 * stage), "r"(parity)
                : "memory");
        } while (!done);
    }
};

// Where this lane's pieces of an octet lie in a stage: of rows of A, and of two neighbouring rows of B.
struct Pieces {
    unsigned a[2], b[2][2];

    __device__ __forceinline__ explicit Pieces(unsigned stages) {
        const Thread thread;
        const int quad = thread.quad(), t = thread.of_quad();
#pragma unroll
        for (int octet = 0; octet < 2; ++octet) {
            const int piece = t + 4 * ((t + octet) % 2);
            a[octet] = stages + (thread.warp_row() + quad) * LINE_BYTES + (piece ^ quad) * PIECE_BYTES;
#pragma unroll
            for (int which = 0; which < 2; ++which) {
                b[octet][which] = stages + A_BYTES + thread.warp_column() / COLUMNS * PANEL_BYTES +
                                  (2 * piece + which) * LINE_BYTES + (quad ^ (2 * t + which)) * PIECE_BYTES;
            }
        }
    }

    __device__ __forceinline__ void rows(Rows& target, unsigned stage, int octet, int i) const {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            load_piece(target[half][0][0], target[half][0][1], a[octet] + stage + (i * ROWS + half * 8) * LINE_BYTES);
        }
    }
    __device__ __forceinline__ void columns(Columns& target, unsigned stage, int octet, int first, int last) const {
#pragma unroll
        for (int i = first; i < last; ++i) {
            const int j = i / 2, which = i % 2;
            if (j >= TILES_N) continue;
            load_piece(target[j][0][which][0], target[j][0][which][1], b[octet][which] + stage + j * PANEL_BYTES);
        }
    }
};

// The sums of `count` chunks. Rows of A are read 16 ahead, columns of B an octet.
__device__ __forceinline__ void accumulate(Sums& sums, Ring& ring, int count) {
    const Pieces pieces(ring.stages);
    clear(sums);
    meet();  // the mbarriers are there
    if (count == 0) return;
    Rows a[2];
    Columns b[2];
    int stage = 0, parity = 0;
    ring.wait(0, 0);
    pieces.rows(a[0], 0, 0, 0);
    pieces.columns(b[0], 0, 0, 0, B_LOADS);
#pragma unroll 1
    for (; count > 0; --count) {
        const unsigned here = stage * STAGE_BYTES;
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        parity ^= stage == 0;
#pragma unroll
        for (int octet = 0; octet < 2; ++octet) {
            if (octet == 1) {
                meet();  // nobody reads the chunk before this one any more
                if (Thread().id == 0) ring.ask();
                // Behind the last chunk nothing comes: its first octet is read again, for nothing.
                if (count > 1) ring.wait(stage, parity);
            }
            const unsigned next = octet == 0 || count == 1 ? here : stage * STAGE_BYTES;
#pragma unroll
            for (int i = 0; i < TILES_M; ++i) {
                const int set = i % 2;
                if (i == TILES_M - 1) {
                    pieces.rows(a[1 - set], next, 1 - octet, 0);
                } else {
                    pieces.rows(a[1 - set], here, octet, i + 1);
                }
                pieces.columns(b[1 - octet], next, 1 - octet, i * B_LOADS_PER_UNIT, (i + 1) * B_LOADS_PER_UNIT);
                multiply(sums[i], a[set], b[octet]);
            }
        }
    }
}

}  // namespace dmma

extern "C" __global__ void __launch_bounds__(dmma::THREADS * TEAMS, RESIDENT / (dmma::WARPS * TEAMS))
    matmul_dmma_tma(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                    f64* __restrict__ c, int m, int n, int k, f64 alpha, f64 beta) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ unsigned long long arrived[TEAMS], landed[TEAMS][STAGES];
    const dmma::Problem problem = {nullptr, nullptr, c, m, n, k, alpha, beta};
    const unsigned stages = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const dmma::Parts parts = dmma::parts_of(stages + TEAMS * dmma::TEAM_BYTES, arrived);
    const int rank = cluster_parts::rank();
    const dmma::Place place = {static_cast<int>(blockIdx.y) * TILE_M, static_cast<int>(blockIdx.x) / SPLITS * TILE_N};
    const int number = rank * TEAMS + dmma::team();
    const int first = dmma::first_chunk(problem, number, SPLITS * TEAMS);
    const int count = dmma::first_chunk(problem, number + 1, SPLITS * TEAMS) - first;
    dmma::Ring ring = {map_a, map_b, place, stages + dmma::team() * dmma::TEAM_BYTES,
                       static_cast<unsigned>(__cvta_generic_to_shared(landed[dmma::team()])), first * dmma::CHUNK, count};
    if (threadIdx.x == 0) ring.begin();
    if constexpr (SPLITS > 1) {
        if (threadIdx.x == 0) parts.begin(rank);
        cluster_parts::arrive();
    }
    dmma::Sums sums;
    dmma::accumulate(sums, ring, count);
    if (place.row + TILE_M > m || place.column + TILE_N > n) {
        dmma::complete<dmma::PIECES>(sums, problem, place, stages, parts, rank);
    } else {
        dmma::complete<dmma::INSIDE>(sums, problem, place, stages, parts, rank);
    }
}
