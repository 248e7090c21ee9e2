/*---
title: mma.sync for rows that begin anywhere, shifted into place in shared memory
follows: matmul_mma
operation: matmul
dtypes:
  a: TYPE
  b: TYPE
  c: "i32 if TYPE == 'i8' else f32 if TYPE == 'tf32' else TYPE"
  accumulate: "i32 if TYPE == 'i8' else f32"
layouts: {a: row, b: col, c: row}
macros:
  TYPE: [f16, bf16, tf32, i8]
  TILE_M: [64, 128, 32]      # outputs of a thread block
  TILE_N: [64, 128]
  STAGES: [4, 5, 6]          # chunks of shared memory in flight or in use
  OVERLAP: [0, 1]            # 1: the next launch begins while this one ends
where: ["TILE_M != 32 or TILE_N == 64"]
let: {shared: "STAGES * (TILE_M + TILE_N) * 128"}
tile: [TILE_M, TILE_N, 128 // size(TYPE)]
block: [128]
grid: ["ceil(m / TILE_M) * ceil(n / TILE_N)"]
shared_bytes: shared
programmatic: OVERLAP
requires:
  arch: 80
  conditions:
    - "shared <= shared_per_block_optin"
entry: matmul_mma_shifted
arguments: [a, b, c, m, n, k, alpha, beta]
---*/

// cp.async copies 16 bytes from multiples of 16, and a row of 333 halves begins at any multiple of two. Here the
// sectors that hold a row are copied as they lie, some chunks ahead. A chunk that has landed is shifted in place
// while the one before it is multiplied: a piece is made of two neighbours, by selects and funnel shifts. What
// precedes a row is shifted out, and behind its end cp.async writes zeros: every m, n and k are right.
//
// A thread's rows are 16 or a multiple apart, so that it has one shift for all of A and one for all of B. A row is
// one warp's to copy and to shift: only what is in place waits for a barrier. A chunk's last piece takes from the
// first ones of the next chunk, which has to have landed, too.
//
// Rows of C begin anywhere as well. Results go through shared memory, so that a warp stores neighbours of one row.

#define RASTER 2048

#include "mma_tile.cuh"
#include "overlap.cuh"

namespace mma_tile {

constexpr int PIECE = PIECE_BYTES / static_cast<int>(sizeof(In));
constexpr int GRAIN = sizeof(In) == 1 ? 16 : 32;  // rows are copied from a multiple of it on: a sector, if it can be
constexpr int RESIDENT = 227 * 1024 / (PIPELINE * STAGE_BYTES + 1024);  // blocks that an H100's SM holds
constexpr int RESULT_ROW = WARP_N + 8;  // four rows of eight results lie in different banks

static_assert(PIPELINE >= 4, "STAGES: one chunk is multiplied, one shifted, one has landed, one is copied");
static_assert(PASS_ROWS * sizeof(In) % GRAIN == 0, "whatever k is, all rows of a thread begin alike");
static_assert(THREADS == 128, "the front matter launches this many threads");
static_assert(WARPS * WARP_M * RESULT_ROW * 4 <= PIPELINE * STAGE_BYTES, "the results find room");

extern __shared__ __align__(128) unsigned char stages[];

// A thread's share of A or B: piece `thread mod 8` of every PASS_ROWS-th row, PASSES in all.
template <int PASSES>
struct Share {
    const char* source;  // of its first piece in the chunk that is copied next, at a multiple of GRAIN, as A and B begin
    const char* inside;  // an address that may be named by copies that are all zeros
    long long step;      // bytes from a row to that of the next pass
    int rows, depth;     // that are left from the first row on; elements that are left along k
    int shift;           // bytes that are copied before a row
    int place;           // where the first row's piece lies in a stage, ...
    int taken[2];        // ... and the two that it is made of, ...
    bool following[2];   // ... which may be the next chunk's

