// One thread block's tile of a half-precision product with f32 sums, by mma.sync: what the kernels share
// that deal out the same work in different ways (hgemm_mma, hgemm_split_k, hgemm_stream_k).
//
// A is row-major, B column-major: both are contiguous along k. A chunk is 64 deep, so that one of its rows
// is 128 bytes, all banks of shared memory once. Rows are not padded: the 16-byte piece p of row r lies at
// place p xor (r mod 8). The eight rows that one matrix of ldmatrix reads then lie in different banks, and
// a cp.async that brings whole rows moves each of them from one 128-byte line into one other.
//
// Who includes this defines TILE_M, TILE_N, STAGES and RASTER.

#pragma once

#include "cp_async.cuh"
#include "mma_types.cuh"
#include "raster.cuh"

namespace mma_tile {

using In = f16;
using Out = f16;
using Sum = f32;

constexpr int CHUNK = 64;      // k depth of a pipeline stage
constexpr int MMA_M = 16;      // mma.m16n8k16
constexpr int MMA_N = 8;
constexpr int MMA_K = 16;
constexpr int STEPS = CHUNK / MMA_K;
constexpr int WARP = 32;

// A warp computes 64x64 where the tile is large enough to leave four warps: 32 mma for 8 ldmatrix. Small
// tiles keep four warps of smaller tiles instead, one for each quarter of an SM.
constexpr int WARP_M = TILE_M == 64 && TILE_N <= 128 ? 32 : 64;
constexpr int WARP_N = TILE_N == 64 && TILE_M <= 128 ? 32 : 64;
constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int WARPS = TILE_M / WARP_M * WARPS_N;
constexpr int THREADS = WARPS * WARP;
constexpr int MMAS_M = WARP_M / MMA_M;
constexpr int MMAS_N = WARP_N / MMA_N;

// Blocks that an SM shall hold: 255, 255, 168 and 128 registers a thread.
constexpr int AREA = TILE_M * TILE_N;
constexpr int BLOCKS_PER_SM = AREA >= 256 * 128 ? 1 : AREA >= 128 * 128 ? 2 : AREA >= 128 * 64 ? 3 : 4;

// STAGES 0: three, but two where the third would leave an H100's SM with one block instead of two.
constexpr int PIPELINE = STAGES != 0 ? STAGES : TILE_M + TILE_N == 256 + 64 ? 2 : 3;

constexpr int CHUNK_BYTES = CHUNK * 2;
constexpr int STAGE_BYTES = (TILE_M + TILE_N) * CHUNK_BYTES;  // rows of A, then columns of B
constexpr int PIECE = 8;                                     // halves of one cp.async: 16 bytes
constexpr int ROW_PIECES = CHUNK / PIECE;
constexpr int PASS_ROWS = THREADS / ROW_PIECES;              // rows that the block copies at once
constexpr int A_COPIES = TILE_M / PASS_ROWS;
constexpr int B_COPIES = TILE_N / PASS_ROWS;
constexpr int COPIES = A_COPIES + B_COPIES;
constexpr int COPIES_PER_STEP = (COPIES + STEPS - 2) / (STEPS - 1);

constexpr int GROUP = RASTER / TILE_M > 1 ? RASTER / TILE_M : 1;  // tile rows that are walked together

static_assert(TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0, "warp tiles fill the block's tile");
static_assert(WARP_N % 32 == 0, "the epilogue exchanges four mma tiles of 8 columns within four lanes");
static_assert(WARPS == (AREA / 4096 > 4 ? AREA / 4096 : 4), "the front matter launches this many warps");
static_assert(A_COPIES * PASS_ROWS == TILE_M && B_COPIES * PASS_ROWS == TILE_N, "whole passes");
static_assert(PASS_ROWS % 8 == 0, "every pass finds the swizzle of the first");
static_assert(PIPELINE >= 2, "STAGES: one chunk is computed while another one is copied");

// Enumerators, because constants lie among a cubin's data and one more would make another cubin.
enum { PIECE_BYTES = 2 * PIECE, MMA_BYTES = 2 * MMA_K };

}  // namespace mma_tile

#include "mma_parts.cuh"

namespace mma_tile {

// First row and column of a tile in C.
struct Place {
    int row, column;

