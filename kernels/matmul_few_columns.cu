/*---
title: Few columns, k dealt out to lanes
follows: matmul_cluster
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
layouts: {a: row, b: row, c: row}
macros:
  REAL: [f32, f64]
  SPLITS: [2, 1, 4, 8, 3, 5]     # blocks of a cluster, each with a piece of k
  WARPS: [4, 8]                  # of a block
  STAGES: [3, 4, 5]              # chunks of shared memory in flight or in use
  COLUMNS: [16, 24, 32, 48]      # of a tile
where: ["COLUMNS == 16 or REAL == 'f32'"]
let:
  sharers: 1 if COLUMNS == 16 else 2 if COLUMNS <= 32 else 4  # lanes with the same k and other columns
  columns: COLUMNS // sharers                # of a lane
  rows: "512 // (columns * size(REAL)) // sharers * sharers"  # of a warp
  lines: WARPS * sharers                     # of 32 pieces of 16 bytes, of a tile
  # stages of A and B, and what the others of the cluster have of a block's lines
  shared: "STAGES * 512 * (WARPS * rows // sharers + columns) + (SPLITS - 1) * ceil(lines / SPLITS) * 512"
tile: [WARPS * rows, COLUMNS, "512 / sharers / size(REAL)"]
block: [WARPS * 32]
cluster: [SPLITS]
grid: ["SPLITS * ceil(m / (WARPS * rows)) * ceil(n / COLUMNS)"]
shared_bytes: shared
requires:
  arch: 90
  conditions: [clusters, "n <= 512", "shared <= shared_per_block_optin"]
entry: matmul_few_columns
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// A tile of 64 or 128 columns is mostly zeros where C has 16. Here each lane of a warp has its own k: it multiplies 16
// bytes of each of the warp's rows by its own rows of B, and keeps sums of all the warp's outputs. The lanes add theirs
// once, at the end. So A is read once and by nobody else.
//
// A lane that had 32 columns would have registers for sums of four rows, and read 128 numbers of B for 512 products: shared
// memory would give them no faster than they are multiplied. So two or four lanes share a k and each has a part of the
// columns, of twice or four times as many rows.

#include "skinny.cuh"

namespace {

using namespace skinny;

constexpr int SHARERS = COLUMNS == 16 ? 1 : COLUMNS <= 32 ? 2 : 4;
constexpr int LANES = WARP / SHARERS;           // with another k each
constexpr int LANE_COLUMNS = COLUMNS / SHARERS;
constexpr int SUMS = 32 * PIECE;                // of a lane, at most: they take 128 registers
constexpr int ROWS = SUMS / LANE_COLUMNS / SHARERS * SHARERS;  // of a warp
constexpr int TILE_M = WARPS * ROWS;
constexpr int CHUNK = LANES * PIECE;            // k
constexpr int LANE_PIECES = LANE_COLUMNS / PIECE;  // of a row of B
constexpr int A_STAGE_BYTES = TILE_M * LANES * PIECE_BYTES;
constexpr int STAGE_BYTES = A_STAGE_BYTES + CHUNK * COLUMNS * static_cast<int>(sizeof(REAL));

static_assert(LANE_COLUMNS % 4 == 0, "whole pieces of B");

using Rows = Piece[ROWS];
using Sums = REAL[SUMS];
using Lines = Meeting<WARPS * SHARERS>;  // a piece of each lane of a warp is a line: SHARERS are left of its sums

// B lies in shared memory as in memory, but piece i of the rows of one k-lane is at i xor this: the eight lanes of a
// quarter-warp, of which SHARERS have one k and begin three or four pieces apart, read from all banks, and a copy moves whole
// 128 bytes.
__device__ __forceinline__ int places_off(int k_lane) { return k_lane % (8 / SHARERS) * (LANE_PIECES == 3 ? SHARERS : 1); }

__device__ __forceinline__ unsigned place_of_b(int pass, int k, int column) {
    const int k_lane = pass / PIECE + k / PIECE;
    const int element = (pass % PIECE + k % PIECE) * COLUMNS + column;  // of the k-lane
    const int piece = element / PIECE ^ places_off(k_lane);
    return (k_lane * COLUMNS + piece) * PIECE_BYTES + element % PIECE * unsigned(sizeof(REAL));
}

// `b`: where pieces 0 to 7 of the lane lie.
__device__ __forceinline__ void multiply(Sums& sums, const Rows& a, const unsigned (&b)[8], unsigned stage) {
#pragma unroll
    for (int i = 0; i < PIECE * LANE_PIECES; ++i) {
        const int k = i / LANE_PIECES, piece = k * LANE_PIECES * SHARERS + i % LANE_PIECES;
        Piece of_b;
        read(of_b, stage + b[piece % 8] + piece / 8 * 8 * PIECE_BYTES);
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
#pragma unroll
            for (int e = 0; e < PIECE; ++e) {
                sums[row * LANE_COLUMNS + i % LANE_PIECES * PIECE + e] += a[row][k] * of_b[e];
            }
        }
    }
}

// The sums of all lanes with these columns: in each turn a lane gives one half away and adds to the other one. What is left
// begins with piece l - l % SHARERS.
template <int HALF>
__device__ __forceinline__ void add_lanes(Sums& sums) {
    constexpr int APART = HALF / PIECE;
    const bool upper = threadIdx.x & APART;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
        const REAL given = upper ? sums[i] : sums[HALF + i];
        sums[i] = (upper ? sums[HALF + i] : sums[i]) + __shfl_xor_sync(0xffffffffu, given, APART);
    }
    if constexpr (APART > SHARERS) add_lanes<HALF / 2>(sums);
}

template <bool A_ALIGNED, bool ALIGNED>
__device__ __forceinline__ void product(const Problem& p, unsigned shared, const Lines& lines) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    // Tiles of the same rows are neighbours: the second one finds A in L2.
    const int tile = blockIdx.x / SPLITS, columns = (p.n - 1) / COLUMNS + 1;
    const int first_row = tile / columns * TILE_M, first_column = tile % columns * COLUMNS;
    const Stretch own = stretch_of(p, CHUNK, lines.rank);
    const auto copy_next = [&](int chunk) {
        const int first = (own.begin + chunk) * CHUNK;
        const unsigned stage = shared + chunk % STAGES * STAGE_BYTES;
        copy_tile<A_ALIGNED, TILE_M, CHUNK>(p.a, first_row, p.m, first, own.end, p.k, [=](int pass, int row, int k) {
            return stage + (row * CHUNK + k) * unsigned(sizeof(REAL)) + pass * CHUNK * unsigned(sizeof(REAL));
        });
        copy_tile<ALIGNED, CHUNK, COLUMNS>(p.b, first, own.end, first_column, p.n, p.n, [=](int pass, int k, int column) {
            return stage + A_STAGE_BYTES + place_of_b(pass, k, column);
        });
        cp_async::commit();
    };

    Sums sums;
#pragma unroll
    for (int i = 0; i < SUMS; ++i) sums[i] = 0;
    const unsigned a = shared + (warp * ROWS * LANES + lane / SHARERS) * PIECE_BYTES;
    unsigned b[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int piece = lane % SHARERS * LANE_PIECES + i ^ places_off(lane / SHARERS);
        b[i] = shared + A_STAGE_BYTES + (lane / SHARERS * COLUMNS + piece) * PIECE_BYTES;
    }
    through_stages(own.count, copy_next, [&](int chunk) {
        const unsigned stage = chunk % STAGES * STAGE_BYTES;
        Rows rows;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) read(rows[i], a + stage + i * LANES * PIECE_BYTES);
        multiply(sums, rows, b, stage);
    });

    add_lanes<SUMS / 2>(sums);
    const Piece(&left)[SHARERS] = reinterpret_cast<const Piece(&)[SHARERS]>(sums);
    if (SPLITS > 1) cluster_parts::wait_for_all();
    // Two turns over the lines: what others wait for is sent first.
#pragma unroll
    for (int mine = SPLITS == 1; mine < 2; ++mine) {
        if (SPLITS > 1 && mine) lines.wait();
#pragma unroll
        for (int i = 0; i < SHARERS; ++i) {
            const int line = warp * SHARERS + i;
            if (SPLITS > 1 && lines.owns(line) != mine) continue;
            if (!mine) {
                lines.send(line, left[i]);
                continue;
            }
            Piece piece;
#pragma unroll
            for (int e = 0; e < PIECE; ++e) piece[e] = left[i][e];
            if (SPLITS > 1) lines.add(line, piece);
            const int number = lane - lane % SHARERS + i, row = number / LANE_PIECES;
            const int column = lane % SHARERS * LANE_COLUMNS + number % LANE_PIECES * PIECE;
            if (row < ROWS) store<ALIGNED>(p, first_row + warp * ROWS + row, first_column + column, piece);
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    matmul_few_columns(const REAL* __restrict__ a, const REAL* __restrict__ b, REAL* __restrict__ c, int m, int n, int k,
                       REAL alpha, REAL beta) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ unsigned long long arrived;
    const Problem p = {a, b, c, m, n, k, alpha, beta};
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const Lines lines = {shared + STAGES * STAGE_BYTES, static_cast<unsigned>(__cvta_generic_to_shared(&arrived)),
                         static_cast<int>(cluster_parts::rank())};
    if (SPLITS > 1) lines.begin();
    if (!p.a_aligned()) {
        product<false, false>(p, shared, lines);
    } else if (!p.aligned()) {
        product<true, false>(p, shared, lines);
    } else {
        product<true, true>(p, shared, lines);
    }
}