    __device__ __forceinline__ Share(const In* matrix, int height, int k, int first_row, int first_place) {
        const Thread thread;
        const int row = thread.id / ROW_PIECES;
        const int piece = thread.id % ROW_PIECES;
        const In* const begin = matrix + static_cast<long long>(first_row + row) * k;
        const int grain = k % PIECE == 0 ? PIECE_BYTES : GRAIN;  // nothing is shifted where all rows are aligned
        shift = static_cast<int>(reinterpret_cast<unsigned long long>(begin) & (grain - 1));
        source = reinterpret_cast<const char*>(begin) - shift + piece * PIECE_BYTES;
        step = static_cast<long long>(k) * (PASS_ROWS * static_cast<int>(sizeof(In)));
        inside = reinterpret_cast<const char*>(matrix);
        rows = height - first_row - row;
        depth = rows > 0 ? k + shift / static_cast<int>(sizeof(In)) - piece * PIECE : 0;
        place = (first_place + row) * CHUNK_BYTES + (piece ^ row % 8) * PIECE_BYTES;
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int from = piece + shift / PIECE_BYTES + i;
            following[i] = from >= ROW_PIECES;
            taken[i] = (first_place + row) * CHUNK_BYTES + (from % ROW_PIECES ^ row % 8) * PIECE_BYTES;
        }
    }

    __device__ __forceinline__ void copy(unsigned stage, int wanted) {
        const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(stages)) + stage + place;
        const int bytes = max(0, min(depth, PIECE)) * static_cast<int>(sizeof(In));
        const char* from = bytes > 0 ? source : inside;
#pragma unroll
        for (int pass = 0; pass < PASSES; ++pass) {
            if (pass > 0 && pass * PASS_ROWS < rows) from += step;  // behind the last row: that once more
            cp_async::copy(to + pass * PASS_ROWS * CHUNK_BYTES, from, wanted, bytes);
        }
        source += CHUNK_BYTES;
        depth -= CHUNK;
    }

    // Shifts the chunk in `stage`, behind which the one in `next` follows.
    __device__ __forceinline__ void put_right(unsigned stage, unsigned next) const {
        constexpr int MOST = AREA < 128 * 128 ? 4 : 2;  // pieces in registers at a time
        constexpr int BATCH = PASSES < MOST ? PASSES : MOST;
        unsigned char* const to = stages + stage + place;
        const unsigned char* const low = stages + (following[0] ? next : stage) + taken[0];
        const unsigned char* const high = stages + (following[1] ? next : stage) + taken[1];
#pragma unroll
        for (int first = 0; first < PASSES; first += BATCH) {
            uint4 pieces[BATCH][2];
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const int row = (first + i) * PASS_ROWS * CHUNK_BYTES;
                pieces[i][0] = *reinterpret_cast<const uint4*>(low + row);
                pieces[i][1] = *reinterpret_cast<const uint4*>(high + row);
            }
            __syncwarp();  // all lanes have read what others write
#pragma unroll
            for (int i = 0; i < BATCH; ++i) {
                const uint4(&two)[2] = pieces[i];
                unsigned words[8] = {two[0].x, two[0].y, two[0].z, two[0].w,
                                     two[1].x, two[1].y, two[1].z, two[1].w};
#pragma unroll
                for (int w = 0; w < 6; ++w) words[w] = shift & 8 ? words[w + 2] : words[w];
#pragma unroll
                for (int w = 0; w < 5; ++w) words[w] = shift & 4 ? words[w + 1] : words[w];
#pragma unroll
                for (int w = 0; w < 4; ++w) {
                    if (sizeof(In) < 4) words[w] = __funnelshift_r(words[w], words[w + 1], shift * 8);  // mod 32
                }
                *reinterpret_cast<uint4*>(to + (first + i) * PASS_ROWS * CHUNK_BYTES) =
                    make_uint4(words[0], words[1], words[2], words[3]);
            }
        }
    }
};

