// One thread block's tile of a matrix product by mma.sync, for types that differ (matmul_mma).
//
// A is row-major, B column-major: both are contiguous along k. Everything is counted in bytes of k, for in
// bytes all types are alike: 32 bytes of k are one mma, whose operands lie in 8x16-byte matrices, whatever
// an element is. A chunk is 128 bytes deep, so that one of its rows is all banks of shared memory once.
// Rows are not padded: the 16-byte piece p of row r lies at place p xor (r mod 8). The eight rows that one
// matrix of ldmatrix reads then lie in different banks, and a cp.async that brings whole rows moves each of
// them from one 128-byte line into one other.
//
// Who includes this defines TYPE, TILE_M, TILE_N, STAGES and RASTER, and ROUND where it may be 1.

#pragma once

#ifndef ROUND
#define ROUND 0  // 1: f32 inputs to tf32, to nearest; 0: the tensor cores cut off what is too much
#endif

#include "cp_async.cuh"
#include "mma_types.cuh"
#include "raster.cuh"

namespace mma_tile {

template <class T>
struct Types {  // of C and of the sum
    using Out = T;
    using Sum = f32;
    static constexpr bool ROUNDED = false;
};
template <>
struct Types<tf32> {
    using Out = f32;
    using Sum = f32;
    static constexpr bool ROUNDED = true;
};
template <>
struct Types<i8> {
    using Out = i32;
    using Sum = i32;
    static constexpr bool ROUNDED = false;
};

using In = TYPE;
using Out = Types<In>::Out;
using Sum = Types<In>::Sum;
constexpr bool ROUNDED = Types<In>::ROUNDED && ROUND;  // from f32, in registers

constexpr int CHUNK_BYTES = 128;  // of k in a pipeline stage
constexpr int CHUNK = CHUNK_BYTES / static_cast<int>(sizeof(In));
constexpr int MMA_M = 16;
constexpr int MMA_N = 8;
constexpr int MMA_BYTES = 32;  // of k
constexpr int STEPS = CHUNK_BYTES / MMA_BYTES;
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

constexpr int STAGE_BYTES = (TILE_M + TILE_N) * CHUNK_BYTES;  // rows of A, then columns of B
constexpr int PIECE_BYTES = 16;                              // of one cp.async
constexpr int ROW_PIECES = CHUNK_BYTES / PIECE_BYTES;
constexpr int PASS_ROWS = THREADS / ROW_PIECES;               // rows that the block copies at once
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

}  // namespace mma_tile

#include "mma_parts.cuh"

namespace mma_tile {

// Where a tile lies in C. A tile that would pass C's last row or column is moved back into it: all that it
// reads exists, and nothing has to be asked in the main loop. It computes some outputs of its neighbours
// once more; those before `first_row` and `first_column` it does not store.
struct Place {
    int row, column;
    int first_row, first_column;
};

__device__ __forceinline__ Place place_of(int tile, const Problem& problem) {
    const raster::Square square(tile, tile_rows(problem), tile_columns(problem), GROUP);
    const int row = square.row() * TILE_M;
    const int column = square.column() * TILE_N;
    return {max(0, min(row, problem.m - TILE_M)), max(0, min(column, problem.n - TILE_N)), row, column};
}

__device__ __forceinline__ void round_tf32(unsigned& word) {
    asm volatile("cvt.rna.tf32.f32 %0, %0;\n" : "+r"(word));
}

// A thread's share of the copies, chunk by chunk: piece `thread mod 8` of every PASS_ROWS-th row. SMALL: the
// tile does not fit into C, and rows that do not exist are filled with zeros.
template <bool SMALL>
struct Copies {
    const char* a;       // this thread's piece of its first row in the chunk that is copied next
    const char* b;
    const char* inside;  // an address that may be named by copies that are all zeros
    long long step;      // bytes from a row to that of the next pass
    unsigned shared;     // where the first piece goes in a stage
    int rows_a, rows_b;  // rows that are left in A and in B, from this thread's first one on