    // Tiles past an edge of the matrices, or with a k that ends within a chunk, have to ask before copying.
    __device__ __forceinline__ bool edge(const Problem& problem) const {
        return row + TILE_M > problem.m || column + TILE_N > problem.n || problem.k % CHUNK != 0;
    }
};

__device__ __forceinline__ Place place_of(int tile, const Problem& problem) {
    const raster::Square square(tile, tile_rows(problem), tile_columns(problem), GROUP);
    const int column = square.column();
    return {square.row() * TILE_M, column * TILE_N};
}

// A thread's share of the copies, chunk by chunk: piece `thread mod 8` of every PASS_ROWS-th row.
template <bool EDGE>
struct Copies {
    const char* a;       // this thread's piece of its first row in the chunk that is copied next
    const char* b;
    const char* inside;  // an address that may be named by copies that are all zeros
    long long step;      // bytes from a row to that of the next pass
    unsigned shared;     // where the first piece goes in a stage
    int rows_a, rows_b;  // rows that are left in A and in B, from this thread's first one on
    int depth;           // elements that are left along k, from this thread's first one on

    __device__ __forceinline__ Copies(const Problem& problem, const Place& place, int first_chunk,
                                      unsigned stages) {
        const Thread thread;
        const int row = thread.id / ROW_PIECES;
        const int piece = thread.id % ROW_PIECES;
        const int first = first_chunk * CHUNK + piece * PIECE;
        const long long pitch = problem.k;
        a = reinterpret_cast<const char*>(problem.a + (place.row + row) * pitch + first);
        b = reinterpret_cast<const char*>(problem.b + (place.column + row) * pitch + first);
        inside = reinterpret_cast<const char*>(problem.a);
        step = PASS_ROWS * pitch * 2;
        shared = stages + row * CHUNK_BYTES + (piece ^ row % 8) * 16;
        rows_a = problem.m - place.row - row;
        rows_b = problem.n - place.column - row;
        depth = problem.k - first;
    }

    // The copies FIRST to LAST - 1 of the chunk, into the stage at `stage` bytes.
    __device__ __forceinline__ void start(unsigned stage, int first, int last, int wanted) const {
        const char* source = first < A_COPIES ? a + first * step : b + (first - A_COPIES) * step;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            if (i < first || i >= last) continue;
            const int pass = i < A_COPIES ? i : i - A_COPIES;
            if (i > first) source = pass == 0 ? b : source + step;
            const unsigned destination = shared + stage + i * PASS_ROWS * CHUNK_BYTES;
            if (EDGE) {
                const bool read = (i < A_COPIES ? rows_a : rows_b) > pass * PASS_ROWS && depth > 0;
                cp_async::copy(destination, read ? source : inside, wanted, read ? 16 : 0);
            } else {
                cp_async::copy(destination, source, wanted);
            }
        }
    }

    __device__ __forceinline__ void advance() {
        a += CHUNK_BYTES;
        b += CHUNK_BYTES;
        if (EDGE) depth -= CHUNK;
    }
};

// The products of the rows FIRST to LAST - 1 of mma tiles.
__device__ __forceinline__ void multiply_rows(Sums& sums, const Operands& operands, int first, int last) {
#pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        if (i < first || i >= last) continue;
#pragma unroll
        for (int nth = 0; nth < MMAS_N; ++nth) multiply(sums, operands, i, column_of(i, nth));
    }
}

// Sums the products of `chunks` (at least one) chunks from `first_chunk` on. All warps have
// read their last operands when the function's last barrier has passed, but for one harmless load.
template <bool EDGE>
__device__ __forceinline__ void accumulate(Sums& sums, const Problem& problem, const Place& place,
                                           int first_chunk, int chunks) {
    extern __shared__ __align__(128) unsigned char stages[];
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(stages));
    Copies<EDGE> copies(problem, place, first_chunk, shared);

    const Rows rows(shared);

    // Every chunk commits a group, an empty one where no chunk is left: the number of groups to wait for
    // then does not depend on k, and a k shorter than the pipeline needs no case of its own.
#pragma unroll
    for (int chunk = 0; chunk < PIPELINE - 1; ++chunk) {
        copies.start(chunk * STAGE_BYTES, 0, COPIES, chunk < chunks);
        cp_async::commit();
        copies.advance();
    }
    cp_async::wait<PIPELINE - 2>();
    __syncthreads();

    Operands operands[2];  // of the step that is multiplied and of the next one
    unsigned reading = 0;
    unsigned writing = (PIPELINE - 1) * STAGE_BYTES;
    operands[0].load(rows.at(reading, 0));
    clear(sums);