// Sums the products of a tile. Copies run PIPELINE - 1 chunks ahead of the products, shifts one, operands a step.
__device__ __forceinline__ void accumulate(Sums& sums, const Problem& problem, int row, int column) {
    Share<A_COPIES> a(problem.a, problem.m, problem.k, row, 0);
    Share<B_COPIES> b(problem.b, problem.n, problem.k, column, TILE_M);
    const Rows rows(static_cast<unsigned>(__cvta_generic_to_shared(stages)));
    const bool aligned = problem.k % PIECE == 0;
    const int chunks = chunks_of(problem);
    overlap::wait_for_launch_before();

    // One more chunk than there are is copied, for what the last one takes from it.
    const auto copy = [&](unsigned stage, bool wanted) {
        a.copy(stage, wanted);
        b.copy(stage, wanted);
        cp_async::commit();
    };
#pragma unroll
    for (int chunk = 0; chunk < PIPELINE - 1; ++chunk) copy(chunk * STAGE_BYTES, chunk <= chunks);
    cp_async::wait<PIPELINE - 3>();
    __syncwarp();  // the warp's copies of two chunks have landed
    if (!aligned) {
        a.put_right(0, STAGE_BYTES);
        b.put_right(0, STAGE_BYTES);
    }
    __syncthreads();

    Operands operands[2];  // of the step that is multiplied and of the next one
    unsigned reading = 0;
    unsigned writing = (PIPELINE - 1) * STAGE_BYTES;
    operands[0].load(rows.at(reading, 0));
    clear(sums);

#pragma unroll 1
    for (int left = chunks; left > 0; --left) {
        const unsigned next = next_stage(reading);
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                __syncthreads();  // the next chunk is in place, and this one has been read
                // Behind the last chunk nothing is: its first step is read again, for nothing.
                if (left > 1) reading = next;
            }
            const auto between = [&] {
                const bool shifts = left > 1 && !aligned;
                if (step == 0) {
                    copy(writing, left >= PIPELINE - 1);
                    writing = next_stage(writing);
                } else if (step == 1) {
                    cp_async::wait<PIPELINE - 3>();
                    __syncwarp();
                    if (shifts) a.put_right(next, next_stage(next));
                } else if (step == 2) {
                    if (shifts) b.put_right(next, next_stage(next));
                }
            };
            multiply<true>(sums, operands[step % 2], operands[(step + 1) % 2],
                           rows.at(reading, (step + 1) % STEPS), between);
        }
    }
}

// C = alpha sums + beta C.
__device__ __forceinline__ void store_rows(const Sums& sums, const Problem& problem, int row, int column) {
    const Thread thread;
    const int lane = thread.lane();
    Sum* const results = reinterpret_cast<Sum*>(stages) + thread.id / WARP * WARP_M * RESULT_ROW;
    __syncthreads();  // all have read their last operands
#pragma unroll
    for (int i = 0; i < MMAS_M * MMAS_N * 4; ++i) {
        const int j = i / 4 % MMAS_N, e = i % 4;
        results[(i / 4 / MMAS_N * MMA_M + e / 2 * 8 + lane / 4) * RESULT_ROW + j * MMA_N + lane % 4 * 2 + e % 2] =
            sums[i / 4 / MMAS_N][j][e];
    }
    __syncwarp();
    row += thread.warp_row();
    column += thread.warp_column() + lane;
#pragma unroll
    for (int first = 0; first < WARP_N; first += WARP) {
        if (column + first >= problem.n) return;
        Out* target = problem.c + static_cast<long long>(row) * problem.n + column + first;
#pragma unroll 8
        for (int i = 0; i < min(WARP_M, problem.m - row); ++i, target += problem.n) {
            const Out before = problem.beta == 0 ? Out() : *target;
            *target = static_cast<Out>(scaled(problem, results[i * RESULT_ROW + first + lane], before));
        }
    }
}

}  // namespace mma_tile

extern "C" __global__ void __launch_bounds__(mma_tile::THREADS, mma_tile::RESIDENT)
    matmul_mma_shifted(const TYPE* __restrict__ a, const TYPE* __restrict__ b, mma_tile::Out* __restrict__ c, int m,
                       int n, int k, mma_tile::Sum alpha, mma_tile::Sum beta) {
    overlap::let_next_begin();
    const mma_tile::Problem problem = {a, b, c, m, n, k, alpha, beta};
    const raster::Square square(blockIdx.x, mma_tile::tile_rows(problem), mma_tile::tile_columns(problem),
                                mma_tile::GROUP);
    const int row = square.row() * TILE_M;
    const int column = square.column() * TILE_N;
    mma_tile::Sums sums;
    mma_tile::accumulate(sums, problem, row, column);
    mma_tile::store_rows(sums, problem, row, column);
}