    __device__ __forceinline__ Copies(const Problem& problem, const Place& place, int first_chunk,
                                      unsigned stages) {
        const Thread thread;
        const int row = thread.id / ROW_PIECES;
        const int piece = thread.id % ROW_PIECES;
        const long long pitch = static_cast<long long>(problem.k) * static_cast<int>(sizeof(In));
        const long long first = static_cast<long long>(first_chunk) * CHUNK_BYTES + piece * PIECE_BYTES;
        a = reinterpret_cast<const char*>(problem.a) + (place.row + row) * pitch + first;
        b = reinterpret_cast<const char*>(problem.b) + (place.column + row) * pitch + first;
        inside = reinterpret_cast<const char*>(problem.a);
        step = PASS_ROWS * pitch;
        shared = stages + row * CHUNK_BYTES + (piece ^ row % 8) * PIECE_BYTES;
        rows_a = problem.m - place.row - row;
        rows_b = problem.n - place.column - row;
    }

    // The copies FIRST to LAST - 1 of the chunk, into the stage at `stage` bytes.
    __device__ __forceinline__ void start(unsigned stage, int first, int last, int wanted) const {
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            if (i < first || i >= last) continue;
            const Copy copy(i);
            const char* const source = source_of(copy);
            const unsigned destination = shared + stage + copy.destination;
            if (SMALL) {
                const bool read = exists(copy);
                cp_async::copy(destination, read ? source : inside, wanted, read ? PIECE_BYTES : 0);
            } else {
                cp_async::copy(destination, source, wanted);
            }
        }
    }

    // All copies of a chunk that lies `further` bytes behind the next one and ends after `left` bytes of k,
    // into the first stage; zeros follow.
    __device__ __forceinline__ void start_last(long long further, int left) const {
        const int piece = Thread().id % ROW_PIECES;
#pragma unroll
        for (int i = 0; i < COPIES; ++i) {
            const Copy copy(i);
            const bool read = (!SMALL || exists(copy)) && piece * PIECE_BYTES < left;
            const char* const source = read ? source_of(copy) + further : inside;
            cp_async::copy(shared + copy.destination, source, 1, read ? PIECE_BYTES : 0);
        }
    }

    __device__ __forceinline__ void advance() {
        a += CHUNK_BYTES;
        b += CHUNK_BYTES;
    }

  private:
    struct Copy {
        bool of_a;
        int pass, destination;

        __device__ __forceinline__ explicit Copy(int i)
            : of_a(i < A_COPIES), pass(of_a ? i : i - A_COPIES), destination(i * PASS_ROWS * CHUNK_BYTES) {}
    };

    __device__ __forceinline__ const char* source_of(const Copy& copy) const {
        return (copy.of_a ? a : b) + copy.pass * step;
    }
    __device__ __forceinline__ bool exists(const Copy& copy) const {
        return (copy.of_a ? rows_a : rows_b) > copy.pass * PASS_ROWS;
    }
};

// f32 numbers become tf32 ones.
__device__ __forceinline__ void round(Operands& operands) {
    if (!ROUNDED) return;
#pragma unroll
    for (int i = 0; i < MMAS_M * 4; ++i) round_tf32(operands.a[i / 4][i % 4]);
#pragma unroll
    for (int j = 0; j < MMAS_N * 2; ++j) round_tf32(operands.b[j / 4][j % 4]);
}

// The products of a step, and what stands between them: the loads of the next step's operands into other
// registers first, then, `between`, the copies.
template <bool LOAD, class Between>
__device__ __forceinline__ void multiply(Sums& sums, Operands& operands, Operands& next, const Rows& next_rows,
                                         const Between& between) {
    if (LOAD) next.load(next_rows);
    round(operands);
#pragma unroll
    for (int i = 0; i < MMAS_M; ++i) {
        if (i == MMAS_M / 2) between();
#pragma unroll
        for (int nth = 0; nth < MMAS_N; ++nth) multiply(sums, operands, i, column_of(i, nth));
    }
}

