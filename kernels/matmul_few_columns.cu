/*---
title: Few columns, k dealt out to lanes
follows: matmul_cluster
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
layouts: {a: row, b: row, c: row}
macros:
  REAL: [f32, f64]
  SPLITS: [2, 1, 4, 8]  # blocks of a cluster, each with a piece of k
  WARPS: [8, 4]         # of a block
  AHEAD: [1, 2]         # 32 KB of A that the warps of an SM have under way (16 where COLUMNS is 32)
  COLUMNS: [16, 32]     # of a tile; of 32 a warp has half as many rows
where: ["REAL == f32 or AHEAD == 1"]
let:
  rows: "512 / (COLUMNS * size(REAL))"  # of a warp
  # three stages of B, and what the others of the cluster have of a block's lines
  shared: "3 * 512 * COLUMNS + (SPLITS - 1) * ceil(WARPS / SPLITS) * 512"
tile: [WARPS * rows, COLUMNS, "512 / size(REAL)"]
block: [WARPS * 32]
cluster: [SPLITS]
grid: ["SPLITS * ceil(m / (WARPS * rows)) * ceil(n / COLUMNS)"]
shared_bytes: shared
requires:
  arch: 90
  conditions: [clusters, "n <= 512"]
entry: matmul_few_columns
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// A tile of 64 or 128 columns is mostly zeros where C has 16, and A goes through shared memory for nobody but the one
// thread row that wants it. Here each lane of a warp has its own k: it loads 16 bytes of each of the warp's rows, which
// are 512 contiguous bytes for the warp, multiplies them by its own rows of B, and keeps sums of all the warp's outputs.
// The lanes add theirs once, at the end. So A is read once and by nobody else, B through shared memory, once a block.

#define SIDE COLUMNS

#include "pieces.cuh"
#include "skinny.cuh"

namespace {

using namespace skinny;

constexpr int ROWS = 512 / (SIDE * static_cast<int>(sizeof(REAL)));  // of a warp: sums take 128 registers
constexpr int TILE_M = WARPS * ROWS;
constexpr int CHUNK = WARP * PIECE;      // k
constexpr int LANE_BYTES = SIDE * PIECE_BYTES;  // a lane's rows of B in a chunk
constexpr int STAGE_BYTES = WARP * LANE_BYTES;
constexpr int ROW_PIECES = SIDE / PIECE;  // of B
constexpr int COPIES = STAGE_BYTES / PIECE_BYTES / THREADS;
constexpr int UNDER_WAY = AHEAD * sizeof(REAL) / 4;  // chunks of A
constexpr int BUFFERS = UNDER_WAY + 1;

using Rows = Piece[ROWS];
using Sums = REAL[ROWS * SIDE];
using Lines = Meeting<WARPS>;  // a warp's sums are a line

// Piece p of a lane's 256 or 512 bytes of B lies at p xor (lane mod 8): the eight lanes of a quarter-warp, which stand in the
// same banks, read eight places, and a copy moves whole lines.
template <bool A_ALIGNED, bool ALIGNED>
__device__ __forceinline__ void copy_chunk(const Problem& p, int column, unsigned stage, int first, int end) {
#pragma unroll
    for (int i = 0; i < COPIES; ++i) {
        const int piece = threadIdx.x + i * THREADS;
        const int row = piece / ROW_PIECES;  // of a chunk
        const int place = A_ALIGNED ? piece : (row % WARP * PIECE + row / WARP) * ROW_PIECES + piece % ROW_PIECES;
        const int at = column + piece % ROW_PIECES * PIECE;
        copy<ALIGNED>(stage + (place ^ place / SIDE % 8) * PIECE_BYTES, p.b + static_cast<long long>(first + row) * p.n + at,
                      first + row < end ? p.n - at : 0, p.b);
    }
    cp_async::commit();
}

__device__ __forceinline__ void multiply(Sums& sums, const Rows& a, unsigned b) {
#pragma unroll
    for (int piece = 0; piece < LANE_BYTES / PIECE_BYTES; ++piece) {
        Piece of_b;
        read(of_b, b ^ piece * PIECE_BYTES);
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
#pragma unroll
            for (int e = 0; e < PIECE; ++e) {
                sums[row * SIDE + piece % ROW_PIECES * PIECE + e] += a[row][piece / ROW_PIECES] * of_b[e];
            }
        }
    }
}

// The sums of all lanes, of which lane l gets piece l: in each turn a lane gives one half away and adds to the other one.
template <int HALF>
__device__ __forceinline__ void add_lanes(Sums& sums) {
    constexpr int APART = HALF / PIECE;
    const bool upper = threadIdx.x & APART;
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
        const REAL given = upper ? sums[i] : sums[HALF + i];
        sums[i] = (upper ? sums[HALF + i] : sums[i]) + __shfl_xor_sync(0xffffffffu, given, APART);
    }
    if constexpr (HALF > PIECE) add_lanes<HALF / 2>(sums);
}

// Where rows of A begin anywhere, a lane has elements of k that are a warp's lanes apart, and so have its rows of B.
template <bool A_ALIGNED, bool ALIGNED>
__device__ __forceinline__ void product(const Problem& p, unsigned shared, const Lines& lines) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    // Tiles of the same rows are neighbours: the second one finds A in L2.
    const int tile = blockIdx.x / SPLITS, columns = (p.n - 1) / SIDE + 1;
    const int row = tile / columns * TILE_M + warp * ROWS, column = tile % columns * SIDE;
    const int chunks = (p.k - 1) / CHUNK + 1;
    const int begin = pieces::begin(chunks, lines.rank, SPLITS);
    const int count = pieces::begin(chunks, lines.rank + 1, SPLITS) - begin;
    const int end = min((begin + count) * CHUNK, p.k);
    // Rows beyond C are read from its last one: what they add to is not stored.
    const REAL* const a = p.a + static_cast<long long>(min(row, p.m - 1)) * p.k;
    const int last = max(min(ROWS, p.m - row), 1) - 1;
    const auto load_rows = [&](Rows& to, int chunk) {
        const int first = (begin + chunk) * CHUNK + lane * (A_ALIGNED ? PIECE : 1);
        const REAL* from = a + first;
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            if constexpr (A_ALIGNED) {
                load<true>(to[i], from, end - first);
            } else {
                load_apart(to[i], from, end - first);
            }
            from += i < last ? p.k : 0;  // step by step: eight offsets would have no registers
        }
    };
    const auto copy_next = [&](int chunk) {
        copy_chunk<A_ALIGNED, ALIGNED>(p, column, shared + chunk % STAGES * STAGE_BYTES, (begin + chunk) * CHUNK, end);
    };

    Rows rows[BUFFERS];
#pragma unroll
    for (int chunk = 0; chunk < STAGES - 1; ++chunk) copy_next(chunk);
#pragma unroll
    for (int chunk = 0; chunk < UNDER_WAY; ++chunk) load_rows(rows[chunk], chunk);
    Sums sums;
#pragma unroll
    for (int i = 0; i < ROWS * SIDE; ++i) sums[i] = 0;
    const unsigned b = shared + lane * LANE_BYTES + lane % 8 * PIECE_BYTES;
#pragma unroll 1
    for (int first = 0; first < count; first += BUFFERS) {
#pragma unroll
        for (int i = 0; i < BUFFERS; ++i) {
            const int chunk = first + i;
            if (chunk >= count) break;
            cp_async::wait<STAGES - 2>();
            __syncthreads();  // a chunk of B has landed for all, and all have read the one before
            copy_next(chunk + STAGES - 1);
            load_rows(rows[(i + UNDER_WAY) % BUFFERS], chunk + UNDER_WAY);
            multiply(sums, rows[i], b + chunk % STAGES * STAGE_BYTES);
        }
    }

    add_lanes<ROWS * SIDE / 2>(sums);
    Piece& piece = reinterpret_cast<Piece&>(sums);
    if (SPLITS > 1) {
        cluster_parts::wait_for_all();
        if (!lines.owns(warp)) {
            lines.send(warp, piece);
            return;
        }
        lines.wait();
        lines.add(warp, piece);
    }
    store<ALIGNED>(p, row + lane / ROW_PIECES, column + lane % ROW_PIECES * PIECE, piece);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    matmul_few_columns(const REAL* __restrict__ a, const REAL* __restrict__ b, REAL* __restrict__ c, int m, int n, int k,
                       REAL alpha, REAL beta) {
    extern __shared__ __align__(LANE_BYTES) unsigned char memory[];
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