#pragma unroll 1
    for (int left = chunks; left > 0; --left) {
        const int wanted = left >= PIPELINE;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                // All operands of this chunk are in registers or on their way there.
                cp_async::wait<PIPELINE - 2>();  // own copies of the next chunk have landed ...
                __syncthreads();                 // ... and so have those of all other threads
                // Behind the last chunk nothing has landed: its first step is read again, for nothing.
                if (left > 1) reading = next_stage(reading);
            }
            operands[(step + 1) % 2].load(rows.at(reading, (step + 1) % STEPS));
            multiply_rows(sums, operands[step % 2], 0, MMAS_M / 2);
            // The copies stand between the products: the next operands must not queue behind them. The
            // stage written here was last read before the barrier of the previous chunk.
            if (step < STEPS - 1) {
                copies.start(writing, step * COPIES_PER_STEP, (step + 1) * COPIES_PER_STEP, wanted);
            }
            if (step == STEPS - 2) {
                cp_async::commit();
                copies.advance();
                writing = next_stage(writing);
            }
            multiply_rows(sums, operands[step % 2], MMAS_M / 2, MMAS_M);
        }
    }
}

// Only tiles at an edge pay for asking.
__device__ __forceinline__ void accumulate(Sums& sums, const Problem& problem, const Place& place,
                                           int first_chunk, int chunks) {
    if (place.edge(problem)) {
        accumulate<true>(sums, problem, place, first_chunk, chunks);
    } else {
        accumulate<false>(sums, problem, place, first_chunk, chunks);
    }
}

// C = alpha sums + beta C. Four neighbouring lanes hold one row of an mma tile, two columns each. Across
// four such tiles they exchange words until each lane has the eight columns of one tile: 16 bytes a lane,
// 64 contiguous bytes of a row for four lanes, whole sectors, and no shared memory. beta = 0 must not read
// C: ADD says that it is another one.
template <bool ADD>
__device__ __forceinline__ void store(const Sums& sums, const Problem& problem, const Place& place) {
    constexpr int FOURS = MMAS_N / 4;
    const Thread thread;
    const int lane = thread.lane();
    const int first_row = place.row + thread.warp_row() + lane / 4;
    const int first_column = place.column + thread.warp_column() + lane % 4 * PIECE;
    f16* const first = problem.c + static_cast<long long>(first_row) * problem.n + first_column;
    const int rows = problem.m - first_row;        // that are left from this lane's first one on
    const int columns = problem.n - first_column;  // n is a multiple of 8: a piece is in or out as a whole

    // Half of the rows at a time: what is loaded of C waits in registers beside the sums.
#pragma unroll
    for (int batch = 0; batch < 2; ++batch) {
        [[maybe_unused]] unsigned before[MMAS_M][FOURS][4];
        if (ADD) {
#pragma unroll
            for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
                for (int four = 0; four < FOURS; ++four) {
                    const int row = (batch * MMAS_M + i) * 8;
                    const int column = four * 4 * MMA_N;
                    const f16* const source = first + static_cast<long long>(row) * problem.n + column;
                    load_piece(before[i][four], source, row < rows && column < columns);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < MMAS_M; ++i) {
#pragma unroll
            for (int four = 0; four < FOURS; ++four) {
                const int eight = batch * MMAS_M + i;  // rows 0 to 7 and 8 to 15 of each mma tile
                if (ADD) transpose(before[i][four], lane);
                unsigned words[4];
#pragma unroll
                for (int w = 0; w < 4; ++w) {
                    const f32* const sum = &sums[eight / 2][four * 4 + w][eight % 2 * 2];
                    f32 low = problem.alpha * sum[0];
                    f32 high = problem.alpha * sum[1];
                    if (ADD) {
                        const float2 old = unpack(Kind<In>(), before[i][four][w]);
                        low += problem.beta * old.x;
                        high += problem.beta * old.y;
                    }
                    words[w] = pack(Kind<In>(), low, high);
                }
                transpose(words, lane);
                const int row = eight * 8;
                const int column = four * 4 * MMA_N;
                if (row < rows && column < columns) {
                    f16* const target = first + static_cast<long long>(row) * problem.n + column;
                    *reinterpret_cast<uint4*>(target) = make_uint4(words[0], words[1], words[2], words[3]);
                }
            }
        }
    }
}

__device__ __forceinline__ void store(const Sums& sums, const Problem& problem, const Place& place) {
    if (problem.beta != 0.0f) {
        store<true>(sums, problem, place);
    } else {
        store<false>(sums, problem, place);
    }
}

}  // namespace mma_tile