// The main loop's state: copies run PIPELINE - 1 chunks ahead of the products, and operands a step.
//
// A last chunk that k does not fill comes first: its zeros are then a matter of the copies before the main
// loop, and those in the loop are all alike.
template <bool SMALL>
struct Pipeline {
    unsigned shared;
    Copies<SMALL> copies;
    Rows rows;
    Operands operands[2];  // of the step that is multiplied and of the next one
    unsigned reading, writing;

    __device__ __forceinline__ Pipeline(const Problem& problem, const Place& place, int first_chunk)
        : shared(base()),
          copies(problem, place, first_chunk, shared),
          rows(shared),
          reading(0),
          writing((PIPELINE - 1) * STAGE_BYTES) {}

    // Copies the first of `chunks` (at least one) chunks of a tile from `first_chunk` on.
    __device__ __forceinline__ void fill(const Problem& problem, int first_chunk, int chunks) {
        // Every chunk commits a group, an empty one where no chunk is left: the number of groups to wait for
        // then does not depend on k, and a k shorter than the pipeline needs no case of its own.
        if (!start_partial(problem, first_chunk, chunks)) {
            copies.start(0, 0, COPIES, 1);
            copies.advance();
        }
        cp_async::commit();
#pragma unroll
        for (int chunk = 1; chunk < PIPELINE - 1; ++chunk) {
            copies.start(chunk * STAGE_BYTES, 0, COPIES, chunk < chunks);
            cp_async::commit();
            copies.advance();
        }
    }

    // Waits for the first chunk and loads its first operands.
    __device__ __forceinline__ void begin() {
        cp_async::wait<PIPELINE - 2>();
        __syncthreads();
        operands[0].load(rows.at(reading, 0));
    }

    // Copies the last of the chunks where k ends within it, as the first one; false where k does not.
    __device__ __forceinline__ bool start_partial(const Problem& problem, int first_chunk,
                                                  int chunks) const {
        const int last = first_chunk + chunks - 1;
        const int left = (problem.k - last * CHUNK) * static_cast<int>(sizeof(In));
        if (left >= CHUNK_BYTES) return false;
        copies.start_last(static_cast<long long>(chunks - 1) * CHUNK_BYTES, left);
        return true;
    }

    // Adds the products of all steps of a chunk but the last one, whose operands are loaded; then waits for
    // the next chunk. `wanted`: whether there is one to copy; `more`: whether another one is multiplied.
    __device__ __forceinline__ void multiply_chunk(Sums& sums, int wanted, bool more) {
#pragma unroll
        for (int step = 0; step < STEPS - 1; ++step) {
            // The copies stand between the products: the next operands must not queue behind them. The
            // stage written here was last read before the barrier of the previous chunk.
            const auto copy = [&] {
                copies.start(writing, step * COPIES_PER_STEP, (step + 1) * COPIES_PER_STEP, wanted);
                if (step == STEPS - 2) {
                    cp_async::commit();
                    copies.advance();
                    writing = next_stage(writing);
                }
            };
            multiply_step<true>(sums, step, copy);
        }
        cp_async::wait<PIPELINE - 2>();  // own copies of the next chunk have landed ...
        __syncthreads();              // ... and so have those of all other threads, who all have read this one
        // Behind the last chunk nothing has landed: what is loaded there is its own first step, for nothing.
        if (more) reading = next_stage(reading);
    }

    // Adds the products of a chunk's last step. LOAD: the operands of the next chunk's first one are loaded.
    template <bool LOAD>
    __device__ __forceinline__ void multiply_last(Sums& sums) {
        multiply_step<LOAD>(sums, STEPS - 1, [] {});
    }

  private:
    template <bool LOAD, class Between>
    __device__ __forceinline__ void multiply_step(Sums& sums, int step, const Between& between) {
        const Rows next = rows.at(reading, (step + 1) % STEPS);
        multiply<LOAD>(sums, operands[step % 2], operands[(step + 1) % 2], next, between);
    }

