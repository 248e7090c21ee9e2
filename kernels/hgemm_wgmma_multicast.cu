/*---
title: The same, the blocks of a cluster share operands too, by multicast
follows: hgemm_wgmma_split
operation: matmul
dtypes: {a: TYPE, b: TYPE, c: TYPE, accumulate: f32}
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16]
  SPLITS: [8, 1, 2, 3, 4, 5, 6, 7]   # pieces of k
  DOWN: [2, 1, 3, 4]                 # blocks below each other that load columns of B for each other
  ACROSS: [1, 2]                     # blocks side by side that load rows of A for each other
  WARPGROUPS: [2, 1, 3]              # 64 rows of a tile each
  TILE_N: [176, 64, 96, 128, 160, 256]  # columns of a tile
where:
  - 1 < SPLITS * DOWN * ACROSS <= 16
  - TILE_N % (8 * DOWN) == 0
  - "TILE_N <= 256 // (1 + (WARPGROUPS == 1)) and (WARPGROUPS < 3 or TILE_N <= 176)"  # what registers there are for sums
let:
  # what the others have of a block's share of the tile's columns, which are dealt out by eight
  parts: WARPGROUPS * 64 * 4 * 8 * ceil(TILE_N / (8 * SPLITS)) * (SPLITS - 1)
  stage: (WARPGROUPS * 64 + TILE_N) * 128
  stages: min(8, floor(floor((231168 - parts) / 1024) * 1024 / stage))
  blocks: SPLITS * DOWN * ACROSS
  rows: ceil(m / (WARPGROUPS * 64 * DOWN))   # of tiles of a cluster
  columns: ceil(n / (TILE_N * ACROSS))
  patches: ceil(rows / max(1, 32 // (WARPGROUPS * DOWN)))  # of about 2048 rows of C
tile: [WARPGROUPS * 64, TILE_N, 64]
block: ["WARPGROUPS * 128 + 32"]
cluster: [blocks]
grid: ["blocks * ceil(rows / patches)", columns, patches]
working_blocks: blocks * rows * columns
shared_bytes: 1024 + stages * stage + parts
tensor_maps:
  map_a: {of: a, box: [64, WARPGROUPS * 64 // ACROSS], swizzle: 128}
  map_b: {of: b, box: [64, TILE_N // DOWN], swizzle: 128}
architecture_specific: true
requires:
  arch: 90
  n: 8
  k: 8
  conditions: [wgmma, clusters, stages >= 3, "232448 <= shared_per_block_optin"]
entry: hgemm_wgmma_multicast
arguments: [map_a, map_b, c, m, n, k, alpha, beta]
---*/

// Blocks that share a tile along k read no less: tiles of 128x128 of 512x512x8192 take 67 MB from L2 whoever shares them,
// eight times what A and B are. But blocks at the same piece of k that lie below each other need the same columns of B,
// those side by side the same rows of A. Here they are in one cluster too: each loads its share of these, and the TMA
// writes it into the shared memory of all. A cluster of 2 x 8 has a tile of 256x176 and eight pieces of k.
//
// So a stage may be filled only when all blocks that get what this one loads have released it, and nobody begins to load
// before all of them have prepared their mbarriers. Nobody releases a stage that is not filled again, so that nothing
// arrives at a block that has ended.

#define PARTS_BYTES (WARPGROUPS * 64 * 4 * 8 * ((TILE_N / 8 + SPLITS - 1) / SPLITS) * (SPLITS - 1))
#define ROOM ((231168 - PARTS_BYTES) / 1024)

#include "cluster_parts.cuh"
#include "hgemm_fit.cuh"

using namespace fit;

constexpr int PEERS = DOWN * ACROSS;          // blocks of a piece
constexpr int SHARERS = DOWN + ACROSS - 1;    // that load something for a block, itself one of them

static_assert(A_BYTES / ACROSS % ATOM_BYTES == 0 && B_BYTES / DOWN % ATOM_BYTES == 0, "shares begin where a swizzle does");

// Where a block stands in its cluster.
struct Seat {
    int piece, down, across;

    __device__ __forceinline__ Seat() {
        const int rank = cluster_parts::rank();
        piece = rank / PEERS;
        across = rank % PEERS / DOWN;
        down = rank % DOWN;
    }
    __device__ __forceinline__ int rank(int other_piece, int other_across, int other_down) const {
        return other_piece * PEERS + other_across * DOWN + other_down;
    }
    // Block `number` of those that load something for this one; and it for them.
    __device__ __forceinline__ int sharer(int number) const {
        return number < DOWN ? rank(piece, across, number) : rank(piece, (across + 1 + number - DOWN) % ACROSS, down);
    }
    // Bits of the ranks of those with the same columns, and with the same rows.
    __device__ __forceinline__ unsigned same_columns() const { return ((1u << DOWN) - 1) << rank(piece, across, 0); }
    __device__ __forceinline__ unsigned same_rows() const {
        unsigned ranks = 0;
#pragma unroll
        for (int x = 0; x < ACROSS; ++x) ranks |= 1u << rank(piece, x, down);
        return ranks;
    }
};

