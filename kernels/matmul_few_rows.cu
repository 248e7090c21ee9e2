/*---
title: Few rows, k dealt out to groups of lanes
follows: matmul_few_columns
operation: matmul
dtypes: {a: REAL, b: REAL, c: REAL, accumulate: REAL}
layouts: {a: row, b: row, c: row}
macros:
  REAL: [f32, f64]
  SPLITS: [2, 1, 4, 8, 3, 5]  # blocks of a cluster, each with a piece of k
  WARPS: [4, 8]               # of a block
  LANES: [16, 8, 32]          # neighbours that read a row of B together, 16 bytes each
  DEPTH: [8, 16]              # rows of B that a lane has of a chunk
  STAGES: [3, 4, 5]           # chunks of shared memory in flight or in use
  ROWS: [16, 24, 32]          # of a tile
where: ["DEPTH <= LANES and ROWS * DEPTH * size(REAL) % (LANES * 16) == 0"]  # whole passes over A
let:
  lines: ROWS * LANES // 32   # of 32 pieces of 16 bytes, of a tile
  groups: WARPS * 32 // LANES  # of lanes, each with another k
  # stages of A, or the groups' sums; stages of B; and what the others of the cluster have of a block's lines
  shared: "max(STAGES * ROWS * groups * DEPTH * size(REAL), groups * lines * 512) + STAGES * WARPS * 512 * DEPTH + (SPLITS - 1) * ceil(lines / SPLITS) * 512"
tile: [ROWS, "LANES * 16 / size(REAL)", "groups * DEPTH"]
block: [WARPS * 32]
cluster: [SPLITS]
grid: ["SPLITS * ceil(n / (LANES * 16 / size(REAL))) * ceil(m / ROWS)"]
shared_bytes: shared
requires:
  arch: 90
  conditions: [clusters, "m <= 512", "shared <= shared_per_block_optin"]
entry: matmul_few_rows
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// The same where C has 16 rows: now a lane has 16 bytes of a row of B, whose columns are its own, and all rows of A want
// them. The lanes of a group have neighbouring columns, 128 to 512 bytes of a row; every group of every warp has its own
// k. So a narrow tile, which leaves no SM without work, still asks for whole lines, and what a group wants of A is the
// same for all its lanes: one read of 16 bytes a row. The groups add their sums in shared memory, once, at the end.

#include "skinny.cuh"

namespace {

using namespace skinny;

constexpr int TILE_N = LANES * PIECE;
constexpr int GROUPS = THREADS / LANES;
constexpr int CHUNK = GROUPS * DEPTH;  // k
constexpr int ROW_BYTES = CHUNK * sizeof(REAL);  // of A in a chunk
constexpr int STAGE_BYTES = ROWS * ROW_BYTES;
constexpr int B_STAGE_BYTES = THREADS * DEPTH * PIECE_BYTES;
constexpr int PIECES = ROWS * LANES;  // of a tile
constexpr int LINES = PIECES / WARP;  // of 32 of them
constexpr int SUMS_BYTES = GROUPS * PIECES * PIECE_BYTES;
constexpr int SHARED_OF_A = STAGES * STAGE_BYTES > SUMS_BYTES ? STAGES * STAGE_BYTES : SUMS_BYTES;  // sums follow A

using Column = Piece[DEPTH];  // of a lane
using Sums = Piece[ROWS];
using Lines = Meeting<LINES>;

__device__ __forceinline__ void multiply(Sums& sums, unsigned a, const Column& b) {
#pragma unroll
    for (int k = 0; k < DEPTH; k += PIECE) {
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            Piece of_a;
            read(of_a, a + row * ROW_BYTES + k * int(sizeof(REAL)));
#pragma unroll
            for (int i = 0; i < PIECE; ++i) {
#pragma unroll
                for (int e = 0; e < PIECE; ++e) sums[row][e] += of_a[i] * b[k + i][e];
            }
        }
    }
}

template <bool A_ALIGNED, bool ALIGNED>
__device__ __forceinline__ void product(const Problem& p, unsigned shared, const Lines& lines) {
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    // Tiles of the same columns are neighbours: the second one finds B in L2.
    const int tile = blockIdx.x / SPLITS, tile_rows = (p.m - 1) / ROWS + 1;
    const int first_row = tile % tile_rows * ROWS, first_column = tile / tile_rows * TILE_N;
    const Stretch own = stretch_of(p, CHUNK, lines.rank);
    const auto copy_next = [&](int chunk) {
        const int first = (own.begin + chunk) * CHUNK;
        const unsigned stage = shared + chunk % STAGES * STAGE_BYTES;
        const unsigned of_b = shared + SHARED_OF_A + chunk % STAGES * B_STAGE_BYTES;
        copy_tile<A_ALIGNED, ROWS, CHUNK>(p.a, first_row, p.m, first, own.end, p.k, [=](int pass, int row, int k) {
            return stage + (row * CHUNK + k) * unsigned(sizeof(REAL)) + pass * ROW_BYTES;
        });
        copy_tile<ALIGNED, CHUNK, TILE_N>(p.b, first, own.end, first_column, p.n, p.n, [=](int pass, int k, int column) {
            return of_b + (k * TILE_N + column) * unsigned(sizeof(REAL)) + pass * LANES * PIECE_BYTES;
        });
        cp_async::commit();
    };

    Sums sums;
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
#pragma unroll
        for (int e = 0; e < PIECE; ++e) sums[row][e] = 0;
    }
    const unsigned a = shared + group * DEPTH * sizeof(REAL);
    const unsigned b = shared + SHARED_OF_A + (group * DEPTH * LANES + lane) * PIECE_BYTES;
    through_stages(own.count, copy_next, [&](int chunk) {
        Column column;
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) read(column[i], b + chunk % STAGES * B_STAGE_BYTES + i * LANES * PIECE_BYTES);
        multiply(sums, a + chunk % STAGES * STAGE_BYTES, column);
    });

    cp_async::wait<0>();
    __syncthreads();  // nobody reads A any more, nothing is written there
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        write(shared + ((group * ROWS + row) * LANES + lane) * PIECE_BYTES, sums[row]);
    }
    __syncthreads();
    if (SPLITS > 1) cluster_parts::wait_for_all();
    // Two turns over the lines: what others wait for is sent first.
#pragma unroll
    for (int mine = SPLITS == 1; mine < 2; ++mine) {
        if (SPLITS > 1 && mine) lines.wait();
#pragma unroll 1
        for (int line = threadIdx.x / WARP; line < LINES; line += WARPS) {
            if (SPLITS > 1 && lines.owns(line) != mine) continue;
            const int number = line * WARP + threadIdx.x % WARP;
            Piece piece = {};
#pragma unroll
            for (int of = 0; of < GROUPS; ++of) {
                cluster_parts::add_quad(piece, shared + (of * PIECES + number) * PIECE_BYTES);
            }
            if (mine) {
                if (SPLITS > 1) lines.add(line, piece);
                store<ALIGNED>(p, first_row + number / LANES, first_column + number % LANES * PIECE, piece);
            } else {
                lines.send(line, piece);
            }
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
    matmul_few_rows(const REAL* __restrict__ a, const REAL* __restrict__ b, REAL* __restrict__ c, int m, int n, int k,
                    REAL alpha, REAL beta) {
    extern __shared__ __align__(256) unsigned char memory[];
    __shared__ unsigned long long arrived;
    const Problem p = {a, b, c, m, n, k, alpha, beta};
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    const Lines lines = {shared + SHARED_OF_A + STAGES * B_STAGE_BYTES,
                         static_cast<unsigned>(__cvta_generic_to_shared(&arrived)),
                         static_cast<int>(cluster_parts::rank())};
    if (SPLITS > 1) lines.begin();
    if (!p.aligned()) {
        product<false, false>(p, shared, lines);
    } else if (!p.a_aligned()) {
        product<false, true>(p, shared, lines);
    } else {
        product<true, true>(p, shared, lines);
    }
}