    static __device__ __forceinline__ unsigned base() {
        extern __shared__ __align__(128) unsigned char stages[];
        return static_cast<unsigned>(__cvta_generic_to_shared(stages));
    }
};

// Sums the products of `chunks` (at least one) chunks of a tile from `first_chunk` on.
//
// The loop begins behind the barrier: ptxas loads operands at the beginning of a loop at once, and in its middle
// as late as its latencies allow, which behind a barrier, where all warps load, is too late.
template <bool SMALL>
__device__ __forceinline__ void accumulate_tile(Sums& sums, const Problem& problem, const Place& place,
                                                int first_chunk, int chunks) {
    Pipeline<SMALL> pipeline(problem, place, first_chunk);
    pipeline.fill(problem, first_chunk, chunks);
    pipeline.begin();
    clear(sums);
    pipeline.multiply_chunk(sums, chunks >= PIPELINE, true);
#pragma unroll 1
    for (int left = chunks - 1; left > 0; --left) {
        pipeline.template multiply_last<true>(sums);
        pipeline.multiply_chunk(sums, left >= PIPELINE, true);
    }
    pipeline.template multiply_last<false>(sums);
}

// Only tiles that do not fit into C pay for asking.
__device__ __forceinline__ void accumulate(Sums& sums, const Problem& problem, const Place& place,
                                           int first_chunk, int chunks) {
    if (problem.small()) {
        accumulate_tile<true>(sums, problem, place, first_chunk, chunks);
    } else {
        accumulate_tile<false>(sums, problem, place, first_chunk, chunks);
    }
}

// One element of C, and how it is computed from a sum and from what C held before.
__device__ __forceinline__ Sum scaled(const Problem& problem, Sum sum, Out before) {
    const Sum product = problem.alpha * sum;
    return problem.beta == 0 ? product : product + problem.beta * static_cast<Sum>(before);
}

// Whether this tile has to store an output, by its distance from the lane's first one; and the piece of C
// that the lane begins with.
struct Window {
    int row_skip, rows, column_skip, columns;

    __device__ __forceinline__ Window(const Problem& problem, const Place& place, int row, int column)
        : row_skip(place.first_row - row),
          rows(problem.m - row),
          column_skip(place.first_column - column),
          columns(problem.n - column) {}
    __device__ __forceinline__ bool has(int row, int column) const {
        return row >= row_skip && row < rows && column >= column_skip && column < columns;
    }
};

// The plain way, an element at a time, for rows of C that do not begin at multiples of the pieces below.
__device__ __forceinline__ void store_elements(const Sums& sums, const Problem& problem, const Place& place) {
    const Thread thread;
    const int first_row = place.row + thread.warp_row() + thread.lane() / 4;
    const int first_column = place.column + thread.warp_column() + thread.lane() % 4 * 2;
    const Window window(problem, place, first_row, first_column);
    Out* const first = problem.c + static_cast<long long>(first_row) * problem.n + first_column;
#pragma unroll
    for (int eight = 0; eight < 2 * MMAS_M; ++eight) {
#pragma unroll
        for (int pair = 0; pair < 2 * MMAS_N; ++pair) {
            const int column = pair / 2 * MMA_N + pair % 2;
            if (!window.has(eight * 8, column)) continue;
            Out* const target = first + static_cast<long long>(eight * 8) * problem.n + column;
            const Out before = problem.beta == 0 ? Out() : *target;
            *target = static_cast<Out>(
                scaled(problem, sums[eight / 2][pair / 2][eight % 2 * 2 + pair % 2], before));
        }
    }
}