// The exchange between blocks that have the same tile.
struct Parts : cluster_parts::Exchange<SPLITS, CONSUMERS, f32, SUMS> {
    __device__ __forceinline__ void send(f32 (&own)[SHARE], const f32 (&sums)[SUMS], const Seat& seat) const {
        cluster_parts::wait_for_all();
#pragma unroll
        for (int to = 0; to < SPLITS; ++to) {
            const f32* const share = sums + first(to) * OF_QUAD;
            if (to == seat.piece) {
#pragma unroll
                for (int e = 0; e < SHARE; ++e) own[e] = e < quads_of(to) * OF_QUAD ? share[e] : 0.0f;
            } else {
                const unsigned slot = (seat.piece + SPLITS - 1 - to) % SPLITS;
                const unsigned there = seat.rank(to, seat.across, seat.down);
                const unsigned at = cluster_parts::in_block(slots + slot * SLOT_BYTES + threadIdx.x * 16, there);
                const unsigned arrived = cluster_parts::in_block(barrier, there);
#pragma unroll
                for (int i = 0; i < quads_of(to); ++i) {
                    cluster_parts::store_quad(at + i * CONSUMERS * 16, arrived, share + i * OF_QUAD);
                }
            }
        }
    }
};

// By the warp that loads: prepares the mbarriers of the ring, whose stages all sharers release.
__device__ __forceinline__ void begin(const Ring& ring, const Thread& thread) {
    if (thread.lane < STAGES) {
        initialize(ring.full + 8 * thread.lane, 1);
        initialize(ring.empty + 8 * thread.lane, CONSUMER_WARPS * SHARERS);
        publish_barriers();
    }
    __syncwarp();
    asm volatile("bar.arrive 2, %0;\n" ::"n"(THREADS) : "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    hgemm_wgmma_multicast(const __grid_constant__ CUtensorMap map_a, const __grid_constant__ CUtensorMap map_b,
                          element* c, int m, int n, int k, f32 alpha, f32 beta) {
    __shared__ u64 arrived;
    const Thread thread;
    Ring ring;
    Parts parts;
    parts.slots = ring.stages + STAGES * STAGE_BYTES;
    parts.barrier = shared_of(&arrived);
    const Seat seat;
    constexpr int BLOCKS = SPLITS * PEERS;
    const int row_of_clusters = blockIdx.z * (gridDim.x / BLOCKS) + blockIdx.x / BLOCKS;
    Place place = {(row_of_clusters * DOWN + seat.down) * TILE_M,
                   (static_cast<int>(blockIdx.y) * ACROSS + seat.across) * TILE_N};
    if (row_of_clusters * DOWN * TILE_M >= m) return;  // the whole cluster
    const int chunks = chunks_of(k), first = chunks * seat.piece / SPLITS;
    const int count = chunks * (seat.piece + 1) / SPLITS - first;
    if (thread.loads()) {
        if (thread.lane == 0) parts.begin(seat.piece);
        begin(ring, thread);
        cluster_parts::arrive();
        cluster_parts::wait_for_all();
        if (elected()) {
            for (int chunk = first; chunk < first + count; ++chunk) {
                ring.wait_empty();
                const unsigned a = ring.at() + seat.across * (A_BYTES / ACROSS), full = ring.full + 8 * ring.stage;
                const unsigned b = ring.at() + A_BYTES + seat.down * (B_BYTES / DOWN);
                const int row = place.row + seat.across * (TILE_M / ACROSS);
                const int column = place.column + seat.down * (TILE_N / DOWN);
                expect(full, STAGE_BYTES);
                if (ACROSS == 1) load(a, map_a, chunk * CHUNK, row, full);
                else load_all(a, map_a, chunk * CHUNK, row, full, seat.same_rows());
                if (DOWN == 1) load(b, map_b, chunk * CHUNK, column, full);
                else load_all(b, map_b, chunk * CHUNK, column, full, seat.same_columns());
                ring.next();
            }
        }
        __syncwarp();
    } else {
        cluster_parts::arrive();
        ring.join();
        Sums sums = {};
        int previous = 0;
        for (int chunk = 0; chunk < count; ++chunk) {
            ring.wait_full();
            const u64 a = descriptor(ring.at() + thread.warpgroup() * MMA_M * SWIZZLE_BYTES);
            const u64 b = descriptor(ring.at() + A_BYTES);
            begin_products();
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                multiply<TILE_N>(sums, a + step * STEP, b + step * STEP, chunk | step);
            }
            commit_products();
            wait_products<1>();
            // The chunk before has been multiplied; its stage is filled again with one that comes STAGES later.
            if (chunk > 0 && chunk - 1 + STAGES < count && thread.lane < SHARERS) {
                arrive_at(ring.empty + 8 * previous, seat.sharer(thread.lane));
            }
            previous = ring.stage;
            ring.next();
        }
        wait_products<0>();
        f32 own[Parts::SHARE];
        parts.send(own, sums, seat);
        parts.add(own, seat.piece);
        place.column += Parts::first(seat.piece) * QUAD_COLUMNS;
        const Result result = {c, m, n, alpha, beta};
        store(own, thread, ring, result, place, Parts::quads_of(seat.piece) * QUAD_COLUMNS);
    }
}