// Four neighbouring lanes hold one row of an mma tile, two columns each. C of 16 bits: across four such tiles
// they exchange words until each lane has the eight columns of one tile, 16 bytes a lane, 64 contiguous bytes
// of a row for four lanes. No shared memory, and whole sectors. beta = 0 must not read C: ADD says that it is
// another one.
template <bool ADD, class T>
__device__ __forceinline__ void store_halves(const Sums& sums, const Problem& problem, const Place& place) {
    constexpr int FOURS = MMAS_N / 4;
    constexpr int COLUMNS = 8;  // of a piece
    const Thread thread;
    const int lane = thread.lane();
    const int first_row = place.row + thread.warp_row() + lane / 4;
    const int first_column = place.column + thread.warp_column() + lane % 4 * COLUMNS;
    const Window window(problem, place, first_row, first_column);
    Out* const first = problem.c + static_cast<long long>(first_row) * problem.n + first_column;

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
                    const Out* const source = first + static_cast<long long>(row) * problem.n + column;
                    load_piece(before[i][four], source, window.has(row, column));
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
                    const Sum* const sum = &sums[eight / 2][four * 4 + w][eight % 2 * 2];
                    f32 low = problem.alpha * sum[0];
                    f32 high = problem.alpha * sum[1];
                    if (ADD) {
                        const float2 old = unpack(Kind<T>(), before[i][four][w]);
                        low += problem.beta * old.x;
                        high += problem.beta * old.y;
                    }
                    words[w] = pack(Kind<T>(), low, high);
                }
                transpose(words, lane);
                const int row = eight * 8;
                const int column = four * 4 * MMA_N;
                if (window.has(row, column)) {
                    Out* const target = first + static_cast<long long>(row) * problem.n + column;
                    *reinterpret_cast<uint4*>(target) = make_uint4(words[0], words[1], words[2], words[3]);
                }
            }
        }
    }
}

// C of 32 bits: the two columns of a lane are 8 bytes, four lanes fill a sector as they are.
template <bool ADD, class T>
__device__ __forceinline__ void store_words(const Sums& sums, const Problem& problem, const Place& place) {
    struct __align__(8) Pair {
        T low, high;
    };
    const Thread thread;
    const int first_row = place.row + thread.warp_row() + thread.lane() / 4;
    const int first_column = place.column + thread.warp_column() + thread.lane() % 4 * 2;
    const Window window(problem, place, first_row, first_column);
    Out* const first = problem.c + static_cast<long long>(first_row) * problem.n + first_column;
#pragma unroll
    for (int eight = 0; eight < 2 * MMAS_M; ++eight) {
        Pair* const row = reinterpret_cast<Pair*>(first + static_cast<long long>(eight * 8) * problem.n);
        [[maybe_unused]] Pair before[MMAS_N];
        if (ADD) {
#pragma unroll
            for (int j = 0; j < MMAS_N; ++j) {
                before[j] = {};
                if (window.has(eight * 8, j * MMA_N)) before[j] = row[j * MMA_N / 2];
            }
        }
#pragma unroll
        for (int j = 0; j < MMAS_N; ++j) {
            const Sum* const sum = &sums[eight / 2][j][eight % 2 * 2];
            Pair result = {problem.alpha * sum[0], problem.alpha * sum[1]};
            if (ADD) {
                result.low += problem.beta * before[j].low;
                result.high += problem.beta * before[j].high;
            }
            if (window.has(eight * 8, j * MMA_N)) row[j * MMA_N / 2] = result;
        }
    }
}

// C = alpha sums + beta C.
template <bool ADD, class T>
__device__ __forceinline__ void store_pieces(const Sums& sums, const Problem& problem, const Place& place) {
    if constexpr (sizeof(T) == 2) {
        store_halves<ADD, T>(sums, problem, place);
    } else {
        store_words<ADD, T>(sums, problem, place);
    }
}

__device__ __forceinline__ void store(const Sums& sums, const Problem& problem, const Place& place) {
    if (problem.n % (sizeof(Out) == 2 ? 8 : 2) != 0) {
        store_elements(sums, problem, place);
    } else if (problem.beta != 0) {
        store_pieces<true, Out>(sums, problem, place);
    } else {
        store_pieces<false, Out>(sums, problem, place);
    }
}

}  // namespace mma_tile
